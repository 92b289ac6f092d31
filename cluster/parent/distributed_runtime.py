"""DistributedRuntime: a topology on several workers, as a TopologyRuntime (see runtimes.py).

    RunningTopology ─► DistributedRuntime ─┬─ worker handle of worker-1 ═ worker-1: a part of the tasks
                                           └─ worker handle of worker-2 ═ worker-2: the others

1. All workers have imported the topology before any prepares, and all bolts are prepared before any spout opens. A
   restarted worker goes through the same steps alone, while the others continue.
2. The death of a worker is sent to all others at once, in two steps: first nothing is sent to it any more; then the
   spouts fail their pending messages, which are replayed. Nothing waits for a timeout.
3. Idle is an exact answer (distributed_idle.py). While a worker is away, the topology is not idle.
4. A worker that cannot import the topology makes the start fail. Later it counts as a task that has failed for good.
5. A worker that receives SIGTERM is replaced without a replay: all spouts pause, all tuples are processed, then the
   worker ends and another one takes its place.
6. With exactly once it is a Rebuildable, and 2 and 5 do not hold: whatever ends, the tasks of all workers are built
   again, by `rebuild` (builds.py). It is called for that, once for each build that is broken: `on_worker_lost` for a
   worker, `gave_up` for a task. A worker that ends while a build is under way is not reported: the build goes on.
7. Workers that outlive their parent are adopted by the next one (adoption.py). Until a mode was asked for, their spouts
   keep the one that they have: so they emit without a gap.

From: Storm's supervisor and nimbus in one; theirs communicate through ZooKeeper.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Final

from ...tasks import CommitSnapshot
from ..changes import Changes
from ..distributed_idle import DistributedIdleDetector, IdleReport
from ..errors import WorkerError, WorkerTaskError
from ..idle_detection import IdleGoal
from ..messages import (
    GetIdleReport,
    PeerDied,
    PeerEnded,
    SetLogLevel,
    StatusReport,
    TakeProfile,
    TaskGaveUp,
    UpdateConfig,
    WantTraces,
)
from .adoption import Survivors
from .assignment import Deployment, settings_of
from .builds import Builds, ExactlyOnce
from .reports import DistributedReports
from .worker_handle import WorkerHandle
from .worker_queries import fetch_spans, idle_report, notify_all, results_of

if TYPE_CHECKING:
    from ...actors import Answer
    from ...metrics import Trace
    from ...runtime import Profile
    from ...topology import Config, Plan, Result
    from ..messages import Standing
    from ..runtimes import Mode, OnTaskGaveUp
    from ..snapshots.messages import SnapshotCommand, SnapshotReport, SnapshotSetup
    from .worker_lifecycle import LifecycleTimings
    from .worker_registry import WorkerRegistry

log = logging.getLogger("aiostorm.cluster")

PROFILE_S: Final = 2.0
"""After the end of a profile, its workers have so long to send it."""

FIRST_S: Final = 0.002
AGAIN_S: Final = 0.1
"""Time between two rounds of idle reports: at first, and at most."""


class SpoutMode:
    """The mode of the spouts of a topology: what was asked for last, and a pause while a worker is replaced.

    `decided`: was it asked for? Until then workers that were adopted keep theirs.
    """

    def __init__(self) -> None:
        self.wanted: Mode = "inactive"
        self.decided = False
        self.pauses = 0

    @property
    def now(self) -> Mode:
        """The mode that all workers have to apply."""
        return "inactive" if self.pauses and self.wanted == "active" else self.wanted


class DistributedRuntime:
    """The workers of one topology. A TopologyRuntime; its worker handles report to it."""

    def __init__(
        self,
        registry: WorkerRegistry,
        deployment: Deployment,
        gave_up: OnTaskGaveUp,
        exactly_once: ExactlyOnce | None = None,
    ) -> None:
        self._registry = registry
        self._deployment = deployment
        self._on_task_gave_up = gave_up
        self._changes = Changes()
        builds = self._builds = Builds(deployment.workers, self._changes, exactly_once)
        self.worker_handles = {n: WorkerHandle(n, registry, deployment, builds, self) for n in deployment.workers}
        self.reports = DistributedReports(deployment, self.worker_handles)
        self._spout_mode = SpoutMode()
        self._survivors = Survivors()
        self._gathering = asyncio.Lock()
        self._ending: asyncio.Future[None] = registry.system.loop.create_future()

    # -- TopologyRuntime -----------------------------------------------------------------------------------------------

    @property
    def plan(self) -> Plan:
        return self._deployment.plan

    @property
    def mode(self) -> Mode:
        """The mode of the spouts: inactive while a worker is replaced."""
        return self._spout_mode.now

    async def update(self, config: Config) -> None:
        """A worker that is started later has these settings from its start."""
        self._deployment.config = config
        await notify_all(self._handles, UpdateConfig(settings_of(config)))

    async def want_traces(self, spouts: Sequence[str], count: int) -> None:
        await notify_all(self._handles, WantTraces(tuple(spouts), count))

    async def profile(self, seconds: float) -> list[Profile]:
        before = set(self.reports.profiles())
        awaited = {worker_handle.name for worker_handle in self._handles if worker_handle.works}
        found: list[Profile] = []
        with contextlib.suppress(TimeoutError):  # a worker that is blocked has sent what it does
            async with asyncio.timeout(seconds + PROFILE_S):
                await notify_all(self._handles, TakeProfile(seconds))
                while awaited - {profile.worker for profile in found if not profile.blocked_s}:
                    await self._changes.wait()
                    found = [profile for profile in self.reports.profiles() if profile not in before]
        return found

    async def fresh_traces(self) -> list[Trace]:
        await fetch_spans(self._handles)
        return self.reports.traces()

    async def set_log_level(self, logger: str, level: str) -> None:
        """A worker that is started later has the level of its start."""
        await notify_all(self._handles, SetLogLevel(logger, level))

    async def results(self, broken: Callable[[], None]) -> dict[str, list[Result]]:
        """Waits for a worker that is being restarted; WorkerError if one ends meanwhile.

        With exactly once, all results are of one build: it waits for the next one if one is lost meanwhile.
        """
        async with self._gathering:  # a worker keeps only its last results
            while True:
                build = self._builds.current
                try:
                    by_task = await self._results_by_task(broken)
                except WorkerError:
                    if self._builds.exactly_once is None or self._ending.done() or self.reports.degraded:
                        raise
                    if self._builds.current is build and self._builds.are_whole:
                        raise
                    continue
                if self._builds.exactly_once is None or self._builds.current is build:
                    break
        found: dict[str, list[Result]] = {}
        for task in self.plan.tasks:
            if task.task_id in by_task:
                found.setdefault(task.component, []).append(by_task[task.task_id])
        return found

    async def start(self, ended: asyncio.Future[None]) -> None:
        """Raises WorkerError, TargetError and the like if a worker cannot import the topology."""
        for worker_handle in self._handles:
            worker_handle.begin()
        await self._builds.wait_complete(ended, self._check_start)

    # -- Rebuildable ---------------------------------------------------------------------------------------------------

    def send(self, command: SnapshotCommand) -> None:
        """Send a command to the tasks of all workers whose tasks run."""
        setup = self._builds.current.setup
        progress = isinstance(command, CommitSnapshot) and setup is not None and command.number != setup.number
        for worker_handle in self._handles:
            worker_handle.send(command)
            if progress:
                worker_handle.lifecycle.progressed()

    async def rebuild(self, setup: SnapshotSetup) -> None:
        """End all tasks at once, and build them again. Its incarnation is greater than the one before (ValueError).

        Returns when all workers are ready, or a task has failed for good again, for which `gave_up` was called. If
        `rebuild` is called again meanwhile, the earlier call returns with the later one. A worker that ends meanwhile
        is started again, and takes part. Raises what `start` raises, and WorkerError if the topology ends. A cancelled
        call does not end the build.
        """
        self._builds.begin(setup)
        await self._builds.wait_complete(self._ending)
        if self._ending.done():
            raise WorkerError(f"topology {self._deployment.name!r} ends: its tasks are not built again")

    def set_mode(self, mode: Mode) -> None:
        if self._spout_mode.wanted != "ended":
            self._spout_mode.wanted = mode
            self._spout_mode.decided = True
            self._send_mode()

    async def wait_quiet(self, goal: IdleGoal, broken: Callable[[], None]) -> None:
        while True:
            await self._wait_quiet(goal, broken)
            if self.mode == self._spout_mode.wanted:
                return
            while self.mode != self._spout_mode.wanted:  # the spouts pause only while a worker is replaced
                broken()
                await self._changes.wait()

    def wake(self) -> None:
        self._changes.notify()

    async def stop(self) -> None:
        await self._finish(self._deployment.config.graceful_stop_s + self._timings.shutdown_s, at_once=False)

    async def kill(self) -> None:
        await self._finish(self._timings.shutdown_s, at_once=True)

    def abort(self) -> None:
        self._end()
        for worker_handle in self._handles:
            worker_handle.kill()

    # -- WorkerEvents --------------------------------------------------------------------------------------------------

    def nodes(self) -> dict[str, str]:
        return {worker_handle.name: worker_handle.node for worker_handle in self._handles if worker_handle.node}

    @property
    def ordered_mode(self) -> str:
        return self._spout_mode.now if self._spout_mode.decided else ""

    def may_adopt(self, worker: str, standing: Standing) -> bool:
        incarnation = self._registry.incarnation(worker)
        if self._survivors.accuser(worker, incarnation):
            return False
        for other in self._survivors.adopt(worker, incarnation, standing):
            self.worker_handles[other].give_up(f"an earlier parent had given it up, and notified {worker}")
        return True

    def on_all_imported(self, worker: str) -> None:
        if incarnations := self._survivors.ended(worker):
            self._notify_of_end(worker, incarnations)

    def on_connected(self, worker: str) -> None:
        for other in self._others(worker):
            other.peer_restarted(worker, self._registry.address_of(worker))

    def on_process_ended(self, worker: str, incarnation: int) -> None:
        self._changes.notify()
        if self._ending.done():
            return
        if self._builds.exactly_once is not None:
            self._builds.process_ended(worker)
            return
        self._notify_of_end(worker, {incarnation, *self._survivors.ended(worker)})

    def on_news(self, status: StatusReport) -> None:
        self.reports.take(status)

    def on_task_gave_up(self, worker: str, report: TaskGaveUp) -> None:
        if self._builds.exactly_once is not None:
            if report.build != self._builds.current.build or self._builds.current.is_broken:
                return  # these tasks are ended anyway
            self._builds.task_gave_up()
        error = WorkerTaskError(f"{report.error} (in {worker})")
        error.add_note(report.traceback)
        self._on_task_gave_up(report.path, error)
        self._changes.notify()

    def on_profile(self, worker: str, profile: Profile) -> None:
        self.reports.keep_profile(worker, profile)
        self._changes.notify()

    def on_snapshot_report(self, report: SnapshotReport) -> None:
        if self._builds.exactly_once is not None and not self._ending.done():
            self._builds.exactly_once.on_report(report)

    def on_failed(self, error: Exception) -> None:
        if not self._builds.worker_failed(error):
            self._on_task_gave_up(f"/{self._deployment.name}/a worker", error)

    def on_leaving(self, worker: str, within_s: float) -> None:
        if not self._ending.done() and self.mode != "ended":
            work = self._replace(self.worker_handles[worker], within_s)
            self._registry.system.guard(work, name=f"replace {worker}")

    # -- idle ----------------------------------------------------------------------------------------------------------

    async def _wait_quiet(self, goal: IdleGoal, broken: Callable[[], None]) -> None:
        detector = DistributedIdleDetector(self._asked())
        pause_s = FIRST_S
        while True:
            broken()
            if detector.workers != self._asked().keys():
                detector = DistributedIdleDetector(self._asked())
            reports = await self._ask_all(goal, self._asked())
            broken()
            quiet = reports is not None and all(report.quiet for report in reports)
            if reports is not None and detector.round(reports) and (goal.until is None or goal.until()):
                return
            pause_s = FIRST_S if quiet else min(2 * pause_s, AGAIN_S)
            await self._changes.wait(timeout_s=pause_s)

    def _asked(self) -> dict[str, WorkerHandle]:
        """The workers that have to be idle.

        Once the spouts have ended, a remote worker that has left is none of them: its next process will have no work.
        """
        if self.mode != "ended" or self._builds.exactly_once is not None:
            return self.worker_handles
        return {
            name: worker
            for name, worker in self.worker_handles.items()
            if not worker.is_absent or self._builds.current.is_notifying(name)
        }

    async def _ask_all(self, goal: IdleGoal, asked: Mapping[str, WorkerHandle]) -> Sequence[IdleReport] | None:
        """The reports of these workers; None if one is away, or something changes meanwhile."""
        if not self._builds.are_whole or not all(worker_handle.works for worker_handle in asked.values()):
            return None
        away = tuple(self.worker_handles.keys() - asked.keys())
        question = GetIdleReport(self.mode, goal.finished, goal.still, goal.quiet_s, away)
        with self._changes.next() as changed:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(idle_report(worker_handle, question)) for worker_handle in asked.values()]
                left: set[asyncio.Future[Answer]] = set(tasks)
                while left and not changed.done():
                    await asyncio.wait({*left, changed}, return_when=asyncio.FIRST_COMPLETED)
                    left = {answer for answer in left if not answer.done()}
                for answer in left:
                    answer.cancel()
        answers = [None if answer.cancelled() else answer.result() for answer in tasks]
        return None if None in answers else [answer for answer in answers if answer is not None]

    # -- inside --------------------------------------------------------------------------------------------------------

    async def _results_by_task(self, broken: Callable[[], None]) -> dict[int, Result]:
        exactly_once = self._builds.exactly_once is not None
        by_task: dict[int, Result] = {}
        for worker_handle in self._handles:
            while not worker_handle.works or (exactly_once and not self._builds.are_whole):
                if self._ending.done() or self.reports.degraded:
                    why = self.reports.degraded or "the topology ends"
                    raise WorkerError(f"{worker_handle.name} does not run: {why}")
                broken()
                await self._changes.wait()
            by_task.update(await results_of(worker_handle))
        return by_task

    @property
    def _handles(self) -> list[WorkerHandle]:
        return list(self.worker_handles.values())

    @property
    def _timings(self) -> LifecycleTimings:
        return self._deployment.assignment.timings

    def _others(self, worker: str) -> list[WorkerHandle]:
        return [other for name, other in self.worker_handles.items() if name != worker]

    def _send_mode(self) -> None:
        for worker_handle in self._handles:
            worker_handle.send_mode()
        self._changes.notify()

    def _notify_of_end(self, worker: str, incarnations: Set[int]) -> None:
        self._builds.current.begin_notifying(worker)
        self._registry.system.guard(self._notify_others(worker, incarnations), name=f"notify of the end of {worker}")

    async def _notify_others(self, worker: str, incarnations: Set[int]) -> None:
        """Send PeerEnded to all others, then PeerDied (see Exchange.peer_ended)."""
        try:
            for kind in (PeerEnded, PeerDied):
                for incarnation in sorted(incarnations):
                    await notify_all(self._others(worker), kind(worker, incarnation))
        finally:
            self._builds.current.end_notifying(worker)

    def _end(self) -> None:
        if not self._ending.done():
            self._ending.set_result(None)
        self._changes.notify()

    async def _finish(self, limit_s: float, *, at_once: bool) -> None:
        self._end()
        async with asyncio.TaskGroup() as group:
            for worker_handle in self._handles:
                group.create_task(worker_handle.finish(limit_s, at_once=at_once), name=f"{worker_handle.name}: end")

    async def _replace(self, worker_handle: WorkerHandle, within_s: float) -> None:
        if self._builds.exactly_once is not None:
            await worker_handle.replace(within_s * 0.5, at_once=True)
            return
        name = self._deployment.name
        log.info("%s was asked to end: the spouts of %s pause until it is replaced", worker_handle.name, name)
        self._spout_mode.pauses += 1
        self._send_mode()
        try:
            await self._replaced(worker_handle, within_s)
        finally:
            self._spout_mode.pauses -= 1
            self._send_mode()

    async def _replaced(self, worker_handle: WorkerHandle, within_s: float) -> None:
        if worker_handle.works:  # otherwise it has no tuples yet
            try:
                async with asyncio.timeout(within_s * 0.8):
                    await self._wait_quiet(IdleGoal(), lambda: None)
            except TimeoutError:
                text = "%s: not all tuples were processed before %s ended: they are replayed"
                log.warning(text, self._deployment.name, worker_handle.name)
            else:
                log.info("%s: all tuples are processed, %s ends", self._deployment.name, worker_handle.name)
        try:
            await worker_handle.replace(within_s * 0.2)
            async with asyncio.timeout(self._timings.replace_s):
                while worker_handle.works:
                    await self._changes.wait()
                while not worker_handle.works:
                    await self._changes.wait()
        except TimeoutError:
            log.warning("%s was not replaced within %g s", worker_handle.name, self._timings.replace_s)

    def _check_start(self) -> None:
        if any(worker.lifecycle.degraded and not worker.lifecycle.is_missed for worker in self._handles):
            last = [
                f"the last lines of {name}: {' | '.join(lines)}"
                for name in self.worker_handles
                if (lines := self._registry.last_lines(name)[-5:])
            ]
            raise WorkerError("; ".join([f"the workers cannot be started: {self.reports.degraded}", *last]))
