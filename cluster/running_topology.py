"""Running topology: the handle of a submitted topology: watch it, wait for it, control it, end it.

    STARTING ─► ACTIVE ◄──► INACTIVE
       │          └──────────┴──► KILLED   (drained, then stopped in order; or at once)
       ├──────────────────────────► KILLED   (at once: there is nothing to drain)
       └─► FAILED ◄─ ACTIVE, INACTIVE        (a task gave up)

1. Spouts emit only when all components are prepared and open.
2. A task that fails for good fails the whole running topology, and all waiting callers get the error.
3. It ends once, however often it is asked to; even if the end itself fails, nothing is left behind.

Storm: nimbus' topology states; one process has no STARTING slots and no REBALANCING (yet).
"""

from __future__ import annotations

import asyncio
import enum
import logging
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from ..actors import ActorEscalatedError, ActorSystem
from ..tasks import ErrorReport, describe
from ..topology import Config, ConfigError, Plan, Topology, retention_problems
from .completing import complete, is_whole
from .errors import NotCompletedError, TopologyFailedError, TopologyKilledError
from .health import Health, health_of
from .idle_detection import IdleGoal
from .local_runtime import LocalRuntime
from .log_levels import check_level, set_level
from .run_parts import DrainEndedError, RunEnd, RunFailure, RunInfo
from .snapshots.exactly_once import ExactlyOnceRuntime
from .snapshots.rebuilt_local import RebuiltLocalRuntime
from .tracing import TraceError, next_trace, untraced

if TYPE_CHECKING:
    from ..backpressure import Backpressure
    from ..metrics import SnapshotMetrics, TopologyMetrics, Trace
    from ..runtime import Profile, Stall
    from ..state import ListedSnapshot
    from ..topology import MessageId, Result, Setting
    from .report import Report
    from .runtimes import OnTaskGaveUp, TopologyRuntime, WorkerStatus
    from .task_set import TaskSet

log = logging.getLogger("aiostorm.cluster")

MAX_PROFILE_S: Final = 60.0


class State(enum.StrEnum):
    """The state of a running topology."""

    STARTING = "STARTING"
    ACTIVE = "ACTIVE"
    INACTIVE = "INACTIVE"
    KILLED = "KILLED"
    FAILED = "FAILED"


class RunningTopology:
    """A submitted topology: watch it, wait for it, end it. Made by `LocalCluster.submit`."""

    def __init__(
        self,
        system: ActorSystem,
        name: str,
        topology: Topology,
        config: Config,
        *,
        on_killed: Callable[[], None],
        make_runtime: Callable[[OnTaskGaveUp], TopologyRuntime],
        page_url: Callable[[], str] = str,
    ) -> None:
        self.name = name
        self.topology = topology
        self.config = config
        self.state = State.STARTING
        self._system = system
        self._runtime = make_runtime(self._task_gave_up)
        self._on_killed = on_killed
        self._ended: asyncio.Future[None] = system.loop.create_future()
        self._ending: RunEnd | None = None
        self._failure: RunFailure | None = None
        self._run = RunInfo(system.clock.now(), page_url)
        self.problems: list[NotCompletedError] = []
        """Errors after a successful end, such as a sink that could not complete its output."""

    # -- queries -----------------------------------------------------------------------------------------------------

    @property
    def plan(self) -> Plan:
        """Its tasks, and the order of its components."""
        return self._runtime.plan

    @property
    def started_s(self) -> float:
        """When it was submitted: seconds since 1970."""
        return self._run.started_s

    def metrics(self) -> TopologyMetrics:
        """Counters of every component (the acker is `__acker`); those of workers as last reported."""
        found = self._runtime.reports.metrics()
        found.snapshots = self.snapshot_metrics
        return found

    def errors(self) -> list[ErrorReport]:
        """The last errors in user code, oldest first; `metrics()` counts all."""
        return self._runtime.reports.errors()

    def stalls(self) -> list[Stall]:
        """The last calls of user code that blocked the loop longer than `topology.stall.report.secs`, and where."""
        return self._runtime.reports.stalls()

    @property
    def unreported_failure(self) -> bool:
        """Has the topology failed without a caller having received the error?"""
        return self._failure is not None and not self._failure.reported

    def pending(self) -> dict[str, list[MessageId]]:
        """Spout component → ids of messages that are neither acked nor failed."""
        return self._runtime.reports.pending()

    def backpressure(self) -> Backpressure:
        """Fill of the bolts, overloaded bolts, paced spouts with the reason, and past events; as last reported.

        Components whose tasks have not moved for a while are shown as empty.
        """
        return self._runtime.reports.backpressure()

    def profiles(self) -> list[Profile]:
        """The last profiles, the last one first: those that `profile` has taken, and those of stalls.

        A worker whose event loop is blocked by user code is sampled by itself, and shown here while it is. If all tasks
        are in this process, its own loop is blocked: then the log names the line.
        """
        return self._runtime.reports.profiles()

    async def profile(self, seconds: float = 5.0) -> list[Profile]:
        """Sample where the code of all processes is, a hundred times a second, for so long: one profile of each.

        ValueError for no time, or more than 60 s. In virtual time there is none.
        """
        if not 0 < seconds <= MAX_PROFILE_S:
            raise ValueError(f"a profile takes more than 0 and at most {MAX_PROFILE_S:g} seconds, not {seconds!r}")
        self._check_alive()
        return await self._runtime.profile(seconds)

    def traces(self) -> list[Trace]:
        """The tuple trees that were sampled, the last one first: 1 in `topology.trace.one.in`, and those of `trace`.

        Each process keeps the last 1000 rows. Empty if there are no trees (`untraced` says why).
        """
        return self._runtime.reports.traces()

    @property
    def untraced(self) -> str:
        """Why no tuple tree can be traced; empty if they can."""
        return untraced(self.plan, self.config.guarantee)

    @property
    def snapshot_metrics(self) -> SnapshotMetrics | None:
        """With exactly once: its newest snapshot, and how often it was rolled back. None with another guarantee."""
        return self._runtime.snapshot_metrics if isinstance(self._runtime, ExactlyOnceRuntime) else None

    def workers(self) -> list[WorkerStatus]:
        """The workers: pid, tasks, restarts. Empty if all tasks run in this process."""
        return self._runtime.reports.workers()

    @property
    def degraded(self) -> str:
        """Why the topology is degraded: a worker does not stay alive. Empty if it is not."""
        return self._runtime.reports.degraded

    def health(self) -> Health:
        """Is it live and ready, and if not, why?"""
        return health_of(self.state, self.workers(), self.degraded)

    @property
    def is_over(self) -> bool:
        """Has it ended, or failed?"""
        return self.state in (State.KILLED, State.FAILED)

    def report(self, path: str | os.PathLike[str]) -> Report:
        """Write an HTML report of the run, for which no network and no script is needed; a file that is there is
        replaced.

        `await running.report("run.html")` writes what it is now. `async with running.report("run.html"):` also records
        rates, mailboxes, waits and latencies over time while it is in the block, and writes at its end. ReportError if
        it cannot be written.
        """
        from .report import Report

        return Report(self, path, self._system.clock, lambda work: self._system.guard(work, name=f"record {self.name}"))

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from .report import card

        return card(self, self._system.clock.now(), self._run.page_url())

    async def results(self, timeout_s: float | None = None) -> dict[str, list[Result]]:
        """Component → what `result()` of each task returned; components that only return None are left out.

        While a worker restarts, or all tasks go back to a snapshot, it waits for them. TimeoutError after `timeout_s`;
        TopologyFailedError and TopologyKilledError as in `wait_idle`; WorkerError if a worker cannot send its results.
        """
        self._check_alive()
        async with asyncio.timeout(timeout_s):
            return await self._runtime.results(self._check_alive)

    async def trace(self, component: str | None = None, timeout_s: float = 10.0) -> Trace:
        """Trace one tuple tree from now on: the next that is complete, and passes the component.

        TraceError if there is none within `timeout_s` seconds, for a name that is no component, and if there are no
        trees; TopologyFailedError and TopologyKilledError as in `wait_idle`.
        """
        self._check_alive()
        if self.untraced:
            raise TraceError(f"topology {self.name!r}: {self.untraced}")
        return await next_trace(self._runtime, self.topology, component, timeout_s, self._check_alive)

    # -- wait --------------------------------------------------------------------------------------------------------

    async def wait_idle(self, timeout_s: float | None = None, *, quiet_s: float = 1.0) -> None:
        """Wait until every spout is exhausted or quiet, every tree is acked or failed, and nothing is under way.

        A spout is quiet when `next_tuple` emitted nothing, or has been waiting for `quiet_s`. TimeoutError after
        `timeout_s`; TopologyFailedError if a component gave up; TopologyKilledError if it was killed.
        """
        async with asyncio.timeout(timeout_s):
            await self._runtime.wait_quiet(IdleGoal(quiet_s=quiet_s), self._check_alive)

    async def wait_still(
        self, timeout_s: float | None = None, *, quiet_s: float = 1.0, until: Callable[[], bool] | None = None
    ) -> None:
        """Wait until nothing moves (and `until()` is true): as `wait_idle`, but messages may be pending.

        A bolt holds them then, or has forgotten them: something happens when it settles them, or at their timeout.
        """
        async with asyncio.timeout(timeout_s):
            await self._runtime.wait_quiet(IdleGoal(still=True, quiet_s=quiet_s, until=until), self._check_alive)

    async def wait_finished(self, timeout_s: float | None = None) -> None:
        """Wait until every spout has called `collector.finish()` and everything it emitted is done."""
        async with asyncio.timeout(timeout_s):
            await self._runtime.wait_quiet(IdleGoal(finished=True, durable=True), self._check_alive)
        self._run.finished = True

    async def wait_ended(self) -> None:
        """Wait until it was killed or has failed (then TopologyFailedError)."""
        await asyncio.shield(self._ended)
        self._check_not_failed()

    # -- control ----------------------------------------------------------------------------------------------------

    async def activate(self) -> None:
        """Activate the spouts. TopologyKilledError if `drain` has ended them."""
        self._check_alive()
        if self._runtime.mode == "ended":
            raise TopologyKilledError(f"topology {self.name!r} was drained: its spouts have ended; submit it again")
        self._set_active(True)

    async def deactivate(self) -> None:
        """Stop calling `next_tuple`; tuples that are under way are processed."""
        self._check_alive()
        self._set_active(False)

    async def update(self, config: Config | Mapping[str, Setting]) -> Config:
        """Change settings while it runs; returns the configuration that holds now. Components' own settings stay.

        Switching backpressure off releases every spout at once. ConfigError for a value that is not allowed, for one
        with which windows could not keep their tuples, and for settings that cannot be changed now
        (`topology.UPDATABLE` has those that can).
        """
        self._check_alive()
        changed = self.config.updated(config)
        if problems := retention_problems(self.topology, changed):
            raise ConfigError(*problems)
        self.config = changed
        await self._runtime.update(self.config)
        return self.config

    async def set_log_level(self, logger: str, level: str) -> None:
        """Set the level of a logger in this process and in all workers, until they end: "DEBUG", …, "CRITICAL".

        Empty texts are the root logger, and the level of the logger above. ValueError for a logger that does not exist
        here, or a level that there is not.
        """
        self._check_alive()
        check_level(logger, level)
        set_level(logger, level)
        await self._runtime.set_log_level(logger, level)

    async def drain(self, timeout_s: float | None = None) -> None:
        """End the spouts for good and wait until everything that they have emitted is done; then ask for `results()`.

        A `next_tuple` that waits is cancelled: nothing is emitted after this. TimeoutError after `timeout_s`, with the
        spouts ended all the same; TopologyFailedError and TopologyKilledError as in `wait_idle`.
        """
        self._check_alive()
        self.state = State.INACTIVE
        self._runtime.set_mode("ended")
        async with asyncio.timeout(timeout_s):
            await self._runtime.wait_quiet(IdleGoal(durable=True), self._check_alive)

    async def snapshot(self, timeout_s: float | None = None) -> int:
        """Take a savepoint (exactly once): a snapshot that is never removed. Returns its number when it is committed.

        TypeError with another guarantee; TimeoutError after `timeout_s`.
        """
        self._check_alive()
        runtime = self._exactly_once()
        async with asyncio.timeout(timeout_s):
            return await runtime.snapshot()

    async def snapshots(self) -> list[ListedSnapshot]:
        """The snapshots (exactly once), the oldest first. All are read and checked; StoreError if that is impossible.

        TypeError with another guarantee.
        """
        return await self._exactly_once().snapshots()

    async def kill(self, wait_s: float | None = None) -> None:
        """Deactivate, let what is under way finish for at most `wait_s` (default: the message timeout), then stop.

        `wait_s=0` stops at once, also if an earlier call still waits; otherwise killing twice waits for the first.
        """
        if self._failure is not None and self.state is State.FAILED:
            self._failure.reported = True  # a caller that kills it can ask why
        await self.end(wait_s)

    # -- for the cluster ---------------------------------------------------------------------------------------------

    async def start(self, *, active: bool = True) -> None:
        """Start the tasks; returns when every component is prepared or open, or raises TopologyFailedError."""
        try:
            await self._runtime.start(self._ended)
            self._check_alive()
        except BaseException:
            await self.end(0)
            raise
        if self.state is State.STARTING:
            self._set_active(active)

    async def end(self, wait_s: float | None) -> None:
        """Drain or kill the topology."""
        if wait_s is None:
            wait_s = self.config.message_timeout_s
        ending = self._ending
        if ending is None:
            ending = self._ending = RunEnd(at_once=wait_s <= 0 or self.state in (State.STARTING, State.FAILED))
            if self.state is not State.FAILED:
                self.state = State.KILLED
            ending.task = self._system.guard(self._end(ending, wait_s), name=f"kill {self.name}")
        elif wait_s <= 0 and not ending.task.done():
            ending.at_once = True
            self._runtime.abort()
            self._runtime.wake()
        await asyncio.shield(ending.task)

    # -- inside ------------------------------------------------------------------------------------------------------

    async def _end(self, ending: RunEnd, wait_s: float) -> None:
        try:
            if not ending.at_once:
                self._runtime.set_mode("ended")
                await self._drain(wait_s)
            if ending.at_once:
                await self._runtime.kill()
                return
            whole = self._run.finished and self._failure is None and is_whole(self._runtime.reports.metrics())
            await self._runtime.stop()
            if whole and self._failure is None:
                self.problems += await complete(self.name, self.topology.components.values())
        finally:  # also when cancelled: then the cluster ends, and kills the rest
            self._runtime.abort()
            self._over()
            self._on_killed()

    async def _drain(self, wait_s: float) -> None:
        try:
            async with asyncio.timeout(wait_s):
                await self._runtime.wait_quiet(IdleGoal(durable=True), self._check_drain)
        except TimeoutError:
            left = self._runtime.reports.metrics().pending
            log.warning("topology %s: killed with %d messages pending after %g s", self.name, left, wait_s)
        except DrainEndedError:
            log.warning("topology %s: killed while it drained", self.name)

    def _task_gave_up(self, path: str, error: BaseException) -> None:
        if self._failure is not None:
            return
        cause = error.__cause__ if isinstance(error, ActorEscalatedError) and error.__cause__ else error
        self._failure = RunFailure(path.rpartition("/")[2], cause)
        log.error("topology %s failed: %s gave up: %s", self.name, self._failure.task, describe(cause))
        if self.state is not State.KILLED:
            self.state = State.FAILED
        self._runtime.set_mode("ended")
        self._over()

    def _over(self) -> None:
        if not self._ended.done():
            self._ended.set_result(None)
        self._runtime.wake()

    def _set_active(self, active: bool) -> None:
        self.state = State.ACTIVE if active else State.INACTIVE
        self._runtime.set_mode("active" if active else "inactive")

    def _exactly_once(self) -> ExactlyOnceRuntime:
        if not isinstance(self._runtime, ExactlyOnceRuntime):
            raise TypeError(f"topology {self.name!r} runs {self.config.guarantee}: only exactly-once has snapshots")
        return self._runtime

    @property
    def _task_set(self) -> TaskSet:
        """For tests and simulations: the tasks, if they are here."""
        runtime: object = self._runtime
        if isinstance(runtime, ExactlyOnceRuntime):
            runtime = runtime.inner
        if isinstance(runtime, RebuiltLocalRuntime):
            runtime = runtime.local
        if not isinstance(runtime, LocalRuntime):
            raise AttributeError(f"the tasks of {self.name} are in other processes")
        return runtime.task_set

    def _check_alive(self) -> None:
        self._check_not_failed()
        if self.state is State.KILLED:
            raise TopologyKilledError(f"topology {self.name!r} was killed")

    def _check_not_failed(self) -> None:
        failure = self._failure
        if failure is not None:
            failure.reported = True
            raise TopologyFailedError(
                f"topology {self.name!r} failed: {failure.task} was given up (it failed more often than "
                f"topology.restart.max allows, or cannot be called again); its last error: {describe(failure.error)}"
            ) from failure.error

    def _check_drain(self) -> None:
        if self._failure is not None or (self._ending is not None and self._ending.at_once):
            raise DrainEndedError
