"""WorkerHandle: the parent's side of one worker: its current process, its commands, its reports.

    lifecycle ───── Spawn ─► child ─► WorkerJoined ─► ImportTopology ─► its tasks are started (see worker_setup.py)
         ▲                                         polled every monitor_s from then on : a sign of life, and metrics
         ╰── exited ◄── child.wait()                                                              … Finish ─► ended

1. The end of a child is noticed and reported at once: no caller waits for a worker that has ended.
2. The counters of its tasks at the last poll are kept when the worker dies: totals never decrease.
3. A parent whose own event loop was blocked does not treat a worker as frozen.
4. The end has a time limit: a worker that does not end when it is asked to is killed.
5. The mode of its spouts is part of each poll, and sent in no other way: the last one is valid.
6. Commands about snapshots are sent in order, by one asyncio task for each process. Their number is bounded: a worker
   for which many wait does not answer, and is about to be killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING

from ...actors import AskTimeoutError
from ...runtime import AiostormError, SpawnError
from ...transport import PeerLostError
from ..changes import Changes, left_until
from ..errors import WorkerError
from ..messages import (
    CONTROL,
    SETUP,
    Finish,
    PeerDied,
    PeerEnded,
    PeerRestarted,
    SetLogLevel,
    StatusReport,
    TakeProfile,
    TaskGaveUp,
    UpdateConfig,
    WantTraces,
    WorkerJoined,
    WorkerLeaving,
)
from ..runtimes import WorkerStatus
from .cancelling import cancelled
from .reports import WorkerReports
from .worker_lifecycle import Decision, Degraded, Kill, LifecycleTimings, Phase, Recovered, Spawn, WorkerLifecycle
from .worker_process import WorkerEvents, WorkerProcess
from .worker_setup import WorkerSetup

if TYPE_CHECKING:
    from ...actors import Answer
    from ...runtime import Profile
    from ...runtime.processes import Child
    from ..snapshots.messages import EndTasks, SnapshotCommand, SnapshotReport
    from .assignment import Deployment
    from .builds import Builds
    from .worker_registry import WorkerRegistry

log = logging.getLogger("aiostorm.cluster")


class WorkerHandle:
    """One worker of a topology."""

    def __init__(
        self, name: str, registry: WorkerRegistry, deployment: Deployment, builds: Builds, events: WorkerEvents
    ) -> None:
        self.name = name
        self.lifecycle = WorkerLifecycle(deployment.assignment.timings, awaited=registry.is_remote(name))
        self.reports = WorkerReports()
        self.pid = 0
        self.node = ""  # its machine
        self._registry = registry
        self._deployment = deployment
        self._builds = builds
        self._events = events
        self._process = WorkerProcess()
        self._changes = Changes()
        self._running: asyncio.Task[None] | None = None

    # -- for the runtime -----------------------------------------------------------------------------------------------

    @property
    def status(self) -> WorkerStatus:
        """The status for people to read."""
        lifecycle, tasks = self.lifecycle, self._deployment.tasks_of(self.name)
        return WorkerStatus(self.name, self.pid, lifecycle.phase.value, tasks, lifecycle.restarts, lifecycle.degraded)

    @property
    def mode(self) -> str:
        """The mode of its spouts; empty: the one that they have."""
        return self._events.ordered_mode

    @property
    def works(self) -> bool:
        """Do its tasks run?"""
        return self._process.works

    @property
    def is_absent(self) -> bool:
        """Does the parent wait for a user to start it?"""
        return self.lifecycle.is_absent

    def begin(self) -> None:
        """Start the worker and keep it alive."""
        self._registry.attach(self.name, self)
        self._running = self._registry.system.guard(self._run(), name=f"process of {self.name}")

    async def ask(self, actor: str, message: object, *, timeout_s: float | None = None) -> Answer:
        """Ask an actor of the worker. WorkerError if the worker has ended or ends meanwhile."""
        try:
            return await self._registry.node.ref(self.name, actor).ask(message, timeout_s=timeout_s)
        except PeerLostError as error:
            raise WorkerError(f"{self.name} has ended") from error

    async def tell(self, message: EndTasks | SnapshotCommand) -> None:
        """Send a message to the control actor, without an answer. WorkerError if the worker has ended."""
        try:
            await self._registry.node.ref(self.name, CONTROL).tell(message)
        except PeerLostError as error:
            raise WorkerError(f"{self.name} has ended") from error

    def send(self, command: SnapshotCommand) -> None:
        """Send a command to its tasks, if they run; after the commands before, without waiting."""
        if not self.works:
            return
        try:
            self._process.commands.put_nowait(command)
        except asyncio.QueueFull:  # repeated by the coordinator, or the worker is killed
            log.warning("%s does not take commands: %r is not sent", self.name, command)

    def send_mode(self) -> None:
        """Send the mode of its spouts now if the worker runs; otherwise it is sent when it does."""
        if self.works and self.mode != self._process.mode:
            self._process.poll_now.set()

    async def notify(self, news: PeerEnded | PeerDied | UpdateConfig | WantTraces | TakeProfile | SetLogLevel) -> None:
        """Send the end of another worker, settings, …; returns when the worker has answered, or cannot."""
        if self._process.has_joined:
            await self._notify(news)

    def peer_restarted(self, peer: str, address: str) -> None:
        """Send the worker the new address of a restarted peer."""
        if self._process.child is not None:
            self._registry.system.guard(self._notify(PeerRestarted(peer, address)), name=f"notify {self.name}")

    async def poll(self) -> None:
        """Ask the worker for its status now."""
        await self._ask_status(pending=True)

    def take_last_status(self, report: StatusReport) -> None:
        """The tasks have ended, and will be built again in the same process."""
        self._on_status(report)
        self.reports.tasks_ended()

    async def replace(self, limit_s: float, *, at_once: bool = False) -> None:
        """End its process in order, so that another one is started."""
        await self._end_in_order(limit_s, at_once=at_once)

    async def dismiss(self, reason: str) -> None:
        """End a process of an earlier parent at once, so that another one is started."""
        log.warning("%s (pid %d) is ended: %s", self.name, self.pid, reason)
        try:
            await self.ask(SETUP, Finish(at_once=True), timeout_s=self._timings.shutdown_s)
        except AiostormError as error:
            log.debug("%s has not ended in order: %s", self.name, error)
            self._process.kill()
        else:
            self._end_remote()

    def give_up(self, reason: str) -> None:
        """Kill its process, so that another one is started."""
        log.warning("%s (pid %d) is killed: %s", self.name, self.pid, reason)
        self._process.kill()

    async def finish(self, limit_s: float, *, at_once: bool) -> None:
        """End the worker; returns when it has ended."""
        timings = self._timings
        self.lifecycle.stop(self._now_s(), max(limit_s + timings.shutdown_s, timings.stop_limit_s))
        self._changes.notify()
        if not self._process.has_joined or not await self._end_in_order(limit_s, at_once=at_once):
            self.kill()
        try:
            async with asyncio.timeout(timings.shutdown_s):
                await self._wait_over()
        except TimeoutError:
            log.warning("%s did not end within %g s: it is killed", self.name, timings.shutdown_s)
            self.kill()
            await self._wait_over()

    def kill(self) -> None:
        """Kill the worker."""
        self.lifecycle.stop(self._now_s())
        self._changes.notify()
        self._process.kill()

    # -- WorkerListener ------------------------------------------------------------------------------------------------

    def on_joined(self, joined: WorkerJoined) -> None:
        if not self._process.joined.done():
            self.pid = joined.pid
            self._log(self.lifecycle.joined(self._now_s()))
            self._changes.notify()
            self._process.joined.set_result(joined)

    def on_alive(self) -> None:
        self.lifecycle.alive(self._now_s())

    def on_task_gave_up(self, report: TaskGaveUp) -> None:
        self._events.on_task_gave_up(self.name, report)

    def on_profile(self, profile: Profile) -> None:
        self._events.on_profile(self.name, profile)

    def on_snapshot_report(self, report: SnapshotReport) -> None:
        if not self._process.has_former_tasks:
            self._events.on_snapshot_report(report)

    def on_leaving(self, report: WorkerLeaving) -> None:
        self._events.on_leaving(self.name, report.within_s)

    # -- processes -----------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        decisions = self.lifecycle.begin(self._now_s())
        try:
            while True:
                self._log(decisions)
                if Spawn() in decisions:
                    decisions = await self._run_process()
                elif self.lifecycle.phase is Phase.ENDED:
                    return
                else:
                    await self._wait()
                    decisions = self.lifecycle.tick(self._now_s())
        finally:
            self._registry.detach(self.name)

    async def _run_process(self) -> list[Decision]:
        """Run one process, from its start to its end."""
        system = self._registry.system
        process = self._process = WorkerProcess()
        try:
            child = process.child = await self._registry.spawn(self.name, self._deployment.assignment.target)
        except AiostormError as error:
            log.error("%s: %s", self.name, error)
            if not isinstance(error, SpawnError):  # starting it again would fail, too
                self._events.on_failed(error)
            return self.lifecycle.exited(self._now_s(), str(error))
        self.pid = child.pid
        if self.lifecycle.phase is Phase.STOPPING:  # it was stopped while it started
            child.kill()
        ended = system.guard(child.wait(), name=f"{self.name}: process")
        work = system.guard(self._work(process), name=f"{self.name}: work")
        try:
            killed = await self._watch(child, ended)
        finally:
            if not ended.done():
                child.kill()
            self._on_process_end(process)
            await cancelled(work)
        return self._process_ended(ended.result(), killed)

    async def _watch(self, child: Child, ended: asyncio.Task[int]) -> str:
        """Returns when the process has ended; if it was killed from here, with the reason."""
        reason = ""
        while not ended.done():
            due_s = await self._wait(ended)
            now_s = self._now_s()
            if due_s is not None and now_s - due_s > self._timings.stall_s:  # 3
                self.lifecycle.alive(now_s)
            decisions = [] if ended.done() else self.lifecycle.tick(now_s)
            for kill in [d for d in decisions if isinstance(d, Kill)]:
                log.warning("%s (pid %d) is killed: %s", self.name, self.pid, kill.reason)
                reason = kill.reason
                child.kill()
            self._log(decisions)
        return reason

    def _on_process_end(self, process: WorkerProcess) -> None:
        incarnation = self._registry.incarnation(self.name)
        process.child = None
        process.works = False
        if process.stays:
            return
        self._registry.on_lost(self.name, incarnation)
        self._events.on_process_ended(self.name, incarnation)

    def _process_ended(self, code: int, killed: str) -> list[Decision]:
        lost = self.reports.process_ended() if self._builds.exactly_once is None else self.reports.tasks_ended()
        self.reports.spans.ends.append(self._registry.system.clock.stopwatch())
        reason = killed or (f"signal {-code}" if code < 0 else f"exit code {code}")
        if self.lifecycle.phase is not Phase.STOPPING:
            log.warning("%s (pid %d) has ended: %s", self.name, self.pid, reason)
        if lost:
            log.warning(
                "with %s, %d open windows are lost, as they were when it was last seen: what was acked and in a window "
                "does not come again",
                self.name,
                lost,
            )
        return self.lifecycle.exited(self._now_s(), reason)

    # -- one process: set up and polled --------------------------------------------------------------------------------

    async def _work(self, process: WorkerProcess) -> None:
        """Set the worker up, then poll it while it lives."""
        joined = await process.joined
        self.node = joined.node
        setup = WorkerSetup(self, process, self._registry, self._deployment, self._builds, self._events)
        with setup.reporting():
            if not await setup.begin(joined.standing):
                return
            self.lifecycle.ready(self._now_s())
            self._changes.notify()  # its deadline is earlier now
            guard = self._registry.system.guard
            polling = guard(self._poll(process), name=f"{self.name}: poll")
            sending = guard(self._send_commands(process), name=f"{self.name}: commands")
            try:
                await setup.follow_builds()
            finally:
                await cancelled(polling, sending)

    async def _send_commands(self, process: WorkerProcess) -> None:
        try:
            while True:
                await self.tell(await process.commands.get())
        except AiostormError as error:
            log.debug("%s takes no more commands: %s", self.name, error)

    async def _poll(self, process: WorkerProcess) -> None:
        polls = 0
        while True:
            try:
                process.poll_now.clear()
                process.mode = self.mode if process.works else ""
                await self._ask_status(pending=polls % 4 == 0 or process.mode != "active", mode=process.mode)
                self.lifecycle.alive(self._now_s())
            except AskTimeoutError:
                continue  # its lease decides whether it lives
            except WorkerError:
                return
            polls += 1
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._timings.monitor_s):
                    await process.poll_now.wait()

    # -- inside --------------------------------------------------------------------------------------------------------

    @property
    def _timings(self) -> LifecycleTimings:
        return self._deployment.assignment.timings

    def _now_s(self) -> float:
        return self._registry.system.clock.monotonic()

    async def _ask_status(self, *, pending: bool, mode: str = "") -> None:
        reports = self.reports
        built, stopwatch = reports.times_ended, self._registry.system.clock.stopwatch
        asked_s = stopwatch()
        status = await self.ask(CONTROL, reports.status_command(pending=pending, mode=mode), timeout_s=10.0)
        if reports.times_ended == built:  # otherwise it may be of tasks that are counted already
            if status.clock_s:  # it has tasks
                reports.spans.clock.sample(asked_s, stopwatch(), status.clock_s)
            self._on_status(status)

    async def _end_in_order(self, limit_s: float, *, at_once: bool) -> bool:
        """Ask the process to end; False if it does not answer in order. It stays, if it may, and has had tasks."""
        process = self._process
        stay = self.lifecycle.phase is Phase.STOPPING and process.has_tasks and self._registry.may_stay(self.name)
        try:
            command = self.reports.finish_command(at_once=at_once, stay=stay)
            self._on_status(await self.ask(SETUP, command, timeout_s=limit_s))
        except AiostormError as error:
            log.warning("%s did not end in order: %s", self.name, error)
            return False
        if stay and process.child is not None:
            process.stays = True
            self._registry.keep(self.name, WorkerJoined(self.pid, self.node, self._deployment.standing()))
        else:
            self._end_remote()
        return True

    def _end_remote(self) -> None:
        """The end of a remote process is not reported: assume it."""
        if self._process.child is not None and self._registry.is_remote(self.name):
            self._process.child.terminate()

    def _on_status(self, report: StatusReport) -> None:
        if self.reports.take(report):
            self._events.on_news(report)

    def _log(self, decisions: list[Decision]) -> None:
        for decision in decisions:
            if isinstance(decision, Degraded):
                log.error("%s is degraded: %s; it is started again", self.name, decision.reason)
            elif isinstance(decision, Recovered):
                log.info("%s is not degraded any more", self.name)

    async def _notify(self, message: object) -> None:
        try:
            await self.ask(CONTROL, message, timeout_s=30.0)
        except AiostormError as error:
            log.debug("%s did not receive %r: %s", self.name, message, error)

    async def _wait(self, *until: asyncio.Task[int]) -> float | None:
        """Wait for an event, or the deadline of the lifecycle, which is returned."""
        due_s = self.lifecycle.due_s
        timeout_s = None if due_s is None else left_until(due_s, self._now_s())
        await self._changes.wait(*until, timeout_s=timeout_s)
        return due_s

    async def _wait_over(self) -> None:
        if self._running is not None:
            await asyncio.wait((self._running,))
