"""Nimbus: leads when no other one does, and keeps the assignments what topologies and supervisors ask for.

    campaign ─► leads ─► read all ─► plan ─► commit, a topology each ─► wait for news, or until something is due ─┐
       ▲                    ▲                                                                                     │
       │                    ╰─────────────────────────────────────────────────────────────────────────────────────╯
       ╰── another one leads, or the session is lost

1. Several may run, on several machines. All that one writes carries its term: what a former leader writes is refused.
2. It keeps nothing that the store does not have, but since when supervisors are missing: since they were silent, if
   this leader has seen them before; and since when plans are on trial. A new leader counts anew.
3. While the store cannot be reached nothing is decided; and what was missing before is counted anew after that:
   supervisors did not reach it either, and come back one after the other.
4. Topologies that want it are rebalanced when a node can take part (joining.py).
5. A record that cannot be read is named in the log, and that topology is left as it is.

From: Storm's Nimbus, without what it does in the way of data: no heartbeat of a worker comes here.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from ..coordination import (
    Create,
    Delete,
    DeposedError,
    NodeExistsError,
    Operation,
    Put,
    RefusedError,
    SessionLostError,
    UnavailableError,
    any_changed,
    campaign,
)
from .failing import left_out
from .joining import QUIET_S, Joining
from .nodes import REASSIGN_S
from .orders import next_plan, taken_back
from .planning import Decisions, Seen, plan
from .records import (
    ASSIGNMENTS,
    ERRORS,
    NIMBUSES,
    PARENTS,
    SUPERVISORS,
    TOPOLOGIES,
    AssignmentRecord,
    ParentRecord,
    RecordError,
    SupervisorRecord,
    TopologyRecord,
    check_path,
    name_in,
    pack,
    path_of,
    unpack,
)
from .trials import Trials

if TYPE_CHECKING:
    from ...runtime import Clock
    from ..coordination import Coordination, Term

log = logging.getLogger("aiostorm.nimbus")

FOLDERS: Final = (TOPOLOGIES, ASSIGNMENTS, SUPERVISORS, PARENTS)

RETRY_S: Final = 0.2
"""After a commit that was refused, or while the store cannot be reached."""

_Record = TypeVar("_Record")


class Nimbus:
    """One of the daemons that may lead. `who`: what others read of the leader.

    `waiting`: name of a topology → why it, or a part of it, has no place; while this one leads. `quiet_s`: see joining.
    """

    def __init__(self, coordination: Coordination, clock: Clock, who: bytes, *, quiet_s: float = QUIET_S) -> None:
        self.waiting: Mapping[str, str] = {}
        self._coordination = coordination
        self._clock = clock
        self._who = who
        self._missing_since_s: dict[str, float] = {}
        self._there: frozenset[str] = frozenset()  # the supervisors of the last round
        self._unreadable: dict[str, str] = {}
        self._left_out: frozenset[str] = frozenset()
        self._trials = Trials()
        self._joining = Joining(quiet_s)

    async def run(self) -> None:
        """Lead whenever no other one does, until the session is lost: SessionLostError."""
        while True:
            try:
                await make_folders(self._coordination)
                await _announce(self._coordination, self._who)
                term = await campaign(self._coordination, self._who)
            except UnavailableError:
                await self._clock.sleep(RETRY_S)
                continue
            log.info("leads, in term %d", term.number)
            try:
                await self._lead(term)
            finally:
                self.waiting = {}
                self._count_anew()
            log.warning("leads no more: term %d is over", term.number)

    async def _lead(self, term: Term) -> None:
        async with asyncio.TaskGroup() as group:
            rounds = group.create_task(self._rounds(term))
            await term.over()
            rounds.cancel()

    async def _rounds(self, term: Term) -> None:
        """Plan again and again; ends when the term is over."""
        watches = [await self._coordination.watch(folder) for folder in FOLDERS]
        try:
            while True:
                try:
                    due_s = await self._round(term)
                except (DeposedError, SessionLostError):
                    return
                except UnavailableError:
                    self._count_anew()
                    due_s = RETRY_S
                except RefusedError as error:  # another one has written in between: read again
                    log.debug("a commit was refused: %s", error)
                    due_s = RETRY_S
                await any_changed(watches, due_s)
        finally:
            for watch in watches:
                watch.close()

    async def _round(self, term: Term) -> float | None:
        """Read, plan and write, once. Returns in how many seconds something is due; None: not before a change."""
        if self._coordination.status != "connected":
            raise UnavailableError(f"{self._coordination.where} cannot be reached")
        found = await self._read()
        decisions = plan(found.seen)
        self._say_left_out(left_out(found.seen.supervisors))
        await self._take_back(term, found, decisions)
        for name, assignment in decisions.write.items():
            put = _put(path_of(ASSIGNMENTS, name), pack(assignment), found.versions)
            # The folder, too: its watch tells that it is to be planned again, since slots may have become free.
            await term.commit([put, Put(ASSIGNMENTS, b"")])
            log.info("%s: parent on %s, workers on %s", name, assignment.parent, ", ".join(assignment.workers))
        for name in sorted(decisions.end):
            paths = [path_of(folder, name) for folder in (ASSIGNMENTS, TOPOLOGIES)]
            deletes = [Delete(path, found.versions[path]) for path in paths if path in found.versions]
            errors = path_of(ERRORS, name)
            if await self._coordination.get(errors) is not None:
                deletes.append(Delete(errors))
            await term.commit(deletes)
            log.info("%s has ended", name)
        for name, why in decisions.waiting.items():
            if self.waiting.get(name) != why:
                log.warning("%s waits: %s", name, why)
        self.waiting = decisions.waiting
        joins_s = None if decisions.write or decisions.end else await self._let_join(term, found)
        due_s = [each for each in (self._due_s(found.seen), joins_s) if each is not None]
        return min(due_s, default=None)

    async def _let_join(self, term: Term, found: _Found) -> float | None:
        """Rebalance topologies that want it by themselves. Returns in how many seconds another one may be due."""
        due = self._joining.due(found.seen, found.parents, self._clock.monotonic())
        for name in due.now:
            path, record = path_of(TOPOLOGIES, name), found.seen.topologies[name]
            after = replace(next_plan(record), wait_s=None)
            await term.commit([Put(path, pack(after), found.versions[path]), Put(TOPOLOGIES, b"")])
            log.info("%s is rebalanced: a node can take part (topology.rebalance.auto)", name)
        return None if due.in_s is None else max(due.in_s, RETRY_S)

    async def _take_back(self, term: Term, found: _Found, decisions: Decisions) -> None:
        """Go back to what was before plans that do not come to run."""
        stuck = {name: decisions.waiting[name] for name in decisions.stuck}
        taken = self._trials.to_take_back(found.seen, found.parents, stuck, self._clock.monotonic())
        for name, why in taken.items():
            topology = found.seen.topologies[name]
            path = path_of(TOPOLOGIES, name)
            after = taken_back(topology, topology.generation, why, self._clock.now())
            await term.commit([Put(path, pack(after), found.versions[path]), Put(TOPOLOGIES, b"")])
            log.error("%s: generation %d does not run, and is taken back: %s", name, topology.generation, why)

    def _say_left_out(self, now: frozenset[str]) -> None:
        for name in sorted(now - self._left_out):
            log.warning("%s gets work last: many processes do not stay alive there", name)
        for name in sorted(self._left_out - now):
            log.info("%s gets work as the others do", name)
        self._left_out = now

    async def _read(self) -> _Found:
        versions: dict[str, int] = {}
        bad: dict[str, str] = {}
        topologies = await self._records(TOPOLOGIES, TopologyRecord, versions, bad)
        assignments = await self._records(ASSIGNMENTS, AssignmentRecord, versions, bad)
        supervisors = await self._records(SUPERVISORS, SupervisorRecord, versions, bad)
        parents = await self._records(PARENTS, ParentRecord, versions, bad)
        for path, why in bad.items():
            if self._unreadable.get(path) != why:
                log.error("left as it is: %s", why)
        self._unreadable = bad
        names = {
            folder: {name_in(path.rpartition("/")[2]) for path in bad if path.startswith(folder)} for folder in FOLDERS
        }
        unread = frozenset(names[TOPOLOGIES] | names[ASSIGNMENTS] | names[PARENTS])
        now_s = self._clock.monotonic()
        lost = {on for each in assignments.values() for on in (each.parent, *each.workers)} - supervisors.keys()
        lost -= names[SUPERVISORS]  # perhaps of a later version: it is there
        silent_s = self._coordination.silent_s
        begun_s = {on: now_s - (silent_s if on in self._there else 0.0) for on in lost}
        self._missing_since_s = {on: self._missing_since_s.get(on, begun_s[on]) for on in sorted(lost)}
        self._there = frozenset(supervisors)
        missing_s = {on: now_s - since_s for on, since_s in self._missing_since_s.items()}
        seen = Seen(topologies, assignments, supervisors, missing_s, frozenset(parents), unread)
        return _Found(seen, parents, versions)

    def _count_anew(self) -> None:
        self._missing_since_s.clear()
        self._joining.clear()
        self._there = frozenset()
        self._trials.count_anew()

    async def _records(
        self, folder: str, kind: type[_Record], versions: dict[str, int], bad: dict[str, str]
    ) -> dict[str, _Record]:
        found: dict[str, _Record] = {}
        for child in await self._coordination.children(folder):
            path = f"{folder}/{child}"
            node = await self._coordination.get(path)
            if node is None:  # it has just been deleted
                continue
            versions[path] = node.version
            try:
                check_path(path)
                found[name_in(child)] = unpack(kind, path, node.value)
            except RecordError as error:
                bad[path] = str(error)
        return found

    def _due_s(self, seen: Seen) -> float | None:
        """Until the next missing supervisor is given up, or the next plan that does not come to run."""
        left = [REASSIGN_S - missing_s for missing_s in seen.missing_s.values() if missing_s < REASSIGN_S]
        if (trial_s := self._trials.due_s(self._clock.monotonic())) is not None:
            left.append(trial_s)
        # At least a moment: a rest that is too small for a float to move the time would be waited for again and again.
        return max(min(left), RETRY_S) if left else None


class _Found(NamedTuple):
    """What was read, with the parents that run, and the version of each node."""

    seen: Seen
    parents: Mapping[str, ParentRecord]
    versions: Mapping[str, int]


async def make_folders(coordination: Coordination) -> None:
    """Make the nodes that have the records as children, once for each store. UnavailableError, SessionLostError."""
    for folder in (*FOLDERS, ERRORS, NIMBUSES):
        if await coordination.get(folder) is None:
            with contextlib.suppress(NodeExistsError):
                await coordination.commit([Create(folder)])


async def _announce(coordination: Coordination, who: bytes) -> None:
    """Say that this nimbus is there, for those who look: it plays no part in who leads."""
    path = f"{NIMBUSES}/{hashlib.sha256(who).hexdigest()[:32]}"
    create = Create(path, who, ephemeral=True)
    try:
        await coordination.commit([create])
    except NodeExistsError:  # of the session before, with which it would end
        with contextlib.suppress(RefusedError):
            await coordination.commit([Delete(path), create])


def _put(path: str, value: bytes, versions: Mapping[str, int]) -> Operation:
    return Put(path, value, versions[path]) if path in versions else Create(path, value)
