"""complete_topology: the whole graph on given rows, to its end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aiostorm.cluster import TopologyFailedError
from aiostorm.testing import FixedTuple, ScriptError, WaitTimeoutError, assert_multiset_equal, complete_topology
from aiostorm.topology import (
    DEAD_LETTER_STREAM,
    BasicBolt,
    BasicCollector,
    Bolt,
    BoltCollector,
    Fields,
    Spout,
    SpoutCollector,
    Topology,
    TopologyBuilder,
    TopologyContext,
    Tuple,
    bolt,
    direct,
    spout,
)


class Endless(Spout):
    """A source that must not be reached in a test."""

    outputs = {"default": Fields("line"), "errors": Fields("path", "error")}  # noqa: RUF012

    def open(self, context: TopologyContext, collector: SpoutCollector) -> None:
        self.collector = collector

    def next_tuple(self) -> None:
        self.collector.emit(("real",), message_id=object())


class Split(BasicBolt):
    outputs = {"default": Fields("word"), "long": Fields("word", "length")}  # noqa: RUF012

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        if not tup["line"]:
            raise ValueError("an empty line")
        for word in tup["line"].split():
            collector.emit((word,))
            if len(word) > 5:
                collector.emit((word, len(word)), stream="long")


class Count(BasicBolt):
    outputs = Fields("word", "count")

    def prepare(self, context: TopologyContext) -> None:
        self.counts: dict[str, int] = {}

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        word = tup["word"]
        self.counts[word] = self.counts.get(word, 0) + 1
        collector.emit((word, self.counts[word]))

    def result(self) -> dict[str, int]:
        return self.counts


def word_count() -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("lines", Endless)
    builder.set_bolt("split", Split, parallelism=2).shuffle_grouping("lines")
    builder.set_bolt("count", Count, parallelism=3).fields_grouping("split", "word")
    return builder.create_topology()


async def test_a_word_count() -> None:
    result = await complete_topology(word_count(), {"lines": ["the cat", ("the elephant",)]})
    assert result["lines"] == [("the cat",), ("the elephant",)]
    assert_multiset_equal(result["split"], [("the",), ("cat",), ("the",), ("elephant",)])
    assert_multiset_equal(result["count"], [("the", 1), ("the", 2), ("cat", 1), ("elephant", 1)])
    assert result.stream("split", "long") == [("elephant", 8)]
    assert (result.acked, result.failed, result.pending) == (2, 0, 0)
    assert result.errors == []
    assert result.elapsed_s == 0
    assert result.metrics["count"].executed == 4
    assert_multiset_equal(
        [item for counts in result.results["count"] for item in counts.items()],
        [("the", 2), ("cat", 1), ("elephant", 1)],
    )


async def test_other_streams_and_message_ids() -> None:
    rows = [FixedTuple(("a.txt", "unreadable"), "errors"), FixedTuple(("",), message_id="empty"), "fine"]
    result = await complete_topology(word_count(), {"lines": rows})
    assert result.stream("lines", "errors") == [("a.txt", "unreadable")]
    assert result.failures["lines"].keys() == {"empty"}
    assert result.failures["lines"]["empty"].error == "ValueError: an empty line"
    assert (result.acked, result.failed) == (2, 1)
    assert [report.component for report in result.errors] == ["split"]


async def test_the_same_topology_can_be_completed_again() -> None:
    topology = word_count()
    first = await complete_topology(topology, {"lines": ["a b c", "a"]})
    second = await complete_topology(topology, {"lines": ["a b c", "a"]})
    assert sorted(first["count"]) == sorted(second["count"])


async def test_a_bounded_spout_needs_no_mock() -> None:
    @spout(outputs="n")
    def numbers() -> Any:
        yield from range(5)

    @bolt(outputs="square")
    def square(n: int) -> int:
        return n * n

    builder = TopologyBuilder()
    builder.set_spout("numbers", numbers)
    builder.set_bolt("square", square).shuffle_grouping("numbers")
    result = await complete_topology(builder.create_topology())
    assert result["square"] == [(0,), (1,), (4,), (9,), (16,)]


async def test_a_run_ends_when_all_work_is_done() -> None:
    class Later(BasicBolt):
        outputs = Fields("line")

        async def execute(self, tup: Tuple, collector: BasicCollector) -> None:
            await asyncio.sleep(10)
            collector.emit((tup["line"],))

    builder = TopologyBuilder()
    builder.set_spout("lines", Endless)
    builder.set_bolt("later", Later).shuffle_grouping("lines")
    result = await complete_topology(builder.create_topology(), {"lines": ["a", "b"]})
    assert result["later"] == [("a",), ("b",)]
    assert result.elapsed_s == 20


async def test_all_rows_are_emitted_however_few_may_be_pending() -> None:
    result = await complete_topology(word_count(), {"lines": ["a b"] * 50}, {"max_spout_pending": 1})
    assert (result.acked, len(result["count"])) == (50, 100)


async def test_a_lost_tuple_fails_by_timeout_and_ends_the_run() -> None:
    class Forgets(Bolt):
        def execute(self, tup: Tuple) -> None:
            """No ack: a mistake that users make."""

    builder = TopologyBuilder()
    builder.set_spout("lines", Endless)
    builder.set_bolt("forgets", Forgets).shuffle_grouping("lines")
    result = await complete_topology(builder.create_topology(), {"lines": ["a"]}, {"message_timeout_s": 5})
    assert result.failures["lines"][0].reason == "timeout"
    assert 5 <= result.elapsed_s <= 6
    assert result.pending == 0


async def test_direct_streams_are_captured_too() -> None:
    class Deal(Bolt):
        outputs = {"default": Fields("seen"), "cards": direct("card")}  # noqa: RUF012

        async def prepare(self, context: TopologyContext, collector: BoltCollector) -> None:
            self.collector = collector
            self.players = context.tasks("player")

        def execute(self, tup: Tuple) -> None:
            card = tup["line"]
            self.collector.emit_direct(self.players[len(card) % 2], (card,), anchors=tup, stream="cards")
            self.collector.emit((card,), anchors=tup)
            self.collector.ack(tup)

    class Player(BasicBolt):
        outputs = Fields("card", "player")

        def prepare(self, context: TopologyContext) -> None:
            self.index = context.task_index

        def execute(self, tup: Tuple, collector: BasicCollector) -> None:
            collector.emit((tup["card"], self.index))

    builder = TopologyBuilder()
    builder.set_spout("lines", Endless)
    builder.set_bolt("deal", Deal).shuffle_grouping("lines")
    builder.set_bolt("player", Player, parallelism=2).direct_grouping("deal", stream="cards")
    result = await complete_topology(builder.create_topology(), {"lines": ["ace", "jack"]})
    assert result.stream("deal", "cards") == [("ace",), ("jack",)]
    assert result["deal"] == [("ace",), ("jack",)]
    assert_multiset_equal(result["player"], [("ace", 1), ("jack", 0)])
    assert result.acked == 2


async def test_dead_letters_are_captured() -> None:
    result = await complete_topology(word_count(), {"lines": [FixedTuple(("",), message_id="m")]}, {"max_retries": 2})
    [letter] = result.stream("lines", DEAD_LETTER_STREAM)
    assert letter[:4] == ("m", "default", ("",), "failed")
    assert result["lines"] == [("",), ("",), ("",)]  # emitted, and replayed twice


async def test_a_topology_that_never_ends_is_an_error_with_the_reason() -> None:
    class Ticker(Endless):
        async def next_tuple(self) -> None:
            self.collector.emit(("tick",), message_id=object())
            await asyncio.sleep(0.1)

    builder = TopologyBuilder()
    builder.set_spout("ticker", Ticker)
    builder.set_spout("lines", Endless)
    builder.set_bolt("split", Split).shuffle_grouping("ticker").shuffle_grouping("lines")
    with pytest.raises(
        WaitTimeoutError, match=r"not done after 30 s; .*may never be idle: ticker; open messages: none$"
    ):
        await complete_topology(builder.create_topology(), {"lines": ["a"]}, timeout_s=30)


async def test_a_component_that_gives_up_is_an_error() -> None:
    class Broken(Bolt):
        def prepare(self, context: TopologyContext, collector: BoltCollector) -> None:
            raise OSError("no database")

        def execute(self, tup: Tuple) -> None:
            raise AssertionError("never prepared")

    builder = TopologyBuilder()
    builder.set_spout("lines", Endless)
    builder.set_bolt("broken", Broken).shuffle_grouping("lines")
    with pytest.raises(TopologyFailedError, match="no database"):
        await complete_topology(builder.create_topology(), {"lines": ["a"]})


async def test_sources_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ScriptError, match="'line' is no spout of this topology; the spouts are: lines"):
        await complete_topology(word_count(), {"line": []})
    with pytest.raises(ScriptError, match="'split' is no spout"):
        await complete_topology(word_count(), {"split": []})
    with pytest.raises(ScriptError, match=r"mock_sources: 'lines': \('a', 'b'\) has 2 values; the fields are: line"):
        await complete_topology(word_count(), {"lines": [("a", "b")]})
    with pytest.raises(ScriptError, match="no stream 'eror'"):
        await complete_topology(word_count(), {"lines": [FixedTuple(("a",), "eror")]})


async def test_asking_for_a_stream_that_is_not_there() -> None:
    result = await complete_topology(word_count(), {"lines": []})
    assert result["count"] == []
    with pytest.raises(KeyError, match="there are: lines, lines:errors"):
        result["cuont"]
