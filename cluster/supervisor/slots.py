"""Slots: which processes a supervisor starts and ends. Pure: what is wanted, what runs and the time in, decisions out.

               Start              started                ended
    IDLE ────────────► STARTING ───────────► RUNNING ──────────────► IDLE ──delay──► STARTING …
     ▲                    │ not started         │ not wanted: Terminate
     ├────────────────────╯                     ▼
     ╰───────── ended ── KILLED ◄──10 s── ENDING

1. One process of a key (a topology, and `parent` or a worker's name) at a time: the next one is started when the one
   before has ended.
2. A process that ends is started again: at once, then after 0.2, 1 and 5 s, then always after 5 s. Not if its topology
   is to be killed; and a parent that ended with 0 has ended in order, and rests until there is another generation.
   What ends too often is said not to stay alive here; a parent's ends for lack of a store do not count.
3. A rebalance is another generation. Processes that were started since the generation `renewed` go on where they are
   still assigned. Of others, the parent is asked to end, and may drain as long as its record is there. The workers that
   go serve it until the record was deleted, or is that of the new generation; then they are ended. Workers are not
   started while there is a parent of another generation.
4. What is not assigned here any more is asked to end (SIGTERM), and killed after END_S.
5. A worker that its parent has abandoned is killed, if it still is that process.
6. Of a topology whose records cannot be read, all stays as it is.
7. Before anything is known of what is wanted, nothing is started and nothing is ended.

From: Storm's supervisor (Slot.java), whose states these are; its workers are looked for by heartbeats in files.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from ..nimbus import NO_STORE, PARENT_PROCESS
from .wanted import Assigned, Parent, Rest, Wanted

END_S: Final = 10.0
"""From SIGTERM to SIGKILL."""

DELAYS_S: Final = (0.0, 0.2, 1.0, 5.0)
PERIOD_S: Final = 30.0
FAILING_AFTER: Final = 5
"""Ends within PERIOD_S, after which it is said that a process does not stay alive."""


class Key(NamedTuple):
    """A process of a topology: `parent`, or the name of a worker."""

    topology: str
    process: str

    def __str__(self) -> str:
        return f"{self.process} of {self.topology}"


@dataclass(frozen=True, slots=True)
class Start:
    """Start a process: then `started` or `not_started` is called."""

    key: Key
    generation: int


@dataclass(frozen=True, slots=True)
class Terminate:
    """Ask the process to end."""

    key: Key
    why: str


@dataclass(frozen=True, slots=True)
class Kill:
    """Kill the process: then `ended` is called."""

    key: Key
    why: str


@dataclass(frozen=True, slots=True)
class Failing:
    """Log that the process does not stay alive. It is started again and again."""

    key: Key
    why: str


@dataclass(frozen=True, slots=True)
class Recovered:
    """Log that the process has stayed alive."""

    key: Key


@dataclass(frozen=True, slots=True)
class Rests:
    """Log that the parent has ended in order, and is not started again."""

    key: Key


@dataclass(frozen=True, slots=True)
class Forgotten:
    """Nothing is known of it any more: it had ended in order, and is not assigned here."""

    key: Key


Decision = Start | Terminate | Kill | Failing | Recovered | Rests | Forgotten


class Phase(enum.Enum):
    """The state of a key."""

    IDLE = enum.auto()
    STARTING = enum.auto()
    RUNNING = enum.auto()
    ENDING = enum.auto()
    KILLED = enum.auto()


class _End(NamedTuple):
    """A process has ended by itself. `counts`: may that be the fault of where it ran?"""

    at_s: float
    counts: bool


class _Slot:
    """One key. `generation`: of the last process; `due_s`: when it is started again, or killed."""

    __slots__ = ("due_s", "ends", "failing", "generation", "phase", "pid", "rest")

    def __init__(self) -> None:
        self.phase = Phase.IDLE
        self.generation = 0
        self.pid = 0
        self.due_s: float | None = None
        self.ends: deque[_End] = deque(maxlen=FAILING_AFTER)
        self.failing = False
        self.rest: Rest | None = None

    def begin(self, generation: int) -> None:
        """A process is to be started."""
        if generation != self.generation:
            self.renew(generation)
        self.phase, self.due_s = Phase.STARTING, None

    def renew(self, generation: int) -> None:
        """What happened to an earlier generation does not count."""
        self.generation = generation
        self.ends.clear()
        self.due_s = None
        self.failing, self.rest = False, None

    def count_end(self, now_s: float, *, counts: bool) -> int:
        """The process has ended by itself. How many did lately that count."""
        self.ends.append(_End(now_s, counts))
        recent = [end for end in self.ends if end.at_s > now_s - PERIOD_S]
        self.due_s = now_s + DELAYS_S[min(len(recent), len(DELAYS_S)) - 1]
        return sum(end.counts for end in recent)

    @property
    def well_s(self) -> float | None:
        """When it has stayed alive long enough; None: it need not."""
        return self.ends[-1].at_s + PERIOD_S if self.failing and self.phase is Phase.RUNNING else None


class Slots:
    """All processes of one supervisor. Times are monotonic seconds."""

    def __init__(self) -> None:
        self._wanted: Wanted | None = None
        self._slots: dict[Key, _Slot] = {}

    @property
    def due_s(self) -> float | None:
        """When to call `tick` next; None: after the next event."""
        due = [self._due_of(key, slot) for key, slot in self._slots.items()]
        return min((each for each in due if each is not None), default=None)

    def adopt(self, key: Key, pid: int, generation: int) -> None:
        """A process runs that an earlier supervisor has started. Before anything else."""
        slot = self._slots[key] = _Slot()
        slot.phase, slot.pid, slot.generation = Phase.RUNNING, pid, generation

    def adopt_rest(self, key: Key, rest: Rest) -> None:
        """An earlier supervisor has noted that this parent ended in order. Before anything else."""
        slot = self._slots[key] = _Slot()
        slot.generation, slot.rest = rest.generation, rest

    def see(self, wanted: Wanted, now_s: float) -> list[Decision]:
        """What is wanted now."""
        self._wanted = wanted = self._merged(wanted)
        for topology, assigned in wanted.assigned.items():
            for process in sorted(assigned.here):
                self._slots.setdefault(Key(topology, process), _Slot())
        return self.tick(now_s)

    def wants(self, key: Key, generation: int) -> bool:
        """Is a process of this generation still to be started? It takes time to fetch its code."""
        return self._generation(key) == generation and self._may_start(key, generation)

    def started(self, key: Key, pid: int, now_s: float) -> list[Decision]:
        """The process runs."""
        slot = self._slots[key]
        slot.phase, slot.pid = Phase.RUNNING, pid
        return self._decide(key, slot, now_s)

    def withdrawn(self, key: Key, now_s: float) -> list[Decision]:
        """The process was not started, since it is not wanted any more."""
        slot = self._slots[key]
        slot.phase = Phase.IDLE
        return self._after_end(key, now_s)

    def not_started(self, key: Key, why: str, now_s: float) -> list[Decision]:
        """The process could not be started."""
        slot = self._slots[key]
        slot.phase = Phase.IDLE
        return self._ended_by_itself(key, slot, why, now_s) + self._after_end(key, now_s)

    def ended(
        self, key: Key, code: int | None, now_s: float, noted: Rest | None = None, why: str = ""
    ) -> list[Decision]:
        """The process has ended. `code`: minus a signal, or None if it is not known.

        `noted`: what was noted of its end before; perhaps what is wanted has changed since. `why`: what the system
        says; empty: nothing.
        """
        slot = self._slots[key]
        by_itself, slot.rest = self._is_by_itself(key, slot), noted or self.rest_after(key, code)
        slot.phase, slot.due_s, slot.pid = Phase.IDLE, None, 0
        decisions: list[Decision] = []
        if slot.rest is not None:
            if not self._is_killed(key.topology) and self._generation(key) == slot.generation:
                decisions.append(Rests(key))
        elif by_itself:
            counts = key.process != PARENT_PROCESS or code != NO_STORE
            if self._generation(key) != slot.generation:  # the process of a former plan: this one does not fail by it
                counts = False
            decisions += self._ended_by_itself(key, slot, why or why_of(code), now_s, counts=counts)
        return decisions + self._after_end(key, now_s)

    def rest_after(self, key: Key, code: int | None) -> Rest | None:
        """What a parent has run, if this code would be that of its end in order; else None."""
        slot = self._slots[key]
        assigned = self._wanted.assigned.get(key.topology) if self._wanted is not None else None
        if assigned is None or key.process != PARENT_PROCESS or code != 0 or not self._is_by_itself(key, slot):
            return None
        return Rest(slot.generation, assigned.submitted_s)

    def tick(self, now_s: float) -> list[Decision]:
        """Time has passed."""
        decisions: list[Decision] = []
        for key, slot in list(self._slots.items()):
            decisions += self._decide(key, slot, now_s)
        return decisions

    # -- inside --------------------------------------------------------------------------------------------------------

    def _decide(self, key: Key, slot: _Slot, now_s: float) -> list[Decision]:
        if self._wanted is None:
            return []
        match slot.phase:
            case Phase.IDLE:
                return self._idle(key, slot, now_s)
            case Phase.RUNNING:
                return self._running(key, slot, now_s)
            case Phase.ENDING:
                return self._ending(key, slot, now_s)
            case _:
                return []

    def _idle(self, key: Key, slot: _Slot, now_s: float) -> list[Decision]:
        generation = self._generation(key)
        if generation is None:
            del self._slots[key]
            return [] if slot.rest is None else [Forgotten(key)]
        if generation != slot.generation or (slot.rest is not None and not self._rests(key, slot)):
            slot.renew(generation)
        if not self._may_start(key, generation) or (slot.due_s is not None and now_s < slot.due_s):
            return []
        slot.begin(generation)
        return [Start(key, generation)]

    def _running(self, key: Key, slot: _Slot, now_s: float) -> list[Decision]:
        parent = self._parents.get(key.topology)
        if parent is not None and f"{key.process}@{slot.pid}" in parent.abandoned:
            slot.phase = Phase.KILLED
            return [Kill(key, "its parent has given it up")]
        self._keep(key, slot)
        if why := self._must_end(key, slot):
            slot.phase, slot.due_s = Phase.ENDING, None if self._drains(key, slot) else now_s + END_S
            return [Terminate(key, why)]
        if slot.well_s is not None and now_s >= slot.well_s:
            slot.failing = False
            return [Recovered(key)]
        return []

    def _ending(self, key: Key, slot: _Slot, now_s: float) -> list[Decision]:
        if self._drains(key, slot):
            slot.due_s = None
            return []
        if slot.due_s is None:
            slot.due_s = now_s + END_S
        if now_s < slot.due_s:
            return []
        slot.phase, slot.due_s = Phase.KILLED, None
        return [Kill(key, f"it did not end within {END_S:g} s")]

    def _is_by_itself(self, key: Key, slot: _Slot) -> bool:
        """Would its end now be one that is not wanted?"""
        return slot.phase is Phase.RUNNING or (slot.phase is Phase.KILLED and not self._must_end(key, slot))

    def _ended_by_itself(self, key: Key, slot: _Slot, why: str, now_s: float, *, counts: bool = True) -> list[Decision]:
        recent = slot.count_end(now_s, counts=counts)
        if slot.failing or recent < FAILING_AFTER:
            return []
        slot.failing = True
        return [Failing(key, f"it ended {recent} times in {PERIOD_S:g} s, the last time: {why}")]

    def _after_end(self, key: Key, now_s: float) -> list[Decision]:
        """An end may be what others of the topology have waited for."""
        decisions: list[Decision] = []
        for other, slot in list(self._slots.items()):
            if other.topology == key.topology:
                decisions += self._decide(other, slot, now_s)
        return decisions

    def _due_of(self, key: Key, slot: _Slot) -> float | None:
        if self._wanted is None:
            return None
        if slot.phase is Phase.IDLE:
            generation = self._generation(key)
            return slot.due_s if generation is not None and self._may_start(key, generation) else None
        return slot.due_s if slot.phase is Phase.ENDING else slot.well_s

    # -- what is wanted ------------------------------------------------------------------------------------------------

    @property
    def _parents(self) -> Mapping[str, Parent]:
        return self._wanted.parents if self._wanted is not None else {}

    def _is_killed(self, topology: str) -> bool:
        return self._wanted is not None and topology in self._wanted.killed

    def _generation(self, key: Key) -> int | None:
        """The generation that is assigned here; None: there is none."""
        assigned = self._wanted.assigned.get(key.topology) if self._wanted is not None else None
        return assigned.generation if assigned is not None and key.process in assigned.here else None

    def _must_end(self, key: Key, slot: _Slot) -> str:
        """Why the process that runs must end; empty: it need not."""
        if self._wanted is None:
            return ""
        assigned = self._wanted.assigned.get(key.topology)
        if assigned is None:
            return "the topology has no assignment any more"
        if key.process in assigned.here and assigned.has(slot.generation):
            return ""
        if assigned.generation == slot.generation:
            return "it is assigned to another supervisor"
        if key.process == PARENT_PROCESS:
            return f"generation {assigned.generation} follows"
        parent = self._parents.get(key.topology)
        if parent is not None and parent.generation != assigned.generation and parent.has(slot.generation):
            return ""
        return f"generation {assigned.generation} follows, and its parent has ended"

    def _keep(self, key: Key, slot: _Slot) -> None:
        """A process that goes on in the generation that its parent runs now is one of that."""
        assigned = self._wanted.assigned.get(key.topology) if self._wanted is not None else None
        parent = self._parents.get(key.topology)
        if assigned is None or parent is None or key.process not in assigned.here:
            return
        of_it = key.process != PARENT_PROCESS or parent.pid == slot.pid
        if of_it and parent.generation == assigned.generation and assigned.has(slot.generation):
            slot.generation = assigned.generation

    def _drains(self, key: Key, slot: _Slot) -> bool:
        """Is it a parent that is to end for the next one, and still shows that it works?"""
        if self._wanted is None or key.topology not in self._wanted.assigned or key.process != PARENT_PROCESS:
            return False
        parent = self._parents.get(key.topology)
        return parent is not None and parent.pid == slot.pid

    def _may_start(self, key: Key, generation: int) -> bool:
        if self._is_killed(key.topology):
            return False
        slot = self._slots.get(key)
        if key.process == PARENT_PROCESS:
            return slot is None or not self._rests(key, slot)
        parent = self._parents.get(key.topology)
        if parent is not None and parent.generation != generation:
            return False
        assigned = self._wanted.assigned.get(key.topology) if self._wanted is not None else None
        here = self._slots.get(Key(key.topology, PARENT_PROCESS))
        if here is None or here.phase in (Phase.IDLE, Phase.STARTING):
            return True
        return here.generation == generation or (assigned is not None and assigned.has(here.generation))

    def _rests(self, key: Key, slot: _Slot) -> bool:
        """Has the parent ended in order of what is assigned now?"""
        assigned = self._wanted.assigned.get(key.topology) if self._wanted is not None else None
        return assigned is not None and slot.rest == Rest(assigned.generation, assigned.submitted_s)

    def _merged(self, wanted: Wanted) -> Wanted:
        """What is not read is as it was before."""
        if not wanted.unread:
            return wanted
        before = self._wanted or Wanted(self._as_it_runs())
        assigned, parents = dict(wanted.assigned), dict(wanted.parents)
        for topology in wanted.unread:
            assigned.pop(topology, None)
            parents.pop(topology, None)
            if topology in before.assigned:
                assigned[topology] = before.assigned[topology]
            if topology in before.parents:
                parents[topology] = before.parents[topology]
        killed = (wanted.killed - wanted.unread) | (before.killed & wanted.unread)
        return Wanted(assigned, killed, parents, wanted.unread)

    def _as_it_runs(self) -> dict[str, Assigned]:
        """The assignments of which the adopted processes are."""
        assigned: dict[str, Assigned] = {}
        for key, slot in self._slots.items():
            before = assigned.get(key.topology, Assigned(slot.generation))
            generation = max(before.generation, slot.generation)
            assigned[key.topology] = Assigned(generation, before.here | {key.process}, renewed=1)
        return assigned


def why_of(code: int | None) -> str:
    """How a process has ended, for people."""
    if code is None:
        return "its exit code is not known"
    return f"signal {-code}" if code < 0 else f"exit code {code}"
