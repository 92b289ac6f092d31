"""Submitted topology: the program of the process that runs one topology of a cluster. Supervisors start it.

    read /topologies/NAME, /assignments/NAME ─► register as its parent ─► LocalCluster: the workers join ─► follow ─┐
       ▲                                                                                                            │
       ╰── started again by the supervisor ◄── killed, or the store has lost it      ended in order ◄── kill, move ─╯

1. Its workers are started by supervisors, and join by themselves. Those that a former parent has had are adopted.
2. It ends in order when the topology is to be killed, has finished, or is another one's to run: then its workers end,
   too. In any other case it leaves at once (`leave`), and its workers go on: with SIGTERM, when the store has lost its
   session, and when it is killed.
3. A topology that fails is shown as FAILED, with the reason, until it is killed or rebalanced. It is not tried again
   and again.
4. While the store cannot be reached, the topology runs on as it is.

From: Storm's nimbus and its topology master, of which each topology has one of its own here.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection, Coroutine
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn, TypeVar

from ...runtime import AiostormError
from ..coordination import BadVersionError, NoNodeError, SessionLostError, UnavailableError
from ..errors import TopologyKilledError
from ..nimbus import (
    ASSIGNMENTS,
    NO_STORE,
    PARENTS,
    TOPOLOGIES,
    AssignmentRecord,
    ErrorEntry,
    OrderError,
    ParentRecord,
    TopologyRecord,
    path_of,
    unpack,
    want,
    worker_names,
)
from .order import Order, order_for
from .registration import Registration

if TYPE_CHECKING:
    from ...runtime import Clock
    from ..coordination import Coordination, Watch
    from ..local import LocalCluster
    from ..running_topology import RunningTopology

log = logging.getLogger("aiostorm.parent")

RETRY_S: Final = 0.2
REPORT_S: Final = 0.5
"""Between two looks at the topology, for its record."""

BROKEN: Final = 1
LEFT: Final = 143
MOST_ABANDONED: Final = 50

_Record = TypeVar("_Record")

MakeCluster = Callable[["TopologyRecord", Collection[str], Callable[[str, int], None]], "LocalCluster"]
"""(topology, names of its workers, what to call with each process of a worker that is given up) → the cluster, not
started."""


@dataclass(frozen=True, slots=True)
class ParentPlace:
    """Where a parent runs. `supervisor`: who has started it; `process`: its ProcessIdentity."""

    supervisor: str
    host: str
    pid: int
    process: str = ""


@dataclass(frozen=True, slots=True)
class ParentProcess:
    """What is around a parent: the seams. `leave` ends the process at once, without its workers.

    `serve`: answers other processes of its user about the topology, until it is cancelled. `has_ended`: is a parent
    known not to run any more?
    """

    make_cluster: MakeCluster
    leave: Callable[[int], NoReturn]
    serve: Callable[[RunningTopology], Coroutine[None, None, None]]
    has_ended: Callable[[ParentRecord], bool]


class _Found(NamedTuple):
    topology: TopologyRecord | None
    assignment: AssignmentRecord | None


class SubmittedTopology:
    """One topology of a cluster, as its parent runs it."""

    def __init__(
        self, name: str, coordination: Coordination, clock: Clock, place: ParentPlace, process: ParentProcess
    ) -> None:
        self._name = name
        self._coordination = coordination
        self._clock = clock
        self._place = place
        self._process = process
        self._failure = ""
        self._abandoned: tuple[str, ...] = ()
        self._running: RunningTopology | None = None
        self._reported: set[tuple[float, str]] = set()

    async def run(self, stop: asyncio.Event) -> int:
        """Run the topology until it has ended in order, or is left. `stop`: SIGTERM. The exit code."""
        watches = [await self._coordination.watch(path_of(folder, self._name)) for folder in _WATCHED]
        try:
            found = await self._wait_registered(watches, stop)
            if found is None:
                return 0
            registration, topology, assignment = found
            cluster = self._process.make_cluster(topology, worker_names(len(assignment.workers)), self._on_abandoned)
            log.info(
                "%s: runs generation %d, with %d workers", self._name, assignment.generation, len(assignment.workers)
            )
            await cluster.start()
            await self._supervise(cluster, registration, topology, watches, stop)
            await cluster.stop(drain=False)
            await self._last_words(registration)
            log.info("%s: ended in order", self._name)
            return 0
        except Exception:  # a defect of ours: the next parent adopts its workers
            log.exception("%s: its parent has failed", self._name)
            self._process.leave(BROKEN)
        finally:
            for watch in watches:
                watch.close()

    # -- beginning -----------------------------------------------------------------------------------------------------

    async def _wait_registered(
        self, watches: list[Watch], stop: asyncio.Event
    ) -> tuple[Registration, TopologyRecord, AssignmentRecord] | None:
        """Become the parent of the topology; None: it is not to be run here."""
        said = False
        while True:
            found = await self._read()
            if found is not None:
                topology, assignment = found
                order = order_for(topology, assignment, self._place.supervisor, None)
                if order in (Order.KILL, Order.MOVE) or topology is None or assignment is None:
                    log.info("%s is not to be run here", self._name)
                    return None
                place = self._place
                record = ParentRecord(
                    place.supervisor,
                    assignment.generation,
                    place.pid,
                    place.host,
                    "STARTING",
                    started_s=self._clock.now(),
                    process=place.process,
                )
                registration = Registration(self._coordination, self._name, record)
                with contextlib.suppress(UnavailableError):
                    if await self._kept(registration.register(self._process.has_ended)):
                        return registration, topology, assignment
                    if not said:
                        log.info("%s still has another parent: waits until that one has ended", self._name)
                        said = True
            if stop.is_set():
                self._process.leave(LEFT)
            await _any_of(watches, stop, RETRY_S if found is None else None)

    async def _read(self) -> _Found | None:
        """What the store has of the topology; None: it cannot be reached."""
        try:
            topology = await self._kept(self._record(TopologyRecord, TOPOLOGIES))
            assignment = await self._kept(self._record(AssignmentRecord, ASSIGNMENTS))
        except UnavailableError:
            return None
        return _Found(topology, assignment)

    async def _record(self, kind: type[_Record], folder: str) -> _Record | None:
        path = path_of(folder, self._name)
        node = await self._coordination.get(path)
        return None if node is None else unpack(kind, path, node.value)

    # -- running -------------------------------------------------------------------------------------------------------

    async def _supervise(
        self,
        cluster: LocalCluster,
        registration: Registration,
        topology: TopologyRecord,
        watches: list[Watch],
        stop: asyncio.Event,
    ) -> None:
        """Run the topology until it is to end, and end it in order."""
        async with asyncio.TaskGroup() as group:
            running = group.create_task(self._run(cluster, topology))
            others = [group.create_task(self._report(cluster, registration)), group.create_task(self._serve(cluster))]
            try:
                await self._follow(cluster, registration.record.generation, running, watches, stop)
            finally:
                for task in (running, *others):
                    task.cancel()

    async def _run(self, cluster: LocalCluster, topology: TopologyRecord) -> bool:
        """Submit it, and wait until it has finished. False: it has failed, or was killed."""
        try:
            running = await cluster.submit(
                self._name,
                topology.target,
                topology.config,
                arguments=topology.arguments,
                active=topology.wanted == "ACTIVE",
            )
            await running.wait_finished()
        except TopologyKilledError:  # from here
            return False
        except AiostormError as error:
            self._failure = str(error)
            log.error("%s has failed: %s", self._name, error)
            return False
        return True

    async def _follow(
        self,
        cluster: LocalCluster,
        generation: int,
        running: asyncio.Task[bool],
        watches: list[Watch],
        stop: asyncio.Event,
    ) -> None:
        """Do what the store wants, until the topology is to end; then end it."""
        while True:
            self._find(cluster)
            found = await self._read()
            if found is not None:
                order = order_for(*found, self._place.supervisor, generation)
                if order is Order.KILL:
                    wait_s = None if found.topology is None else found.topology.wait_s
                    return await self._end(running, wait_s)
                if order is Order.MOVE:
                    return await self._end(running, None)
                with contextlib.suppress(AiostormError):  # it fails, or ends: the task says so
                    await self._apply(order)
                if running.done() and running.result() and await self._finished():
                    return await self._end(running, None)
            if stop.is_set():
                self._process.leave(LEFT)
            due_s = RETRY_S if found is None or (running.done() and running.result()) else None
            await _any_of(watches, stop, due_s, None if running.done() else running)

    async def _apply(self, order: Order) -> None:
        """Activate or deactivate it, if it runs."""
        running = self._running
        if running is not None and order is Order.RUN and running.state == "INACTIVE":
            await running.activate()
        elif running is not None and order is Order.PAUSE and running.state == "ACTIVE":
            await running.deactivate()

    async def _finished(self) -> bool:
        """Its spouts have nothing more: it is to be taken out of the cluster. False: the store cannot be reached."""
        log.info("%s has finished", self._name)
        try:
            await self._kept(want(self._coordination, self._name, "KILLED"))
        except UnavailableError:
            return False
        except OrderError:  # it was killed meanwhile
            return True
        return True

    async def _end(self, running: asyncio.Task[bool], wait_s: float | None) -> None:
        """Drain it, and end its workers."""
        log.info("%s is ended", self._name)
        if self._running is not None:
            with contextlib.suppress(AiostormError):  # it had failed: that is known
                await self._running.kill(wait_s)
        running.cancel()

    # -- what others see -----------------------------------------------------------------------------------------------

    async def _serve(self, cluster: LocalCluster) -> None:
        """Answer other processes of its user."""
        while self._running is None:
            await self._clock.sleep(RETRY_S)
            self._find(cluster)
        await self._process.serve(self._running)

    def _find(self, cluster: LocalCluster) -> None:
        """The topology can be looked at, and ended, while it starts; the cluster forgets it when it has ended."""
        self._running = cluster.topologies.get(self._name, self._running)

    async def _report(self, cluster: LocalCluster, registration: Registration) -> None:
        """Keep the record and the errors what they are."""
        while True:
            self._find(cluster)
            try:
                await self._kept(self._update(cluster, registration))
            except (NoNodeError, BadVersionError):
                log.error(
                    "%s: the record of this parent was deleted: it leaves the topology to another one", self._name
                )
                self._process.leave(NO_STORE)
            except UnavailableError:
                log.debug("the store cannot be reached: the record is written later")
            await self._clock.sleep(REPORT_S)

    async def _update(self, cluster: LocalCluster, registration: Registration) -> None:
        running = self._running
        state = "STARTING" if running is None else running.state.value
        record = replace(
            registration.record,
            state="FAILED" if self._failure else state,
            degraded=self._failure or ("" if running is None else running.degraded),
            address=cluster.address,
            abandoned=self._abandoned,
        )
        if record.state != registration.record.state:
            log.info("%s is %s%s", self._name, record.state, f": {record.degraded}" if record.degraded else "")
        await registration.update(record)
        registration.add_errors(self._new_errors())
        await registration.write_errors(self._clock.monotonic())

    def _new_errors(self) -> list[ErrorEntry]:
        running = self._running
        found: list[ErrorEntry] = []
        for error in () if running is None else running.errors():
            entry = ErrorEntry(error.time, f"{error.component}[{error.task}] {error.where}", error.error)
            if (entry.at_s, entry.where) not in self._reported:
                self._reported.add((entry.at_s, entry.where))
                found.append(entry)
        if running is not None:  # those that are not kept any more are not asked for again
            self._reported &= {(e.time, f"{e.component}[{e.task}] {e.where}") for e in running.errors()}
        return found

    async def _last_words(self, registration: Registration) -> None:
        """The last errors; and the record ends, so that the next parent, or nimbus, goes on."""
        with contextlib.suppress(UnavailableError):
            registration.add_errors(self._new_errors())
            await self._kept(registration.write_errors(self._clock.monotonic(), at_once=True))
            await self._kept(registration.remove())

    def _on_abandoned(self, worker: str, pid: int) -> None:
        self._abandoned = (*self._abandoned, f"{worker}@{pid}")[-MOST_ABANDONED:]

    async def _kept(self, work: Coroutine[None, None, _Record]) -> _Record:
        """Do this with the store. If the session is lost, another parent may run the topology: leave at once."""
        try:
            return await work
        except SessionLostError:
            log.error("%s: the store has lost this parent: it leaves the topology to another one", self._name)
            self._process.leave(NO_STORE)


_WATCHED: Final = (TOPOLOGIES, ASSIGNMENTS, PARENTS)


async def _any_of(
    watches: list[Watch], stop: asyncio.Event, within_s: float | None, task: asyncio.Task[bool] | None = None
) -> None:
    """Wait until one of them has changed, or the task is done, or the time is over."""
    async with asyncio.TaskGroup() as group:
        own: list[asyncio.Task[Any]] = [group.create_task(watch.changed()) for watch in watches]
        own.append(group.create_task(stop.wait()))
        others = [] if task is None else [task]
        await asyncio.wait([*own, *others], timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
        for one in own:
            one.cancel()
