"""RebuiltLocalRuntime: a topology in this process whose tasks can be ended and built again: a Rebuildable.

Each rebuild makes another LocalRuntime. Its reports contain what the former ones have counted.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ...actors import MailboxClosedError
from ...metrics import ComponentMetrics, TaskMetrics, TopologyMetrics, Trace
from ..changes import Changes
from ..idle_detection import IdleGoal
from ..local_runtime import LocalRuntime
from .agent import Agent

if TYPE_CHECKING:
    from ...backpressure import Backpressure
    from ...runtime import Profile, Stall
    from ...tasks import ErrorReport
    from ...topology import Config, MessageId, Plan, Result
    from ..runtimes import Mode, WorkerStatus
    from .messages import SnapshotCommand, SnapshotReport, SnapshotSetup

KEPT: Final = 200

MakeRuntime = Callable[[Agent, Callable[[str, BaseException], None]], LocalRuntime]
"""(agent, called when a task has failed for good) → the runtime of one incarnation."""


class RebuiltReports:
    """What the present tasks report, and the former ones have reported."""

    def __init__(self, runtime: LocalRuntime) -> None:
        self._runtime = runtime
        self._base: dict[int, TaskMetrics] = {}
        self._errors: deque[ErrorReport] = deque(maxlen=KEPT)
        self._stalls: deque[Stall] = deque(maxlen=KEPT)

    def use(self, runtime: LocalRuntime) -> None:
        """The tasks were built again."""
        ended = self._runtime.reports
        for component in self.metrics().values():
            for task in component.tasks:
                time = None if task.time is None else replace(task.time, live=0)  # its windows are restored
                self._base[task.task_id] = replace(task, pending=0, pending_trees=0, fill=0, time=time)
        self._errors += ended.errors()
        self._stalls += ended.stalls()
        self._runtime = runtime

    def metrics(self) -> TopologyMetrics:
        found = self._runtime.reports.metrics()
        if not self._base:
            return found
        components = [
            ComponentMetrics(name, of.kind, tuple(map(self._with_base, of.tasks))) for name, of in found.items()
        ]
        return TopologyMetrics(components, found.processes)

    def errors(self) -> list[ErrorReport]:
        return [*self._errors, *self._runtime.reports.errors()][-KEPT:]

    def stalls(self) -> list[Stall]:
        return [*self._stalls, *self._runtime.reports.stalls()][-KEPT:]

    def pending(self) -> dict[str, list[MessageId]]:
        return self._runtime.reports.pending()

    def backpressure(self) -> Backpressure:
        return self._runtime.reports.backpressure()

    def profiles(self) -> list[Profile]:
        return self._runtime.reports.profiles()

    def traces(self) -> list[Trace]:
        return []

    def workers(self) -> list[WorkerStatus]:
        return []

    @property
    def degraded(self) -> str:
        return ""

    def _with_base(self, task: TaskMetrics) -> TaskMetrics:
        base = self._base.get(task.task_id)
        return task if base is None else task.after(base)


class RebuiltLocalRuntime:
    """The tasks of a topology in this process. `make` makes the runtime of one incarnation.

    `on_report`: gets what its tasks report about snapshots; `gave_up`: is called when one has failed for good.
    """

    def __init__(
        self,
        make: MakeRuntime,
        make_agent: Callable[[SnapshotSetup, Callable[[SnapshotReport], None]], Agent],
        setup: SnapshotSetup,
        on_report: Callable[[SnapshotReport], None],
        gave_up: Callable[[str, BaseException], None],
    ) -> None:
        self._make = make
        self._make_agent = make_agent
        self._on_report = on_report
        self._gave_up = gave_up
        self._changes = Changes()
        self._build(setup)
        self.reports = RebuiltReports(self._runtime)
        self._is_up = True

    def _build(self, setup: SnapshotSetup) -> None:
        self._failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        failed = self._failed

        def gave_up(path: str, error: BaseException) -> None:
            if not failed.done():
                failed.set_result(None)
            if failed is self._failed:
                self._gave_up(path, error)

        self._agent = self._make_agent(setup, self._on_report)
        self._runtime = self._make(self._agent, gave_up)

    # -- Rebuildable ---------------------------------------------------------------------------------------------------

    def send(self, command: SnapshotCommand) -> None:
        self._agent.command(command)

    async def rebuild(self, setup: SnapshotSetup) -> None:
        """See Rebuildable. Returns also when a task fails for good meanwhile: `gave_up` was called then."""
        self._is_up = False
        former, mode = self._runtime, self._runtime.mode
        former.wake()
        await former.kill()
        self._build(setup)
        self.reports.use(self._runtime)
        await self._runtime.start(self._failed)
        if self._failed.done():
            return
        self._runtime.set_mode(mode)
        self._is_up = True
        self._changes.notify()

    # -- TopologyRuntime -----------------------------------------------------------------------------------------------

    @property
    def local(self) -> LocalRuntime:
        """The present runtime (for tests and simulations)."""
        return self._runtime

    @property
    def plan(self) -> Plan:
        return self._runtime.plan

    @property
    def mode(self) -> Mode:
        return self._runtime.mode

    def set_mode(self, mode: Mode) -> None:
        self._runtime.set_mode(mode)

    async def start(self, ended: asyncio.Future[None]) -> None:
        await self._runtime.start(ended)

    async def update(self, config: Config) -> None:
        await self._runtime.update(config)

    async def want_traces(self, spouts: Sequence[str], count: int) -> None:
        """Without effect: with exactly once tuples are in no tree."""

    async def profile(self, seconds: float) -> list[Profile]:
        return await self._runtime.profile(seconds)

    async def fresh_traces(self) -> list[Trace]:
        return []

    async def set_log_level(self, logger: str, level: str) -> None:
        await self._runtime.set_log_level(logger, level)

    async def results(self, broken: Callable[[], None]) -> dict[str, list[Result]]:
        """Tasks that are built again meanwhile are asked again: when they have finished, if they had before."""
        goal = IdleGoal(finished=True)
        had_finished = self._runtime.is_quiet_now(goal)
        while True:
            broken()
            if not self._is_up:
                await self._changes.wait()
                continue
            runtime = self._runtime
            try:
                return await runtime.results(self._while_it_runs(runtime, broken))
            except _ReplacedError:
                pass
            except MailboxClosedError:
                if self._runtime is runtime and self._is_up:
                    raise
            if had_finished:
                await self.wait_quiet(goal, broken)

    async def wait_quiet(self, goal: IdleGoal, broken: Callable[[], None]) -> None:
        while True:
            broken()
            if not self._is_up:
                await self._changes.wait()
                continue
            runtime = self._runtime
            try:
                await runtime.wait_quiet(goal, self._while_it_runs(runtime, broken))
            except _ReplacedError:
                continue
            return

    def _while_it_runs(self, runtime: LocalRuntime, broken: Callable[[], None]) -> Callable[[], None]:
        """Raises what `broken` raises, and _ReplacedError when the tasks of `runtime` have ended."""

        def check() -> None:
            broken()
            if not self._is_up or self._runtime is not runtime:
                raise _ReplacedError

        return check

    def wake(self) -> None:
        self._runtime.wake()
        self._changes.notify()

    async def stop(self) -> None:
        await self._runtime.stop()

    async def kill(self) -> None:
        await self._runtime.kill()

    def abort(self) -> None:
        self._runtime.abort()


class _ReplacedError(Exception):
    """The tasks that were waited for have been ended, and others are built."""
