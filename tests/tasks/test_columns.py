"""Columns in a bolt: `emit_arrow` of every collector, in `bolt_harness`; errors that say what to do."""

from __future__ import annotations

from typing import Any

import pytest

from aiostorm import BasicBolt, Bolt, EmitError, direct
from aiostorm.testing import bolt_harness

pa: Any = pytest.importorskip("pyarrow")

PAIR = {"n": [1, 2], "word": ["a", "b"]}


class Basic(BasicBolt):
    outputs = ("word", "n")

    def execute(self, tup: Any, collector: Any) -> None:
        collector.emit_arrow(tup["value"])


class Batch(BasicBolt):
    outputs = ("word", "n")

    def execute_batch(self, tuples: Any, collector: Any) -> None:
        for tup in tuples:
            collector.emit_arrow(tup["value"])
            collector.emit_arrow(tup["value"], anchors=None)


class Rich(Bolt):
    outputs = ("word", "n")

    def prepare(self, context: Any, collector: Any) -> None:
        self.collector = collector

    def execute(self, tup: Any) -> None:
        self.collector.emit_arrow(tup["value"], anchors=tup)
        self.collector.ack(tup)


@pytest.mark.parametrize(("component", "times"), [(Basic, 1), (Batch, 2), (Rich, 1)])
async def test_every_collector_emits_columns(component: Any, times: int) -> None:
    async with bolt_harness(component, fields="value") as harness:
        rows = await harness.execute(pa.record_batch(PAIR))
        assert rows == [("a", 1), ("b", 2)] * times
        assert len(harness.acked) == 1
        assert len(harness.unanchored) == 2 * (times - 1)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (pa.record_batch({"word": ["a"]}), "no column 'n'"),
        (pa.table(PAIR), "to_batches"),
        ("a row", "emit_arrow takes a RecordBatch"),
    ],
)
async def test_columns_that_do_not_fit_fail_the_tuple(value: Any, message: str) -> None:
    async with bolt_harness(Basic, fields="value") as harness:
        await harness.execute(value)
        assert len(harness.failed) == 1
        assert message in harness.errors[0].error


class ToTask(BasicBolt):
    def __init__(self, stream: str, task: int | None) -> None:
        self.outputs = {"plain": ("word", "n"), "chosen": direct("word", "n")}  # type: ignore[misc]
        self.stream, self.task = stream, task

    def execute(self, tup: Any, collector: Any) -> None:
        collector.emit_arrow(pa.record_batch(PAIR), stream=self.stream, task=self.task)


@pytest.mark.parametrize(
    ("stream", "task", "message"),
    [
        ("nowhere", None, "does not declare"),
        ("chosen", None, "is direct"),
        ("plain", 3, "is not direct"),
        ("chosen", 99, "does not take stream"),
    ],
)
async def test_streams_are_checked_as_for_rows(stream: str, task: int | None, message: str) -> None:
    async with bolt_harness(ToTask(stream, task), fields="value") as harness:
        await harness.execute(1)
        assert message in harness.errors[0].error


class Late(BasicBolt):
    outputs = ("word", "n")

    def execute(self, tup: Any, collector: Any) -> None:
        self.kept = collector


async def test_emitting_outside_of_execute_is_refused() -> None:
    async with bolt_harness(Late, fields="value") as harness:
        await harness.execute(1)
        kept: Any = harness.component
        with pytest.raises(EmitError, match="outside of execute"):
            kept.kept.emit_arrow(pa.record_batch(PAIR))
