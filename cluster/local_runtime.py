"""LocalRuntime: the tasks of this process, as a TopologyRuntime: a whole topology, or the part of one worker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from ..actors import ActorSystem, Question
from ..backpressure import Backpressure
from ..metrics import ComponentMetrics, PlacedRow, TaskCounters, TaskMetrics, TopologyMetrics, Trace, joined_traces
from ..runtime import Profile, Sampler, is_virtual, look_at_process
from ..tasks import Activate, Deactivate, ErrorReport, GetResult, MailboxWrapper, TaskActor, direct
from ..topology import ACKER_COMPONENT, Config, Plan, Topology
from .changes import Changes
from .idle_detection import IdleDetector, IdleGoal
from .profiles import Profiles
from .stalls import StallReports
from .task_set import TaskSet
from .tasks_here import TasksHere, make_tasks
from .tracing import MAX_WANTED

if TYPE_CHECKING:
    from ..actors import Answer
    from ..runtime import Stall
    from ..topology import MessageId, Result
    from .hosting import Hosting
    from .runtimes import Mode, OnTaskGaveUp, WorkerStatus
    from .snapshots.agent import Agent


LOCAL: Final = "local"
"""The name of this process where there are no workers."""


class LocalReports:
    """Reads the tasks of this process. A RuntimeReports."""

    def __init__(self, tasks: TasksHere, stalls: StallReports, profiles: Profiles) -> None:
        self._tasks = tasks
        self._profiles = profiles
        self._stalls = stalls
        self.spans = tasks.env.span_ring()
        """What is kept of sampled tuple trees."""

    @property
    def activity(self) -> int:
        """A counter that grows with all that the tasks do."""
        counts = (task.counters for task in self._tasks)
        done = sum(c.emitted + c.transferred + c.executed + c.acked + c.failed + c.restarts for c in counts)
        exchange = self._tasks.exchange
        return done if exchange is None else done + sum(exchange.sent.values()) + sum(exchange.received.values())

    @property
    def error_count(self) -> int:
        """The number of all errors; `errors` has the last ones."""
        return self._tasks.errors.count

    @property
    def stall_count(self) -> int:
        """The number of all stalls; `stalls` has the last ones."""
        return self._stalls.count

    @property
    def event_count(self) -> int:
        """The number of all backpressure events; 0 without the topology master."""
        master = self._tasks.master
        return 0 if master is None else master.event_count

    def metrics(self) -> TopologyMetrics:
        here = self._tasks
        by_component: dict[str, list[TaskMetrics]] = {c: [] for c in here.topology.components}
        for task in here:
            by_component[task.task.component].append(task.metrics())
        found = [
            ComponentMetrics(c, here.topology.components[c].kind, tuple(tasks)) for c, tasks in by_component.items()
        ]
        if here.ackers:
            ackers = tuple(
                TaskMetrics.of(task_id, TaskCounters(), pending=0, fill=box.gate.fill, capacity=box.gate.capacity)
                for task_id, box in zip(here.acker_ids, here.ackers, strict=True)
            )
            found.append(ComponentMetrics(ACKER_COMPONENT, "acker", ackers))
        return TopologyMetrics(found, {LOCAL: look_at_process()})

    def errors(self) -> list[ErrorReport]:
        return self._tasks.errors.last

    def stalls(self) -> list[Stall]:
        return self._stalls.last

    def pending(self) -> dict[str, list[MessageId]]:
        open_ids: dict[str, list[MessageId]] = {}
        for spout in self._tasks.spouts:
            open_ids.setdefault(spout.task.component, []).extend(spout.open_messages())
        return open_ids

    def backpressure(self) -> Backpressure:
        """Empty for a part without the topology master."""
        master = self._tasks.master
        return Backpressure() if master is None else master.view()

    def profiles(self) -> list[Profile]:
        return self._profiles.last()

    def traces(self) -> list[Trace]:
        env = self._tasks.env
        component_of = {task.task_id: task.component for task in env.plan.tasks}
        return joined_traces([PlacedRow(LOCAL, 0.0, 0.0, row) for row in self.spans.rows()], component_of)

    def workers(self) -> list[WorkerStatus]:
        return []

    @property
    def degraded(self) -> str:
        return ""


class LocalRuntime:
    """The tasks in this process: all of a topology, or the part given by `hosting`. `snapshots`: for exactly once.

    `profiled`: gets profiles of stalls while they last, in another thread; None: they are kept here.
    """

    def __init__(
        self,
        system: ActorSystem,
        name: str,
        topology: Topology,
        config: Config,
        *,
        gave_up: OnTaskGaveUp,
        mailbox_wrapper: MailboxWrapper = direct,
        hosting: Hosting | None = None,
        snapshots: Agent | None = None,
        profiled: Callable[[Profile], None] | None = None,
    ) -> None:
        self.mode: Mode = "inactive"
        tasks = make_tasks(
            system,
            name,
            topology,
            config,
            gave_up=gave_up,
            mailbox_wrapper=mailbox_wrapper,
            hosting=hosting,
            snapshots=snapshots,
        )
        if snapshots is not None:
            snapshots.attach(tasks)
        self.task_set = TaskSet(system, tasks, gave_up=gave_up)
        monotonic = system.clock.monotonic
        self._idle = IdleDetector(tasks.spouts, tasks.bolts, tasks.ackers, monotonic, self._exchange_is_idle)
        tasks.env.on_idle = self._idle.notify
        if tasks.exchange is not None:
            tasks.exchange.on_idle(self._idle.notify)
        self._changes = Changes()  # that may have ended the tasks
        self._profiles = Profiles()
        kept = partial(self._profiles.keep, LOCAL)
        self._stalls = StallReports(name, self._stall_limits_s(), kept if profiled is None else profiled)
        self.reports = LocalReports(tasks, self._stalls, self._profiles)

    @property
    def plan(self) -> Plan:
        return self.task_set.tasks.plan

    async def start(self, ended: asyncio.Future[None]) -> None:
        await self.start_bolts(ended)
        await self.start_spouts(ended)

    async def start_bolts(self, ended: asyncio.Future[None]) -> None:
        """The first half of `start`: ackers and bolts."""
        self._stalls.start()
        await self.task_set.start_bolts(ended)

    async def start_spouts(self, ended: asyncio.Future[None]) -> None:
        """The second half of `start`: spouts."""
        await self.task_set.start_spouts(ended)

    def set_mode(self, mode: Mode) -> None:
        if mode != self.mode and self.mode != "ended":
            self.mode = mode
            self.task_set.tasks.post_to_spouts(_MODE_MESSAGES[mode])

    async def update(self, config: Config) -> None:
        self.task_set.update(config)
        self._stalls.update(self._stall_limits_s())

    async def want_traces(self, spouts: Sequence[str], count: int) -> None:
        for spout in self.task_set.tasks.spouts:
            if spout.task.component in spouts:
                tracer = spout.acks.tracer
                tracer.wanted = min(tracer.wanted + count, MAX_WANTED)

    async def profile(self, seconds: float) -> list[Profile]:
        loop = asyncio.get_running_loop()
        if is_virtual(loop):
            return []
        taken: asyncio.Future[Profile] = loop.create_future()

        def done(profile: Profile) -> None:
            if not taken.done():
                taken.set_result(profile)

        def sampled(profile: Profile) -> None:
            loop.call_soon_threadsafe(done, profile)

        sampler = Sampler(seconds, sampled)
        sampler.start()
        try:
            profile = replace(await taken, worker=LOCAL)
        finally:
            sampler.stop()
        self._profiles.keep(LOCAL, profile)
        return [profile]

    async def fresh_traces(self) -> list[Trace]:
        return self.reports.traces()

    async def set_log_level(self, logger: str, level: str) -> None:
        """There is no other process."""

    async def results(self, broken: Callable[[], None]) -> dict[str, list[Result]]:
        found: dict[str, list[Result]] = {}
        for task in self.task_set.tasks:
            broken()
            asked = self._ask_result(task)
            try:
                while not asked.done():  # never, if its task has ended meanwhile
                    await self._changes.wait(asked)
                    broken()
                value = await asked
            finally:
                asked.cancel()  # what comes later is not wanted any more
            if value is not None:
                found.setdefault(task.task.component, []).append(value)
        return found

    async def result_of(self, task: TaskActor) -> Result:
        """What a task's `result()` returns."""
        return await self._ask_result(task)

    def _ask_result(self, task: TaskActor) -> asyncio.Future[Answer]:
        reply: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self.task_set.tasks.post(task, Question(GetResult(), reply))
        return reply

    async def wait_quiet(self, goal: IdleGoal, broken: Callable[[], None]) -> None:
        await self._idle.wait(goal, broken)

    def is_quiet_now(self, goal: IdleGoal) -> bool:
        """Would `wait_quiet` return at once?"""
        return self._idle.is_quiet_now(goal)

    def wake(self) -> None:
        self._idle.wake()
        self._changes.notify()

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

    def _stall_limits_s(self) -> dict[str, float]:
        return {component: config.stall_report_s for component, config in self.task_set.tasks.configs.items()}

    def _exchange_is_idle(self, away: Collection[str]) -> bool:
        exchange = self.task_set.tasks.exchange
        return exchange is None or exchange.is_idle_without(away)


_MODE_MESSAGES: Final[dict[Mode, Callable[[], object]]] = {
    "active": Activate,
    "inactive": Deactivate,
    "ended": lambda: Deactivate(end=True),
}
