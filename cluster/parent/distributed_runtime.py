"""DistributedRuntime: a topology on several workers, as a TopologyRuntime (see runtimes.py).

    RunningTopology ─► DistributedRuntime ─┬─ worker handle of worker-1 ═ worker-1: a part of the tasks
                                           └─ worker handle of worker-2 ═ worker-2: the others

1. All workers have loaded the topology before any prepares, and all bolts are prepared before any spout opens. A
   restarted worker goes through the same steps alone, while the others continue.
2. The death of a worker is sent to all others at once, in two steps: first nothing is sent to it any more; then the
   spouts fail their pending messages, which are replayed. Nothing waits for a timeout.
3. Idle is an exact answer (distributed_idle.py). While a worker is away, the topology is not idle.
4. A worker that cannot load the topology makes the start fail. Later it counts as a task that has failed for good.
5. A worker that receives SIGTERM is replaced without a replay: all spouts pause, all tuples are processed, then the
   worker ends and another one takes its place.

From: Storm's supervisor and nimbus in one; theirs communicate through ZooKeeper.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

from ...backpressure import Backpressure, PressureEvent
from ...metrics import ComponentMetrics, TaskMetrics, TopologyMetrics
from ...runtime import Stall
from ...tasks import ErrorReport
from ...topology import ACKER_COMPONENT, Config, Plan, Topology, make_plan
from ..distributed_idle import DistributedIdleDetector, IdleReport
from ..errors import WorkerError, WorkerTaskError
from ..fingerprint import code_of, fingerprint
from ..messages import Connect, GetIdleReport, LoadTopology, PeerDied, PeerEnded, StatusReport, TaskGaveUp, UpdateConfig
from ..runtimes import OnTaskGaveUp, WorkerStatus
from ..scheduler import place, tasks_on_driver
from ..worker.service import shape_of
from .assignment import Assignment, settings_of
from .worker_handle import WorkerHandle
from .worker_queries import idle_report, notify_all, results_of
from .worker_registry import WorkerRegistry

log = logging.getLogger("aiostorm.cluster")

KEPT: Final = 200
FIRST_S: Final = 0.002
AGAIN_S: Final = 0.1
"""Time between two rounds of idle reports: at first, and at most."""


class DistributedRuntime:
    """The workers of one topology. A TopologyRuntime; the WorkerGroup of its worker handles."""

    def __init__(
        self,
        registry: WorkerRegistry,
        name: str,
        topology: Topology,
        config: Config,
        assignment: Assignment,
        gave_up: OnTaskGaveUp,
    ) -> None:
        self._wanted_mode = "inactive"
        self._replacing = 0
        self._gathering = asyncio.Lock()
        self._registry = registry
        self._name = name
        self._topology = topology
        self._config = config
        self._assignment = assignment
        self._on_task_gave_up = gave_up
        self.code = code_of(assignment.target)
        self._plan = make_plan(topology, config)
        on_driver = bool(tasks_on_driver(topology, self._plan))
        infos = registry.allocate(assignment.workers, assignment.remote_workers, on_driver=on_driver)
        names = [info.name for info in infos]
        self._placement = place(topology, self._plan, infos)
        tasks = {n: tuple(t for t, worker in self._placement.items() if worker == n) for n in names}
        self._timings = assignment.timings
        self.worker_handles = {n: WorkerHandle(n, tasks[n], registry, self, self._timings) for n in names}
        self._steps: dict[str, set[str]] = {step: set() for step in ("loaded", "connected", "prepared", "ready")}
        self._waiting: dict[asyncio.Future[None], None] = {}
        self._notifying: Counter[str] = Counter()
        self._failure: Exception | None = None
        self._errors: deque[ErrorReport] = deque(maxlen=KEPT)
        self._stalls: deque[Stall] = deque(maxlen=KEPT)
        self._events: deque[PressureEvent] = deque(maxlen=KEPT)
        self._pressure = Backpressure(config.backpressure_enable)
        self._ending = False
        self._started = False

    # -- TopologyRuntime: queries -------------------------------------------------------------------------------------

    @property
    def plan(self) -> Plan:
        return self._plan

    @property
    def mode(self) -> str:
        """The mode of the spouts: inactive while a worker is replaced."""
        return "inactive" if self._replacing and self._wanted_mode == "active" else self._wanted_mode

    @property
    def degraded(self) -> str:
        return "; ".join(f"{n}: {s.life.degraded}" for n, s in self.worker_handles.items() if s.life.degraded)

    def workers(self) -> list[WorkerStatus]:
        return [worker_handle.status for worker_handle in self.worker_handles.values()]

    def metrics(self) -> TopologyMetrics:
        by_task: dict[int, TaskMetrics] = {}
        for worker_handle in self.worker_handles.values():
            by_task.update(worker_handle.metrics)
        found = []
        for component, tasks in self._plan.tasks_of.items():
            kind = "acker" if component == ACKER_COMPONENT else self._topology.components[component].kind
            if tasks:
                metrics = tuple(by_task.get(task) or TaskMetrics(task) for task in tasks)
                found.append(ComponentMetrics(component, kind, metrics))
        return TopologyMetrics(found)

    def errors(self) -> list[ErrorReport]:
        return list(self._errors)

    def stalls(self) -> list[Stall]:
        return list(self._stalls)

    def pending(self) -> dict[str, list[Any]]:
        """At most 1000 ids of each worker; an id that cannot be sent is shown as text."""
        found: dict[str, list[Any]] = {spout.id: [] for spout in self._topology.spouts}
        for worker_handle in self.worker_handles.values():
            for component, ids in worker_handle.pending.items():
                found.setdefault(component, []).extend(ids)
        return found

    def backpressure(self) -> Backpressure:
        """The last report of the worker with the topology master, with the events of all its processes."""
        return replace(self._pressure, events=tuple(self._events))

    async def update(self, config: Config) -> None:
        """A worker that is started later has these settings from its start."""
        self._config = config
        await notify_all(list(self.worker_handles.values()), UpdateConfig(settings_of(self._config)))

    async def results(self) -> dict[str, list[Any]]:
        """Waits for a worker that is being restarted; WorkerError if one ends meanwhile."""
        by_task: dict[int, Any] = {}
        async with self._gathering:  # a worker keeps only its last results
            for worker_handle in self.worker_handles.values():
                while not worker_handle.works:
                    if self._ending or self.degraded:
                        raise WorkerError(f"{worker_handle.name} does not run: {self.degraded or 'the topology ends'}")
                    await self._wait_change()
                by_task.update(await results_of(worker_handle))
        found: dict[str, list[Any]] = {}
        for task in self._plan.tasks:
            if task.task_id in by_task:
                found.setdefault(task.component, []).append(by_task[task.task_id])
        return found

    # -- TopologyRuntime: control --------------------------------------------------------------------------------------

    async def start(self, ended: asyncio.Future[None]) -> None:
        """Raises WorkerError, TargetError and the like if a worker cannot load the topology."""
        for worker_handle in self.worker_handles.values():
            worker_handle.begin()
        while not ended.done() and self._failure is None and len(self._steps["ready"]) < len(self.worker_handles):
            if any(
                worker_handle.life.degraded and not worker_handle.life.is_missed
                for worker_handle in self.worker_handles.values()
            ):
                self._failure = WorkerError(self._start_failure())
                break
            await self._wait_change(ended)
        if self._failure is not None:
            raise self._failure
        self._started = True

    def set_active(self, active: bool) -> None:
        self._set_mode("active" if active else "inactive")

    def end_spouts(self) -> None:
        self._set_mode("ended")

    async def wait_quiet(
        self,
        *,
        finished: bool,
        quiet_s: float,
        broken: Callable[[], None],
        held: bool = False,
        until: Callable[[], bool] | None = None,
    ) -> None:
        while True:
            await self._wait_quiet(GetIdleReport(self.mode, finished, held, quiet_s), broken, until)
            if not self._replacing or self._wanted_mode != "active":
                return
            while self._replacing:  # the spouts pause only while a worker is replaced
                broken()
                await self._wait_change()

    async def _wait_quiet(
        self, question: GetIdleReport, broken: Callable[[], None], until: Callable[[], bool] | None = None
    ) -> None:
        detector = DistributedIdleDetector(self.worker_handles)
        pause_s = FIRST_S
        while True:
            broken()
            reports = await self._ask_all(replace(question, mode=self.mode))
            broken()
            quiet = reports is not None and all(report.quiet for report in reports)
            if reports is not None and detector.round(reports) and (until is None or until()):
                return
            pause_s = FIRST_S if quiet else min(2 * pause_s, AGAIN_S)
            await self._wait_change(timeout_s=pause_s)

    def wake(self) -> None:
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(None)

    async def stop(self) -> None:
        await self._finish(self._config.graceful_stop_s + self._timings.shutdown_s, at_once=False)

    async def kill(self) -> None:
        await self._finish(self._timings.shutdown_s, at_once=True)

    def abort(self) -> None:
        self._ending = True
        for worker_handle in self.worker_handles.values():
            worker_handle.kill()

    # -- WorkerGroup ---------------------------------------------------------------------------------------------------

    @property
    def target(self) -> str:
        return self._assignment.target

    def load_command(self, worker_handle: WorkerHandle) -> LoadTopology:
        return LoadTopology(
            name=self._name,
            target=self._assignment.target,
            arguments=self._assignment.arguments,
            config=settings_of(self._config),
            placement=dict(self._placement),
            shape=shape_of(self._topology),
            code=fingerprint(self.code),
        )

    def connect_command(self, worker_handle: WorkerHandle) -> Connect:
        """Of two workers, the later one dials."""
        names = list(self.worker_handles)
        mine = names.index(worker_handle.name)
        peers = {
            peer: self.worker_handles[peer].address if place_in_order < mine else None
            for place_in_order, peer in enumerate(names)
            if peer != worker_handle.name
        }
        return Connect(peers, {n: s.node for n, s in self.worker_handles.items() if s.node})

    async def wait_for_step(self, worker_handle: WorkerHandle, step: str) -> None:
        self._steps[step].add(worker_handle.name)
        self.wake()
        while len(self._steps[step]) < len(self.worker_handles):
            await self._wait_change()

    async def wait_for_turn(self, worker_handle: WorkerHandle) -> None:
        """Also waits until the others know of the end of the worker's previous process."""
        names = list(self.worker_handles)
        earlier = set(names[: names.index(worker_handle.name)])
        while self._notifying[worker_handle.name] or not earlier <= self._steps["connected"]:
            await self._wait_change()

    def on_connected(self, worker_handle: WorkerHandle) -> None:
        self._steps["connected"].add(worker_handle.name)
        self.wake()
        for other in self._others(worker_handle):
            other.peer_restarted(worker_handle.name, worker_handle.address)

    def on_ready(self, worker_handle: WorkerHandle) -> None:
        self._steps["ready"].add(worker_handle.name)
        self.wake()

    def on_died(self, worker_handle: WorkerHandle, life: int) -> None:
        self.wake()
        if not self._ending:
            self._notifying[worker_handle.name] += 1
            work = self._notify_others(worker_handle, life)
            self._registry.system.guard(work, name=f"notify of the end of {worker_handle.name}")

    def on_status(self, worker_handle: WorkerHandle, status: StatusReport) -> None:
        self._errors.extend(status.errors)
        self._stalls.extend(status.stalls)
        if status.pressure is not None:
            self._events.extend(status.pressure.events)
            self._pressure = status.pressure

    def on_task_gave_up(self, worker_handle: WorkerHandle, report: TaskGaveUp) -> None:
        error = WorkerTaskError(f"{report.error} (in {worker_handle.name})")
        error.add_note(report.traceback)
        self._on_task_gave_up(report.path, error)
        self.wake()

    def on_failed(self, error: Exception) -> None:
        if self._started:
            self._on_task_gave_up(f"/{self._name}/a worker", error)
        elif self._failure is None:
            self._failure = error
        self.wake()

    def on_leaving(self, worker_handle: WorkerHandle, within_s: float) -> None:
        if not self._ending and self.mode != "ended":
            work = self._replace(worker_handle, within_s)
            self._registry.system.guard(work, name=f"replace {worker_handle.name}")

    # -- inside ------------------------------------------------------------------------------------------------------

    async def _notify_others(self, worker_handle: WorkerHandle, life: int) -> None:
        """Send PeerEnded to all others, then PeerDied (see Exchange.peer_ended)."""
        try:
            for news in (PeerEnded(worker_handle.name, life), PeerDied(worker_handle.name, life)):
                await notify_all(self._others(worker_handle), news)
        finally:
            self._notifying[worker_handle.name] -= 1
            self.wake()

    def _others(self, worker_handle: WorkerHandle) -> list[WorkerHandle]:
        return [other for other in self.worker_handles.values() if other is not worker_handle]

    def _set_mode(self, mode: str) -> None:
        if self._wanted_mode != "ended":
            self._wanted_mode = mode
            self._apply()

    def _apply(self) -> None:
        for worker_handle in self.worker_handles.values():
            worker_handle.set_mode(self.mode)
        self.wake()

    async def _wait_change(self, ended: asyncio.Future[None] | None = None, timeout_s: float | None = None) -> None:
        """Wait until something may have changed."""
        with self._awaited() as changed:
            waited: set[asyncio.Future[None]] = {changed} if ended is None else {changed, ended}
            await asyncio.wait(waited, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)

    @contextmanager
    def _awaited(self) -> Iterator[asyncio.Future[None]]:
        """A future that `wake` completes."""
        changed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[changed] = None
        try:
            yield changed
        finally:
            del self._waiting[changed]

    async def _ask_all(self, question: GetIdleReport) -> Sequence[IdleReport] | None:
        """The reports of all workers; None if one is away, or something changes meanwhile."""
        if not all(worker_handle.works for worker_handle in self.worker_handles.values()):
            return None
        with self._awaited() as changed:
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(idle_report(worker_handle, question))
                    for worker_handle in self.worker_handles.values()
                ]
                left: set[asyncio.Future[Any]] = set(tasks)
                while left and not changed.done():
                    await asyncio.wait({*left, changed}, return_when=asyncio.FIRST_COMPLETED)
                    left = {answer for answer in left if not answer.done()}
                for answer in left:
                    answer.cancel()
        answers = [None if answer.cancelled() else answer.result() for answer in tasks]
        return None if None in answers else [answer for answer in answers if answer is not None]

    async def _finish(self, limit_s: float, *, at_once: bool) -> None:
        self._ending = True
        async with asyncio.TaskGroup() as group:
            for worker_handle in self.worker_handles.values():
                group.create_task(worker_handle.finish(limit_s, at_once=at_once), name=f"{worker_handle.name}: end")

    async def _replace(self, worker_handle: WorkerHandle, within_s: float) -> None:
        log.info("%s was asked to end: the spouts of %s pause until it is replaced", worker_handle.name, self._name)
        self._replacing += 1
        self._apply()
        try:
            await self._replaced(worker_handle, within_s)
        finally:
            self._replacing -= 1
            self._apply()

    async def _replaced(self, worker_handle: WorkerHandle, within_s: float) -> None:
        if worker_handle.works:  # otherwise it has no tuples yet
            try:
                async with asyncio.timeout(within_s * 0.8):
                    await self._wait_quiet(GetIdleReport(self.mode, False, False, 0.0), lambda: None)
            except TimeoutError:
                log.warning(
                    "%s: not all tuples were processed before %s ended: they are replayed",
                    self._name,
                    worker_handle.name,
                )
            else:
                log.info("%s: all tuples are processed, %s ends", self._name, worker_handle.name)
        try:
            await worker_handle.replace(within_s * 0.2)
            async with asyncio.timeout(self._timings.replace_s):
                while worker_handle.works:
                    await self._wait_change()
                while not worker_handle.works:
                    await self._wait_change()
        except TimeoutError:
            log.warning("%s was not replaced within %g s", worker_handle.name, self._timings.replace_s)

    def _start_failure(self) -> str:
        last = [f"the last lines of {n}: {' | '.join(lines)}" for n in self.worker_handles if (lines := self._last(n))]
        return "; ".join([f"the workers cannot be started: {self.degraded}", *last])

    def _last(self, name: str) -> list[str]:
        return self._registry.last_lines(name)[-5:]
