"""Guarantees: what cannot run with one, and what a restart loses."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from aiostorm import AckValueSpout, BasicBolt, Config, FailValueSpout, Spout, TopologyBuilder, TopologyError, spout
from aiostorm.state import KeyedState, Sink, ValueState
from aiostorm.topology import Topology, lost_at_restart, make_plan
from aiostorm.topology.guarantees import guarantee_problems
from aiostorm.topology.time_flow import TimeRole, Windowing
from aiostorm.windows import BufferedWindowBolt, Count, Tumbling, WindowedBolt

from .test_time_flow import topology as graph

EXACTLY_ONCE = Config(guarantee="exactly-once")


class Source(Spout):
    outputs = "n"

    def next_tuple(self) -> None: ...


class Repeatable(Source):
    def snapshot(self) -> int:
        return 0

    def restore(self, position: int) -> None: ...


class Acking(Repeatable):
    def ack(self, message_id: Any) -> None: ...


class Committing(Acking):
    def committed(self, number: int) -> None: ...


class Through(BasicBolt):
    outputs = {"default": "n", "again": "n"}  # noqa: RUF012

    def execute(self, tup: Any, collector: Any) -> None: ...


class Counting(Through):
    state = KeyedState(key="n")


class Totals(Through):
    state = ValueState(0)


class Rows(Sink):
    def execute(self, tup: Any, collector: Any) -> None: ...

    def pre_commit(self, number: int) -> None: ...

    def commit(self, handle: Any) -> None: ...

    def abort(self, handle: Any) -> None: ...


def build(source: Any, *bolts: Any) -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("source", source)
    for number, made in enumerate(bolts):
        builder.set_bolt(f"bolt{number}", made).fields_grouping("source", "n")
    return builder.create_topology()


def problems(topology: Topology, config: Config) -> tuple[str, ...]:
    with pytest.raises(TopologyError) as caught:
        make_plan(topology, config)
    return tuple(caught.value.problems)


# -- spouts ------------------------------------------------------------------------------------------------------------


def test_exactly_once_needs_spouts_that_begin_again_at_a_position() -> None:
    (problem,) = problems(build(Source), EXACTLY_ONCE)
    assert problem == (
        "spout 'source': Source defines no snapshot and no restore, so it cannot read its source again from a "
        "position, as exactly-once needs: define snapshot() and restore(position), or use guarantee=at-least-once"
    )

    class Half(Source):
        def snapshot(self) -> int:
            return 0

    (problem,) = problems(build(Half), EXACTLY_ONCE)
    assert problem.startswith("spout 'source': Half defines no restore, so")
    assert make_plan(build(Repeatable), EXACTLY_ONCE)
    for guarantee in ("at-least-once", "at-most-once"):
        assert make_plan(build(Source), Config(guarantee=guarantee))


def test_a_spout_that_commits_in_ack_would_never_commit() -> None:
    (problem,) = problems(build(Acking), EXACTLY_ONCE)
    assert problem == (
        "spout 'source': Acking defines ack, which exactly-once never calls: define committed(number), which is called "
        "when everything before a snapshot is done for good"
    )
    assert make_plan(build(Committing), EXACTLY_ONCE)
    assert make_plan(build(Acking), Config())


@pytest.mark.parametrize("base", [AckValueSpout, FailValueSpout])
def test_the_methods_of_aiostorms_own_spouts_do_not_count(base: Any) -> None:
    class Plain(base):  # type: ignore[misc]
        outputs = "n"

        def next_tuple(self) -> None: ...

        def snapshot(self) -> int:
            return 0

        def restore(self, position: int) -> None: ...

    class Failing(Plain):
        def fail(self, *arguments: Any) -> None: ...

    assert make_plan(build(Plain), EXACTLY_ONCE)
    (problem,) = problems(build(Failing), EXACTLY_ONCE)
    assert "Failing defines fail, which exactly-once never calls" in problem


def test_a_method_of_the_instance_counts() -> None:
    source = Repeatable()
    source.ack = lambda message_id: None  # type: ignore[method-assign]
    (problem,) = problems(build(source), EXACTLY_ONCE)
    assert "defines ack" in problem


def numbers() -> Iterator[int]:
    yield from range(3)


def from_start(*, start: int = 0) -> Iterator[int]:
    yield from range(start, 3)


def from_needed_start(*, start: int) -> Iterator[int]:
    yield from range(start, 3)


def from_five(*, start: int = 5) -> Iterator[int]:
    yield from range(start, 8)


def limited(limit: int, start: int = 0) -> Iterator[int]:
    yield from range(start, limit)


@pytest.mark.parametrize(
    ("made", "repeatable"),
    [
        (spout("n")(numbers), False),
        (spout(numbers), False),
        (spout("n", repeatable=True)(numbers), True),
        (spout("n")(from_start), True),
        (spout("n")(from_needed_start), True),
        (spout("n")(from_five), False),  # this start is where the function begins, and not a position
        (spout("n")(functools.partial(from_start, start=2)), False),
        (spout("n", repeatable=True)(functools.partial(from_start, start=2)), True),
        (spout("n")(functools.partial(limited, limit=3)), False),  # its start is no keyword-only parameter
    ],
)
def test_a_function_says_that_it_can_be_repeated(made: Any, repeatable: bool) -> None:
    made.outputs = "n"
    topology = build(made)
    assert made.repeatable is repeatable
    if repeatable:
        assert make_plan(topology, EXACTLY_ONCE)
        return
    (problem,) = problems(topology, EXACTLY_ONCE)
    assert problem.startswith("spout 'source': @spout function '")
    assert "@spout(…, repeatable=True), or a parameter `*, start=0`" in problem


# -- the graph, sinks --------------------------------------------------------------------------------------------------


def test_a_cycle_cannot_be_exactly_once() -> None:
    builder = TopologyBuilder()
    builder.set_spout("source", Repeatable)
    builder.set_bolt("a", Through).shuffle_grouping("source").shuffle_grouping("b", stream="again")
    builder.set_bolt("b", Through).shuffle_grouping("a")
    topology = builder.create_topology()
    (problem,) = problems(topology, EXACTLY_ONCE)
    assert problem == (
        "bolt 'a': its subscription to b:again closes a cycle, and rows in a cycle are in no snapshot: remove "
        "it, or use guarantee=at-least-once"
    )
    assert make_plan(topology, Config())


@pytest.mark.parametrize("guarantee", ["at-least-once", "at-most-once"])
def test_a_sink_needs_snapshots(guarantee: Any) -> None:
    (problem,) = problems(build(Repeatable, Rows), Config(guarantee=guarantee))
    assert problem == (
        "bolt 'bolt0': Rows is a Sink: without snapshots it would never write its rows. So use "
        "Config(guarantee='exactly-once'), or a bolt that writes in execute"
    )
    assert make_plan(build(Repeatable, Rows), EXACTLY_ONCE)


def test_a_sink_has_all_methods() -> None:
    class Half(Sink):
        def execute(self, tup: Any, collector: Any) -> None: ...

        def pre_commit(self, number: int) -> None: ...

    with pytest.raises(TopologyError) as caught:
        build(Source, Half)
    assert caught.value.problems == (
        "bolt 'bolt0': Half defines no commit, no abort: a Sink needs pre_commit, commit, abort",
    )


def test_a_topology_that_names_its_guarantee_is_checked_when_it_is_built() -> None:
    builder = TopologyBuilder()
    builder.set_spout("acking", Acking)
    builder.set_spout("source", Source)
    with pytest.raises(TopologyError) as caught:
        builder.create_topology(config=EXACTLY_ONCE)
    assert [problem.partition(":")[0] for problem in caught.value.problems] == ["spout 'acking'", "spout 'source'"]
    assert builder.create_topology(config=Config(workers=1))


class LongWindows(BufferedWindowBolt):
    windows = Tumbling(3_600_000)
    timestamp = "n"
    outputs = "rows"

    def execute(self, window: Any) -> Any:
        return []


def test_only_messages_that_are_tracked_can_be_kept_too_long() -> None:
    builder = TopologyBuilder()
    builder.set_spout("source", Repeatable)
    builder.set_bolt("windows", LongWindows).shuffle_grouping("source")
    with pytest.raises(TopologyError, match="messages time out after 30 s"):
        builder.create_topology()
    for guarantee in ("exactly-once", "at-most-once"):
        config = Config(guarantee=guarantee)
        assert make_plan(builder.create_topology(config=config), config)


# -- what a restart loses ----------------------------------------------------------------------------------------------


def windows() -> WindowedBolt:
    return WindowedBolt(Tumbling(1_000), Count(), timestamp="n")


@pytest.mark.parametrize(
    ("bolts", "lost"),
    [
        ([Through], ""),
        ([Counting, Through], "only in memory with at-least-once, its guarantee: state of 'bolt0'. After a restart"),
        (
            [windows, Totals],
            "only in memory with at-least-once, its guarantee: windows of 'bolt0' and state of 'bolt1'. ",
        ),
    ],
)
def test_what_a_restart_loses_is_said_in_one_line(bolts: list[Callable[[], Any]], lost: str) -> None:
    topology = build(Repeatable, *bolts)
    assert lost_at_restart(topology, Config()).startswith(lost)
    assert bool(lost_at_restart(topology, Config())) is bool(lost)
    assert not lost_at_restart(topology, Config(guarantee="at-least-once")), "this guarantee was chosen"
    assert not lost_at_restart(topology, EXACTLY_ONCE)
    assert not lost_at_restart(topology, Config(guarantee="at-most-once"))


def test_with_exactly_once_windows_may_keep_rows_for_any_time() -> None:
    class Kept(BufferedWindowBolt):
        windows = Tumbling(3_600_000)
        timestamp = "n"
        outputs = "rows"

        def execute(self, window: Any) -> Any: ...

    def builder() -> TopologyBuilder:
        made = TopologyBuilder()
        made.set_spout("source", Repeatable()).set_config(max_spout_pending=1)
        made.set_bolt("kept", Kept()).global_grouping("source")
        return made

    with pytest.raises(TopologyError, match="choose guarantee='exactly-once'"):
        builder().create_topology()
    builder().create_topology(config=EXACTLY_ONCE)


def test_windows_behind_a_source_that_resumes_are_refused_only_with_at_least_once() -> None:
    made = graph(("s", TimeRole(resumes="progress="), ""), ("w", TimeRole(Windowing.EVENTS), "s"))
    (problem,) = guarantee_problems(made, Config())
    assert problem.startswith("spout 's': with progress= acked messages are not read again")
    assert guarantee_problems(made, EXACTLY_ONCE) == []
    assert guarantee_problems(made, Config(guarantee="at-most-once")) == []


def test_nothing_is_said_if_nothing_is_lost_or_the_guarantee_was_chosen() -> None:
    kept = graph(("s", TimeRole(), ""), ("w", TimeRole(Windowing.EVENTS), "s"))
    assert lost_at_restart(kept, Config()) != ""
    assert lost_at_restart(kept, Config(guarantee="at-least-once")) == ""
    assert lost_at_restart(kept, EXACTLY_ONCE) == ""
    assert lost_at_restart(graph(("s", TimeRole(), "")), Config()) == ""
