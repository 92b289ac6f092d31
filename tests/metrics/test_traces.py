"""Traces: rows of all processes joined into trees, and the slowest way through each."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiostorm.metrics import EMITTED, HANDLED, SETTLED, SPLIT, PlacedRow, Span, Step, Trace, joined_traces

Times = tuple[float, float, float]
NAMES = {1: "spout", 2: "split", 3: "count", 4: "store"}


def emitted(
    root: int, at_s: float, messages: int = 1, failures: int = 0, before: int = 0, context: str = ""
) -> PlacedRow:
    return PlacedRow("local", 0.0, 0.0, (EMITTED, root, 1, at_s, 1e9 + at_s, messages, failures, before, context))


def handled(root: int, edge: int, way: tuple[int, int], times: Times, **of: Any) -> PlacedRow:
    source, task = way
    row = (HANDLED, root, edge, task, source, "default", *times, 1)
    return PlacedRow(of.get("worker", "local"), of.get("offset_s", 0.0), of.get("error_s", 0.0), row)


def settled(root: int, at_s: float, messages: int = 1, outcome: str = "acked", why: str = "") -> PlacedRow:
    return PlacedRow("local", 0.0, 0.0, (SETTLED, root, 1, at_s, messages, outcome, why))


def joined(*rows: PlacedRow, **more: Any) -> Trace:
    [trace] = joined_traces(rows, NAMES, **more)
    return trace


def test_the_steps_are_those_of_the_way_that_took_longest() -> None:
    trace = joined(
        emitted(9, 100.0),
        handled(9, 2, (1, 2), (100.0, 101.0, 103.0)),
        handled(9, 3, (2, 3), (103.5, 104.0, 105.0)),
        handled(9, 4, (2, 4), (103.5, 106.0, 110.0)),
        settled(9, 111.0),
    )
    assert [(span.component, span.depth) for span in trace.spans] == [("split", 1), ("count", 2), ("store", 2)]
    assert [(step.kind, step.component, step.seconds) for step in trace.path] == [
        ("send", "split", 0.0),
        ("wait", "split", 1.0),
        ("execute", "split", 2.0),
        ("send", "store", 0.5),
        ("wait", "store", 2.5),
        ("execute", "store", 4.0),
        ("ack", "", 1.0),
    ]
    assert (trace.outcome, trace.complete_s, trace.notes) == ("acked", 11.0, ())
    assert (trace.passes("store"), trace.passes("spout"), trace.passes("other")) == (True, True, False)


def test_spans_of_another_worker_are_on_the_clock_here() -> None:
    trace = joined(
        emitted(9, 100.0),
        handled(9, 2, (1, 2), (5.5, 6.0, 7.0), worker="w", offset_s=-95.0, error_s=0.002),
        settled(9, 103.0),
    )
    [span] = trace.spans
    assert (span.arrived_s, span.begun_s, span.ended_s) == pytest.approx((0.5, 1.0, 2.0))
    assert trace.error_s == 0.002


def test_messages_that_have_left_the_tree_belong_to_it() -> None:
    trace = joined(
        emitted(9, 0.0, messages=2),
        PlacedRow("local", 0.0, 0.0, (SPLIT, 9, 70)),
        PlacedRow("local", 0.0, 0.0, (SPLIT, 70, 71)),
        handled(71, 3, (2, 3), (4.0, 4.0, 5.0)),
        handled(9, 2, (1, 2), (0.0, 1.0, 2.0)),
        settled(9, 3.0),
        settled(9, 6.0),
    )
    assert [span.parent for span in trace.spans] == ["", f"{2:016x}"]
    assert trace.complete_s == 6.0


def test_what_is_missing_is_said() -> None:
    orphan = joined(emitted(9, 0.0, messages=2), handled(9, 3, (2, 3), (4.0, 4.0, 5.0)), settled(9, 6.0))
    assert (orphan.outcome, orphan.complete_s, orphan.path) == ("open", None, ())
    assert orphan.notes == (
        "spans are missing here, of split",
        "some of its messages are acked or failed, others are open",
    )
    died = joined(emitted(9, 10.0), ended=[(9.0, "early"), (11.0, "worker-2")])
    assert died.notes == ("worker-2 has ended meanwhile: what it did is missing here, but for what it had reported",)
    assert joined_traces([handled(9, 3, (2, 3), (4.0, 4.0, 5.0)), settled(9, 6.0)], NAMES) == []


def test_a_replay_names_the_tree_that_failed() -> None:
    rows = [
        emitted(9, 0.0),
        settled(9, 1.0, outcome="failed", why="failed in split[2]: no"),
        emitted(10, 2.0, failures=1, before=9),
        settled(10, 3.0),
    ]
    again, first = joined_traces(rows, NAMES)
    assert (first.outcome, first.problem, first.attempt) == ("failed", "failed in split[2]: no", 1)
    assert (again.outcome, again.attempt, again.replay_of) == ("acked", 2, first.id)


def test_the_last_two_hundred_trees_are_shown_the_last_one_first() -> None:
    order = [*range(101, 202), *range(1, 101)]
    traces = joined_traces([emitted(root, float(root)) for root in order], NAMES)
    assert [trace.id for trace in traces] == [f"{root:016x}" for root in range(201, 1, -1)]


def test_the_start_of_a_tree_is_on_the_clock_here() -> None:
    start = PlacedRow("w", -95.0, 0.0, (EMITTED, 9, 1, 5.0, 1234.5, 3, 0, 0, ""))
    trace = joined(
        start, handled(9, 2, (1, 2), (101.0, 102.0, 104.0), error_s=0.5, worker="local"), settled(9, 105.0, 3)
    )
    assert (trace.worker, trace.emitted_at_s, trace.messages, trace.attempt) == ("w", 1234.5, 3, 1)
    assert (trace.component, trace.task, trace.replay_of) == ("spout", 1, "")
    assert (trace.complete_s, trace.spans[0].arrived_s, trace.error_s) == (5.0, 1.0, 0.5)


@pytest.mark.parametrize(("spans", "shown", "omitted"), [(499, 499, 0), (500, 500, 0), (502, 500, 2)])
def test_five_hundred_spans_of_a_tree_are_shown(spans: int, shown: int, omitted: int) -> None:
    at = [(float(edge), float(edge), edge + 0.5) for edge in range(spans)]
    trace = joined(emitted(9, 0.0), *[handled(9, edge + 1, (1, 2), at[edge]) for edge in range(spans)])
    assert [span.arrived_s for span in trace.spans] == [float(edge) for edge in range(shown)]
    assert trace.omitted == omitted


@pytest.mark.parametrize(("depth", "found"), [(499, 1), (500, 1), (501, 0)])
def test_a_message_that_has_left_the_tree_many_times_belongs_to_it(depth: int, found: int) -> None:
    splits = [PlacedRow("local", 0.0, 0.0, (SPLIT, 1000 + i, 1001 + i)) for i in range(depth)]
    trace = joined(emitted(1000, 0.0), *splits, handled(1000 + depth, 3, (1, 2), (1.0, 1.0, 2.0)))
    assert len(trace.spans) == found


def test_splits_in_a_circle_belong_to_no_tree() -> None:
    splits = [PlacedRow("local", 0.0, 0.0, (SPLIT, *pair)) for pair in ((70, 71), (71, 70))]
    assert joined(emitted(9, 0.0), *splits, handled(70, 3, (1, 2), (1.0, 1.0, 2.0))).spans == ()


def test_one_failure_fails_the_tree_and_the_last_one_says_why() -> None:
    failures = [settled(9, 5.0, outcome="failed", why="first"), settled(9, 4.0, 2, outcome="failed", why="last")]
    trace = joined(emitted(9, 1.0, messages=4), *failures, settled(9, 3.0))
    assert (trace.outcome, trace.problem, trace.complete_s, trace.notes) == ("failed", "last", 4.0, ())
    trace = joined(emitted(9, 1.0, messages=5), *failures, settled(9, 3.0))
    assert (trace.outcome, trace.complete_s) == ("failed", None)
    early = joined(emitted(9, 10.0), settled(9, 9.0))
    assert (early.complete_s, early.path) == (0.0, (Step("ack", "", 0.0),)), "a clock was set back"


def test_processes_that_have_ended_while_the_tree_was_open() -> None:
    ended = [(9.9, "early"), (10.0, "b"), (12.0, "a"), (12.5, "b"), (13.0, "c"), (13.1, "late")]
    text = "has ended meanwhile: what it did is missing here, but for what it had reported"
    done = joined(emitted(9, 10.0), settled(9, 13.0), ended=iter(ended))
    assert done.notes == (f"b {text}", f"a {text}", f"c {text}")
    both = joined_traces([emitted(9, 10.0), emitted(8, 5.0)], NAMES, iter(ended))
    assert [len(trace.notes) for trace in both] == [4, 5], "each tree is compared with all of them"


def test_tasks_of_no_known_component() -> None:
    trace = joined(
        PlacedRow("local", 0.0, 0.0, (EMITTED, 9, 50, 0.0, 0.0, 1, 0, 0, "")), handled(9, 2, (51, 52), (1, 2, 3))
    )
    assert (trace.component, trace.spans[0].component, trace.spans[0].source) == ("?", "?", "?")
    assert trace.notes == ("spans are missing here, of ?",)


def test_times_are_as_wrong_as_the_clock_that_is_known_least_of_those_elsewhere() -> None:
    times = 1.0, 2.0, 3.0
    here = handled(9, 2, (1, 2), times, error_s=9.0)
    there = [
        handled(9, 3 + at, (1, 2), times, worker=f"w{at}", error_s=error_s) for at, error_s in enumerate((0.25, 0.5))
    ]
    assert joined(emitted(9, 0.0), here, *there).error_s == 0.5
    assert joined(emitted(9, 0.0), here).error_s == 0.0


def test_what_a_span_shows() -> None:
    row = (HANDLED, 9, 0xABC, 2, 1, "lines", 1.0, 2.0, 4.0, 17)
    [span] = joined(emitted(9, 0.5), PlacedRow("w", 0.0, 0.25, row)).spans
    assert span == Span(f"{0xABC:016x}", "", 1, "split", 2, "w", "spout", "lines", 17, 0.5, 1.5, 3.5, 0.25)


@pytest.mark.parametrize(
    ("begun_s", "of_parent_s", "of_span_s", "parent"),
    [
        (5.0, 0.0, 0.0, True),
        (5.25, 0.25, 0.0, True),
        (5.25, 0.0, 0.25, True),
        (5.25, 0.125, 0.125, False),
        (5.5, 0.25, 0.25, False),
    ],
)
def test_a_parent_has_begun_before_its_span_has_arrived_as_far_as_clocks_say(
    begun_s: float, of_parent_s: float, of_span_s: float, parent: bool
) -> None:
    trace = joined(
        emitted(9, 0.0),
        handled(9, 2, (1, 2), (0.0, begun_s, 6.0), error_s=of_parent_s),
        handled(9, 3, (2, 3), (5.0, 7.0, 8.0), error_s=of_span_s),
    )
    parents = {span.component: span.parent for span in trace.spans}
    assert parents == {"split": "", "count": f"{2:016x}" if parent else ""}
    assert trace.notes == (() if parent else ("spans are missing here, of split",))


def test_the_parent_is_the_span_that_had_begun_last() -> None:
    trace = joined(
        emitted(9, 0.0),
        handled(9, 5, (1, 2), (4.0, 6.0, 7.0)),
        handled(9, 4, (1, 2), (0.0, 3.0, 4.0)),
        handled(9, 2, (1, 2), (0.5, 1.0, 2.0)),
        handled(9, 8, (2, 3), (4.0, 9.0, 9.5)),
        handled(9, 7, (2, 3), (3.5, 9.0, 9.5)),
        handled(9, 6, (2, 4), (3.5, 5.0, 6.0)),
    )
    shown = [(int(span.edge, 16), int(span.parent or "0", 16), span.depth) for span in trace.spans]
    assert shown == [(4, 0, 1), (6, 4, 2), (7, 4, 2), (8, 4, 2), (2, 0, 1), (5, 0, 1)]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ((0.0, 1.0, 9.0), (0.0, 2.0, 5.0)),  # it had begun later, and ended earlier
        ((0.0, 2.0, 9.0), (1.0, 2.0, 5.0)),  # it had begun with the other, and arrived later
        ((1.0, 1.0, 9.0), (0.0, 2.0, 5.0)),
    ],
)
def test_the_span_that_had_begun_last_is_the_parent_whenever_it_ended(one: Times, other: Times) -> None:
    rows = [handled(9, 2, (1, 2), one), handled(9, 3, (1, 2), other), handled(9, 4, (2, 4), (6.0, 7.0, 8.0))]
    for given_rows in (rows, rows[::-1]):
        trace = joined(emitted(9, 0.0), *given_rows)
        assert {span.edge: span.parent for span in trace.spans}[f"{4:016x}"] == f"{3:016x}"


def test_a_span_of_a_cycle_is_not_below_itself() -> None:
    trace = joined(
        emitted(9, 0.0),
        handled(9, 2, (3, 2), (5.0, 1.0, 2.0)),
        handled(9, 3, (2, 3), (5.0, 2.0, 3.0)),
    )
    shown = {span.component: (span.parent, span.depth) for span in trace.spans}
    assert sorted(depth for _, depth in shown.values()) == [1, 2]
    assert trace.notes in (("spans are missing here, of count",), ("spans are missing here, of split",))


def test_the_way_that_took_longest_ends_last_and_need_not_begin_last() -> None:
    trace = joined(
        emitted(9, 0.0),
        handled(9, 2, (1, 2), (0.0, 1.0, 8.0)),
        handled(9, 3, (1, 3), (0.0, 5.0, 6.0)),
        settled(9, 9.0),
    )
    assert [step.component for step in trace.path] == ["split", "split", "split", ""]


def test_steps_that_clocks_put_into_another_order_are_moved_together() -> None:
    trace = joined(
        emitted(9, 0.0),
        handled(9, 2, (1, 2), (-1.0, 2.0, 6.0)),
        handled(9, 3, (2, 3), (4.0, 3.0, 12.0)),
        settled(9, 10.0),
    )
    assert [(step.kind, step.component, step.seconds) for step in trace.path] == [
        ("send", "split", 0.0),
        ("wait", "split", 2.0),
        ("execute", "split", 2.0),
        ("send", "count", 0.0),
        ("wait", "count", 0.0),
        ("execute", "count", 6.0),
        ("ack", "", 0.0),
    ]


times = st.tuples(*[st.floats(-1.0, 20.0)] * 3).map(sorted)
tasks = st.integers(1, 4)


@given(st.lists(st.tuples(tasks, tasks, times, st.floats(0, 0.5)), max_size=25), st.floats(0, 20))
def test_the_steps_add_up_whatever_the_rows_are(spans: list[tuple[int, int, list[float], float]], end_s: float) -> None:
    """Also where clocks are wrong, tasks send to themselves, and rows are missing."""
    rows = [
        handled(9, edge + 1, (source, task), (at[0], at[1], at[2]), error_s=error_s)
        for edge, (source, task, at, error_s) in enumerate(spans)
    ]
    trace = joined(emitted(9, 0.0), *rows, settled(9, end_s))
    assert len(trace.spans) == len(spans)
    assert sum(step.seconds for step in trace.path) == pytest.approx(trace.complete_s)
    assert all(step.seconds >= 0 for step in trace.path)
    depths = {span.edge: span.depth for span in trace.spans}
    assert all(span.depth == (depths[span.parent] + 1 if span.parent else 1) for span in trace.spans)
