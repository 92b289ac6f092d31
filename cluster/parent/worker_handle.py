"""WorkerHandle: the parent's side of one worker: its current process, its commands, its reports.

    life (machine) ─ Spawn ─► child ─► WorkerJoined ─► LoadTopology ─ all ─► Connect ─► Prepare ─ all prepared ─► Open
         ▲                                         polled every monitor_s from then on : a sign of life, and metrics
         ╰── exited ◄── child.wait()                                                              … Finish ─► ended

1. The end of a child is noticed and reported at once: no caller waits for a worker that has ended.
2. The counters of its tasks at the last poll are kept when the worker dies: totals never decrease.
3. A parent whose own event loop was blocked does not treat a worker as frozen.
4. The end has a time limit: a worker that does not end when it is asked to is killed.
5. The mode of its spouts is part of each poll, and sent in no other way: the last one is valid.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Any

from ...actors import AskFailedError, AskTimeoutError
from ...metrics import TaskMetrics
from ...runtime import AiostormError, Child, SpawnError
from ...transport import PeerLostError
from ..errors import WorkerError
from ..messages import (
    CONTROL,
    SETUP,
    CommandFailed,
    Finish,
    GetStatus,
    Open,
    PeerDied,
    PeerEnded,
    PeerRestarted,
    Prepare,
    StatusReport,
    TaskGaveUp,
    UpdateConfig,
    WorkerJoined,
    WorkerLeaving,
)
from ..runtimes import WorkerStatus
from .load_errors import command_error
from .worker_group import WorkerGroup
from .worker_life import Decision, Degraded, Kill, LifeTimings, Phase, Recovered, Spawn, WorkerLife
from .worker_registry import WorkerRegistry

log = logging.getLogger("aiostorm.cluster")


class WorkerHandle:
    """One worker of a topology."""

    def __init__(
        self, name: str, tasks: tuple[int, ...], registry: WorkerRegistry, group: WorkerGroup, timings: LifeTimings
    ) -> None:
        self.name = name
        self.tasks = tasks
        self.life = WorkerLife(timings, awaited=registry.is_remote(name))
        self._timings = timings
        self.pid = 0
        self.address = ""
        self.node = ""
        self.works = False
        self.metrics: dict[int, TaskMetrics] = {}
        self.pending: dict[str, tuple[Any, ...]] = {}
        self._base: dict[int, TaskMetrics] = {}
        self._registry = registry
        self._group = group
        self._clock = registry.system.clock
        self._child: Child | None = None
        self._joined: asyncio.Future[WorkerJoined] = asyncio.get_running_loop().create_future()
        self._woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._errors = self._stalls = self._events = 0
        self._mode = ""  # the last one sent
        self._poll_now = asyncio.Event()  # set: poll now
        self._living: asyncio.Task[None] | None = None

    # -- for the worker group ------------------------------------------------------------------------------------------

    @property
    def status(self) -> WorkerStatus:
        """The status for people to read."""
        return WorkerStatus(self.name, self.pid, self.life.phase, self.tasks, self.life.restarts, self.life.degraded)

    @property
    def mode(self) -> str:
        """The mode of its spouts."""
        return self._group.mode

    def begin(self) -> None:
        """Start the worker and keep it alive."""
        self._registry.attach(self.name, self)
        self._living = self._registry.system.guard(self._run(), name=f"life of {self.name}")

    async def ask(self, actor: str, message: object, *, timeout_s: float | None = None) -> Any:
        """Ask an actor of the worker. WorkerError if the worker has ended or ends meanwhile."""
        try:
            return await self._registry.node.ref(self.name, actor).ask(message, timeout_s=timeout_s)
        except PeerLostError as error:
            raise WorkerError(f"{self.name} has ended") from error

    def set_mode(self, mode: str) -> None:
        """Send the mode of its spouts now if the worker runs; otherwise it is sent when it does."""
        if self.works and mode != self._mode:
            self._poll_now.set()

    async def notify(self, news: PeerEnded | PeerDied | UpdateConfig) -> None:
        """Send the end of another worker, or settings; returns when the worker has answered, or cannot."""
        if self._child is not None and self._joined.done():
            await self._notify(news)

    def peer_restarted(self, peer: str, address: str) -> None:
        """Send the worker the new address of a restarted peer."""
        if self._child is not None:
            self._registry.system.guard(self._notify(PeerRestarted(peer, address)), name=f"notify {self.name}")

    async def finish(self, limit_s: float, *, at_once: bool) -> None:
        """End the worker; returns when it has ended."""
        self.life.stop(self._clock.monotonic(), max(limit_s + self._timings.shutdown_s, self._timings.stop_limit_s))
        self._wake()
        if self._child is not None and self._joined.done():
            try:
                order = Finish(at_once, self._errors, self._stalls, self._events)
                self._on_status(await self.ask(SETUP, order, timeout_s=limit_s))
                self._release()
            except AiostormError as error:
                log.warning("%s did not end in order: %s", self.name, error)
                self.kill()
        else:
            self.kill()
        try:
            async with asyncio.timeout(self._timings.shutdown_s):
                await self._wait_over()
        except TimeoutError:
            log.warning("%s did not end within %g s: it is killed", self.name, self._timings.shutdown_s)
            self.kill()
            await self._wait_over()

    async def replace(self, limit_s: float) -> None:
        """End its process in order, so that another one is started."""
        try:
            order = Finish(False, self._errors, self._stalls, self._events)
            self._on_status(await self.ask(SETUP, order, timeout_s=limit_s))
            self._release()
        except AiostormError as error:
            log.warning("%s did not end in order: %s", self.name, error)

    def kill(self) -> None:
        """Kill the worker."""
        self.life.stop(self._clock.monotonic())
        self._wake()
        if self._child is not None:
            self._child.kill()

    # -- WorkerListener ------------------------------------------------------------------------------------------------

    def on_joined(self, joined: WorkerJoined) -> None:
        if not self._joined.done():
            self.pid = joined.pid
            self._announce(self.life.joined(self._clock.monotonic()))
            self._wake()
            self._joined.set_result(joined)

    def on_alive(self) -> None:
        self.life.alive(self._clock.monotonic())

    def on_task_gave_up(self, report: TaskGaveUp) -> None:
        self._group.on_task_gave_up(self, report)

    def on_leaving(self, report: WorkerLeaving) -> None:
        self._group.on_leaving(self, report.within_s)

    # -- processes ---------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        decisions = self.life.begin(self._clock.monotonic())
        try:
            while True:
                self._announce(decisions)
                if Spawn() in decisions:
                    decisions = await self._run_process()
                elif self.life.phase is Phase.ENDED:
                    return
                else:
                    await self._wait()
                    decisions = self.life.tick(self._clock.monotonic())
        finally:
            self._registry.detach(self.name)

    async def _run_process(self) -> list[Decision]:
        """Run one process, from its start to its end."""
        system = self._registry.system
        loop = asyncio.get_running_loop()
        self._joined, self._mode = loop.create_future(), ""
        try:
            child = self._child = await self._registry.spawn(self.name, self._group.target)
        except AiostormError as error:
            log.error("%s: %s", self.name, error)
            if not isinstance(error, SpawnError):  # starting it again would fail, too
                self._group.on_failed(error)
            return self.life.exited(self._clock.monotonic(), str(error))
        self.pid = child.pid
        if self.life.phase is Phase.STOPPING:  # it was stopped while it started
            child.kill()
        ended = system.guard(child.wait(), name=f"{self.name}: process")
        work = system.guard(self._work(), name=f"{self.name}: work")
        why = ""
        try:
            while not ended.done():
                due_s = await self._wait(ended)
                now_s = self._clock.monotonic()
                if due_s is not None and now_s - due_s > self._timings.stall_s:  # 3
                    self.life.alive(now_s)
                decisions = [] if ended.done() else self.life.tick(now_s)
                for kill in [d for d in decisions if isinstance(d, Kill)]:
                    log.warning("%s (pid %d) is killed: %s", self.name, self.pid, kill.reason)
                    why = kill.reason
                    child.kill()
                self._announce(decisions)
        finally:
            if not ended.done():
                child.kill()
            self._on_process_end()
            await cancelled(work)
        return self._ended(ended.result(), why)

    def _on_process_end(self) -> None:
        life = self._registry.life(self.name)
        self._child = None
        self.works = False
        self._registry.on_lost(self.name, life)
        self._group.on_died(self, life)

    def _ended(self, code: int, why: str) -> list[Decision]:
        times = [task.time for task in self.metrics.values() if task.time is not None]
        lost = sum(time.live for time in times if not time.buffered)  # buffered tuples are replayed
        self._keep_counts()
        reason = why or (f"signal {-code}" if code < 0 else f"exit code {code}")
        if self.life.phase is not Phase.STOPPING:
            log.warning("%s (pid %d) has ended: %s", self.name, self.pid, reason)
        if lost:
            log.warning(
                "with %s, %d open windows are lost, as they were when it was last seen: what was acked and in a window "
                "does not come again",
                self.name,
                lost,
            )
        return self.life.exited(self._clock.monotonic(), reason)

    async def _work(self) -> None:
        """Set the worker up, then poll it while it lives."""
        try:
            joined = await self._joined
            self.node = joined.node
            await self._set_up()
        except (WorkerError, AskTimeoutError) as error:
            log.debug("%s: %s", self.name, error)  # its end is about to be noticed
        except AskFailedError as error:
            self._group.on_failed(WorkerError(f"{self.name} failed: {error}"))
        except AiostormError as error:
            self._group.on_failed(error)

    async def _set_up(self) -> None:
        group = self._group
        failed = await self.ask(SETUP, group.load_command(self))
        if isinstance(failed, CommandFailed):
            group.on_failed(command_error(self.name, failed, group.code))
            return
        self.life.ready(self._clock.monotonic())
        self._wake()  # its deadline is earlier now
        polling = self._registry.system.guard(self._poll(), name=f"{self.name}: poll")
        try:
            await self._start_tasks()
            await polling
        finally:
            await cancelled(polling)

    async def _start_tasks(self) -> None:
        group = self._group
        await group.wait_for_step(self, "loaded")
        await group.wait_for_turn(self)
        address = await self.ask(SETUP, group.connect_command(self))
        if isinstance(address, CommandFailed):
            group.on_failed(command_error(self.name, address, group.code))
            return
        self.address = address
        self._registry.set_address(self.name, address)
        group.on_connected(self)
        gave_up = await self.ask(SETUP, Prepare())
        if gave_up is None:
            await group.wait_for_step(self, "prepared")
            gave_up = await self.ask(SETUP, Open())
        if gave_up is not None:
            group.on_task_gave_up(self, gave_up)
            return
        self.works = True
        self.set_mode(group.mode)
        group.on_ready(self)

    async def _poll(self) -> None:
        polls = 0
        while True:
            try:
                self._poll_now.clear()
                self._mode = self._group.mode if self.works else ""
                with_pending = polls % 4 == 0 or self._mode != "active"
                command = GetStatus(self._errors, self._stalls, self._events, pending=with_pending, mode=self._mode)
                self._on_status(await self.ask(CONTROL, command, timeout_s=10.0))
                self.life.alive(self._clock.monotonic())
            except AskTimeoutError:
                continue  # its lease decides whether it lives whether it lives
            except WorkerError:
                return
            polls += 1
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._timings.monitor_s):
                    await self._poll_now.wait()

    async def poll(self) -> None:
        """Ask the worker for its status now."""
        command = GetStatus(self._errors, self._stalls, self._events, pending=True)
        self._on_status(await self.ask(CONTROL, command, timeout_s=10.0))

    def _release(self) -> None:
        """The process ends by itself now; the end of a remote process is not reported, so assume it."""
        if self._child is not None and self._registry.is_remote(self.name):
            self._child.terminate()

    # -- inside ------------------------------------------------------------------------------------------------------

    def _on_status(self, report: StatusReport) -> None:
        for task in report.tasks:
            base = self._base.get(task.task_id)
            self.metrics[task.task_id] = task if base is None else task.after(base)
        if report.pending or not any(task.pending for task in report.tasks):
            self.pending = dict(report.pending)
        if report.error_count > self._errors or report.stall_count > self._stalls or report.pressure is not None:
            self._group.on_status(self, report)
        self._errors, self._stalls, self._events = report.error_count, report.stall_count, report.event_count

    def _keep_counts(self) -> None:
        self._base = {task: metrics.ended() for task, metrics in self.metrics.items()}
        self._errors = self._stalls = self._events = 0
        self.metrics.update(self._base)

    def _announce(self, decisions: list[Decision]) -> None:
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
        """Wait for an event, or the deadline of the life, which is returned."""
        due_s = self.life.due_s
        timeout_s = None if due_s is None else max(0.0, due_s - self._clock.monotonic())
        self._woken = asyncio.get_running_loop().create_future()
        waited: set[asyncio.Future[Any]] = {self._woken, *until}
        await asyncio.wait(waited, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        return due_s

    def _wake(self) -> None:
        """The deadline of the life may be earlier: check it."""
        if not self._woken.done():
            self._woken.set_result(None)

    async def _wait_over(self) -> None:
        if self._living is not None:
            await asyncio.wait((self._living,))


async def cancelled(*tasks: asyncio.Future[Any]) -> None:
    """Cancel tasks and wait for their end; their errors are dropped."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
