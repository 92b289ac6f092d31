"""Bugs planted into the daemons of a cluster, one at a time: the world of clusters finds each."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace

from aiostorm.cluster.coordination import Coordination, Create, Operation, Put, Term, leadership
from aiostorm.cluster.coordination.polled import PolledCoordination
from aiostorm.cluster.coordination.tree import Tree
from aiostorm.cluster.nimbus import ParentRecord, Setting, TopologyRecord, joining, nodes, planning
from aiostorm.cluster.nimbus import nimbus as nimbus_module
from aiostorm.cluster.nimbus.trials import Trials
from aiostorm.cluster.submitted import parent, registration, trial
from aiostorm.cluster.submitted.registration import Registration
from aiostorm.cluster.submitted.updates import Updates
from aiostorm.cluster.supervisor import SlotNote
from aiostorm.cluster.supervisor.slots import Key, Slots
from aiostorm.cluster.supervisor.wanted import Rest

from ..cluster.processes import SimLaunching, SimNotes
from ..cluster.world import ClusterResult, run
from .planting import Plant, first_that_finds, replaced

SEEDS = 50
"""Enough for each: a seed is a cluster of ten processes, and takes a few seconds."""


@contextlib.contextmanager
def a_missing_supervisor_is_given_up_at_once() -> Iterator[None]:
    """Nothing waits for it to come back."""
    with replaced(nodes, "REASSIGN_S", 0.5), replaced(nimbus_module, "REASSIGN_S", 0.5):
        yield


@contextlib.contextmanager
def what_ends_is_not_started_again() -> Iterator[None]:
    """A process that was killed has ended."""

    def rest_after(self: Slots, key: Key, code: int | None) -> Rest | None:
        return real(self, key, 0)

    real = Slots.rest_after
    with replaced(Slots, "rest_after", rest_after):
        yield


@contextlib.contextmanager
def a_parent_outlives_its_session() -> Iterator[None]:
    """Its record is no ephemeral node."""
    real = registration.Create

    def create(path: str, value: bytes = b"", ephemeral: bool = False) -> Create:
        return real(path, value)

    with replaced(registration, "Create", create):
        yield


@contextlib.contextmanager
def a_killed_topology_stays() -> Iterator[None]:
    """Its records are not deleted when its parent has ended."""

    def planned(all_of_it: planning.Seen) -> planning.Decisions:
        return replace(planning.plan(all_of_it), end=frozenset())

    with replaced(nimbus_module, "plan", planned):
        yield


@contextlib.contextmanager
def a_parent_does_not_say_how_it_is() -> Iterator[None]:
    """Its record stays as it was first."""

    async def update(self: Registration, change: Callable[[ParentRecord], ParentRecord]) -> None:
        return

    with replaced(Registration, "update", update):
        yield


@contextlib.contextmanager
def workers_are_notified_of_their_first_parent_only() -> Iterator[None]:
    """A parent that goes on at another node is not found."""
    real = SimLaunching.note_parents

    async def note(self: SimLaunching, addresses: Mapping[str, str]) -> None:
        known = {topology for supervisor, topology in self.addresses if supervisor == self.supervisor}
        await real(self, {topology: at for topology, at in addresses.items() if topology not in known})

    with replaced(SimLaunching, "note_parents", note):
        yield


@contextlib.contextmanager
def what_does_not_run_is_not_taken_back() -> Iterator[None]:
    """A plan that has failed stays."""

    async def take_back(*anything: object) -> None:
        return

    with replaced(trial, "take_back", take_back):
        yield


@contextlib.contextmanager
def what_ends_its_parent_is_not_taken_back() -> Iterator[None]:
    """The leader leaves it to the parent."""

    def to_take_back(*anything: object) -> dict[str, str]:
        return {}

    with replaced(Trials, "to_take_back", to_take_back):
        yield


@contextlib.contextmanager
def a_lost_node_keeps_its_parents() -> Iterator[None]:
    """Only workers are started elsewhere."""
    real = planning.plan

    def planned(all_of_it: planning.Seen) -> planning.Decisions:
        found = real(all_of_it)
        kept = {
            name: after
            if name not in all_of_it.assignments
            else replace(after, parent=all_of_it.assignments[name].parent)
            for name, after in found.write.items()
        }
        return replace(
            found, write={name: each for name, each in kept.items() if each != all_of_it.assignments.get(name)}
        )

    with replaced(nimbus_module, "plan", planned):
        yield


@contextlib.contextmanager
def what_does_not_stay_alive_is_not_moved() -> Iterator[None]:
    """It is started again and again on a node on which it cannot run."""
    with replaced(planning.Failed, "is_failing", lambda self, process, on: False):
        yield


@contextlib.contextmanager
def a_node_takes_part_while_the_parent_starts() -> Iterator[None]:
    """Nimbus rebalances whatever is there."""

    def settled(now: planning.Seen, parents: Mapping[str, ParentRecord], name: str) -> bool:
        return name in now.assignments and now.topologies[name].wanted != "KILLED"

    with replaced(joining, "is_settled", settled):
        yield


@contextlib.contextmanager
def what_is_pinned_moves_anywhere() -> Iterator[None]:
    """Labels count when a worker is placed, and not when it moves."""
    with replaced(nodes.Nodes, "with_labels", lambda self, several, labels: list(several)):
        yield


@contextlib.contextmanager
def a_parent_knows_no_pins() -> Iterator[None]:
    """It places tasks on any of its workers."""
    with replaced(parent, "pinned_workers", lambda topology, assignment: {}):
        yield


@contextlib.contextmanager
def sessions_are_renewed_by_the_wall_clock() -> Iterator[None]:
    """When it is set back, a client believes that it has just renewed its session."""

    async def poll(self: PolledCoordination) -> None:
        clock = self._clock
        by_wall = SimpleNamespace(monotonic=clock.now, sleep=clock.sleep)
        with replaced(self, "_clock", by_wall):
            await real(self)

    real = PolledCoordination.poll
    with replaced(PolledCoordination, "poll", poll):
        yield


@contextlib.contextmanager
def a_candidate_does_not_know_its_own_node() -> Iterator[None]:
    """One that was chosen, and got no answer, waits for the end of a leader: for its own."""

    async def own_term(coordination: Coordination) -> Term | None:
        return None

    with replaced(leadership, "_own_term", own_term):
        yield


@contextlib.contextmanager
def a_suspended_leader_writes() -> Iterator[None]:
    """The store lets a client go on whose session has ended, and neither the term nor versions are checked."""

    async def commit(self: Term, operations: Sequence[Operation]) -> tuple[int, ...]:
        puts = [replace(each, version=None) if isinstance(each, Put) else each for each in operations]
        return await self._coordination.commit(puts)

    def apply(self: Tree, operations: Sequence[Operation], session: int) -> tuple[int, ...]:
        self.sessions.setdefault(session, float("inf"))
        return real(self, operations, session)

    real = Tree.apply
    with replaced(Term, "commit", commit), replaced(Tree, "apply", apply):
        yield


@contextlib.contextmanager
def a_process_is_started_that_could_not_be_noted() -> Iterator[None]:
    """A full disk is no reason not to start it."""

    async def write(self: SimNotes, note: SlotNote) -> None:
        with contextlib.suppress(OSError):
            await real(self, note)

    real = SimNotes.write
    with replaced(SimNotes, "write", write):
        yield


@contextlib.contextmanager
def a_full_disk_is_for_ever() -> Iterator[None]:
    """A topology that could not write its snapshots is not started again."""
    with replaced(parent, "AGAIN_S", 1e9):
        yield


@contextlib.contextmanager
def a_later_parent_begins_with_the_first_settings() -> Iterator[None]:
    """It takes over only what is changed after it has begun."""

    def begin(self: Updates, topology: TopologyRecord) -> Mapping[str, Setting]:
        real(self, topology)
        return topology.config

    real = Updates.begin
    with replaced(Updates, "begin", begin):
        yield


PLANTED: dict[str, Plant] = {
    bug.__name__: bug
    for bug in (
        a_missing_supervisor_is_given_up_at_once,
        what_ends_is_not_started_again,
        a_parent_outlives_its_session,
        a_killed_topology_stays,
        a_parent_does_not_say_how_it_is,
        workers_are_notified_of_their_first_parent_only,
        a_lost_node_keeps_its_parents,
        what_does_not_stay_alive_is_not_moved,
        what_does_not_run_is_not_taken_back,
        what_ends_its_parent_is_not_taken_back,
        a_node_takes_part_while_the_parent_starts,
        what_is_pinned_moves_anywhere,
        a_parent_knows_no_pins,
        sessions_are_renewed_by_the_wall_clock,
        a_candidate_does_not_know_its_own_node,
        a_suspended_leader_writes,
        a_process_is_started_that_could_not_be_noted,
        a_full_disk_is_for_ever,
        a_later_parent_begins_with_the_first_settings,
    )
}

FIRST_LOOK: dict[str, int] = {
    "a_missing_supervisor_is_given_up_at_once": 2,
    "what_ends_is_not_started_again": 3,
    "a_parent_outlives_its_session": 2,
    "workers_are_notified_of_their_first_parent_only": 4,
    "a_lost_node_keeps_its_parents": 4,
    "what_ends_its_parent_is_not_taken_back": 2,
    "a_node_takes_part_while_the_parent_starts": 12,
    "what_is_pinned_moves_anywhere": 6,
    "a_parent_knows_no_pins": 6,
    "sessions_are_renewed_by_the_wall_clock": 17,
    "a_candidate_does_not_know_its_own_node": 20,
    "a_suspended_leader_writes": 24,
    "a_process_is_started_that_could_not_be_noted": 12,
    "a_full_disk_is_for_ever": 29,
}
"""The seed that found it the last time, where it is not 0."""


def found_by(planted: Plant, first: int = 0) -> ClusterResult | None:
    """The first seed that finds it."""
    return first_that_finds(run, planted, first, SEEDS)
