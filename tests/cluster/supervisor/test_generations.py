"""Slots of a supervisor when a topology is rebalanced: the processes of one generation follow those of another."""

from __future__ import annotations

from aiostorm.cluster.supervisor.slots import (
    END_S,
    Kill,
    Slots,
    Start,
    Terminate,
)
from aiostorm.cluster.supervisor.wanted import Assigned, Parent, Wanted

from .test_slots import BOTH, OTHER, PARENT, WORKER, kinds, running, wanted


def test_a_rebalance_in_order() -> None:
    slots = running()
    parents = {"words": Parent(1, pid=1)}
    assert slots.see(wanted(parents=parents), 1.0) == []
    three = BOTH | {"worker-2"}
    assert kinds(slots.see(wanted(2, three, parents=parents), 2.0)) == [(Terminate, PARENT)]
    assert slots.tick(500.0) == [], "it drains as long as it likes"
    assert slots.see(wanted(2, three), 500.0) == [
        Terminate(WORKER, "generation 2 follows, and its parent has ended"),
    ], "the record was deleted; the process still runs: no new worker"
    assert slots.due_s == 500.0 + END_S
    assert set(slots.ended(PARENT, 0, 501.0)) == {Start(PARENT, 2), Start(OTHER, 2)}
    assert slots.ended(WORKER, 0, 502.0) == [Start(WORKER, 2)]


def test_a_parent_that_was_moved_drains_too() -> None:
    slots = running()
    here = frozenset({"worker-1"})
    assert kinds(slots.see(wanted(here=here, parents={"words": Parent(1, pid=1)}), 1.0)) == [(Terminate, PARENT)]
    assert slots.tick(100.0) == []
    slots.see(wanted(here=here, parents={"words": Parent(1)}), 100.0)  # the record is that of the next one
    assert slots.due_s == 100.0 + END_S


def test_an_old_parent_without_a_record_has_a_limit() -> None:
    slots = running()
    parents = {"words": Parent(1, pid=1)}
    slots.see(wanted(2, parents=parents), 1.0)
    slots.see(wanted(2), 100.0)  # its session was lost: it is frozen
    assert set(kinds(slots.tick(100.0 + END_S))) == {(Kill, PARENT), (Kill, WORKER)}
    assert slots.ended(PARENT, -9, 111.0)[0] == Start(PARENT, 2)


def test_workers_wait_for_a_parent_of_another_generation_elsewhere() -> None:
    slots = Slots()
    here = frozenset({"worker-1"})
    assert slots.see(wanted(2, here, parents={"words": Parent(1)}), 0.0) == []
    assert slots.see(wanted(2, here), 1.0) == [Start(WORKER, 2)]
    slots.started(WORKER, 1, 1.0)
    assert slots.see(wanted(2, here, parents={"words": Parent(2)}), 2.0) == []


def test_a_rebalance_that_keeps_processes_ends_only_those_that_are_not_here_any_more() -> None:
    slots = Slots()
    here = frozenset({"parent", "worker-1", "worker-2"})
    for key in (PARENT, WORKER, OTHER):
        slots.adopt(key, 7, 1)
    slots.see(Wanted({"words": Assigned(1, here)}, parents={"words": Parent(1, pid=7)}), 0.0)
    less = {"words": Assigned(2, here - {"worker-2"}, renewed=1)}
    assert slots.see(Wanted(less, parents={"words": Parent(1, pid=7)}), 1.0) == [], "it is drained before"
    assert slots.see(Wanted(less, parents={"words": Parent(2, pid=7, renewed=1)}), 2.0) == [
        Terminate(OTHER, "generation 2 follows, and its parent has ended")
    ]
    more = {"words": Assigned(3, here, renewed=1)}
    slots.ended(OTHER, 0, 3.0)
    assert slots.see(Wanted(more, parents={"words": Parent(3, pid=7, renewed=1)}), 5.0) == [Start(OTHER, 3)]
