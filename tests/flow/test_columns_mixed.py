"""Rows and columns on one stream, several anchors, what cannot be one or the other; hooks and ticks."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aiostorm import (
    BasicBolt,
    Bolt,
    Config,
    Fields,
    Spout,
    TaskHook,
    TopologyBuilder,
    spout,
)
from aiostorm.testing import bolt_harness

from .columns_parts import (
    CountBatches,
    CountColumns,
    CountRich,
    CountRows,
    Pass,
    Small,
    batch,
    count_function,
    run,
    total,
)

pa: Any = pytest.importorskip("pyarrow")
pc: Any = pytest.importorskip("pyarrow.compute")

# -- rows and columns side by side -------------------------------------------------------------------------------------


class Both(Spout):
    """A row, a batch, a row: on one stream, in this order."""

    outputs = Fields("word", "n")

    def open(self, context: Any, collector: Any) -> None:
        self.collector = collector
        self.acked: list[Any] = []

    def next_tuple(self) -> None:
        for message_id in (None, "first"):
            self.collector.emit(("a", 1), message_id=message_id)
            self.collector.emit_arrow(pa.record_batch({"n": [2, 3], "word": ["b", "c"]}), message_id=message_id and "b")
            self.collector.emit_arrow(batch().slice(0, 0), message_id=message_id and "empty")
            self.collector.emit(("d", 4), message_id=message_id and "last")
        self.collector.finish()

    def ack(self, message_id: Any) -> None:
        self.acked.append(message_id)

    def result(self) -> Any:
        return sorted(self.acked)


class SeeRows(BasicBolt):
    outputs = Fields("word", "n")

    def prepare(self, context: Any) -> None:
        self.seen: list[Any] = []

    def execute(self, tup: Any, collector: Any) -> None:
        self.seen.append(tup.values)
        collector.emit(("before", tup["n"]))
        collector.emit_arrow(pa.record_batch({"word": ["within"], "n": [tup["n"]]}))
        collector.emit(("after", tup["n"]))

    def result(self) -> Any:
        return self.seen


class SeeColumns(SeeRows):
    def execute_arrow(self, given: Any, collector: Any) -> None:
        self.seen += zip(*given.to_pydict().values(), strict=True)


async def test_rows_and_columns_keep_their_order_on_a_stream() -> None:
    builder = TopologyBuilder()
    builder.set_spout("source", Both)
    builder.set_bolt("rows", SeeRows).shuffle_grouping("source")
    builder.set_bolt("columns", SeeColumns).global_grouping("source")
    builder.set_bolt("behind", SeeColumns).fields_grouping("rows", "n")
    results, _, errors = await run(builder.create_topology())
    assert errors == []
    expected = [("a", 1), ("b", 2), ("c", 3), ("d", 4)] * 2
    assert results["rows"] == [expected]
    assert results["columns"] == [expected]
    assert results["source"] == [["b", "empty", "first", "last"]]
    assert results["behind"] == [[(place, n) for _, n in expected for place in ("before", "within", "after")]]


class Twice(Bolt):
    """Joins two batches' rows: what it emits has two anchors."""

    outputs = Fields("word", "n")

    def prepare(self, context: Any, collector: Any) -> None:
        self.collector = collector
        self.held: list[Any] = []

    def execute(self, tup: Any) -> None:
        self.held.append(tup)
        if len(self.held) == 4:
            self.collector.emit_arrow(pa.record_batch({"word": ["j", "k"], "n": [1, 2]}), anchors=self.held)
            self.collector.emit_arrow(pa.record_batch({"word": ["l"], "n": [3]}))
            for held in self.held:
                self.collector.ack(held)


class RefusesJoined(SeeColumns):
    def execute_arrow(self, given: Any, collector: Any) -> None:
        super().execute_arrow(given, collector)
        collector.emit_arrow(given)
        if given.column("word")[0].as_py() == "j":
            raise ValueError("joined")


async def test_a_batch_with_several_anchors_fails_all_of_its_messages() -> None:
    builder = TopologyBuilder()
    builder.set_spout("source", Small(2))
    builder.set_bolt("twice", Twice()).shuffle_grouping("source")
    builder.set_bolt("refuses", RefusesJoined).shuffle_grouping("twice")
    builder.set_bolt("rows", SeeRows).fields_grouping("refuses", "word")
    results, _, _ = await run(builder.create_topology())
    acked, failed = results["source"][0]
    assert acked == []
    assert sorted(message_id for message_id, _, _ in failed) == [0, 1]
    assert results["rows"] == [[("j", 1), ("k", 2), ("l", 3)]]


async def test_rows_that_are_no_columns_fail_and_say_where() -> None:
    @spout("word", "n")
    def mixed() -> Any:
        yield ("a", 1)
        yield ("b", object())

    builder = TopologyBuilder()
    builder.set_spout("source", mixed)
    builder.set_bolt("columns", SeeColumns).shuffle_grouping("source")
    _, metrics, errors = await run(builder.create_topology(), max_retries=0)
    assert metrics["source"].failed >= 1
    assert "field 'n' of stream 'default' of 'source'" in errors[0].error


@pytest.mark.parametrize("component", [CountRows, CountRich, CountBatches, count_function])
async def test_columns_that_are_no_rows_fail_in_a_bolt_that_takes_rows(component: Any) -> None:
    @spout("word", "n")
    def fine() -> Any:
        yield pa.record_batch({"word": ["a"] * 300, "n": pa.array([1001] * 300, pa.timestamp("ns"))})
        yield pa.record_batch({"word": ["a"] * 300, "n": pa.array([1000] * 300, pa.timestamp("ns"))})

    builder = TopologyBuilder()
    builder.set_spout("source", fine)
    builder.set_bolt("rows", component).shuffle_grouping("source")
    _, metrics, errors = await run(builder.create_topology(), max_retries=0)
    assert metrics["source"].failed == 1
    assert metrics["source"].acked == 1
    assert "field 'n' (timestamp[ns]) cannot be made rows" in errors[0].error


async def test_a_key_that_cannot_be_hashed_fails_the_batch() -> None:
    @spout("word", "n")
    def lists() -> Any:
        yield pa.record_batch({"word": [["a"]], "n": [1]})
        yield pa.record_batch({"word": ["a"], "n": [1]})

    builder = TopologyBuilder()
    builder.set_spout("source", lists)
    builder.set_bolt("rows", CountRows).fields_grouping("source", "word")
    results, metrics, errors = await run(builder.create_topology(), max_retries=0)
    assert total(results["rows"]) == {"a": 1}
    assert (metrics["source"].acked, metrics["source"].failed) == (1, 1)
    assert "field 'word' of stream 'default' of 'source'" in errors[0].error


# -- hooks and ticks ---------------------------------------------------------------------------------------------------


class Looks(TaskHook):
    def __init__(self) -> None:
        self.seen: list[Any] = []

    def emit(self, values: Any, stream: str, task_id: int) -> None:
        self.seen.append(("emit", values))

    def bolt_execute(self, tup: Any, task_id: int, execute_latency_s: float) -> None:
        self.seen.append(("execute", tup.values))

    def bolt_ack(self, tup: Any, task_id: int) -> None:
        self.seen.append(("ack", tup.values))


class Hooked(Pass):
    def prepare(self, context: Any) -> None:
        self.looks = Looks()
        self.ticks = 0
        context.add_task_hook(self.looks)

    def on_tick(self, collector: Any) -> None:
        self.ticks += 1
        collector.emit_arrow(pa.record_batch({"word": ["tick"], "n": [self.ticks]}))

    def result(self) -> Any:
        return self.looks.seen


async def test_hooks_see_rows() -> None:
    builder = TopologyBuilder()
    builder.set_spout("source", Small(2))
    builder.set_bolt("hooked", Hooked()).shuffle_grouping("source")
    builder.set_bolt("count", CountColumns).shuffle_grouping("hooked")
    results, _, _ = await run(builder.create_topology())
    rows = [("w0", 0), ("w1", 1), ("w1", 1), ("w2", 2)]
    (seen,) = results["hooked"]
    for what in ("emit", "execute", "ack"):
        assert [values for kind, values in seen if kind == what] == rows


async def test_a_tick_is_no_batch() -> None:
    async with bolt_harness(Hooked, config=Config(tick_tuple_freq_s=1)) as harness:
        await asyncio.sleep(2.5)
        assert harness.emitted == [("tick", 1), ("tick", 2)]
    async with bolt_harness(Pass, config=Config(tick_tuple_freq_s=1)) as harness:
        await asyncio.sleep(2.5)
        assert harness.errors == []
