"""WorkerHandle: one worker's place: the process that is there now, what it was told, and what it said of itself.

    life (machine) ─ Spawn ─► child ─► WorkerJoined ─► LoadTopology ─ all ─► Connect ─► Prepare ─ all prepared ─► Open
         ▲                                         looked at every monitor_s from then on: a sign of life, and metrics
         ╰── exited ◄── child.wait()                                                              … Finish ─► ended

1. The child's end is known at once, and told at once: nobody waits for a worker that is gone.
2. What its tasks have counted is kept when it dies, up to the last look: numbers do not go back.
3. A parent that was held up itself takes nobody for frozen.
4. EndOfStream is bounded: a worker that does not end when it is asked to is killed.
5. How its spouts are to be is part of each look, and of nothing that is sent beside it: what is said last holds.
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
from .load_errors import trouble_error
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
        self._poked: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._errors = self._stalls = self._events = 0
        self._mode = ""  # that it was told last
        self._hurry = asyncio.Event()  # it is to be looked at now
        self._living: asyncio.Task[None] | None = None

    # -- what its worker group does ------------------------------------------------------------------------------------

    @property
    def status(self) -> WorkerStatus:
        """For people."""
        return WorkerStatus(self.name, self.pid, self.life.phase, self.tasks, self.life.restarts, self.life.degraded)

    @property
    def wanted(self) -> str:
        """How its spouts are to be."""
        return self._group.mode

    def begin(self) -> None:
        """Start it, and keep it alive from then on."""
        self._registry.enlist(self.name, self)
        self._living = self._registry.system.guard(self._live(), name=f"life of {self.name}")

    async def ask(self, actor: str, message: object, *, timeout_s: float | None = None) -> Any:
        """Ask an actor of the worker. WorkerError if it ends meanwhile, or is not there."""
        try:
            return await self._registry.node.ref(self.name, actor).ask(message, timeout_s=timeout_s)
        except PeerLostError as error:
            raise WorkerError(f"{self.name} has ended") from error

    def steer(self, mode: str) -> None:
        """Tell it now how its spouts are to be, if it works; else it is told when it does."""
        if self.works and mode != self._mode:
            self._hurry.set()

    async def hear(self, news: PeerEnded | PeerDied | UpdateConfig) -> None:
        """Tell it that another has ended, or of other settings; returns when it knows, or cannot."""
        if self._child is not None and self._joined.done():
            await self._told(news)

    def peer_back(self, peer: str, address: str) -> None:
        """Tell it that another is there again."""
        if self._child is not None:
            self._registry.system.guard(self._told(PeerRestarted(peer, address)), name=f"{self.name} is told")

    async def finish(self, limit_s: float, *, at_once: bool) -> None:
        """End it; returns when it has ended."""
        self.life.stop(self._clock.monotonic(), max(limit_s + self._timings.shutdown_s, self._timings.stop_limit_s))
        self._poke()
        if self._child is not None and self._joined.done():
            try:
                order = Finish(at_once, self._errors, self._stalls, self._events)
                self._saw(await self.ask(SETUP, order, timeout_s=limit_s))
                self._part_with_it()
            except AiostormError as error:
                log.warning("%s did not end in order: %s", self.name, error)
                self.kill()
        else:
            self.kill()
        try:
            async with asyncio.timeout(self._timings.shutdown_s):
                await self._until_over()
        except TimeoutError:
            log.warning("%s did not end within %g s: it is killed", self.name, self._timings.shutdown_s)
            self.kill()
            await self._until_over()

    async def replace(self, limit_s: float) -> None:
        """End it in order, so that another process of its name is started."""
        try:
            order = Finish(False, self._errors, self._stalls, self._events)
            self._saw(await self.ask(SETUP, order, timeout_s=limit_s))
            self._part_with_it()
        except AiostormError as error:
            log.warning("%s did not end in order: %s", self.name, error)

    def kill(self) -> None:
        """End it at once."""
        self.life.stop(self._clock.monotonic())
        self._poke()
        if self._child is not None:
            self._child.kill()

    # -- what worker registry tell -------------------------------------------------------------------------------------

    def joined(self, joined: WorkerJoined) -> None:
        if not self._joined.done():
            self.pid = joined.pid
            self._announce(self.life.joined(self._clock.monotonic()))
            self._poke()
            self._joined.set_result(joined)

    def heard(self) -> None:
        self.life.heard(self._clock.monotonic())

    def gave_up(self, told: TaskGaveUp) -> None:
        self._group.gave_up(self, told)

    def leaving(self, told: WorkerLeaving) -> None:
        self._group.leaving(self, told.within_s)

    # -- its life ----------------------------------------------------------------------------------------------------

    async def _live(self) -> None:
        decisions = self.life.begin(self._clock.monotonic())
        try:
            while True:
                self._announce(decisions)
                if Spawn() in decisions:
                    decisions = await self._one_life()
                elif self.life.phase is Phase.ENDED:
                    return
                else:
                    await self._wait()
                    decisions = self.life.tick(self._clock.monotonic())
        finally:
            self._registry.dismiss(self.name)

    async def _one_life(self) -> list[Decision]:
        """From a process's start to its end."""
        system = self._registry.system
        loop = asyncio.get_running_loop()
        self._joined, self._mode = loop.create_future(), ""
        try:
            child = self._child = await self._registry.spawn(self.name, self._group.target)
        except AiostormError as error:
            log.error("%s: %s", self.name, error)
            if not isinstance(error, SpawnError):  # it can never be started
                self._group.failed(error)
            return self.life.exited(self._clock.monotonic(), str(error))
        self.pid = child.pid
        if self.life.phase is Phase.STOPPING:  # it was to end while it was started
            child.kill()
        ended = system.guard(child.wait(), name=f"{self.name}: process")
        work = system.guard(self._work(), name=f"{self.name}: work")
        why = ""
        try:
            while not ended.done():
                due_s = await self._wait(ended)
                now_s = self._clock.monotonic()
                if due_s is not None and now_s - due_s > self._timings.stall_s:  # 3
                    self.life.heard(now_s)
                decisions = [] if ended.done() else self.life.tick(now_s)
                for kill in [d for d in decisions if isinstance(d, Kill)]:
                    log.warning("%s (pid %d) is killed: %s", self.name, self.pid, kill.reason)
                    why = kill.reason
                    child.kill()
                self._announce(decisions)
        finally:
            if not ended.done():
                child.kill()
            self._is_gone()
            await cancelled(work)
        return self._ended(ended.result(), why)

    def _is_gone(self) -> None:
        life = self._registry.life(self.name)
        self._child = None
        self.works = False
        self._registry.lost(self.name, life)
        self._group.died(self, life)

    def _ended(self, code: int, why: str) -> list[Decision]:
        times = [task.time for task in self.metrics.values() if task.time is not None]
        lost = sum(time.live for time in times if not time.buffered)  # tuples that were kept come again
        self._keep_counts()
        told = why or (f"signal {-code}" if code < 0 else f"exit code {code}")
        if self.life.phase is not Phase.STOPPING:
            log.warning("%s (pid %d) has ended: %s", self.name, self.pid, told)
        if lost:
            log.warning(
                "with %s, %d open windows are lost, as they were when it was last seen: what was acked and in a window "
                "does not come again",
                self.name,
                lost,
            )
        return self.life.exited(self._clock.monotonic(), told)

    async def _work(self) -> None:
        """Bring it up, then look at it as long as it lives."""
        try:
            joined = await self._joined
            self.node = joined.node
            await self._bring_up()
        except (WorkerError, AskTimeoutError) as error:
            log.debug("%s: %s", self.name, error)  # its end is about to be known
        except AskFailedError as error:
            self._group.failed(WorkerError(f"{self.name} cannot do it: {error}"))
        except AiostormError as error:
            self._group.failed(error)

    async def _bring_up(self) -> None:
        group = self._group
        trouble = await self.ask(SETUP, group.order(self))
        if isinstance(trouble, CommandFailed):
            group.failed(trouble_error(self.name, trouble, group.code))
            return
        self.life.ready(self._clock.monotonic())
        self._poke()  # it is due sooner now
        looking = self._registry.system.guard(self._look_on(), name=f"{self.name}: looks")
        try:
            await self._start_tasks()
            await looking
        finally:
            await cancelled(looking)

    async def _start_tasks(self) -> None:
        group = self._group
        await group.reached(self, "loaded")
        await group.turn(self)
        address = await self.ask(SETUP, group.connection(self))
        if isinstance(address, CommandFailed):
            group.failed(trouble_error(self.name, address, group.code))
            return
        self.address = address
        self._registry.set_address(self.name, address)
        group.connected(self)
        told = await self.ask(SETUP, Prepare())
        if told is None:
            await group.reached(self, "prepared")
            told = await self.ask(SETUP, Open())
        if told is not None:
            group.gave_up(self, told)
            return
        self.works = True
        self.steer(group.mode)
        group.ready(self)

    async def _look_on(self) -> None:
        looks = 0
        while True:
            try:
                self._hurry.clear()
                self._mode = self._group.mode if self.works else ""
                with_pending = looks % 4 == 0 or self._mode != "active"
                look = GetStatus(self._errors, self._stalls, self._events, pending=with_pending, mode=self._mode)
                self._saw(await self.ask(CONTROL, look, timeout_s=10.0))
                self.life.heard(self._clock.monotonic())
            except AskTimeoutError:
                continue  # its lease decides
            except WorkerError:
                return
            looks += 1
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._timings.monitor_s):
                    await self._hurry.wait()

    async def look(self) -> None:
        """GetStatus at it now."""
        look = GetStatus(self._errors, self._stalls, self._events, pending=True)
        self._saw(await self.ask(CONTROL, look, timeout_s=10.0))

    def _part_with_it(self) -> None:
        """It ends by itself now; of another machine's we do not hear when."""
        if self._child is not None and self._registry.is_remote(self.name):
            self._child.terminate()

    # -- inside ------------------------------------------------------------------------------------------------------

    def _saw(self, seen: StatusReport) -> None:
        for task in seen.tasks:
            base = self._base.get(task.task_id)
            self.metrics[task.task_id] = task if base is None else task.after(base)
        if seen.pending or not any(task.pending for task in seen.tasks):
            self.pending = dict(seen.pending)
        if seen.error_count > self._errors or seen.stall_count > self._stalls or seen.pressure is not None:
            self._group.seen(self, seen)
        self._errors, self._stalls, self._events = seen.error_count, seen.stall_count, seen.event_count

    def _keep_counts(self) -> None:
        self._base = {task: seen.ended() for task, seen in self.metrics.items()}
        self._errors = self._stalls = self._events = 0
        self.metrics.update(self._base)

    def _announce(self, decisions: list[Decision]) -> None:
        for decision in decisions:
            if isinstance(decision, Degraded):
                log.error("%s is degraded: %s; it is tried further", self.name, decision.reason)
            elif isinstance(decision, Recovered):
                log.info("%s is degraded no longer", self.name)

    async def _told(self, message: object) -> None:
        try:
            await self.ask(CONTROL, message, timeout_s=30.0)
        except AiostormError as error:
            log.debug("%s was not told %r: %s", self.name, message, error)

    async def _wait(self, *until: asyncio.Task[int]) -> float | None:
        """Until something has happened, or the life is due. When that was."""
        due_s = self.life.due_s
        timeout_s = None if due_s is None else max(0.0, due_s - self._clock.monotonic())
        self._poked = asyncio.get_running_loop().create_future()
        waited: set[asyncio.Future[Any]] = {self._poked, *until}
        await asyncio.wait(waited, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        return due_s

    def _poke(self) -> None:
        """The life is due sooner than it was."""
        if not self._poked.done():
            self._poked.set_result(None)

    async def _until_over(self) -> None:
        if self._living is not None:
            await asyncio.wait((self._living,))


async def cancelled(*tasks: asyncio.Future[Any]) -> None:
    """Cancel them and see their end. What they raised is nobody's business any more."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
