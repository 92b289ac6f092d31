"""Planning: which supervisor runs which processes of which topology. Pure: what is seen in, what is to be written out.

    topologies, assignments, supervisors, who is missing for how long ─► plan ─► assignments to write, and to delete
                                                                            └─► who waits, and why

1. No supervisor gets more workers than it has slots, memory and cores for (see capacity.py). Parents need no slot; they
   are spread, too.
2. A new topology is placed as a whole, or waits; with `fewer` it may get fewer workers than it asks for, at least one.
   Topologies are placed in the order of their submission. A later one that fits does not wait for an earlier one that
   does not: so large ones may wait long in a full cluster, and small ones do not wait for those that never fit.
3. A topology's workers are spread over the supervisors: those that have the fewest of it, then the most free slots.
4. A supervisor that is missing keeps its processes for REASSIGN_S: perhaps it is just restarted, and they live without
   it. After that each of them moves to where a slot is free. What finds none stays assigned, and moves later.
5. A rebalance (another generation) makes the topology even again over all supervisors, with as few moves as that takes.
   A node that joins gets work with the next rebalance. Processes that stay where they are are kept, unless the code is
   replaced, or the parent moves.
6. A process that does not stay alive where it is moves: a worker to a node where no worker of its topology has failed,
   a parent to one where its topology's parent has not. If there is none it stays: the fault is the topology's. Nodes on
   which many fail are used last (see failing.py).
7. But for 4, 5 and 6 no process moves whose supervisor is there.
8. A killed topology keeps its slots until its parent has ended; then its assignment and its record are deleted.
9. The same input gives the same plan. What a plan frees is for the next one: planning again after each write comes to
   an end, and then nothing more changes.

From: Storm's EvenScheduler (slots in turns over the nodes) and Nimbus.mkAssignments. 2 departs from it: Storm starts a
topology with as few slots as there are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heapreplace
from typing import Final

from .capacity import SLOT_ONLY, Capacity, Demand
from .failing import Failed, left_out
from .records import PARENT_PROCESS, AssignmentRecord, SupervisorRecord, TopologyRecord, worker_names

REASSIGN_S: Final = 8.5
"""How long a supervisor may be missing before its processes move. Longer than any lease of its own."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What the leader sees. `missing_s`: of supervisors that are not there, for how long as far as this leader knows.

    `parents`: the names of topologies whose parent runs. `unread`: those of which something could not be read; they are
    left as they are.
    """

    topologies: Mapping[str, TopologyRecord]
    assignments: Mapping[str, AssignmentRecord]
    supervisors: Mapping[str, SupervisorRecord]
    missing_s: Mapping[str, float] = field(default_factory=dict)
    parents: frozenset[str] = frozenset()
    unread: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Decisions:
    """`write`: new and changed assignments. `end`: names whose assignment, if any, and record are deleted.

    `waiting`: name → why it has no assignment, or processes without a supervisor. `stuck`: those of these that have a
    process which does not stay alive, and no other node for it.
    """

    write: Mapping[str, AssignmentRecord]
    end: frozenset[str]
    waiting: Mapping[str, str]
    stuck: frozenset[str] = frozenset()


def plan(seen: Seen) -> Decisions:
    """What the leader is to write now."""
    return _Planning(seen).decisions()


class _Planning:
    """One round: `capacity` and `_parents_on` count what is placed so far."""

    def __init__(self, seen: Seen) -> None:
        self._seen = seen
        self.capacity = Capacity(seen.supervisors)
        self._left_out = left_out(seen.supervisors)
        self._parents_on: Counter[str] = Counter()
        self._short: set[str] = set()  # too few slots
        self._waiting: dict[str, str] = {}
        self._stuck: set[str] = set()
        for name, assignment in seen.assignments.items():
            self.capacity.take(assignment.workers, self._demand(name))
            self._parents_on[assignment.parent] += 1

    def decisions(self) -> Decisions:
        seen = self._seen
        ended = {
            name
            for name in {*seen.topologies, *seen.assignments}
            if name not in seen.parents | seen.unread
            and (name not in seen.topologies or seen.topologies[name].wanted == "KILLED")
        }
        for name in ended & seen.assignments.keys():
            self._take_out(name, seen.assignments[name])
        live = [
            name
            for name, topology in seen.topologies.items()
            if name not in ended | seen.unread and topology.wanted != "KILLED"
        ]
        live.sort(key=lambda name: (seen.topologies[name].submitted_s, name))
        write: dict[str, AssignmentRecord] = {}
        # First those that run: what is free after them is for those that wait.
        for name in sorted(live, key=lambda name: name not in seen.assignments):
            before = seen.assignments.get(name)
            after = self._first(name) if before is None else self._again(name, before)
            if after is not None and after != before:
                write[name] = after
        # Said when all is placed: what was free before is not any more.
        short = {name: self._too_few(name, write.get(name, seen.assignments.get(name))) for name in self._short}
        return Decisions(write, frozenset(ended), {**short, **self._waiting}, frozenset(self._stuck))

    # -- one topology --------------------------------------------------------------------------------------------------

    def _first(self, name: str) -> AssignmentRecord | None:
        """Place a topology that has no assignment; None: it waits."""
        topology = self._seen.topologies[name]
        allowed = self._allowed(topology)
        demand = self._demand(name)
        free = self._free(allowed, demand)
        if not free or (free < topology.workers and not topology.fewer):
            self._short.add(name)
            return None
        slots = _FreeSlots(self.capacity, demand, self._left_out, allowed, Counter())
        workers = tuple(slots.take() for _ in range(min(topology.workers, free)))
        return AssignmentRecord(topology.generation, self._take_parent(allowed), workers)

    def _again(self, name: str, before: AssignmentRecord) -> AssignmentRecord:
        """Move what must move, and what a rebalance makes even."""
        topology = self._seen.topologies[name]
        allowed = self._allowed(topology)
        self._take_out(name, before)
        count = self._wanted(name, before, allowed)
        rebalanced = count is not None
        # If its supervisor is missing since a moment only, it lives on, or that supervisor comes back.
        kept = [on for on in before.workers if self._stays(on, allowed, rebalanced=rebalanced)]
        if count is None:
            count = len(before.workers)
        else:
            kept = self._evened(self._demand(name), kept, allowed, count)
        workers = self._filled(name, before.workers, kept, allowed, count)
        parent = before.parent
        if self._stays(parent, allowed, rebalanced=rebalanced):
            self._parents_on[parent] += 1
        elif allowed:
            parent = self._take_parent(allowed)
        else:
            self._parents_on[parent] += 1
            self._waiting.setdefault(name, f"no supervisor for its parent: {self._nodes(topology)}")
        if not rebalanced:
            return self._moved(name, AssignmentRecord(before.generation, parent, workers, before.renewed), allowed)
        after = self._moved(name, AssignmentRecord(topology.generation, parent, workers, before.since), allowed)
        renewed = after.parent != before.parent or topology.renewed > before.generation
        return replace(after, renewed=0) if renewed else after

    def _moved(self, name: str, placed: AssignmentRecord, allowed: list[str]) -> AssignmentRecord:
        """Move the processes that do not stay alive where they are."""
        failed = Failed(name, self._seen.topologies[name].submitted_s, placed.generation, self._seen.supervisors)
        if not failed:
            return placed
        parent, workers, demand = placed.parent, list(placed.workers), self._demand(name)
        stuck: list[str] = []
        for index, process in enumerate(worker_names(len(workers))):
            on = workers[index]
            if not failed.is_failing(process, on):
                continue
            free = [other for other in self._others(failed, process, allowed) if self.capacity.free(other, demand)]
            if free:
                self.capacity.release((on,), demand)
                workers[index] = min(free, key=lambda to: (workers.count(to), -self.capacity.free(to, demand), to))
                self.capacity.take((workers[index],), demand)
            else:
                stuck.append(process)
        if failed.is_failing(PARENT_PROCESS, parent):
            if others := self._others(failed, PARENT_PROCESS, allowed):
                self._parents_on[parent] -= 1
                parent = self._take_parent(others)
            else:
                stuck.append(PARENT_PROCESS)
        if stuck:
            self._stuck.add(name)
            self._waiting.setdefault(name, failed.why_stuck(stuck, allowed))
        return replace(placed, parent=parent, workers=tuple(workers))

    def _others(self, failed: Failed, process: str, allowed: list[str]) -> list[str]:
        """Where a process that fails where it is may stay alive."""
        return [on for on in allowed if on not in failed.where(process) | self._left_out]

    def _wanted(self, name: str, before: AssignmentRecord, allowed: list[str]) -> int | None:
        """How many workers a rebalance gives; None: there is none to be done, or too few slots for it."""
        topology = self._seen.topologies[name]
        if topology.generation == before.generation:
            return None
        away = sum(on not in self._seen.supervisors and self._stays(on, (), rebalanced=True) for on in before.workers)
        free = self._free(allowed, self._demand(name)) + away
        if free < topology.workers and (not free or not topology.fewer):
            self._short.add(name)
            return None
        return min(topology.workers, free)

    def _filled(
        self, name: str, before: tuple[str, ...], kept: list[str], allowed: list[str], count: int
    ) -> tuple[str, ...]:
        """`count` workers: the kept ones in their places, the others where slots are free, else where they were."""
        own = Counter(kept)
        demand = self._demand(name)
        self.capacity.take(kept, demand)
        left = Counter(kept)
        places: list[str | None] = []
        for on in before:
            places.append(on if left[on] else None)
            left[on] -= 1 if left[on] else 0
        # Workers are interchangeable: with fewer than before, free places are left out.
        while len(places) > count:
            places.remove(None)
        places += [None] * (count - len(places))
        workers: list[str] = []
        homeless = 0
        slots = _FreeSlots(self.capacity, demand, self._left_out, allowed if None in places else (), own)
        for index, place in enumerate(places):
            if place is not None:
                workers.append(place)
            elif slots.are_there:
                workers.append(slots.take())
            else:
                workers.append(before[index])
                self.capacity.take((before[index],), demand)
                homeless += 1
        if homeless:
            self._waiting[name] = (
                f"{homeless} of {count} workers were on supervisors that are lost, and no slot is free: start a "
                "supervisor, or kill a topology"
            )
        return tuple(workers)

    def _evened(self, demand: Demand, kept: list[str], allowed: list[str], count: int) -> list[str]:
        """Of the kept workers those that stay when `count` are spread as evenly as slots allow."""
        own: Counter[str] = Counter()
        current = Counter(kept)
        away = [on for on in kept if on not in self._seen.supervisors][:count]
        # Deal `count` workers out as if all were new, but prefer, among equals, who has one already: then few move.
        slots = _FreeSlots(self.capacity, demand, self._left_out, allowed, own, prefer=lambda on: own[on] < current[on])
        for _ in range(count - len(away)):
            slots.take()
        self.capacity.release(own.elements(), demand)
        stay, left = [], own + Counter(away)
        for on in kept:
            if left[on]:
                left[on] -= 1
                stay.append(on)
        return stay

    # -- supervisors ---------------------------------------------------------------------------------------------------

    def _allowed(self, topology: TopologyRecord) -> list[str]:
        supervisors = self._seen.supervisors
        return sorted(name for name, each in supervisors.items() if topology.labels <= each.labels)

    def _stays(self, on: str, allowed: Iterable[str], *, rebalanced: bool) -> bool:
        """Does a process stay there? A rebalance may have other labels; else they do not matter any more."""
        if on in self._seen.supervisors:
            return on in allowed or not rebalanced
        return self._seen.missing_s.get(on, 0.0) < REASSIGN_S

    def _demand(self, name: str) -> Demand:
        """What each worker of a topology takes."""
        return Demand.of(self._seen.topologies.get(name))

    def _free(self, allowed: Iterable[str], demand: Demand) -> int:
        """How many more workers these supervisors may have."""
        return sum(self.capacity.free(on, demand) for on in allowed)

    def _take_parent(self, allowed: list[str]) -> str:
        best = min(allowed, key=lambda on: (on in self._left_out, self._parents_on[on], -self.capacity.free(on), on))
        self._parents_on[best] += 1
        return best

    def _take_out(self, name: str, assignment: AssignmentRecord) -> None:
        self.capacity.release(assignment.workers, self._demand(name))
        self._parents_on[assignment.parent] -= 1

    # -- words ---------------------------------------------------------------------------------------------------------

    def _too_few(self, name: str, assignment: AssignmentRecord | None) -> str:
        topology = self._seen.topologies[name]
        allowed = self._allowed(topology)
        demand = self._demand(name)
        own = () if assignment is None else [on for on in assignment.workers if on in allowed]
        self.capacity.release(own, demand)  # what it has is free for its own rebalance
        free = self._free(allowed, demand)
        self.capacity.take(own, demand)
        fewer = f", or ask for {free}" if free else ""
        each = "" if demand == SLOT_ONLY else f" with {demand} each"
        needed = f"{topology.workers} slots{each} are needed, and {free} are free"
        return f"{needed}: {self._nodes(topology)}; or kill a topology{fewer}"

    def _nodes(self, topology: TopologyRecord) -> str:
        supervisors = self._seen.supervisors
        if not supervisors:
            return "no supervisor is there: start one (aiostorm supervisor)"
        labels = ", ".join(sorted(topology.labels))
        fit = len(self._allowed(topology))
        if labels and not fit:
            return f"none of {len(supervisors)} supervisors has the labels {labels}: start one that has"
        total = sum(each.slots for each in supervisors.values())
        return f"{len(supervisors)} supervisors have {total} slots: start another one (aiostorm supervisor)"


class _FreeSlots:
    """The free slots for one topology, the best one first: where it has the fewest workers (`own`), then where it is
    preferred, then where most are free; those of `last` after all others.

    A heap: for a thousand supervisors each slot takes some steps, not a look at all of them.
    """

    def __init__(
        self,
        capacity: Capacity,
        demand: Demand,
        last: Collection[str],
        allowed: Iterable[str],
        own: Counter[str],
        prefer: Callable[[str], bool] = lambda on: False,
    ) -> None:
        self._capacity = capacity
        self._demand = demand
        self._last = last
        self._own = own
        self._prefer = prefer
        self._heap = [self._key(on) for on in allowed if capacity.free(on, demand)]
        heapify(self._heap)

    @property
    def are_there(self) -> bool:
        """Is one left?"""
        return bool(self._heap)

    def take(self) -> str:
        """Take the best one. IndexError if there is none."""
        best = self._heap[0][-1]
        self._own[best] += 1
        self._capacity.take((best,), self._demand)
        if self._capacity.free(best, self._demand):
            heapreplace(self._heap, self._key(best))
        else:
            heappop(self._heap)
        return best

    def _key(self, on: str) -> tuple[bool, int, bool, int, str]:
        return on in self._last, self._own[on], not self._prefer(on), -self._capacity.free(on, self._demand), on
