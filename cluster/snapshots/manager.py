"""SnapshotManager: takes the snapshots of one topology, and rolls its tasks back. The shell around state.Coordinator.

    begin: open the place, choose a snapshot ─► tasks are built ─► started
    time, reports of tasks, lost workers ─► coordinator ─► Trigger, Commit, Abort ─► tasks
                                                        ├► WriteManifest ─► keeper
                                                        └► Rollback ─► keeper ─► tasks are built again ─┐
                                                  ▲───────────────────────────────────────────────────┘
1. It is in the process that runs the topology, and is the only writer of manifests.
2. Rows that fail make the tasks roll back at most as often as `topology.restart.max` allows; then the topology fails.
   Workers may be lost any number of times.
3. What cannot be saved, whatever is tried, makes the topology fail, with component, task, key and type.
4. A sink that holds too many rows makes the spouts wait until a snapshot is committed. All that is on the way still
   arrives: if the sink stopped, the barriers behind the rows would not come, nor the snapshot that frees it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Final

from ...actors import Directive, FailureHistory, RestartPolicy
from ...runtime import AiostormError, StoreError
from ...state import (
    Abort,
    Action,
    Answer,
    Closed,
    Commit,
    Coordinator,
    ListedSnapshot,
    Manifest,
    Rollback,
    SaveError,
    StateError,
    TaskBlobs,
    Trigger,
    WriteManifest,
    list_snapshots,
)
from ...tasks import AbortSnapshot, CommitSnapshot, HeldLevel, HoldSpouts, TakeSnapshot
from ..errors import TopologyKilledError
from .messages import RowsFailed, RowsHeld, SaveFailed, SnapshotReport, SnapshotSetup, TasksCommitted, TasksSaved
from .pace import SnapshotPace

if TYPE_CHECKING:
    from ...actors import ActorSystem
    from ...metrics import SnapshotMetrics
    from ...topology import Config
    from ..runtimes import OnTaskGaveUp
    from .place import Beginning, SnapshotPlace
    from .restoring import Components
    from .runtime import Rebuildable

log = logging.getLogger("aiostorm.cluster")

RETRY_S: Final = 0.1
"""The first wait for a place that fails in a rollback; doubled each time, up to the timeout of a snapshot."""


class RowFailedError(AiostormError):
    """A row was not processed: with exactly once, nothing may go on without it."""


class RowFailures:
    """How often rows have failed. `early`: (path, error) of one that failed before all first tasks were built.

    A sink that cannot commit what it restores is restarted, and its process saves nothing until it is rolled back.
    """

    def __init__(self, policy: RestartPolicy) -> None:
        self.history = FailureHistory(policy)
        self.early: tuple[str, RowFailedError] | None = None


class SnapshotManager:
    """The snapshots of one topology. `gave_up`: is called when it cannot go on."""

    def __init__(
        self,
        system: ActorSystem,
        name: str,
        config: Config,
        components: Components,
        place: SnapshotPlace,
        gave_up: OnTaskGaveUp,
    ) -> None:
        self._system = system
        self._name = name
        self._components = components
        self._place = place
        self._gave_up = gave_up
        self._pace = SnapshotPace(config)
        policy = RestartPolicy(config.restart_max, config.restart_period_s, tuple(config.restart_backoff_s))
        self._failures = RowFailures(policy)
        self._coordinator: Coordinator
        self._runtime: Rebuildable | None = None
        self._work: dict[str, asyncio.Task[None]] = {}
        self._changed = asyncio.Event()
        self._wanted: Rollback | None = None

    @property
    def incarnation(self) -> int:
        """The incarnation of the tasks."""
        return self._coordinator.incarnation

    @property
    def metrics(self) -> SnapshotMetrics:
        """The snapshots so far."""
        return self._pace.metrics(self._now_s())

    def is_current(self, incarnation: int) -> bool:
        """Do tasks of this incarnation run?"""
        return incarnation == self._coordinator.incarnation and "rollback" not in self._work

    def rebuilt(self) -> asyncio.Future[None]:
        """Is done when no tasks are being built."""
        return self._work.get("rollback") or _done()

    # -- the start and the end -----------------------------------------------------------------------------------------

    async def begin(self, beginning: Beginning, sinks: Sequence[str]) -> SnapshotSetup:
        """Open the place. How the first tasks begin. `sinks`: see SnapshotPlace. StateError, StoreError."""
        highest = await self._place.open() - 1
        manifest = await self._place.begin_with(beginning, sinks)
        tasks = [task for plan in self._components.plans for task in plan.tasks]
        self._coordinator = Coordinator(tasks, self._pace.settings, highest=highest)
        number = None if manifest is None else manifest.number
        self._pace.restored(number)
        self._pace.stored(self._place.keeper)
        if manifest is not None:
            self._components.check(manifest)
            log.info("topology %s continues from snapshot %d in %s", self._name, number, self._place.where)
            self._warn_of_removed(manifest)
        return SnapshotSetup(self._coordinator.incarnation, number, self._place.where)

    def started(self, runtime: Rebuildable, setup: SnapshotSetup) -> None:
        """The first tasks are built."""
        self._runtime = runtime
        self._start("time", self._keep_time())
        self._apply(self._coordinator.on_restored(setup.incarnation, setup.number, self._now_s()))
        if self._failures.early is not None:
            self.on_gave_up(*self._failures.early)

    async def stop(self) -> None:
        """Take no more snapshots."""
        self._runtime = None
        work, self._work = list(self._work.values()), {}
        for task in work:
            task.cancel()
        if work:
            await asyncio.wait(work)
        self._pace.end_requests(TopologyKilledError(f"topology {self._name!r} has ended: it takes no snapshots"))

    async def close(self) -> None:
        """Release the place, when no task runs any more."""
        await self._place.close()

    # -- requests ------------------------------------------------------------------------------------------------------

    def take(self, *, savepoint: bool) -> asyncio.Future[int]:
        """Take a snapshot. The future is done when it is committed, with its number.

        TopologyKilledError now, or in the future if the topology ends before.
        """
        if self._runtime is None:
            raise TopologyKilledError(f"topology {self._name!r} takes no snapshots now: it starts, or has ended")
        request = self._pace.new_request()
        self._apply(self._coordinator.on_request(request, self._now_s(), savepoint=savepoint))
        return request

    def update(self, config: Config) -> None:
        """Other settings: at once if snapshots that did not fit may fit now."""
        if self._place.update(config) and self._runtime is not None:
            self._pace.stored(self._place.keeper)
            self._apply(self._coordinator.on_more_space(self._now_s()))

    async def listed(self) -> list[ListedSnapshot]:
        """The snapshots that are there, read and checked. StoreError."""
        return await list_snapshots(self._place.store)

    # -- what happens --------------------------------------------------------------------------------------------------

    def on_report(self, report: SnapshotReport) -> None:
        """Tasks report."""
        coordinator, now_s = self._coordinator, self._now_s()
        if self._runtime is None:
            if isinstance(report, RowsFailed):
                self._failures.early = self._failed_row(report)
            return
        match report:
            case TasksSaved():
                self._pace.saved(report)
                for done in report.parts:
                    self._apply(coordinator.on_done(done, now_s))
            case TasksCommitted():
                self._apply(coordinator.on_committed(report.number, report.incarnation, report.tasks, now_s))
            case SaveFailed() if report.failed.final and report.failed.incarnation == coordinator.incarnation:
                self._gave_up(f"/{self._name}/task {report.failed.task}", StateError(report.failed.reason))
            case SaveFailed():
                self._apply(coordinator.on_failed(report.failed, now_s))
            case RowsFailed() if report.incarnation == coordinator.incarnation:
                self.on_gave_up(*self._failed_row(report))
            case RowsHeld() if report.incarnation == coordinator.incarnation:
                self._on_held(report)

    def on_worker_lost(self, reason: str) -> None:
        """Tasks were lost with their process."""
        if self._runtime is not None:
            self._apply(self._coordinator.on_worker_lost(reason))

    def on_gave_up(self, path: str, error: BaseException) -> None:
        """A task has failed for good, or a row was not processed: roll back, if it is not too often."""
        decision = self._failures.history.failed(error, self._now_s())
        if self._runtime is None or decision.directive is Directive.ESCALATE:
            self._gave_up(path, error)
            return
        self._pace.delay_s = decision.delay_s
        self._apply(self._coordinator.on_worker_lost(f"{path.rpartition('/')[2]}: {error}"))

    def _failed_row(self, report: RowsFailed) -> tuple[str, RowFailedError]:
        return f"/{self._name}/{report.component}[{report.task}]", RowFailedError(report.reason)

    def _on_held(self, report: RowsHeld) -> None:
        """A sink holds another number of rows: take a snapshot if they are many; let the spouts wait if too many."""
        held = self._pace.held
        if held.on_report(report):
            self._repeat_hold(self._runtime)
            if not held.waiting:
                log.info("topology %s: its spouts go on", self._name)
            elif self.metrics.failing:
                self._warn_of_held()
            else:
                log.info("topology %s: %s", self._name, held.text())
        if report.level > HeldLevel.CALM:
            self._apply(self._coordinator.on_many_held(self._now_s()))

    def _repeat_hold(self, runtime: Rebuildable | None) -> None:
        """Tell the spouts whether they wait; again with each snapshot, since a command may be lost."""
        held = self._pace.held
        if held.used and runtime is not None:
            runtime.send(HoldSpouts(held.waiting, self._coordinator.incarnation))

    def _warn_of_held(self) -> None:
        if warning := self._pace.held.warning():
            log.warning("topology %s: %s", self._name, warning)

    # -- inside --------------------------------------------------------------------------------------------------------

    def _apply(self, actions: Sequence[Action]) -> None:
        runtime = self._runtime
        for action in actions if runtime is not None else ():
            assert runtime is not None  # noqa: S101 - for the type checker
            match action:
                case Trigger():
                    self._pace.triggered(self._now_s())
                    self._repeat_hold(runtime)
                    runtime.send(TakeSnapshot(action.number, action.incarnation))
                case WriteManifest():
                    self._start("manifest", self._write(action))
                case Commit():
                    runtime.send(CommitSnapshot(action.number, action.incarnation))
                case Abort():
                    self._pace.failed(action.reason)
                    log.warning("topology %s: snapshot %d has failed: %s", self._name, action.number, action.reason)
                    self._warn_of_held()
                    runtime.send(AbortSnapshot(action.number, self._coordinator.incarnation))
                    self._place.failed = action.number
                    if "removal" not in self._work:
                        self._start("removal", self._place.remove_failed())
                case Rollback():
                    self._pace.held.clear()  # the tasks that hold rows end
                    self._wanted = action
                    if "rollback" not in self._work:
                        self._start("rollback", self._roll_back(runtime))
                case Answer():
                    self._pace.answer(action.requests, action.number)
                case Closed():
                    pass
        self._changed.set()

    async def _keep_time(self) -> None:
        while True:
            self._changed.clear()
            next_s = self._coordinator.next_s
            try:
                async with asyncio.timeout(None if next_s is None else max(0.0, next_s - self._now_s())):
                    await self._changed.wait()
            except TimeoutError:
                self._apply(self._coordinator.on_time(self._now_s()))

    async def _write(self, action: WriteManifest) -> None:
        coordinator, number = self._coordinator, action.number
        saved = [TaskBlobs(task, done.blobs, done.sizes) for task, done in sorted(action.parts.items()) if done.blobs]
        manifest = Manifest(
            number,
            self._name,
            self._components.plans,
            tuple(saved),
            savepoint=action.savepoint,
            taken_s=self._system.clock.now(),
        )
        try:
            await self._place.keeper.commit(manifest)
        except SaveError as error:
            failed = coordinator.on_write_failed(number, str(error), self._now_s(), certain=not error.undecided)
            self._apply(failed)
        except AiostormError as error:  # the place belongs to another process
            self._gave_up(f"/{self._name}/snapshots", error)
        else:
            coordinator.postpone(self._pace.finished(manifest, self._now_s()))
            self._pace.stored(self._place.keeper)
            self._apply(coordinator.on_written(number, self._now_s()))

    async def _roll_back(self, runtime: Rebuildable) -> None:
        """Build the tasks again, and once more if they are to be rolled back meanwhile."""
        try:
            while (wanted := self._wanted) is not None:
                self._wanted = None
                delay_s, self._pace.delay_s = self._pace.delay_s, 0.0
                await self._system.clock.sleep(delay_s)
                manifest = await self._back_to(wanted.number)
                number = None if manifest is None else manifest.number
                where = "the start" if number is None else f"snapshot {number}"
                if runtime.mode == "ended":
                    where += ", and its spouts have ended: the rows after it come in the next run"
                log.warning("topology %s goes back to %s: %s", self._name, where, wanted.reason)
                self._pace.rolled_back(number, wanted.reason)
                await runtime.rebuild(SnapshotSetup(wanted.incarnation, number, self._place.where))
                if self._wanted is None:
                    self._apply(self._coordinator.on_restored(wanted.incarnation, number, self._now_s()))
        except AiostormError as error:
            self._gave_up(f"/{self._name}/snapshots", error)

    async def _back_to(self, number: int | None) -> Manifest | None:
        """The snapshot to go back to. A place that fails is tried again: a full disk ends no topology."""
        wait_s = RETRY_S
        while True:
            try:
                return await self._place.back_to(number)
            except (SaveError, StoreError) as error:
                log.warning("topology %s waits %g s for its snapshots: %s", self._name, wait_s, error)
            await self._system.clock.sleep(wait_s)
            wait_s = min(2 * wait_s, self._pace.settings.timeout_s)

    def _warn_of_removed(self, manifest: Manifest) -> None:
        known = {plan.component for plan in self._components.plans}
        removed = [plan.component for plan in manifest.plan if plan.component not in known]
        if removed:
            text = "topology %s has no %s any more: what snapshot %d has of it is left out"
            log.warning(text, self._name, " and no ".join(map(repr, removed)), manifest.number)

    def _start(self, what: str, work: Coroutine[Any, Any, None]) -> None:
        task = self._work[what] = self._system.guard(work, name=f"{what} of {self._name}")
        task.add_done_callback(lambda done: self._work.pop(what) if self._work.get(what) is done else None)

    def _now_s(self) -> float:
        return self._system.clock.monotonic()


def _done() -> asyncio.Future[None]:
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    done.set_result(None)
    return done
