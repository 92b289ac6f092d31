"""What processes keep of sampled trees, the clocks of other processes, and rows joined into trees."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiostorm.metrics import (
    EMITTED,
    HANDLED,
    SETTLED,
    SPLIT,
    ClockEstimate,
    PlacedRow,
    SpanRing,
    Trace,
    joined_traces,
    mask_of,
)

NAMES = {1: "spout", 2: "split", 3: "count", 4: "store"}


@pytest.mark.parametrize(("one_in", "bits"), [(1, 0), (2, 1), (1024, 10), (16_384, 14), (20_000, 14), (0, 22)])
def test_about_one_root_in_so_many_has_the_bits(one_in: int, bits: int) -> None:
    mask = mask_of(one_in)
    assert mask.bit_count() == bits
    assert mask < 1 << 63  # the top bit says whether a tree has a single message
    assert mask & ((1 << 40) - 1) == 0  # the low bits choose the acker


@given(st.integers(1, 20), st.lists(st.sampled_from(["add", "read"]), max_size=200), st.integers(1, 7))
def test_a_reader_gets_each_row_once_in_order_unless_the_ring_has_replaced_it(
    size: int, steps: list[str], most: int
) -> None:
    ring, kept, asked = SpanRing(size), deque[int](maxlen=size), 0
    last_read = -1
    for number, step in enumerate(steps):
        if step == "add":
            ring.add((number,))
            kept.append(number)
            continue
        rows, asked = ring.after(asked, most)
        got = [int(row[0]) for row in rows]
        assert got == [n for n in kept if n > last_read][:most]
        last_read = got[-1] if got else last_read
    assert [row[0] for row in ring.rows()] == list(kept)


@given(
    st.floats(-1e6, 1e6),
    st.lists(st.tuples(st.floats(0, 1e5), st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=30),
)
def test_the_estimate_of_a_clock_is_as_wrong_as_it_says_at_most(
    offset_s: float, answers: list[tuple[float, float, float]]
) -> None:
    clock = ClockEstimate()
    for asked_s, out_s, back_s in answers:
        clock.sample(asked_s, asked_s + out_s + back_s, asked_s + out_s + offset_s)
        assert abs(clock.offset_s - offset_s) <= clock.error_s + 1e-6
    assert clock.error_s == pytest.approx(min(out_s + back_s for _, out_s, back_s in answers) / 2, abs=1e-6)


def emitted(root: int, at_s: float, messages: int = 1, failures: int = 0, before: int = 0) -> PlacedRow:
    return PlacedRow("local", 0.0, 0.0, (EMITTED, root, 1, at_s, 1e9 + at_s, messages, failures, before))


def handled(root: int, edge: int, way: tuple[int, int], times: tuple[float, float, float], **of: Any) -> PlacedRow:
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
