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
10. Each pin of a component has a worker on a node with its labels, and that worker moves only to such nodes (pins.py).
11. Isolated topologies share their nodes with no other one (isolation.py).

From: Storm's EvenScheduler (slots in turns over the nodes) and Nimbus.mkAssignments. 2 departs from it: Storm starts a
topology with as few slots as there are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from .capacity import SLOT_ONLY
from .failing import Failed, left_out
from .free_slots import FreeSlots
from .isolation import ISOLATE_KEY, isolated_nodes
from .nodes import Nodes
from .pins import Candidate, Pins
from .records import PARENT_PROCESS, AssignmentRecord, SupervisorRecord, TopologyRecord, worker_names


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
    """One round: the capacity of `_nodes`, and `_parents_on`, count what is placed so far."""

    def __init__(self, seen: Seen) -> None:
        self._seen = seen
        self._nodes = Nodes(seen, left_out(seen.supervisors))
        self._parents_on: Counter[str] = Counter()
        self._short: set[str] = set()  # too few slots
        self._waiting: dict[str, str] = {}
        self._stuck: set[str] = set()
        for name, assignment in seen.assignments.items():
            self._nodes.capacity.take(assignment.workers, self._nodes.demand(name))
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
            self._nodes.isolation.put(name, None)
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
                self._nodes.isolation.put(name, after)
        # Said when all is placed: what was free before is not any more.
        short = {name: self._too_few(name, write.get(name, seen.assignments.get(name))) for name in self._short}
        return Decisions(write, frozenset(ended), {**short, **self._waiting}, frozenset(self._stuck))

    # -- one topology --------------------------------------------------------------------------------------------------

    def _first(self, name: str) -> AssignmentRecord | None:
        """Place a topology that has no assignment; None: it waits."""
        topology, demand = self._seen.topologies[name], self._nodes.demand(name)
        allowed = self._nodes.allowed(name)
        free = self._nodes.free(allowed, demand)
        is_short = free < topology.workers or len(allowed) < isolated_nodes(topology)
        count = min(topology.workers, free)
        cover = None if not free or (is_short and not topology.fewer) else self._nodes.cover(name, allowed, count)
        if cover is None:
            self._short.add(name)
            return None
        self._nodes.capacity.take(cover, demand)
        slots = FreeSlots(self._nodes.capacity, demand, self._nodes.left_out, allowed, Counter(cover))
        workers = (*cover, *(slots.take() for _ in range(count - len(cover))))
        made = AssignmentRecord(topology.generation, self._take_parent(allowed), workers)
        return replace(made, labels=self._nodes.labels(name, made))

    def _again(self, name: str, before: AssignmentRecord) -> AssignmentRecord:
        """Move what must move, and what a rebalance makes even."""
        topology = self._seen.topologies[name]
        self._take_out(name, before)
        allowed = self._nodes.allowed(name, before)
        count = self._wanted(name, before, allowed)
        rebalanced = count is not None
        if not rebalanced:
            allowed = self._nodes.allowed(name, before, stays=True)
        # If its supervisor is missing since a moment only, it lives on, or that supervisor comes back.
        kept = [on for on in before.workers if self._nodes.stays(on, allowed, rebalanced=rebalanced)]
        if count is None:
            count = len(before.workers)
        else:
            kept = self._evened(name, before, kept, allowed, count)
        workers = self._filled(name, before, kept, allowed, count, rebalanced=rebalanced)
        parent = before.parent
        if self._nodes.stays(parent, allowed, rebalanced=rebalanced):
            self._parents_on[parent] += 1
        elif allowed:
            parent = self._take_parent(allowed)
        else:
            self._parents_on[parent] += 1
            self._waiting.setdefault(name, f"no supervisor for its parent: {self._slots_text(topology)}")
        if not rebalanced:
            return self._moved(name, replace(before, parent=parent, workers=workers), allowed)
        after = AssignmentRecord(topology.generation, parent, workers, before.since)
        labels = self._nodes.labels(name, after, before)
        after = self._moved(name, replace(after, labels=labels), allowed)
        renewed = after.parent != before.parent or topology.renewed > before.generation
        return replace(after, renewed=0) if renewed else after

    def _moved(self, name: str, placed: AssignmentRecord, allowed: list[str]) -> AssignmentRecord:
        """Move the processes that do not stay alive where they are."""
        failed = Failed(name, self._seen.topologies[name].submitted_s, placed.generation, self._seen.supervisors)
        if not failed:
            return placed
        parent, workers, demand = placed.parent, list(placed.workers), self._nodes.demand(name)
        stuck: dict[str, list[str]] = {}  # process → where it may be
        for index, process in enumerate(worker_names(len(workers))):
            on = workers[index]
            if not failed.is_failing(process, on):
                continue
            may = self._nodes.with_labels(allowed, placed.labels_of(index))
            free = [other for other in self._others(failed, process, may) if self._nodes.capacity.free(other, demand)]
            if free:
                self._nodes.capacity.release((on,), demand)
                workers[index] = min(
                    free, key=lambda to: (workers.count(to), -self._nodes.capacity.free(to, demand), to)
                )
                self._nodes.capacity.take((workers[index],), demand)
            else:
                stuck[process] = may
        if failed.is_failing(PARENT_PROCESS, parent):
            if others := self._others(failed, PARENT_PROCESS, allowed):
                self._parents_on[parent] -= 1
                parent = self._take_parent(others)
            else:
                stuck[PARENT_PROCESS] = allowed
        if stuck:
            self._stuck.add(name)
            self._waiting.setdefault(name, failed.why_stuck(stuck))
        return replace(placed, parent=parent, workers=tuple(workers))

    def _others(self, failed: Failed, process: str, allowed: list[str]) -> list[str]:
        """Where a process that fails where it is may stay alive."""
        return [on for on in allowed if on not in failed.where(process) | self._nodes.left_out]

    def _wanted(self, name: str, before: AssignmentRecord, allowed: list[str]) -> int | None:
        """How many workers a rebalance gives; None: there is none to be done, or too few slots for it."""
        topology = self._seen.topologies[name]
        if topology.generation == before.generation:
            return None
        away = self._nodes.away(before.workers)
        free = self._nodes.free(allowed, self._nodes.demand(name)) + len(away)
        alone = {*allowed, *away, *self._nodes.away((before.parent,))}
        is_short = free < topology.workers or len(alone) < isolated_nodes(topology)
        count = min(topology.workers, free)
        had = [self._nodes.had(before, on) for on in away[:count]]
        if (
            not free
            or (is_short and not topology.fewer)
            or self._nodes.cover(name, allowed, count - len(had), before.workers, had) is None
        ):
            self._short.add(name)
            return None
        return count

    def _filled(
        self, name: str, before: AssignmentRecord, kept: list[str], allowed: list[str], count: int, *, rebalanced: bool
    ) -> tuple[str, ...]:
        """`count` workers: the kept ones in their places, the others where slots are free, else where they were."""
        demand = self._nodes.demand(name)
        self._nodes.capacity.take(kept, demand)
        places = _in_their_places(before.workers, kept, count)
        bound = self._bound(name, before, places, allowed, rebalanced=rebalanced)
        own = Counter([*kept, *filter(None, bound.values())])
        workers: list[str] = []
        homeless: list[int] = []
        slots = FreeSlots(self._nodes.capacity, demand, self._nodes.left_out, allowed if None in places else (), own)
        for index, place in enumerate(places):
            found = place or bound.get(index)
            if found is not None:
                workers.append(found)
            elif index not in bound and slots.are_there:
                workers.append(slots.take())
            else:
                workers.append(before.workers[index])
                self._nodes.capacity.take((before.workers[index],), demand)
                homeless.append(index)
        if homeless:
            self._waiting[name] = self._why_homeless(before, homeless, count)
        return tuple(workers)

    def _bound(
        self, name: str, before: AssignmentRecord, places: list[str | None], allowed: list[str], *, rebalanced: bool
    ) -> dict[int, str | None]:
        """Places that only some nodes may fill because of pins, and the node of each; None: none is free."""
        nodes, demand = self._nodes, self._nodes.demand(name)
        vacant = [index for index, place in enumerate(places) if place is None]
        if rebalanced:
            had = [nodes.had(before, on) for on in places if on is not None]
            cover = nodes.cover(name, allowed, len(vacant), (), had) or ()
            nodes.capacity.take(cover, demand)
            return dict(zip(vacant, cover, strict=False))
        needs = {index: labels for index in vacant if (labels := before.labels_of(index))}
        fit = {index: nodes.with_labels(allowed, labels) for index, labels in needs.items()}
        own = Counter(filter(None, places))
        found: dict[int, str | None] = {}
        for index in sorted(fit, key=lambda index: (len(fit[index]), index)):
            rank = {on: (on in nodes.left_out, own[on], -nodes.capacity.free(on, demand), on) for on in fit[index]}
            best = min((on for on in rank if nodes.capacity.free(on, demand)), key=rank.__getitem__, default=None)
            found[index] = best
            if best is not None:
                own[best] += 1
                nodes.capacity.take((best,), demand)
        return found

    def _evened(
        self, name: str, before: AssignmentRecord, kept: list[str], allowed: list[str], count: int
    ) -> list[str]:
        """Of the kept workers those that stay when `count` are spread as evenly as slots and pins allow."""
        nodes, demand, current = self._nodes, self._nodes.demand(name), Counter(kept)
        away = self._nodes.away(kept)[:count]
        had = [nodes.had(before, on) for on in away]
        cover = self._nodes.cover(name, allowed, count - len(away), before.workers, had) or ()
        self._nodes.capacity.take(cover, demand)
        own: Counter[str] = Counter(cover)
        # Deal `count` workers out as if all were new, but prefer, among equals, who has one already: then few move.
        left_out = nodes.left_out
        slots = FreeSlots(nodes.capacity, demand, left_out, allowed, own, prefer=lambda on: own[on] < current[on])
        for _ in range(count - len(away) - len(cover)):
            slots.take()
        self._nodes.capacity.release(own.elements(), demand)
        stay, left = [], own + Counter(away)
        for on in kept:
            if left[on]:
                left[on] -= 1
                stay.append(on)
        return stay

    def _take_parent(self, allowed: list[str]) -> str:
        best = min(
            allowed,
            key=lambda on: (on in self._nodes.left_out, self._parents_on[on], -self._nodes.capacity.free(on), on),
        )
        self._parents_on[best] += 1
        return best

    def _take_out(self, name: str, assignment: AssignmentRecord) -> None:
        self._nodes.capacity.release(assignment.workers, self._nodes.demand(name))
        self._parents_on[assignment.parent] -= 1

    # -- words ---------------------------------------------------------------------------------------------------------

    def _too_few(self, name: str, assignment: AssignmentRecord | None) -> str:
        topology, demand = self._seen.topologies[name], self._nodes.demand(name)
        own = () if assignment is None else assignment.workers
        self._nodes.capacity.release(own, demand)  # what it has is free for its own rebalance
        allowed = self._nodes.allowed(name, assignment)
        free = self._nodes.free(allowed, demand)
        there = self._nodes.isolation.open_to(name, self._nodes.labelled(topology))
        has_slot = [on for on in there if self._nodes.capacity.free(on, demand)]
        self._nodes.capacity.take(own, demand)
        away = set() if assignment is None else set(self._nodes.away((assignment.parent, *own)))
        needed, alone = isolated_nodes(topology), len({*allowed, *away})
        if self._nodes.labelled(topology) and alone < needed and not (topology.fewer and free):
            return (
                f"{needed} nodes of its own are needed ({ISOLATE_KEY}), and {alone} have no other topology: start "
                "another supervisor, kill a topology, or ask for fewer"
            )
        if free < topology.workers and not (topology.fewer and free):
            fewer = f", or ask for {free}" if free else ""
            each = "" if demand == SLOT_ONLY else f" with {demand} each"
            slots = f"{topology.workers} slots{each} are needed, and {free} are free"
            return f"{slots}: {self._slots_text(topology)}; or kill a topology{fewer}"
        nodes = [Candidate(on, self._seen.supervisors[on].labels) for on in self._nodes.labelled(topology)]
        more = f"nodes of its own ({ISOLATE_KEY})" if 0 < needed < topology.workers else "workers"
        return Pins(topology).why(nodes, has_slot, needed or topology.workers, f"ask for more {more}")

    def _why_homeless(self, before: AssignmentRecord, homeless: list[int], count: int) -> str:
        labels = sorted(frozenset().union(*map(before.labels_of, homeless)))
        others = [before.labels_of(i) for i in range(len(before.workers)) if i not in homeless]
        served = labels and all(any(before.labels_of(i) <= other for other in others) for i in homeless)
        again = ", rebalance it (its other workers can run these tasks)" if served else ""
        with_labels = f" on a node with the labels that their tasks need ({', '.join(labels)})" if labels else ""
        return (
            f"{len(homeless)} of {count} workers were on supervisors that are lost, and no slot is free{with_labels}: "
            f"start a supervisor{''.join(f' --label {label}' for label in labels)}{again}, or kill a topology"
        )

    def _slots_text(self, topology: TopologyRecord) -> str:
        supervisors = self._seen.supervisors
        if not supervisors:
            return "no supervisor is there: start one (aiostorm supervisor)"
        labels = ", ".join(sorted(topology.labels))
        if labels and not self._nodes.labelled(topology):
            return f"none of {len(supervisors)} supervisors has the labels {labels}: start one that has"
        total = sum(each.slots for each in supervisors.values())
        owned = sum(bool(self._nodes.isolation.owner(on)) for on in supervisors)
        alone = f", and {owned} of them have an isolated topology" if owned and not isolated_nodes(topology) else ""
        return f"{len(supervisors)} supervisors have {total} slots{alone}: start another one (aiostorm supervisor)"


def _in_their_places(before: tuple[str, ...], kept: list[str], count: int) -> list[str | None]:
    """The kept workers in their places among `count`; None: a vacant place."""
    left = Counter(kept)
    places: list[str | None] = []
    for on in before:
        places.append(on if left[on] else None)
        left[on] -= 1 if left[on] else 0
    # Workers are interchangeable: with fewer than before, free places are left out.
    while len(places) > count:
        places.remove(None)
    return places + [None] * (count - len(places))
