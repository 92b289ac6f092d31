"""One tuple tree from its spout to its ack: in virtual time its steps are exactly what was slept."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aiostorm import BasicBolt, Config, Failure, LocalCluster, RunningTopology, Spout, Topology, TopologyBuilder
from aiostorm.cluster import TraceError
from aiostorm.metrics import Span, Trace
from aiostorm.testing.simulation import World
from aiostorm.windows import BufferedWindowBolt, Counts

from ..tasks.parts import Does, DoesRich, Numbers, line
from .sim_workers import SimBackend, with_workers

EVERY = Config(trace_one_in=1)
SINGLE = Config(trace_one_in=1, acker_tree_max_messages=1)


def sleeps(delay_s: float, emits: int = 1) -> BasicBolt:
    async def work(tup: Any, collector: Any) -> None:
        await asyncio.sleep(delay_s)
        for _ in range(emits):
            collector.emit((tup[0],))

    return Does(work, "n")


async def run(topology: Topology, config: Config = EVERY) -> tuple[list[Trace], RunningTopology]:
    """The traces of a topology that has finished, the first one first."""
    async with LocalCluster() as cluster:
        running = await cluster.submit("t", topology, config)
        await running.wait_finished(1000)
        return running.traces()[::-1], running


def steps(trace: Trace) -> list[tuple[str, str, float]]:
    """The steps that took time."""
    return [(s.kind, s.component, round(s.seconds, 6)) for s in trace.path if s.seconds > 1e-9]


def adds_up(trace: Trace) -> None:
    assert sum(step.seconds for step in trace.path) == pytest.approx(trace.complete_s, abs=1e-9)


async def test_the_steps_of_a_tree_are_what_its_bolts_have_slept() -> None:
    [first, second], running = await run(line(Numbers(2), split=sleeps(0.5), store=sleeps(2.0, emits=0)), SINGLE)
    assert steps(first) == [("execute", "split", 0.5), ("execute", "store", 2.0)]
    assert steps(second) == [
        ("wait", "split", 0.5),
        ("execute", "split", 0.5),
        ("wait", "store", 1.5),
        ("execute", "store", 2.0),
    ]
    assert (first.complete_s, second.complete_s) == (2.5, 4.5)
    for trace in (first, second):
        adds_up(trace)
        assert (trace.component, trace.outcome, trace.messages, trace.notes) == ("spout", "acked", 1, ())
    assert running.metrics()["spout"].complete_s == 7.0


async def test_a_tree_that_fans_out_has_all_branches_and_the_slowest_is_its_way() -> None:
    builder = TopologyBuilder()
    builder.set_spout("spout", Numbers(1))
    builder.set_bolt("split", sleeps(1.0, emits=3)).shuffle_grouping("spout")
    builder.set_bolt("fast", sleeps(0.1, emits=0)).shuffle_grouping("split")
    builder.set_bolt("slow", sleeps(2.0, emits=0)).shuffle_grouping("split")
    [trace], _ = await run(builder.create_topology())
    spans = {span.component: span for span in trace.spans}
    assert [(span.component, span.depth, span.rows) for span in trace.spans if span.depth == 1] == [("split", 1, 1)]
    assert sum(span.rows for span in trace.spans if span.component == "slow") == 3
    assert {spans[name].parent for name in ("fast", "slow")} == {spans["split"].edge}
    assert steps(trace)[0] == ("execute", "split", 1.0)
    assert {name for _, name, _ in steps(trace)} == {"split", "slow"}
    adds_up(trace)
    assert trace.complete_s == 7.0


async def test_rows_of_one_turn_are_one_tree_and_each_message_is_counted() -> None:
    [trace], running = await run(line(Numbers(5, each_call=5), split=sleeps(0.5, emits=0)))
    assert (trace.messages, trace.complete_s) == (5, 2.5)
    assert [(span.component, span.rows) for span in trace.spans] == [("split", 5)]
    assert running.metrics()["spout"].acked == 5


class Pairs(DoesRich):
    """Emits one row for each two that it has received, anchored to both."""

    def __init__(self) -> None:
        super().__init__(self.join, "n")
        self.kept: list[Any] = []

    def join(self, tup: Any, collector: Any) -> None:
        self.kept.append(tup)
        if len(self.kept) == 2:
            collector.emit((sum(t[0] for t in self.kept),), anchors=self.kept)
            for each in self.kept:
                collector.ack(each)
            self.kept = []


async def test_a_row_with_two_anchors_is_in_both_trees() -> None:
    traces, _ = await run(line(Numbers(2), join=Pairs(), store=sleeps(3.0, emits=0)), SINGLE)
    assert len(traces) == 2
    for trace in traces:
        assert [span.component for span in trace.spans] == ["join", "store"]
        assert trace.spans[1].parent == trace.spans[0].edge
        assert trace.complete_s == 3.0
        adds_up(trace)


class Batched(BasicBolt):
    outputs = "n"

    async def execute_batch(self, tuples: Any, collector: Any) -> None:
        await asyncio.sleep(1.5)
        for tup in tuples:
            collector.emit((tup["n"],), anchors=tup)


async def test_a_bolt_that_executes_batches_is_in_the_tree() -> None:
    [trace], _ = await run(line(Numbers(4, each_call=4), batch=Batched(), store=sleeps(0.25, emits=0)))
    assert (trace.spans[0].component, trace.spans[0].rows) == ("batch", 4)
    assert sum(span.rows for span in trace.spans if span.component == "store") == 4
    assert steps(trace) == [("execute", "batch", 1.5), ("wait", "store", 0.75), ("execute", "store", 0.25)]
    adds_up(trace)


async def test_a_tuple_that_a_bolt_keeps_goes_on_in_a_sub_tree_of_the_same_trace() -> None:
    """It is detached after 20 ms; what it is acked with later, and what was made of it, belong to the tree."""

    def keep(tup: Any, collector: Any) -> None:
        def release() -> None:
            collector.emit((tup[0],), anchors=tup)
            collector.ack(tup)

        if tup[0] == 0:
            asyncio.get_running_loop().call_later(5.0, release)
        else:
            collector.ack(tup)

    [trace], _ = await run(line(Numbers(2, each_call=2), keep=DoesRich(keep, "n"), store=sleeps(1.0, emits=0)))
    assert (trace.messages, trace.outcome, trace.complete_s) == (2, "acked", 6.0)
    assert [(span.component, span.depth) for span in trace.spans] == [("keep", 1), ("store", 2)]
    assert steps(trace) == [("execute", "keep", 5.0), ("execute", "store", 1.0)]
    adds_up(trace)


class Sums(BufferedWindowBolt):
    outputs = "total"
    windows = Counts(2)
    anchored = True

    def execute(self, window: Any) -> tuple[int]:
        return (len(window.get()),)


async def test_windows_are_in_the_tree() -> None:
    traces, _ = await run(line(Numbers(2), window=Sums(), store=sleeps(1.0, emits=0)), SINGLE)
    assert {span.component for trace in traces for span in trace.spans} == {"window", "store"}
    for trace in traces:
        adds_up(trace)


async def test_a_message_that_fails_is_traced_again_when_it_is_emitted_again() -> None:
    seen: list[int] = []

    def refuse(tup: Any, collector: Any) -> None:
        seen.append(tup[0])
        if len(seen) == 1:
            raise ValueError("not yet")

    source = Numbers(1)
    async with LocalCluster() as cluster:
        config = Config(trace_one_in=0, max_retries=2)
        running = await cluster.submit("t", line(source, refuse=Does(refuse)), config)
        del config
        await running.wait_finished(1000)
        assert running.traces() == []
    seen.clear()
    traces, _ = await run(line(Numbers(1), refuse=Does(refuse)), Config(trace_one_in=1, max_retries=2))
    failed, again = traces
    assert (failed.outcome, failed.attempt) == ("failed", 1)
    assert failed.problem.startswith("failed in refuse[2]: ValueError: not yet")
    assert (again.outcome, again.attempt, again.replay_of) == ("acked", 2, failed.id)


async def test_a_tree_that_times_out_has_failed() -> None:
    config = Config(trace_one_in=1, message_timeout_s=3.0, max_retries=0)
    async with LocalCluster() as cluster:
        running = await cluster.submit("t", line(Numbers(1), hold=DoesRich()), config)
        await asyncio.sleep(10.0)
        [trace] = running.traces()
        await running.kill(0)
    assert (trace.outcome, trace.problem) == ("failed", "timeout")


class Slow(Spout):
    """One message each second, on command to any of two bolts."""

    outputs = "n"

    def open(self, context: Any, collector: Any) -> None:
        self.collector, self.n = collector, 0

    async def next_tuple(self) -> None:
        await asyncio.sleep(1.0)
        self.collector.emit((self.n,), self.n)
        self.n += 1

    def fail(self, message_id: int, failure: Failure) -> None:
        raise AssertionError(failure)


def two_ways() -> Topology:
    """Every third message reaches `rare`."""

    def choose(tup: Any, collector: Any) -> None:
        if tup[0] % 3 == 2:
            collector.emit((tup[0],))

    builder = TopologyBuilder()
    builder.set_spout("spout", Slow())
    builder.set_spout("other", Slow())
    builder.set_bolt("choose", Does(choose, "n")).shuffle_grouping("spout")
    builder.set_bolt("rare", sleeps(0.25, emits=0)).shuffle_grouping("choose")
    builder.set_bolt("end", sleeps(0.5, emits=0)).shuffle_grouping("other")
    return builder.create_topology()


async def test_a_tree_is_traced_on_demand_though_none_is_sampled() -> None:
    async with LocalCluster() as cluster:
        running = await cluster.submit("t", two_ways(), Config(trace_one_in=0))
        await asyncio.sleep(5.5)
        assert running.traces() == []
        rare = await running.trace("rare")
        assert rare.passes("rare")
        assert steps(rare) == [("execute", "rare", 0.25)]
        other = await running.trace("end")
        assert (other.component, steps(other)) == ("other", [("execute", "end", 0.5)])
        assert (await running.trace()).outcome == "acked"
        await running.kill(0)


async def test_what_cannot_be_traced_is_said() -> None:
    async with LocalCluster() as cluster:
        running = await cluster.submit("t", two_ways(), Config(trace_one_in=0))
        with pytest.raises(TraceError, match="no component 'rar': did you mean 'rare'"):
            await running.trace("rar")
        with pytest.raises(TraceError, match=r"spout emitted no tree that passes rare within 0\.5 s"):
            await running.trace("rare", timeout_s=0.5)
        await running.kill(0)
        untracked = await cluster.submit("u", line(Numbers(1), end=Does(lambda t, c: None)), Config(acker_executors=0))
        assert untracked.traces() == []
        with pytest.raises(TraceError, match=r"'u': without ackers tuples are in no tree.*topology\.acker\.executors"):
            await untracked.trace()
        once = Config(guarantee="at-most-once")
        most = await cluster.submit("m", line(Numbers(1), end=Does(lambda t, c: None)), once)
        with pytest.raises(TraceError, match="with at-most-once tuples are in no tree"):
            await most.trace()
    async with LocalCluster() as cluster:
        held = await cluster.submit("t", line(Numbers(9), hold=sleeps(60.0)), Config(trace_one_in=1))
        with pytest.raises(TraceError, match=r"was not complete within 5 s|emitted no tree"):
            await held.trace(timeout_s=5)
        await held.kill(0)


async def test_what_is_kept_is_bounded() -> None:
    traces, running = await run(line(Numbers(3000), end=Does(lambda t, c: None)), SINGLE)
    assert 0 < len(traces) <= 200  # the rows of a tree are not next to each other
    assert all(trace.outcome == "acked" for trace in traces)
    assert len(running._task_set.tasks.env.span_ring().rows()) == 1000


# -- workers -----------------------------------------------------------------------------------------------------------


def spread() -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("spout", Slow())
    builder.set_bolt("first", sleeps(0.5)).shuffle_grouping("spout")
    builder.set_bolt("second", sleeps(0.75, emits=0), 2).shuffle_grouping("first")
    return builder.create_topology(config=Config(trace_one_in=1))


def longest(spans: tuple[Span, ...], component: str) -> float:
    return max(span.ended_s - span.begun_s for span in spans if span.component == component)


def test_a_tree_on_two_workers_is_joined_on_one_clock() -> None:
    found: list[Trace] = []

    async def story(world: World, cluster: LocalCluster, backend: SimBackend) -> None:
        running = await cluster.submit("t", "tests.cluster.test_tracing:spread")
        found.append(await running.trace("second", timeout_s=30))
        found.extend(running.traces())
        await running.kill(0)

    with_workers(story)
    trace = found[0]
    assert {span.worker for span in trace.spans} | {trace.worker} == {"worker-1", "worker-2"}
    assert longest(trace.spans, "first") == pytest.approx(0.5, rel=0.05)
    assert longest(trace.spans, "second") == pytest.approx(0.75, rel=0.05)
    assert trace.complete_s is not None
    assert 1.25 <= trace.complete_s < 1.5
    adds_up(trace)
    assert 0 < trace.error_s < 0.1


def test_a_worker_that_dies_leaves_a_tree_that_says_so() -> None:
    found: list[Trace] = []

    async def story(world: World, cluster: LocalCluster, backend: SimBackend) -> None:
        running = await cluster.submit("t", "tests.cluster.test_tracing:broken")
        async with asyncio.timeout(60):
            while not any(trace.spans for trace in running.traces()):  # noqa: ASYNC110 - a worker reports
                await asyncio.sleep(0.1)
        [victim] = [worker for worker in running.workers() if 3 in worker.tasks]
        world.processes[victim.name].kill("is killed by the test")
        async with asyncio.timeout(60):
            while not any(trace.notes for trace in running.traces()):  # noqa: ASYNC110 - a process ends
                await asyncio.sleep(0.1)
        await asyncio.sleep(5.0)
        found.extend(trace for trace in running.traces() if trace.notes)
        await running.kill(0)

    with_workers(story)
    assert found
    for trace in found:
        assert "has ended meanwhile" in trace.notes[0]
        assert trace.outcome in ("failed", "open")
    assert any("has died" in trace.problem for trace in found)


def broken() -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("spout", Numbers(3))
    builder.set_bolt("first", sleeps(0.5)).shuffle_grouping("spout")
    builder.set_bolt("stuck", sleeps(600.0, emits=0)).shuffle_grouping("first")
    return builder.create_topology(config=Config(trace_one_in=1))
