"""Settings that are changed while a submitted topology runs: it takes them over, and so does each later parent."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from aiostorm import BufferedWindowBolt, Config, RunningTopology, Topology, TopologyBuilder
from aiostorm.cluster.nimbus import PARENTS, TopologyRecord, update
from aiostorm.windows import Tumbling

from ..test_workers import COUNT, Numbers, Sum
from .stage import NAME, Stage, on_stage
from .test_parent import some_work
from .test_rebalancing import rebalance, runs

PENDING = "topology.max.spout.pending"
LOW, HIGH = "topology.backpressure.water.mark.low", "topology.backpressure.water.mark.high"


@pytest.fixture(autouse=True)
def _fresh() -> None:
    Numbers.acked, Numbers.failures, Numbers.endless = Counter(), [], True
    Sum.seen = Counter()


async def order(stage: Stage, **settings: Any) -> TopologyRecord:
    stage.record = await update(
        stage.client, NAME, {PENDING if key == "pending" else key: each for key, each in settings.items()}
    )
    return stage.record


async def taken(stage: Stage, number: int, within_s: float = 5.0) -> None:
    """Wait until the parent has dealt with this update."""
    watch = await stage.client.watch(PARENTS)
    async with asyncio.timeout(within_s):
        while (record := await stage.parent_record()) is None or record.updated < number:
            await watch.changed()
    watch.close()


async def end(stage: Stage, *processes: Any) -> None:
    stage.record = await stage.stored()
    await stage.change(wanted="KILLED", wait_s=0.0)
    await stage.until_ended(*processes)


def pending(stage: Stage) -> int | None:
    most: int | None = running(stage).config.max_spout_pending
    return most


def running(stage: Stage) -> RunningTopology:
    return stage.served[-1]


def test_settings_are_taken_over_while_it_runs() -> None:
    async def story(stage: Stage) -> None:
        await stage.submit(config={PENDING: 500})
        processes = stage.start()
        await some_work(stage)
        assert pending(stage) == 500
        record = await order(stage, pending=40)
        assert (record.update, record.updates, record.config) == (1, {PENDING: 40}, {PENDING: 500})
        await taken(stage, 1)
        assert pending(stage) == 40
        assert running(stage).config.source_of(PENDING) == "update"
        await order(stage, pending=41)
        await order(stage, **{HIGH: 0.9})
        await taken(stage, 3)
        assert (pending(stage), running(stage).config.backpressure_high_mark) == (41, 0.9)
        assert [process.incarnation for process in processes] == [1, 1, 1], "in the same processes"
        await end(stage, *processes)

    on_stage(story)


def test_the_next_parent_begins_with_them() -> None:
    async def story(stage: Stage) -> None:
        await stage.submit(config={PENDING: 500, LOW: 0.1})
        processes = stage.start()
        await some_work(stage)
        await order(stage, pending=40)
        await taken(stage, 1)
        processes[0].kill("is killed")
        await order(stage, **{HIGH: 0.7})  # while there is no parent
        processes[0].start()
        await taken(stage, 2, 30)
        await stage.wait_state("ACTIVE")
        await asyncio.sleep(1)
        assert len(stage.served) == 2
        config = running(stage).config
        assert (config.max_spout_pending, config.backpressure_high_mark, config.backpressure_low_mark) == (40, 0.7, 0.1)
        assert (config.source_of(PENDING), config.source_of(LOW)) == ("update", "keyword")
        await stage.world.until(lambda: len(Numbers.acked) == COUNT, 60, "all the work")
        await end(stage, *processes)

    on_stage(story)


def test_they_hold_after_a_rebalance() -> None:
    async def story(stage: Stage) -> None:
        await stage.submit()
        processes = stage.start()
        await some_work(stage)
        await order(stage, pending=40)
        await rebalance(stage, 2, parallelism={"sum": 5})
        await runs(stage, 2)
        await asyncio.sleep(1)
        assert pending(stage) == 40
        assert (await stage.stored()).updates == {PENDING: 40}
        await end(stage, *processes)

    on_stage(story)


def test_what_cannot_be_taken_over_is_taken_back() -> None:
    async def story(stage: Stage) -> None:
        await stage.submit()
        processes = stage.start()
        await some_work(stage)
        await order(stage, pending=40)
        await taken(stage, 1)
        await order(stage, pending=50, **{"topology.workers": 7})
        await taken(stage, 2)
        record = await stage.stored()
        assert record.updates == {PENDING: 40}
        assert record.refused_update is not None
        assert record.refused_update.number == 2
        assert "topology.workers cannot be changed while a topology runs" in record.refused_update.why
        assert pending(stage) == 40
        await order(stage, pending=60)
        await taken(stage, 3)
        assert (await stage.stored()).refused_update is None, "there is another one"
        assert pending(stage) == 60
        await end(stage, *processes)

    on_stage(story)


def test_a_topology_that_cannot_start_with_them_starts_without() -> None:
    async def story(stage: Stage) -> None:
        await stage.submit(config={PENDING: 500}, update=4, updates={PENDING: 40, "topology.workers": 7})
        processes = stage.start()
        await some_work(stage)
        await taken(stage, 4)
        record = await stage.stored()
        assert (record.updates, pending(stage)) == ({}, 500)
        assert record.refused_update is not None
        await order(stage, pending=60)
        await taken(stage, 5)
        assert pending(stage) == 60
        await end(stage, *processes)

    on_stage(story)


class Kept(BufferedWindowBolt):
    """Keeps its tuples until their window has fired."""

    windows = Tumbling(60_000)
    timestamp = "n"

    def execute(self, window: Any) -> None:
        """Its tuples are acked."""


def windows() -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("numbers", Numbers)
    builder.set_bolt("kept", Kept).shuffle_grouping("numbers")
    return builder.create_topology(config=Config(message_timeout_s=1000.0))


def test_what_does_not_fit_to_a_topology_is_refused_with_the_reason() -> None:
    """Only the topology knows its windows: nothing that orders could check that."""
    timeout = "topology.message.timeout.secs"

    async def story(stage: Stage) -> None:
        await stage.submit(update=1, updates={timeout: 30, HIGH: 0.9})  # as if it had other windows now
        processes = stage.start()
        await stage.wait_state("ACTIVE")
        await taken(stage, 1)
        record = await stage.stored()
        assert record.updates == {}
        assert record.refused_update is not None
        assert "bolt 'kept': it keeps tuples until their windows have fired" in record.refused_update.why
        await order(stage, **{timeout: 40})
        await taken(stage, 2)
        assert (await stage.stored()).updates == {}
        await order(stage, **{timeout: 200})
        await taken(stage, 3)
        assert running(stage).config.message_timeout_s == 200
        await end(stage, *processes)

    on_stage(story, f"{__name__}:windows")
