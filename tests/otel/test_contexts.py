"""The span in which a spout emits is the parent of its tuple trees, and current in the bolts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from aiostorm import Bolt, Config, ConfigError, LocalCluster, Spout, Topology, TopologyBuilder, spout
from aiostorm.otel import Exporter
from aiostorm.testing.simulation import World

from ..cluster.sim_workers import SimBackend, with_workers
from ..tasks.parts import Does, DoesRich, Notes, line
from .test_exporter import Telemetry

trace = pytest.importorskip("opentelemetry.trace")
context = pytest.importorskip("opentelemetry.context")
tracecontext = pytest.importorskip("opentelemetry.trace.propagation.tracecontext")

ON = Config(trace_context=True, trace_one_in=0)
REMOTE = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "tracestate": "vendor=1"}
OTHER = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203332-01"}
PARENT = (0x0AF7651916CD43DD8448EB211C80319C, 0xB7AD6B7169203331)
UNSAMPLED = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"}


def carried(headers: dict[str, str]) -> Any:
    """The context of a message, as its source has received it."""
    return tracecontext.TraceContextTextMapPropagator().extract(headers, context.Context())


def current() -> tuple[int, int]:
    """(trace, span) that are current; (0, 0): none."""
    found = trace.get_current_span().get_span_context()
    return found.trace_id, found.span_id


class Emits(Spout):
    """A call of each function, with the collector; then it finishes."""

    outputs = "n"

    def __init__(self, *calls: Callable[[Any], None]) -> None:
        self.calls = list(calls)

    def __deepcopy__(self, memo: dict[int, Any]) -> Emits:
        return Emits(*self.calls)

    def open(self, context: Any, collector: Any) -> None:
        self.collector = collector

    def next_tuple(self) -> None:
        if self.calls:
            self.calls.pop(0)(self.collector)
        else:
            self.collector.finish()


class Blocking(Emits):
    """The same, in a thread."""

    blocking = True

    def __deepcopy__(self, memo: dict[int, Any]) -> Emits:
        return Blocking(*self.calls)


class Batches(Bolt):
    """Notes for each batch how many tuples it has, and the current span."""

    def __init__(self, seen: Notes) -> None:
        self.seen = seen

    def prepare(self, context: Any, collector: Any) -> None:
        self.collector = collector

    async def execute_batch(self, batch: Any) -> None:
        await asyncio.sleep(0.1)
        self.seen.append((len(batch), current()))
        self.collector.ack(batch)


async def spans_of(topology: Topology, config: Config = ON) -> list[Any]:
    """The exported spans of a topology that has finished, those of spouts first."""
    telemetry = Telemetry()
    async with LocalCluster() as cluster:
        running = await cluster.submit("t", topology, config)
        await running.wait_finished(1000)
        Exporter(running, telemetry.tracers, telemetry.meters).export()
    return sorted(telemetry.memory.get_finished_spans(), key=lambda span: span.name, reverse=True)


def tops(spans: list[Any]) -> list[Any]:
    return [span for span in spans if span.name.startswith("send")]


def emits(headers: dict[str, str], *numbers: int) -> Callable[[Any], None]:
    """Emits in the context of these headers; of none: without a context."""

    def call(collector: Any) -> None:
        token = context.attach(carried(headers))
        for number in numbers:
            collector.emit((number,), message_id=number)
        context.detach(token)

    return call


def nothing(tup: Any, collector: Any) -> None:
    """A bolt that only takes."""


async def test_the_span_in_which_a_spout_emits_is_the_parent_of_the_tree() -> None:
    own, made = Telemetry(), list[int]()
    tracer = own.tracers.get_tracer("test")

    def receive(collector: Any) -> None:
        with tracer.start_as_current_span("receive") as span:
            made.append(span.get_span_context().span_id)
            collector.emit((len(made),), message_id=len(made))

    spans = await spans_of(line(Emits(receive, receive, emits({}, 7)), end=Does(nothing)))
    assert sorted(span.parent.span_id for span in tops(spans)) == sorted(made)
    assert len(made) == 2  # what was emitted in no span is not sampled
    ends = [span for span in spans if span.name == "process end"]
    assert {span.parent.span_id for span in ends} == {span.context.span_id for span in tops(spans)}
    assert {span.context.trace_id for span in ends} == {
        each.context.trace_id for each in own.memory.get_finished_spans()
    }


async def test_a_context_from_the_headers_of_a_source_is_the_parent_with_its_state() -> None:
    top, end = await spans_of(line(Emits(emits(REMOTE, 1)), end=Does(nothing)))
    assert top.parent.is_remote
    assert (top.context.trace_id, top.parent.span_id) == PARENT
    assert dict(top.context.trace_state) == {"vendor": "1"}
    assert end.parent.span_id == top.context.span_id


async def test_a_state_that_is_too_long_is_left_out() -> None:
    state = ",".join(f"v{n}={'x' * 200}" for n in range(3))
    found = trace.TraceState.from_header([state])
    span = trace.NonRecordingSpan(trace.SpanContext(*PARENT, True, trace.TraceFlags(1), found))

    def call(collector: Any) -> None:
        with trace.use_span(span):
            collector.emit((1,), message_id=1)

    top, _ = await spans_of(line(Emits(call), end=Does(nothing)))
    assert (top.parent.span_id, len(top.context.trace_state)) == (PARENT[1], 0)


async def test_messages_of_one_context_share_a_tree_and_those_of_others_do_not() -> None:
    def turn(collector: Any) -> None:
        emits({}, 0)(collector)
        emits(REMOTE, 1, 2, 3)(collector)
        emits(OTHER, 4)(collector)
        emits(REMOTE, 5)(collector)

    spans = tops(await spans_of(line(Emits(turn), end=Does(nothing))))
    assert sorted(
        (hex(span.parent.span_id)[-1], span.attributes["messaging.batch.message_count"]) for span in spans
    ) == [
        ("1", 1),
        ("1", 3),
        ("2", 1),
    ]


async def test_a_context_that_is_not_sampled_is_no_reason_to_sample() -> None:
    assert await spans_of(line(Emits(emits(UNSAMPLED, 1)), end=Does(nothing))) == []
    # Sampled for another reason: the tracer's sampler leaves out what is below such a parent.
    assert await spans_of(line(Emits(emits(UNSAMPLED, 1)), end=Does(nothing)), ON.merge({"trace_one_in": 1})) == []


async def test_without_the_setting_nothing_is_below_the_span() -> None:
    spans = await spans_of(line(Emits(emits(REMOTE, 1)), end=Does(nothing)), Config(trace_one_in=1))
    assert [span.parent for span in tops(spans)] == [None]


@pytest.mark.parametrize("kind", ["plain", "async"])
async def test_a_generator_yields_in_a_span(kind: str) -> None:
    own = Telemetry()
    tracer = own.tracers.get_tracer("test")

    @spout(outputs="n")
    def plain() -> Iterator[int]:
        for number in range(3):
            with tracer.start_as_current_span(f"receive {number}"):
                yield number
        yield 3

    @spout(outputs="n")
    async def waits() -> AsyncIterator[int]:
        for number in range(3):
            await asyncio.sleep(0.1)
            with tracer.start_as_current_span(f"receive {number}"):
                yield number
        yield 3

    spans = tops(await spans_of(line(plain if kind == "plain" else waits, end=Does(nothing))))
    received = {span.context.span_id for span in own.memory.get_finished_spans()}
    assert len(received) == len(spans) == 3
    assert {span.parent.span_id for span in spans} == received


async def test_a_batch_of_columns_is_emitted_in_a_context() -> None:
    arrow = pytest.importorskip("pyarrow")

    def call(collector: Any) -> None:
        token = context.attach(carried(REMOTE))
        collector.emit_arrow(arrow.record_batch({"n": [1, 2]}), message_id=1)
        context.detach(token)

    top, _ = await spans_of(line(Emits(call), end=Does(nothing)))
    assert top.parent.span_id == PARENT[1]


async def test_a_message_that_is_emitted_again_keeps_its_context() -> None:
    tries = Notes()

    def refuse(tup: Any, collector: Any) -> None:
        tries.append(current())
        if len(tries) < 3:
            raise ValueError("not yet")

    config = ON.merge({"max_retries": 2})
    spans = tops(await spans_of(line(Emits(emits(REMOTE, 1)), refuse=Does(refuse)), config))
    assert [span.attributes["aiostorm.attempt"] for span in spans] == [1, 2, 3]
    assert {span.parent.span_id for span in spans} == {PARENT[1]}
    assert tries == [PARENT] * 3


# -- bolts -------------------------------------------------------------------------------------------------------------


async def seen_by(make: Callable[[Notes], Any], spout: type[Emits] = Emits) -> Notes:
    """What a bolt behind another one notes: of a message in a context, and of one in none."""
    seen = Notes()

    def on(tup: Any, collector: Any) -> None:
        collector.emit((tup[0],))

    topology = line(spout(emits(REMOTE, 1), emits({}, 2)), first=Does(on), second=make(seen))
    await spans_of(topology, ON.merge({"message_timeout_s": 1000}))
    return seen


async def test_the_context_is_current_while_a_bolt_executes_its_tuples() -> None:
    def make(seen: Notes) -> Any:
        return Does(lambda tup, collector: seen.append((tup[0], current())))

    assert sorted(await seen_by(make)) == [(1, PARENT), (2, (0, 0))]
    assert current() == (0, 0)


async def test_a_blocking_spout_and_a_blocking_bolt_use_it_in_their_threads() -> None:
    def make(seen: Notes) -> Any:
        bolt = Does(lambda tup, collector: seen.append((tup[0], current())))
        bolt.blocking = True
        return bolt

    assert sorted(await seen_by(make, Blocking)) == [(1, PARENT), (2, (0, 0))]


async def test_a_bolt_that_waits_has_it_afterwards_and_a_span_of_its_own_too() -> None:
    own = Telemetry()
    tracer = own.tracers.get_tracer("test")

    def make(seen: Notes) -> Any:
        async def act(tup: Any, collector: Any) -> None:
            await asyncio.sleep(0.1)
            before = current()
            with tracer.start_as_current_span("call") as span:
                await asyncio.sleep(0.1)
                assert current() == (span.get_span_context().trace_id, span.get_span_context().span_id)
                asks = asyncio.create_task(asyncio.sleep(0.1, current()))
                assert await asks == current()
            seen.append((tup[0], before, current()))

        return Does(act)

    assert sorted(await seen_by(make)) == [(1, PARENT, PARENT), (2, (0, 0), (0, 0))]
    [within, without] = own.memory.get_finished_spans()
    assert (within.parent.span_id, without.parent) == (PARENT[1], None)


async def test_a_plain_bolt_that_returns_something_to_wait_for_has_it_afterwards() -> None:
    def make(seen: Notes) -> Any:
        async def later(tup: Any) -> None:
            await asyncio.sleep(0.1)
            seen.append((tup[0], current()))

        return Does(lambda tup, collector: later(tup))

    assert sorted(await seen_by(make)) == [(1, PARENT), (2, (0, 0))]


async def test_a_bolt_that_acks_later_emits_below_the_context() -> None:
    seen = Notes()

    async def keep(tup: Any, collector: Any) -> None:
        seen.append(current())
        await asyncio.sleep(0.1)
        collector.emit((tup[0],), anchors=tup)
        collector.ack(tup)

    def end(tup: Any, collector: Any) -> None:
        seen.append(current())

    top, _, _ = await spans_of(line(Emits(emits(REMOTE, 1)), keep=DoesRich(keep), end=Does(end)))
    assert seen == [PARENT, PARENT]
    assert top.parent.span_id == PARENT[1]


async def test_a_batch_has_the_context_that_all_of_its_tuples_have() -> None:
    seen = Notes()

    def turn(collector: Any) -> None:
        emits(REMOTE, 1)(collector)
        emits(OTHER, 2)(collector)

    await spans_of(line(Emits(emits(REMOTE, 1, 2)), end=Batches(seen)))
    await spans_of(line(Emits(turn), end=Batches(seen)))
    assert seen == [(2, PARENT), (2, (0, 0))]


# -- workers -----------------------------------------------------------------------------------------------------------

SEEN: list[tuple[int, int]] = []


def spread() -> Topology:
    """The spout and two tasks of a bolt, on two workers."""

    def act(tup: Any, collector: Any) -> None:
        SEEN.append(current())

    builder = TopologyBuilder()
    builder.set_spout("spout", Emits(*(emits(REMOTE if n % 2 else {}, n) for n in range(20))))
    builder.set_bolt("bolt", Does(act), 2).shuffle_grouping("spout")
    return builder.create_topology(config=ON)


def test_the_context_goes_to_other_workers() -> None:
    found: list[Any] = []
    telemetry = Telemetry()
    SEEN.clear()

    async def story(world: World, cluster: LocalCluster, backend: SimBackend) -> None:
        running = await cluster.submit("t", "tests.otel.test_contexts:spread")
        await running.wait_finished(60)
        await asyncio.sleep(2)
        found.extend(running.traces())
        Exporter(running, telemetry.tracers, telemetry.meters).export()
        await running.kill(0)

    with_workers(story)
    assert {span.worker for trace in found for span in trace.spans} == {"worker-1", "worker-2"}
    assert sorted(SEEN) == [(0, 0)] * 10 + [PARENT] * 10
    assert {span.parent.span_id for span in tops(list(telemetry.memory.get_finished_spans()))} == {PARENT[1]}


def test_without_the_extra_the_setting_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiostorm.topology.config.find_spec", lambda name: None)
    assert not Config(trace_context=False).trace_context
    with pytest.raises(ConfigError, match=r"trace_context = True .*pip install \"aiostorm\[otel\]\""):
        Config(trace_context=True)
