"""Columns from end to end, in virtual time: one message a batch, replays, row bolts and arrow bolts side by side."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any, ClassVar

import pytest

from aiostorm import (
    BasicBolt,
    Bolt,
    Config,
    LocalCluster,
    TopologyBuilder,
)

from .columns_parts import (
    ROWS,
    Batches,
    CountBatches,
    CountColumns,
    CountRich,
    CountRows,
    count_function,
    counted,
    run,
    times,
    topology,
    total,
)

pa: Any = pytest.importorskip("pyarrow")
pc: Any = pytest.importorskip("pyarrow.compute")


@pytest.mark.parametrize("grouping", ["fields", "partial_key", "shuffle", "local_or_shuffle", "none", "global"])
@pytest.mark.parametrize("ackers", [0, 1, 2])
async def test_every_row_arrives_once_and_every_batch_is_acked_once(grouping: str, ackers: int) -> None:
    bolts = [CountColumns, CountRows, CountBatches, CountRich]
    results, metrics, errors = await run(topology(Batches(3), *bolts, grouping=grouping), acker_executors=ackers)
    assert errors == []
    acked, failed = results["source"][0]
    assert sorted(acked) == [0, 1, 2]
    assert failed == []
    for i in range(len(bolts)):
        assert total(results[f"bolt{i}"]) == times(3), bolts[i]
        assert metrics[f"bolt{i}"].executed == 3 * ROWS
        assert metrics[f"bolt{i}"].acked == 3 * ROWS
    if grouping == "fields":
        for i in range(len(bolts)):
            assert [set(found) for found in results[f"bolt{i}"]] == [set(found) for found in results["bolt0"]]
    assert metrics["source"].emitted == 3 * ROWS
    assert metrics["source"].acked == 3
    assert metrics["source"].trees == 3


async def test_all_tasks_get_all_rows() -> None:
    results, _, _ = await run(topology(Batches(2), CountColumns, CountRows, grouping="all"))
    for name in ("bolt0", "bolt1"):
        assert [Counter(found) for found in results[name]] == [times(2)] * 3


async def test_function_bolts_see_ordinary_values() -> None:
    counted.clear()
    await run(topology(Batches(2), count_function))
    assert counted == times(2)


class FailsOnce(CountColumns):
    """Raises for the first batch that its task sees."""

    seen: ClassVar[list[int]] = []

    def execute_arrow(self, given: Any, collector: Any) -> None:
        first = given.column("n")[0].as_py()
        if first < ROWS and not self.seen:
            self.seen.append(first)
            raise ValueError("not this one")
        super().execute_arrow(given, collector)


async def test_a_batch_that_fails_is_one_message_and_is_replayed() -> None:
    FailsOnce.seen = []
    results, metrics, errors = await run(topology(Batches(3, again=True), FailsOnce, tasks=1))
    acked, failed = results["source"][0]
    assert failed == [(0, "failed", "ValueError: not this one")]
    assert sorted(acked) == [0, 1, 2]
    assert total(results["bolt0"]) == times(3)
    assert len(errors) == 1
    assert "a batch of 3000" in errors[0].tuple
    assert metrics["bolt0"].failed == ROWS
    assert metrics["source"].replayed == 1


class FailsOneRow(CountRows):
    seen: ClassVar[list[int]] = []

    def execute(self, tup: Any, collector: Any) -> None:
        if tup["n"] == 1234 and not self.seen:
            self.seen.append(1)
            raise ValueError("not this row")
        super().execute(tup, collector)


async def test_a_row_that_fails_fails_its_batch_once_and_the_framework_replays_it() -> None:
    FailsOneRow.seen = []
    results, metrics, _ = await run(topology(Batches(2), FailsOneRow), max_retries=2)
    assert sorted(results["source"][0][0]) == [0, 1]
    assert metrics["source"].replayed == 1
    assert total(results["bolt0"]).total() == 3 * ROWS - 1


class Refuses(CountColumns):
    def execute_arrow(self, given: Any, collector: Any) -> None:
        raise ValueError("never")


class Letters(BasicBolt):
    def prepare(self, context: Any) -> None:
        self.seen: list[Any] = []

    def execute(self, tup: Any, collector: Any) -> None:
        self.seen.append((tup["message_id"], tup["values"].num_rows, tup["attempts"]))

    def result(self) -> Any:
        return self.seen


async def test_a_batch_that_always_fails_is_a_dead_letter() -> None:
    builder = TopologyBuilder()
    builder.set_spout("source", Batches(1))
    builder.set_bolt("refuses", Refuses()).shuffle_grouping("source")
    builder.set_bolt("letters", Letters()).shuffle_grouping("source", stream="__dead_letter")
    results, _, _ = await run(builder.create_topology(), max_retries=2)
    assert results["letters"] == [[(0, ROWS, 3)]]


class Holds(Bolt):
    """Acks nothing and raises at the last row: the instance is restarted, and what it held fails."""

    raised: ClassVar[list[int]] = []

    def prepare(self, context: Any, collector: Any) -> None:
        self.collector = collector
        self.held: list[Any] = []

    def execute(self, tup: Any) -> None:
        self.held.append(tup)
        if tup["n"] == ROWS - 1 and not self.raised:
            self.raised.append(1)
            raise ValueError("the last one")
        if self.raised:
            self.collector.ack(tup)


async def test_a_rich_bolt_that_is_restarted_fails_the_batch_it_held() -> None:
    Holds.raised = []
    results, metrics, _ = await run(topology(Batches(1, again=True), Holds, tasks=1))
    acked, failed = results["source"][0]
    assert acked == [0]
    assert len(failed) == 1
    assert metrics["bolt0"].restarts == 1


class Slow(CountColumns):
    async def execute_arrow(self, given: Any, collector: Any) -> None:
        await asyncio.sleep(1)
        super().execute_arrow(given, collector)


async def test_a_batch_is_one_message_of_max_spout_pending() -> None:
    async with LocalCluster() as cluster:
        running = await cluster.submit("columns", topology(Batches(9), Slow, tasks=1), Config(max_spout_pending=2))
        pending = []
        for _ in range(8):
            await asyncio.sleep(1)
            pending.append(running.metrics()["source"].pending)
        assert max(pending) == 2
        await running.wait_idle(timeout_s=600)
        assert total((await running.results())["bolt0"]) == times(9)


async def test_a_mailbox_takes_a_batch_that_is_larger_than_it_and_few_of_them() -> None:
    async with LocalCluster() as cluster:
        running = await cluster.submit("columns", topology(Batches(40), Slow, tasks=1), Config(message_timeout_s=3600))
        await asyncio.sleep(5)
        metrics = running.metrics()
        # 1,024 tuples of capacity, of which a piece is a fifth: five batches a mailbox, and what is in hand.
        assert metrics["source"].trees < 25
        assert all(task.fill <= task.capacity for task in metrics["bolt0"].tasks)
        await running.wait_idle(timeout_s=600)
        assert total((await running.results())["bolt0"]) == times(40)
