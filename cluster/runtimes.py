"""TopologyRuntime: what runs a topology: tasks in this process, or workers. LocalRuntime is the first of the two.

    RunningTopology (its life: start, wait, steer, end) ─► TopologyRuntime ─┬─ LocalRuntime: tasks here (task set,
                                                                 quiet, stalls) └─ DistributedRuntime: workers, each of
                                                                 which has a LocalRuntime

1. A runtime makes no decisions about the topology: it starts, queries, controls and ends the tasks on request.
2. It calls `gave_up` when a task has failed for good: at any time, perhaps more than once.
3. Metrics, errors and pending messages stay readable after its end.
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

OnTaskGaveUp = Callable[[str, BaseException], None]
"""(path of a task, error): the task has failed for good."""


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    """The state of a worker. `phase`: STARTING, RUNNING, BACKOFF, STOPPING or ENDED; `degraded`: why, or empty."""

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
        """The plan with all tasks."""
        ...

    async def start(self, ended: asyncio.Future[None]) -> None:
        """Prepare all bolts, then open all spouts. Returns early when `ended` is done."""
        ...

    def metrics(self) -> TopologyMetrics:
        """The latest metrics."""
        ...

    def errors(self) -> list[ErrorReport]:
        """The last ones, oldest first."""
        ...

    def stalls(self) -> list[Stall]:
        """The last ones, oldest first."""
        ...

    def pending(self) -> dict[str, list[Any]]:
        """Spout component → pending message ids."""
        ...

    def workers(self) -> list[WorkerStatus]:
        """The workers; empty if all tasks are in this process."""
        ...

    @property
    def degraded(self) -> str:
        """Why it is degraded; empty if it is not."""
        ...

    def backpressure(self) -> Backpressure:
        """The latest state."""
        ...

    async def update(self, config: Config) -> None:
        """Change the settings, which are already checked."""
        ...

    async def results(self) -> dict[str, list[Any]]:
        """Component → the results of its tasks that are not None."""
        ...

    def set_active(self, active: bool) -> None:
        """Activate or deactivate the spouts."""
        ...

    def end_spouts(self) -> None:
        """End the spouts for good."""
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
        """Wake all waiting callers: the topology has failed or ended."""
        ...

    async def stop(self) -> None:
        """Stop in order."""
        ...

    async def kill(self) -> None:
        """Kill all tasks."""
        ...

    def abort(self) -> None:
        """As `kill`, without waiting. A repeated call does nothing."""
        ...


class LocalRuntime:
    """The tasks in this process: all of a topology, or the part given by `hosting`."""

    def __init__(
        self,
        system: ActorSystem,
        name: str,
        topology: Topology,
        config: Config,
        *,
        gave_up: OnTaskGaveUp,
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
        """The first half of `start`: ackers and bolts."""
        self._stalls.start()
        await self.task_set.start_bolts(ended)

    async def start_spouts(self, ended: asyncio.Future[None]) -> None:
        """The second half of `start`: spouts."""
        await self.task_set.start_spouts(ended)

    @property
    def activity(self) -> int:
        """A counter that grows with all that the tasks do."""
        counts = (task.counters for task in self.task_set.tasks)
        done = sum(c.emitted + c.transferred + c.executed + c.acked + c.failed + c.restarts for c in counts)
        exchange = self.task_set.exchange
        return done if exchange is None else done + sum(exchange.sent.values()) + sum(exchange.received.values())

    @property
    def stall_count(self) -> int:
        """The number of all stalls; `stalls` has the last ones."""
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
        """Empty for a part without the topology master."""
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
            self.abort()

    async def kill(self) -> None:
        try:
            await self.task_set.kill()
        finally:
            self.abort()

    def abort(self) -> None:
        self.task_set.abort()
        self._stalls.stop()

    def _exchange_is_quiet(self) -> bool:
        exchange = self.task_set.exchange
        return exchange is None or exchange.is_idle
