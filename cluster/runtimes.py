"""TopologyRuntime: what a running topology is made of: tasks in this process, or workers. And the first of the two.

    RunningTopology (its life: start, wait, steer, end) ─► TopologyRuntime ─┬─ LocalRuntime: tasks here (task set,
                                                                 quiet, stalls) └─ DistributedRuntime: workers, each of
                                                                 which has a LocalRuntime

1. A body decides nothing about the life of the topology: it starts, tells, asks and ends what it is told to.
2. It says by `gave_up` that a task was given up. It may do so at any time, more than once.
3. What it shows of its tasks (metrics, errors, pending) stays readable after its end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from ..actors import ActorSystem, Question
from ..backpressure import Backpressure
from ..metrics import ComponentMetrics, TaskCounters, TaskMetrics, TopologyMetrics
from ..runtime import Stall
from ..tasks import Activate, Deactivate, ErrorReport, GetResult, TaskActor, Wire, direct
from ..topology import ACKER_COMPONENT, Config, Plan, Topology
from .hosting import Hosting
from .idle_detection import IdleDetector
from .stalls import StallReports
from .task_set import TaskSet

TaskGaveUp = Callable[[str, BaseException], None]
"""(path of a task, why): it was given up."""


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    """A worker as its parent sees it. `phase` is STARTING, RUNNING, BACKOFF, STOPPING or ENDED; `degraded` says why."""

    name: str
    pid: int
    phase: str
    tasks: tuple[int, ...]
    restarts: int
    degraded: str = ""


class TopologyRuntime(Protocol):
    """What runs the tasks of one topology: in this process, or on workers."""

    @property
    def plan(self) -> Plan:
        """All its tasks."""
        ...

    async def start(self, ended: asyncio.Future[None]) -> None:
        """Prepare all bolts, then open all spouts. Returns early when `ended` is done."""
        ...

    def metrics(self) -> TopologyMetrics:
        """As they are known now."""
        ...

    def errors(self) -> list[ErrorReport]:
        """The last, oldest first."""
        ...

    def stalls(self) -> list[Stall]:
        """The last, oldest first."""
        ...

    def pending(self) -> dict[str, list[Any]]:
        """Spout component → open message ids."""
        ...

    def workers(self) -> list[WorkerStatus]:
        """Its workers; none if all is in this process."""
        ...

    @property
    def degraded(self) -> str:
        """Why it does not run as it should; empty if it does."""
        ...

    def backpressure(self) -> Backpressure:
        """As it is known now."""
        ...

    async def update(self, config: Config) -> None:
        """Settings that hold from now on; what may differ is checked."""
        ...

    async def results(self) -> dict[str, list[Any]]:
        """Component → what its tasks' `result()` returned, where that is not None."""
        ...

    def set_active(self, active: bool) -> None:
        """Let the spouts emit, or not."""
        ...

    def end_spouts(self) -> None:
        """No spout emits any more, ever."""
        ...

    async def wait_quiet(
        self,
        *,
        finished: bool,
        quiet_s: float,
        broken: Callable[[], None],
        held: bool = False,
        until: Callable[[], bool] | None = None,
    ) -> None:
        """Wait until the topology is idle; the parameters are those of `IdleDetector.wait`."""
        ...

    def wake(self) -> None:
        """Whoever waits looks again: something is broken or over."""
        ...

    async def stop(self) -> None:
        """End in order."""
        ...

    async def kill(self) -> None:
        """End at once."""
        ...

    def doom(self) -> None:
        """The same without waiting for it. Twice is once."""
        ...


class LocalRuntime:
    """The tasks in this process, of a topology that is here as a whole or in part (`hosting`)."""

    def __init__(
        self,
        system: ActorSystem,
        name: str,
        topology: Topology,
        config: Config,
        *,
        gave_up: TaskGaveUp,
        wire: Wire = direct,
        hosting: Hosting | None = None,
    ) -> None:
        self.topology = topology
        self.task_set = TaskSet(
            system,
            name,
            topology,
            config,
            on_idle=lambda: self._quiet.notify(),
            gave_up=gave_up,
            wire=wire,
            hosting=hosting,
        )
        self._quiet = IdleDetector(
            self.task_set.spouts,
            self.task_set.bolts,
            self.task_set.ackers,
            system.clock.monotonic,
            self._exchange_is_quiet,
        )
        self._stalls = StallReports(name, {c: own.stall_report_s for c, own in self.task_set.configs.items()})

    @property
    def plan(self) -> Plan:
        return self.task_set.plan

    @property
    def degraded(self) -> str:
        return ""

    async def start(self, ended: asyncio.Future[None]) -> None:
        self._stalls.start()
        await self.task_set.start(ended)

    async def start_bolts(self, ended: asyncio.Future[None]) -> None:
        """The first half of `start`, for a worker."""
        self._stalls.start()
        await self.task_set.start_bolts(ended)

    async def start_spouts(self, ended: asyncio.Future[None]) -> None:
        """The second half."""
        await self.task_set.start_spouts(ended)

    @property
    def activity(self) -> int:
        """A number that grows with whatever is done here."""
        counts = (task.counters for task in self.task_set.tasks)
        done = sum(c.emitted + c.transferred + c.executed + c.acked + c.failed + c.restarts for c in counts)
        exchange = self.task_set.exchange
        return done if exchange is None else done + sum(exchange.sent.values()) + sum(exchange.received.values())

    @property
    def stall_count(self) -> int:
        """How many stalls there were; `stalls` has the last."""
        return self._stalls.count

    def metrics(self) -> TopologyMetrics:
        by_component: dict[str, list[TaskMetrics]] = {c: [] for c in self.topology.components}
        for task in self.task_set.tasks:
            by_component[task.task.component].append(task.metrics())
        found = [
            ComponentMetrics(c, self.topology.components[c].kind, tuple(tasks)) for c, tasks in by_component.items()
        ]
        if self.task_set.ackers:
            ackers = tuple(
                TaskMetrics.of(task_id, TaskCounters(), pending=0, fill=box.fill, capacity=box.capacity)
                for task_id, box in zip(self.task_set.acker_ids, self.task_set.ackers, strict=True)
            )
            found.append(ComponentMetrics(ACKER_COMPONENT, "acker", ackers))
        return TopologyMetrics(found)

    def errors(self) -> list[ErrorReport]:
        return self.task_set.errors.last

    def stalls(self) -> list[Stall]:
        return self._stalls.last

    def pending(self) -> dict[str, list[Any]]:
        open_ids: dict[str, list[Any]] = {}
        for spout in self.task_set.spouts:
            open_ids.setdefault(spout.task.component, []).extend(spout.open_messages())
        return open_ids

    def workers(self) -> list[WorkerStatus]:
        return []

    def backpressure(self) -> Backpressure:
        """See TopologyRuntime. Of a part without the topology master: nothing is known."""
        master = self.task_set.master
        return Backpressure() if master is None else master.view()

    async def update(self, config: Config) -> None:
        self.task_set.update(config)
        self._stalls.update({c: own.stall_report_s for c, own in self.task_set.configs.items()})

    async def results(self) -> dict[str, list[Any]]:
        found: dict[str, list[Any]] = {}
        for task in self.task_set.tasks:
            value = await self.result_of(task)
            if value is not None:
                found.setdefault(task.task.component, []).append(value)
        return found

    async def result_of(self, task: TaskActor) -> Any:
        """What a task's `result()` returns."""
        reply: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.task_set.post(task, Question(GetResult(), reply))
        return await reply

    def set_active(self, active: bool) -> None:
        self.task_set.post_to_spouts(Activate if active else Deactivate)

    def end_spouts(self) -> None:
        self.task_set.post_to_spouts(lambda: Deactivate(end=True))

    async def wait_quiet(
        self,
        *,
        finished: bool,
        quiet_s: float,
        broken: Callable[[], None],
        held: bool = False,
        until: Callable[[], bool] | None = None,
    ) -> None:
        await self._quiet.wait(finished=finished, held=held, until=until, quiet_s=quiet_s, broken=broken)

    def is_quiet_now(self, *, finished: bool, held: bool, quiet_s: float) -> bool:
        """Would `wait_quiet` return at once?"""
        return self._quiet.is_quiet_now(finished=finished, held=held, quiet_s=quiet_s)

    def wake(self) -> None:
        self._quiet.wake()

    async def stop(self) -> None:
        try:
            await self.task_set.stop()
        finally:
            self.doom()

    async def kill(self) -> None:
        try:
            await self.task_set.kill()
        finally:
            self.doom()

    def doom(self) -> None:
        self.task_set.doom()
        self._stalls.stop()

    def _exchange_is_quiet(self) -> bool:
        exchange = self.task_set.exchange
        return exchange is None or exchange.is_idle
