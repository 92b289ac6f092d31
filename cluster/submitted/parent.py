"""Submitted topology: the program of the process that runs one topology of a cluster. Supervisors start it.

    read /topologies/NAME, /assignments/NAME ─► register as its parent ─► LocalCluster: the workers join ─► follow ─┐
       ▲                                                                      ▲  rebuild: another plan, in the same │
       │                                                                      ╰── processes ◄───────────────────────┤
       ╰── started again by the supervisor ◄── killed, or the store has lost it      ended in order ◄── kill, move ─╯

1. Its workers are started by supervisors, and join by themselves. Those that a former parent has had are adopted.
2. It ends in order when the topology is to be killed, has finished, or is another one's to run: then its workers end,
   too. In any other case it leaves at once (`leave`), and its workers go on: with SIGTERM, when the store has lost its
   session, and when it is killed.
3. A rebalance that keeps this parent keeps the workers, too, that stay where they are: the topology is drained (with
   exactly once, a snapshot is taken), and its tasks are built anew in the same processes. A plan that does not run is
   taken back (trial.py).
4. A topology that fails is shown as FAILED, with the reason, until it is killed or rebalanced. It is not tried again
   and again; only one whose snapshots cannot be reached or written now is, since a disk that is full has space again.
5. Settings that are changed while it runs are taken over at once, and by each later parent (updates.py).
6. While the store cannot be reached, the topology runs on as it is.

From: Storm's nimbus and its topology master, of which each topology has one of its own here.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Coroutine
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from ...runtime import AiostormError, StoreError
from ...state import SaveError
from ..coordination import BadVersionError, NoNodeError, SessionLostError, UnavailableError, any_changed
from ..errors import TopologyKilledError
from ..nimbus import (
    ASSIGNMENTS,
    NO_STORE,
    PARENTS,
    TOPOLOGIES,
    AssignmentRecord,
    OrderError,
    ParentRecord,
    TopologyRecord,
    path_of,
    pinned_workers,
    unpack,
    want,
    worker_names,
)
from .findings import Findings
from .order import Order, order_for
from .registration import Registration
from .trial import RUNS, Trial
from .updates import Updates
from .waiting import any_of

if TYPE_CHECKING:
    from ...runtime import Clock
    from ..coordination import Coordination, Watch
    from ..local import LocalCluster
    from ..running_topology import RunningTopology
    from .place import ParentPlace, ParentProcess

log = logging.getLogger("aiostorm.parent")

RETRY_S: Final = 0.2
REPORT_S: Final = 0.5
"""Between two looks at the topology, for its record."""

AGAIN_S: Final = 5.0
"""Until a topology is started again whose snapshots could not be reached or written."""

BROKEN: Final = 1
LEFT: Final = 143

_WATCHED: Final = (TOPOLOGIES, ASSIGNMENTS, PARENTS)
_Record = TypeVar("_Record")


class _Found(NamedTuple):
    topology: TopologyRecord | None
    assignment: AssignmentRecord | None


class _Plan(NamedTuple):
    """What is run. `topology`: as of the generation of the assignment."""

    topology: TopologyRecord
    assignment: AssignmentRecord


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
        self._findings = Findings()
        self._running: RunningTopology | None = None
        self._trial = Trial(coordination, clock, name)
        self._updates = Updates(coordination, clock, name)
        self._rebalances = False
        self._ends = False

    async def run(self, stop: asyncio.Event) -> int:
        """Run the topology until it has ended in order, or is left. `stop`: SIGTERM. The exit code."""
        watches = [await self._coordination.watch(path_of(folder, self._name)) for folder in _WATCHED]
        try:
            found = await self._wait_registered(watches, stop)
            if found is None:
                return 0
            registration, topology, assignment = found
            count = len(assignment.workers)
            cluster = self._process.make_cluster(topology, worker_names(count), self._findings.gave_up)
            log.info("%s: runs generation %d, with %d workers", self._name, assignment.generation, count)
            await cluster.start()
            cluster.expect_remote(cluster.remote_names, since=assignment.since)
            await self._supervise(cluster, registration, _Plan(topology, assignment), watches, stop)
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
                    renewed=assignment.renewed,
                )
                registration = Registration(self._coordination, self._name, record)
                with contextlib.suppress(UnavailableError):
                    if await self._kept(registration.register(self._process.has_ended)):
                        return registration, topology.as_of(assignment.generation), assignment
                    if not said:
                        log.info("%s still has another parent: waits until that one has ended", self._name)
                        said = True
            if stop.is_set():
                self._process.leave(LEFT)
            await any_of(watches, stop, RETRY_S if found is None else None)

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
        plan: _Plan | None,
        watches: list[Watch],
        stop: asyncio.Event,
    ) -> None:
        """Run the topology, with one plan after the other, until it is to end, and end it in order."""
        async with asyncio.TaskGroup() as group:
            reporting = group.create_task(self._report(cluster, registration))
            try:
                while plan is not None:
                    plan = await self._run_plan(cluster, plan, watches, stop)
                    if plan is not None:
                        await self._begin_again(cluster, registration, plan, watches)
            finally:
                reporting.cancel()

    async def _run_plan(
        self, cluster: LocalCluster, plan: _Plan, watches: list[Watch], stop: asyncio.Event
    ) -> _Plan | None:
        """Run the topology, and end it; returns what it is to run next in the same processes."""
        async with asyncio.TaskGroup() as group:
            self._trial.begin(plan.topology, plan.assignment.generation)
            running = group.create_task(self._run(cluster, *plan))
            serving = group.create_task(self._serve(cluster))
            try:
                return await self._follow(cluster, plan.assignment, running, watches, stop)
            finally:
                running.cancel()
                serving.cancel()

    async def _begin_again(
        self, cluster: LocalCluster, registration: Registration, plan: _Plan, watches: list[Watch]
    ) -> None:
        """The topology has ended, for another generation: say so, since supervisors wait for it."""
        assignment = plan.assignment
        names = worker_names(len(assignment.workers))
        # They stay also if it does not start: the plan before goes on in them.
        cluster.expect_remote(names, names, since=assignment.since)
        self._running, self._failure, self._rebalances, self._ends = None, "", False, False
        log.info("%s: runs generation %d, with %d workers", self._name, assignment.generation, len(names))

        def begins(before: ParentRecord) -> ParentRecord:
            generation, renewed = assignment.generation, assignment.renewed
            return replace(before, generation=generation, renewed=renewed, state="STARTING", degraded="")

        while True:
            try:
                await self._kept(registration.update(begins))
            except UnavailableError:
                await any_changed(watches, RETRY_S)
            else:
                return

    async def _run(self, cluster: LocalCluster, topology: TopologyRecord, assignment: AssignmentRecord) -> bool:
        """Submit it, and wait until it has finished. False: it has failed, or was killed."""
        while not self._ends:
            try:
                running = await cluster.submit(
                    self._name,
                    topology.target,
                    self._updates.begin(topology),
                    arguments=topology.arguments,
                    active=topology.wanted == "ACTIVE",
                    parallelism=topology.parallelism,
                    pinned=pinned_workers(topology, assignment),
                )
                await running.wait_finished()
            except TopologyKilledError:  # from here
                return False
            except (SaveError, StoreError) as error:
                self._failure = str(error)
                log.error("%s has failed, and is started again in %g s: %s", self._name, AGAIN_S, error)
                await self._clock.sleep(AGAIN_S)
                self._running, self._failure = None, ""
            except AiostormError as error:
                if self._updates.set_aside(error):
                    continue
                self._failure = str(error)
                log.error("%s has failed: %s", self._name, error)
                return False
            else:
                return True
        return False

    async def _follow(
        self,
        cluster: LocalCluster,
        assignment: AssignmentRecord,
        running: asyncio.Task[bool],
        watches: list[Watch],
        stop: asyncio.Event,
    ) -> _Plan | None:
        """Do what the store wants, until the topology is to end; then end it. What is to be run after that."""
        while True:
            self._find(cluster)
            found = await self._read()
            if found is not None:
                order = order_for(*found, self._place.supervisor, assignment.generation)
                if order in (Order.KILL, Order.MOVE, Order.REBUILD):
                    stay = assignment.staying(found.assignment) if order is Order.REBUILD else ()
                    cluster.expect_remote(cluster.remote_names, stay, since=assignment.since)
                    self._rebalances = order is not Order.KILL
                    await self._end(cluster, None if found.topology is None else found.topology.wait_s, watches)
                    return await self._next_plan(assignment.generation, watches) if self._rebalances else None
                with contextlib.suppress(AiostormError):  # it fails, or ends: the task says so
                    await self._apply(order)
                    await self._take_settings(found.topology)
                if running.done() and running.result() and await self._finished():
                    self._let_go(cluster)
                    await self._end(cluster, None, watches)
                    return None
            if stop.is_set():
                self._process.leave(LEFT)
            due_s = RETRY_S if found is None or (running.done() and running.result()) else None
            await any_of(watches, stop, due_s, None if running.done() else running)

    async def _apply(self, order: Order) -> None:
        """Activate or deactivate it, if it runs."""
        running = self._running
        if running is not None and order is Order.RUN and running.state == "INACTIVE":
            await running.activate()
        elif running is not None and order is Order.PAUSE and running.state == "ACTIVE":
            await running.deactivate()

    async def _take_settings(self, topology: TopologyRecord | None) -> None:
        """Give it the settings that were changed, if it runs."""
        running = self._running
        if topology is not None and running is not None and running.state in RUNS:
            await self._kept(self._updates.follow(topology, running))

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

    async def _end(self, cluster: LocalCluster, wait_s: float | None, watches: list[Watch]) -> None:
        """Drain it, and end its tasks, and its workers unless they stay.

        Meanwhile an order to kill it holds, and may give it less time.
        """
        log.info("%s is ended", self._name)
        self._ends = True
        until_s: float | None = None
        async with asyncio.TaskGroup() as group:
            ending = group.create_task(self._kill(wait_s))
            while not ending.done():
                left_s = None if until_s is None else max(0.0, until_s - self._clock.monotonic())
                await any_of(watches, None, left_s, ending)
                found = await self._read() if self._rebalances else None
                if found is not None and (found.topology is None or found.topology.wanted == "KILLED"):
                    self._rebalances = False
                    self._let_go(cluster)
                    limit_s = None if found.topology is None else found.topology.wait_s
                    until_s = None if limit_s is None else self._clock.monotonic() + limit_s
                if until_s is not None and self._clock.monotonic() >= until_s:
                    await self._kill(0)

    def _let_go(self, cluster: LocalCluster) -> None:
        """No worker stays when the topology ends."""
        cluster.expect_remote(cluster.remote_names)

    async def _kill(self, wait_s: float | None) -> bool:
        if self._running is not None:
            with contextlib.suppress(AiostormError):  # it had failed: that is known
                await self._running.kill(wait_s)
        return True

    async def _next_plan(self, generation: int, watches: list[Watch]) -> _Plan | None:
        """What is to be run in the same processes, after this generation; None: nothing."""
        while (found := await self._read()) is None:
            await any_changed(watches, RETRY_S)
        topology, assignment = found
        order = order_for(topology, assignment, self._place.supervisor, generation)
        if order in (Order.KILL, Order.MOVE) or topology is None or assignment is None:
            return None
        return _Plan(topology.as_of(assignment.generation), assignment)

    # -- what others see -----------------------------------------------------------------------------------------------

    async def _serve(self, cluster: LocalCluster) -> None:
        """Answer other processes of its user."""
        while True:
            self._find(cluster)
            if (running := self._running) is None:
                await self._clock.sleep(RETRY_S)
                continue
            async with asyncio.TaskGroup() as group:
                serving = group.create_task(self._process.serve(running))
                while self._running is running:
                    await self._clock.sleep(REPORT_S)
                serving.cancel()

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
        await self._trial.look(self._state(), self._failure)
        await registration.update(lambda before: self._shown(before, cluster.address))
        registration.add_errors(self._findings.new_errors(self._running))
        await registration.write_errors(self._clock.monotonic())

    def _state(self) -> str:
        return "STARTING" if self._running is None else self._running.state.value

    def _shown(self, before: ParentRecord, address: str) -> ParentRecord:
        """The record as it is to be now."""
        state = "REBALANCING" if self._rebalances else "FAILED" if self._failure else self._state()
        degraded = self._failure or ("" if self._running is None else self._running.degraded)
        if state != before.state:
            log.info("%s is %s%s", self._name, state, f": {degraded}" if degraded else "")
        abandoned, updated = self._findings.abandoned, self._updates.number
        return replace(before, state=state, degraded=degraded, address=address, abandoned=abandoned, updated=updated)

    async def _last_words(self, registration: Registration) -> None:
        """The last errors; and the record ends, so that the next parent, or nimbus, goes on."""
        with contextlib.suppress(UnavailableError):
            registration.add_errors(self._findings.new_errors(self._running))
            await self._kept(registration.write_errors(self._clock.monotonic(), at_once=True))
            await self._kept(registration.remove())

    async def _kept(self, work: Coroutine[None, None, _Record]) -> _Record:
        """Do this with the store. If the session is lost, another parent may run the topology: leave at once."""
        try:
            return await work
        except SessionLostError:
            log.error("%s: the store has lost this parent: it leaves the topology to another one", self._name)
            self._process.leave(NO_STORE)
