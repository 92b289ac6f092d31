"""How time flows through a topology, and which windows could never fire or would be lost."""

from __future__ import annotations

from typing import Any

import pytest

from aiostorm.topology import Config, Topology
from aiostorm.topology.retention import lossy_windows, retention_problems
from aiostorm.topology.streams import StreamId
from aiostorm.topology.time_flow import NO_ROLE, LaterRows, TimeRole, Windowing, time_flow
from aiostorm.topology.topology import ComponentSpec, Subscription

EVENTS, CLOCK = TimeRole(Windowing.EVENTS), TimeRole(Windowing.CLOCK)
COUNTS, KEEPS = TimeRole(Windowing.COUNTS), TimeRole(Windowing.COUNTS, keeps=True)
EMITS = TimeRole(emits_watermarks=True)


def none() -> Any:
    raise AssertionError("nothing runs")


def topology(*graph: tuple[str, TimeRole, str], tasks: int = 1, config: Any = None) -> Topology:
    """Of (id, role, ids of its sources): without sources it is a spout."""
    specs = {}
    for name, role, sources in graph:
        inputs = tuple(Subscription(StreamId(source), name, "shuffle", (), none) for source in sources)
        kind: Any = "bolt" if sources else "spout"
        specs[name] = ComponentSpec(name, kind, none, tasks, inputs, config=config or {}, time=role)
    return Topology(specs)


def flow_of(*graph: tuple[str, TimeRole, str], cut: str = "") -> Any:
    """`cut`: the edge of two components that closes a cycle."""
    edges = frozenset({(StreamId(cut[0]), cut[1])} if cut else ())
    return time_flow(topology(*graph), edges)


@pytest.mark.parametrize(
    ("role", "loses", "uses"),
    [
        (NO_ROLE, False, False),
        (COUNTS, True, False),
        (CLOCK, True, True),
        (EVENTS, True, True),
        (KEEPS, False, True),
        (TimeRole(Windowing.EVENTS, keeps=True), False, True),
    ],
)
def test_what_a_role_needs_and_loses(role: TimeRole, loses: bool, uses: bool) -> None:
    assert (role.loses_windows, role.uses_time) == (loses, uses)


def test_a_component_has_no_role_unless_it_has_one() -> None:
    assert TimeRole() == NO_ROLE == TimeRole(Windowing.NONE, False, False, None, None, LaterRows.NONE, False, False)
    assert (NO_ROLE.follow, NO_ROLE.resumes) == (None, "")


def test_time_is_sent_by_all_that_is_before_windows() -> None:
    flow = flow_of(("s", NO_ROLE, ""), ("t", NO_ROLE, ""), ("p", NO_ROLE, "s"), ("w", CLOCK, "p"), ("z", NO_ROLE, "wt"))
    assert (flow.sends_time, flow.kept, flow.stamped) == ({"s", "p"}, frozenset(), False)
    assert [name for name in "stpwz" if flow.receives_time(name)] == ["s", "p", "w"]


def test_before_windows_that_keep_rows_nothing_waits_for_acks() -> None:
    flow = flow_of(("s", NO_ROLE, ""), ("t", NO_ROLE, ""), ("p", NO_ROLE, "s"), ("w", KEEPS, "p"), ("v", CLOCK, "t"))
    assert (flow.kept, flow.sends_time) == ({"s", "p"}, {"s", "p", "t"})


def test_a_component_forwards_watermarks_if_all_its_inputs_send_them() -> None:
    flow = flow_of(
        ("s", EMITS, ""),
        ("t", NO_ROLE, ""),
        ("p", NO_ROLE, "s"),
        ("q", NO_ROLE, "p"),
        ("m", NO_ROLE, "st"),
        ("c", COUNTS, "s"),
        ("e", EVENTS, "t"),
        ("f", NO_ROLE, "qe"),
    )
    assert flow.sends_watermarks == {"s", "p", "q", "e", "f"}


def test_an_edge_that_closes_a_cycle_counts_for_nothing() -> None:
    graph = ("s", EMITS, ""), ("a", NO_ROLE, "sb"), ("b", NO_ROLE, "a"), ("w", EVENTS, "b")
    assert flow_of(*graph, cut="ba").sends_watermarks == {"s", "a", "b", "w"}
    assert flow_of(*graph).sends_watermarks == {"s", "w"}
    assert flow_of(*graph).sends_time == {"s", "a", "b"}, "and in a cycle the search ends"
    assert flow_of(("s", NO_ROLE, ""), ("a", NO_ROLE, "sw"), ("w", CLOCK, "a"), cut="wa").sends_time == {"s", "a"}


def test_rows_are_stamped_and_followed_if_one_component_needs_it() -> None:
    flow = flow_of(("s", NO_ROLE, ""), ("w", TimeRole(Windowing.EVENTS, stamped=True, follow="rows"), "s"))
    assert (flow.stamped, flow.follows("w"), flow.follows("s")) == (True, True, False)


# -- windows that would be lost, or never fire -------------------------------------------------------------------------


def test_a_source_that_resumes_loses_the_windows_behind_it() -> None:
    resumes = TimeRole(resumes="progress=")
    graph = topology(
        ("s", resumes, ""), ("t", NO_ROLE, ""), ("p", NO_ROLE, "st"), ("w", EVENTS, "p"), ("v", EVENTS, "t"),
        ("k", KEEPS, "p"), ("x", COUNTS, "w"),
    )  # fmt: skip
    [problem] = lossy_windows(graph.components)
    assert problem.startswith("spout 's': with progress= acked messages are not read again, but bolts 'w', 'x' ")
    [problem] = lossy_windows(topology(("s", resumes, ""), ("w", EVENTS, "s")).components)
    assert "but bolt 'w' downstream" in problem
    assert lossy_windows(topology(("s", NO_ROLE, ""), ("w", EVENTS, "s")).components) == []
    cycle = topology(("s", resumes, ""), ("a", NO_ROLE, "sb"), ("b", NO_ROLE, "a"))
    assert lossy_windows(cycle.components) == []


@pytest.mark.parametrize(("kept_ms", "timeouts", "refused"), [(29_999, True, 0), (30_000, True, 1), (30_000, False, 0)])
def test_rows_are_kept_for_less_time_than_a_message_has(kept_ms: int, timeouts: bool, refused: int) -> None:
    graph = topology(("s", NO_ROLE, ""), ("w", TimeRole(Windowing.CLOCK, keeps=True, kept_ms=kept_ms), "s"))
    found = retention_problems(graph, Config(message_timeout_s=30, enable_message_timeouts=timeouts))
    assert len(found) == refused
    assert retention_problems(topology(("s", NO_ROLE, ""), ("w", CLOCK, "s")), None) == []


@pytest.mark.parametrize(
    ("between", "spouts", "refused"),
    [
        (TimeRole(anchors=True), "s", 1),  # by two ways from one spout, whose messages count once
        (TimeRole(anchors=True), "st", 0),
        (NO_ROLE, "s", 0),  # what it emits may be without a message
        (TimeRole(anchors=True, emits_watermarks=True), "s", 0),
    ],
)
def test_windows_need_two_open_messages_that_reach_them(between: TimeRole, spouts: str, refused: int) -> None:
    kept = TimeRole(Windowing.EVENTS, keeps=True, later=LaterRows.SOME)
    graph = topology(
        *((name, NO_ROLE, "") for name in spouts), ("a", between, spouts), ("b", between, spouts), ("w", kept, "ab")
    )
    assert len(retention_problems(graph, Config(max_spout_pending=1))) == refused
    assert retention_problems(graph, Config(max_spout_pending=1, acker_executors=0)) == []
    assert retention_problems(graph, Config(max_spout_pending=2)) == []
