"""A rebalance in the same processes: they are kept, what does not run is taken back, and it may be killed any time."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from aiostorm.cluster.nimbus import PARENTS
from aiostorm.testing.simulation.process import Process

from ..snapshots import exact
from ..test_workers import COUNT, Numbers, Sum, Twice
from .stage import Stage, on_stage
from .test_parent import ALL, some_work


@pytest.fixture(autouse=True)
def _fresh() -> None:
    Numbers.acked, Numbers.failures, Numbers.endless = Counter(), [], False
    Sum.seen = Counter()


async def rebalance(stage: Stage, generation: int, *, supervisors: str = "ss", **changes: Any) -> None:
    """As the leader does: another generation, which keeps processes."""
    await stage.change(former=stage.record.plan(), generation=generation, **changes)
    await stage.assign(generation=generation, workers=tuple(supervisors), renewed=1)


async def runs(stage: Stage, generation: int, within_s: float = 20.0) -> float:
    """Wait until it runs in this generation. How long it took, in seconds."""
    began_s = stage.world.now_s
    watch = await stage.client.watch(PARENTS)
    async with asyncio.timeout(within_s):
        while (record := await stage.parent_record()) is None or (record.generation, record.state) != (
            generation,
            "ACTIVE",
        ):
            await watch.changed()
    watch.close()
    return stage.world.now_s - began_s


def test_a_rebalance_of_tasks_keeps_the_parent_and_its_workers() -> None:
    async def story(stage: Stage) -> None:
        Numbers.endless = True
        await stage.submit()
        processes = stage.start()
        await some_work(stage)
        await rebalance(stage, 2, parallelism={"sum": 5})
        took_s = await runs(stage, 2)
        assert took_s < 2.0
        assert [process.incarnation for process in processes] == [1, 1, 1], "the same processes"
        await stage.world.until(lambda: len(Numbers.acked) == COUNT, 20, "all the work")
        assert (await stage.stored()).former is None, "it runs: what was before it is not needed"
        await stage.change(former=None, wanted="KILLED")
        await stage.until_ended(*processes)

    stage = on_stage(story)
    assert set(Sum.seen) == set(ALL)
    assert not Numbers.failures, "it was drained"
    assert sorted(stage.codes) == [("parent", 0), ("worker-1", 0), ("worker-2", 0)]


def test_a_rebalance_of_workers_starts_and_ends_only_the_difference() -> None:
    async def story(stage: Stage) -> None:
        Numbers.endless = True
        await stage.submit()
        processes = stage.start()
        third = stage.worker("worker-3")
        await some_work(stage)
        await rebalance(stage, 2, supervisors="sss", workers=3)
        await stage.wait_state("STARTING")
        third.start()
        await runs(stage, 2)
        assert [process.incarnation for process in processes] == [1, 1, 1]
        await rebalance(stage, 3, supervisors="s", workers=1)
        await runs(stage, 3)
        await stage.until_ended(processes[2], third)
        assert [process.alive for process in processes] == [True, True, False]
        await stage.world.until(lambda: len(Numbers.acked) == COUNT, 20, "all the work")
        await stage.change(former=None, wanted="KILLED")
        await stage.until_ended(*processes)

    stage = on_stage(story)
    assert set(Sum.seen) == set(ALL)
    assert {code for _, code in stage.codes} == {0}


def test_a_worker_that_moves_is_another_process() -> None:
    async def story(stage: Stage) -> None:
        Numbers.endless = True
        await stage.submit()
        processes = stage.start()
        await some_work(stage)
        await rebalance(stage, 2, supervisors="st")
        await stage.until_ended(processes[2])
        processes[2].start()
        await runs(stage, 2)
        assert [process.incarnation for process in processes] == [1, 1, 2]
        await stage.change(former=None, wanted="KILLED")
        await stage.until_ended(*processes)

    on_stage(story)


def test_a_plan_that_does_not_run_is_taken_back() -> None:
    async def story(stage: Stage) -> None:
        Numbers.endless = True
        await stage.submit()
        processes = stage.start()
        await some_work(stage)
        await rebalance(stage, 2, parallelism={"nothing": 5})
        await stage.wait_state("FAILED")
        record = await stage.stored()
        assert (record.generation, record.parallelism, record.renewed, record.former) == (3, {}, 1, None)
        assert record.refused is not None
        assert record.refused.generation == 2
        assert "there is no component 'nothing': there are numbers, twice, sum" in record.refused.why
        stage.record = record
        await stage.assign(generation=3)
        await runs(stage, 3)
        assert [process.incarnation for process in processes] == [1, 1, 1], "the same processes"
        await stage.world.until(lambda: len(Numbers.acked) == COUNT, 20, "all the work")
        await stage.change(wanted="KILLED")
        await stage.until_ended(*processes)

    on_stage(story)
    assert set(Sum.seen) == set(ALL)


@pytest.mark.parametrize("after_s", [0.0, 0.02, 0.1, 0.3])
def test_the_parent_may_be_killed_while_it_rebalances(after_s: float) -> None:
    async def story(stage: Stage) -> None:
        Numbers.endless = True
        await stage.submit()
        parent, *workers = stage.start()
        await some_work(stage)
        await rebalance(stage, 2, parallelism={"sum": 5})
        await asyncio.sleep(after_s)
        parent.kill("is killed by the test")
        parent.start()
        supervising = asyncio.ensure_future(keep(workers))
        await runs(stage, 2)
        await stage.world.until(lambda: len(Numbers.acked) == COUNT, 60, "all the work")
        supervising.cancel()
        await stage.change(former=None, wanted="KILLED")
        await stage.until_ended(parent, *workers)

    on_stage(story)
    assert set(Sum.seen) == set(ALL)


async def keep(workers: list[Process]) -> None:
    """Start them again."""
    while True:
        await asyncio.sleep(0.1)
        for worker in workers:
            if not worker.alive:
                worker.start()


def test_a_rebalancing_topology_can_be_killed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(stage: Stage) -> None:
        Numbers.endless = True
        monkeypatch.setattr(Twice, "takes_s", 5.0)
        await stage.submit()
        processes = stage.start()
        await stage.wait_state("ACTIVE")
        await asyncio.sleep(3)
        await rebalance(stage, 2, parallelism={"sum": 5})
        await stage.wait_state("REBALANCING")
        before_s = stage.world.now_s
        await stage.change(former=None, wanted="KILLED", wait_s=0.0)
        await stage.until_ended(processes[0])
        assert stage.world.now_s - before_s < 2, "it was not drained"
        for worker in processes[1:]:
            worker.kill("is given up: its supervisor kills it")

    stage = on_stage(story)
    assert ("parent", 0) in stage.codes


def test_exactly_once_a_rebalance_of_tasks_divides_the_state() -> None:
    count = 1500

    async def story(stage: Stage) -> None:
        await stage.submit(arguments=("", str(count)))
        processes = stage.start()
        await stage.world.until(lambda: len(exact.Committed.rows) > 4, 20, "some commits")
        for generation, tasks in ((2, 5), (3, 2), (4, 4)):
            await rebalance(stage, generation, parallelism={"count": tasks, "committed": tasks})
            took_s = await runs(stage, generation)
            assert took_s < 2.0
            assert [process.incarnation for process in processes] == [1, 1, 1]
            before = len(exact.Committed.rows)
            await stage.world.until(lambda before=before: len(exact.Committed.rows) > before, 20, "some commits")
        # A spout's position cannot be divided: the plan is taken back.
        await rebalance(stage, 5, parallelism={"numbers": 3})
        await stage.wait_state("FAILED")
        record = stage.record = await stage.stored()
        assert (record.generation, record.parallelism) == (6, {"count": 4, "committed": 4})
        assert record.refused is not None
        assert "a spout's position belongs to its task" in record.refused.why
        await stage.assign(generation=6)
        await stage.until_ended(*processes)

    exact.Committed.rows = {}
    on_stage(story, "tests.cluster.snapshots.exact:paced")
    assert Counter(row for rows in exact.Committed.rows.values() for row in rows) == exact.expected(count)
