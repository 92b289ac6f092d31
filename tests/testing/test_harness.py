"""bolt_harness: one bolt under the real task code."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from aiostorm.actors import ActorEscalatedError
from aiostorm.state import KeyedState, Sink
from aiostorm.testing import ScriptError, SimClock, WaitTimeoutError, bolt_harness
from aiostorm.topology import (
    BasicBolt,
    BasicCollector,
    Bolt,
    BoltCollector,
    Fields,
    TopologyContext,
    TopologyError,
    Tuple,
    bolt,
    direct,
)
from aiostorm.windows import Sum, Time, Tumbling, WindowedBolt


class Count(BasicBolt):
    outputs = Fields("word", "count")

    def prepare(self, context: TopologyContext) -> None:
        self.counts: dict[str, int] = {}

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        word = tup["word"]
        if not word:
            raise ValueError("no word")
        self.counts[word] = self.counts.get(word, 0) + 1
        collector.emit((word, self.counts[word]))


class Hold(Bolt):
    """Emits the sum of what it holds at each tick."""

    outputs = Fields("sum")

    def prepare(self, context: TopologyContext, collector: BoltCollector) -> None:
        self.collector = collector
        self.held: list[Tuple] = []

    def execute(self, tup: Tuple) -> None:
        if tup.is_tick:
            if self.held:
                self.collector.emit((sum(t["n"] for t in self.held),), anchors=self.held)
            for held in self.held:
                self.collector.ack(held)
            self.held = []
        elif tup["n"] < 0:
            self.collector.fail(tup, "negative")
        else:
            self.held.append(tup)


async def test_a_basic_bolt() -> None:
    async with bolt_harness(Count(), fields="word") as h:
        assert await h.execute("a") == [("a", 1)]
        assert await h.execute("b") == [("b", 1)]
        assert await h.execute("a") == [("a", 2)]
        assert h.emitted == [("a", 1), ("b", 1), ("a", 2)]
        assert h.acked == [("a",), ("b",), ("a",)]
        assert h.failed == []
        assert h.unanchored == []
        assert isinstance(h.component, Count)
        assert h.component.counts == {"a": 2, "b": 1}


async def test_a_failure_has_its_reason() -> None:
    async with bolt_harness(Count, fields=["word"]) as h:
        assert await h.execute("") == []
        assert h.failed == [("",)]
        [(_, failure)] = h.failures
        assert failure.error == "ValueError: no word"
        assert [report.component for report in h.errors] == ["bolt"]
        assert await h.execute("a") == [("a", 1)]


async def test_a_function_bolt() -> None:
    @bolt(outputs=["a", "b"])
    async def swap(a: int, b: int) -> tuple[int, int]:
        await asyncio.sleep(1)
        return b, a

    async with bolt_harness(swap, fields=("a", "b")) as h:
        assert await h.execute(1, 2) == [(2, 1)]


@pytest.mark.parametrize("time", Time)
async def test_a_bolt_with_windows(time: Time, sim_clock: SimClock) -> None:
    """By any time; windows fire as time goes on."""
    begun_ms = int(sim_clock.now() * 1000) if time is not Time.EVENT else 0
    windows = WindowedBolt(Tumbling(1_000, offset_ms=begun_ms, time=time), Sum("n"), timestamp="at")
    async with bolt_harness(windows, fields=("at", "n")) as harness:
        await harness.execute(100, 1)
        await harness.execute(200, 2)
        await sim_clock.advance(1)
        await harness.execute(1_100, 5)
        await sim_clock.advance(2)
        assert harness.emitted[0] == (3, begun_ms, begun_ms + 1_000)
        assert harness.acked == [(100, 1), (200, 2), (1_100, 5)]


async def test_a_bolt_that_holds_its_tuples_until_a_tick(sim_clock: SimClock) -> None:
    async with bolt_harness(Hold, fields="n", config={"tick_tuple_freq_s": 60}) as h:
        assert await h.execute(1) == []
        assert await h.execute(2) == []
        assert await h.execute(-1) == []
        assert (h.held, h.acked, h.failed) == ([(1,), (2,)], [], [(-1,)])
        await sim_clock.advance(60)
        assert (h.emitted, h.held, h.acked) == ([(3,)], [], [(1,), (2,)])


async def test_acks_from_outside_of_execute_are_recorded(sim_clock: SimClock) -> None:
    class Later(Bolt):
        def prepare(self, context: TopologyContext, collector: BoltCollector) -> None:
            self.collector = collector

        def execute(self, tup: Tuple) -> None:
            asyncio.get_running_loop().call_later(5, self.collector.ack, tup)

    async with bolt_harness(Later, fields="n") as h:
        await h.execute(1)
        assert h.held == [(1,)]
        await sim_clock.advance(5)
        assert h.acked == [(1,)]


async def test_a_forgotten_anchor_and_a_forgotten_ack_are_seen() -> None:
    class Careless(Bolt):
        outputs = Fields("n")

        def prepare(self, context: TopologyContext, collector: BoltCollector) -> None:
            self.collector = collector

        def execute(self, tup: Tuple) -> None:
            self.collector.emit((tup["n"],))

    async with bolt_harness(Careless, fields="n") as h:
        assert await h.execute(1) == [(1,)]
        assert h.unanchored == [(1,)]
        assert h.held == [(1,)]


async def test_a_rich_bolt_that_raises_is_started_again(sim_clock: SimClock) -> None:
    class Fragile(Hold):
        def execute(self, tup: Tuple) -> None:
            if tup["n"] == 13:
                raise OSError("bad luck")
            super().execute(tup)

    async with bolt_harness(Fragile, fields="n") as h:
        await h.execute(1)
        await h.execute(13)
        assert sorted(h.failed) == [(1,), (13,)]  # what it held is lost with it
        await h.execute(2)
        assert h.held == [(2,)]
        for _ in range(4):
            await h.execute(13)
        with pytest.raises(ActorEscalatedError, match="bad luck"):
            await h.execute(13)


async def test_a_bolt_that_cannot_be_prepared() -> None:
    class Broken(BasicBolt):
        def prepare(self, context: TopologyContext) -> None:
            raise OSError("no database")

        def execute(self, tup: Tuple, collector: BasicCollector) -> None:
            raise AssertionError("never prepared")

    with pytest.raises(ActorEscalatedError, match="no database"):
        async with bolt_harness(Broken, fields="n"):
            raise AssertionError("never there")


async def test_an_object_that_is_no_bolt_is_refused() -> None:
    given: Any = object()
    with pytest.raises(TopologyError, match="bolt 'bolt'"):
        async with bolt_harness(given, fields="n"):
            raise AssertionError("never there")


async def test_several_streams_in_and_out() -> None:
    class Route(BasicBolt):
        outputs = {"default": Fields("n"), "odd": Fields("n"), "to": direct("n")}  # noqa: RUF012

        def prepare(self, context: TopologyContext) -> None:
            self.target = context.tasks("output")[0]

        def execute(self, tup: Tuple, collector: BasicCollector) -> None:
            if tup.stream == "direct":
                collector.emit_direct(self.target, (tup["n"],), stream="to")
            else:
                collector.emit((tup["n"],), stream="odd" if tup["n"] % 2 else "default")

    async with bolt_harness(Route, fields={"default": "n", "direct": ["n"]}) as h:
        await h.execute(1)
        await h.execute(2)
        await h.execute(3, stream="direct")
        assert (h.emitted, h.stream("odd"), h.stream("to")) == ([(2,)], [(1,)], [(3,)])
        with pytest.raises(ScriptError, match="no input stream 'other'; declared: default, direct"):
            await h.execute(1, stream="other")
        with pytest.raises(ScriptError, match="has 2 values; the fields are: n"):
            await h.execute(1, 2)


async def test_many_results_of_one_tuple() -> None:
    @bolt(outputs="n")
    def numbers(n: int) -> Any:
        yield from range(n)

    async with bolt_harness(numbers, fields="n") as h:
        assert len(await h.execute(100_000)) == 100_000


async def test_a_blocking_bolt_runs_in_its_thread() -> None:
    class Blocks(BasicBolt):
        outputs = Fields("thread")
        blocking = True

        def execute(self, tup: Tuple, collector: BasicCollector) -> None:
            collector.emit((threading.current_thread().name,))

    async with bolt_harness(Blocks, fields="n") as h:
        [(name,)] = await h.execute(1)
        assert name.startswith("aiostorm-bolt")


async def test_waiting_is_bounded() -> None:
    @bolt
    async def stuck(n: int) -> None:
        await asyncio.Event().wait()

    with pytest.raises(WaitTimeoutError, match=r"(?s)still executing \[\(1,\)\].*in stuck: await asyncio.Event"):
        async with bolt_harness(stuck, fields="n") as h:
            await h.execute(1, timeout_s=5)


async def test_the_harness_calls_cleanup_at_its_end() -> None:
    ended: list[str] = []

    class Ends(BasicBolt):
        def execute(self, tup: Tuple, collector: BasicCollector) -> None:
            ended.append(tup["n"])

        def cleanup(self) -> None:
            ended.append("cleanup")

    async with bolt_harness(Ends, fields="n") as h:
        await h.execute("x")
    assert ended == ["x", "cleanup"]


class KeptCount(Count):
    state = KeyedState(key="word")

    def prepare(self, context: TopologyContext) -> None:
        self.counts = context.state


@pytest.mark.parametrize("made", [KeptCount, KeptCount(), lambda: KeptCount()], ids=["class", "instance", "factory"])
async def test_a_bolt_with_state_by_key(made: Any) -> None:
    async with bolt_harness(made, fields=("n", "word")) as h:
        assert await h.execute(1, "a") == [("a", 1)]
        assert await h.execute(2, "a") == [("a", 2)]
        assert dict(h.component.counts) == {"a": 2}  # type: ignore[attr-defined]


async def test_the_test_commits_a_sink() -> None:
    class Rows(Sink):
        def prepare(self, context: TopologyContext) -> None:
            self.rows: list[Any] = []
            self.committed: list[Any] = []

        def execute(self, tup: Tuple, collector: BasicCollector) -> None:
            self.rows.append(tup["n"])

        def pre_commit(self, number: int) -> list[Any]:
            rows, self.rows = self.rows, []
            return rows

        def commit(self, handle: list[Any]) -> None:
            self.committed += handle

        def abort(self, handle: list[Any]) -> None:
            self.rows = handle + self.rows

    async with bolt_harness(Rows, fields="n") as h:
        await h.execute(1)
        sink: Any = h.component
        sink.commit(sink.pre_commit(1))
        assert sink.committed == [1]
        assert h.acked == [(1,)]
