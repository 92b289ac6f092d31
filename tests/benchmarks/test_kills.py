"""The benchmark of killed nodes: what it takes for what, from looks and times that are given."""

from __future__ import annotations

from pathlib import Path

import pytest

from aiostorm.cluster.nimbus import AssignmentRecord, ParentRecord
from benchmarks.kills.daemons import silence
from benchmarks.kills.nodes import below, silences_after, summary, written_by_task
from benchmarks.kills.timeline import STEPS, Look, Timeline, victim

BEFORE = ParentRecord("a", 1, process="1", state="ACTIVE")
HERE = AssignmentRecord(1, "a", ("a", "b"))
MOVED = AssignmentRecord(1, "c", ("c", "b"))
STARTED = {"c": frozenset({"parent", "worker-1"}), "b": frozenset({"worker-2"})}


def test_each_step_of_a_lost_parent_is_dated_once() -> None:
    timeline = Timeline("a", BEFORE, lost_parent=True)
    after = ParentRecord("c", 1, process="2", state="STARTING")
    looks = [
        Look(supervisor=True, assignment=HERE, parent=BEFORE, noted={"b": frozenset({"worker-2"})}),
        Look(supervisor=False, assignment=HERE, parent=None, noted={"b": frozenset({"worker-2"})}),
        Look(supervisor=False, assignment=MOVED, parent=None, noted={"b": frozenset({"worker-2"})}),
        Look(supervisor=False, assignment=MOVED, parent=None, noted=STARTED),
        Look(supervisor=False, assignment=MOVED, parent=after, noted=STARTED),
        Look(
            supervisor=True, assignment=MOVED, parent=ParentRecord("c", 1, process="2", state="ACTIVE"), noted=STARTED
        ),
    ]
    for at_s, look in enumerate(looks):
        assert not timeline.is_over
        timeline.see(float(at_s), look)
    assert timeline.is_over
    assert timeline.at_s == dict(zip(STEPS, (1.0, 2.0, 3.0, 4.0, 5.0), strict=True))


@pytest.mark.parametrize(
    "parent",
    [
        ParentRecord("c", 1, process="1", state="STARTING"),
        ParentRecord("c", 1, process="1", state="ACTIVE", degraded="worker-1: has not joined"),
        None,
    ],
)
def test_a_topology_that_does_not_run_runs_nowhere(parent: ParentRecord | None) -> None:
    timeline = Timeline("a", ParentRecord("c", 1, process="1", state="ACTIVE"), lost_parent=False)
    timeline.see(1.0, Look(supervisor=False, assignment=MOVED, parent=parent, noted=STARTED))
    assert not timeline.is_over


def test_a_parent_that_lives_runs_elsewhere_when_the_lost_workers_are_started() -> None:
    parent = ParentRecord("c", 1, process="1", state="ACTIVE")
    timeline = Timeline("a", parent, lost_parent=False)
    before = AssignmentRecord(1, "c", ("a", "b"))
    without = {"c": frozenset({"parent"}), "b": frozenset({"worker-2"})}
    timeline.see(0.1, Look(supervisor=False, assignment=before, parent=parent, noted=without))
    timeline.see(8.6, Look(supervisor=False, assignment=MOVED, parent=parent, noted=without))
    assert not timeline.is_over
    timeline.see(9.0, Look(supervisor=False, assignment=MOVED, parent=parent, noted=STARTED))
    assert timeline.at_s["running elsewhere"] == 9.0


def test_the_node_to_kill() -> None:
    assert victim(HERE, parent=True) == "a"
    assert victim(HERE, parent=False) == "b"
    assert victim(AssignmentRecord(1, "a", ("d", "c")), parent=False) == "c"
    assert victim(AssignmentRecord(1, "a", ("a", "a")), parent=False) is None


def test_silence_counts_from_the_kill_and_to_the_end() -> None:
    times = [1.0, 2.0, 2.5, 6.0]
    assert silence(times, 2.1, 6.0) == 3.5
    assert silence(times, 2.2, 3.0) == 0.5
    assert silence(times, 6.5, 10.0) == 3.5
    assert silence([], 1.0, 4.0) == 3.0


def test_silences_after_kills_end_with_the_next_kill_and_with_the_output() -> None:
    times = [1.0, 1.5, 5.0, 5.5, 6.0]
    assert silences_after([1.2, 5.2], times) == [3.5, 0.5]
    assert silences_after([], times) == []
    assert silences_after([7.0], times) == [0.0]


def test_all_descendants_of_a_process() -> None:
    assert below(2, {2: 1, 3: 2, 4: 3, 5: 1, 6: 4}) == {3, 4, 6}
    assert below(5, {2: 1}) == set()


def test_lines_of_each_task_in_order(tmp_path: Path) -> None:
    (tmp_path / "written-0.log").write_text("1 1 77 2.5\n0 0 77 1.5\n5 25 7")
    (tmp_path / "written-1.log").write_text("2 4 78 3.0\n")
    assert written_by_task(tmp_path) == [[1.5, 2.5], [3.0]]


def test_summary() -> None:
    assert summary([1.0, 4.0, 2.00049]) == {"p50": 2.0, "most": 4.0, "all": [1.0, 4.0, 2.0]}
    assert summary([]) == {"all": []}
