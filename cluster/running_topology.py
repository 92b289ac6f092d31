"""Running topology: the handle on what was submitted, and the guardian of its tasks.

    STARTING ─► ACTIVE ◄──► INACTIVE
                  └──────────┴──► KILLED   (drained, stopped in order)
                  └──────────────► FAILED  (a task escalated)

1. Bolts are prepared before any spout is opened, and spouts emit only when all are open.
2. Tasks stop in the order of the stream: spouts, then bolts from source to sink, then ackers; each processes what it
   has accepted. Nothing that was accepted is lost in silence.
3. A task that escalates fails the whole running topology, and everybody who waits for it hears why.

Storm: nimbus' topology states; one process has no STARTING slots and no REBALANCING (yet).
"""

from __future__ import annotations

import asyncio
import enum
import logging
from collections.abc import Callable
from typing import Any

from ..acker import AckerActor, Verdicts
from ..actors import (
    Actor,
    ActorEscalatedError,
    ActorSystem,
    Directive,
    Mailbox,
    Question,
    Ref,
    RestartPolicy,
    Stall,
    StallWatch,
    is_virtual,
)
from ..metrics import ComponentMetrics, TaskCounters, TaskMetrics, TopologyMetrics
from ..tasks import Activate, BoltTask, Deactivate, Environment, ErrorLog, ErrorReport, GetResult, SpoutTask, TaskActor
from ..topology import ACKER_COMPONENT, Config, Topology, component_config, make_plan
from .errors import TopologyFailedError, TopologyKilledError
from .quiet import QuietWatch

log = logging.getLogger("aiostorm.cluster")


class State(enum.StrEnum):
    """Where a running topology is in its life."""

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
        on_killed: Callable[[], None],
    ) -> None:
        self.name = name
        self.topology = topology
        self.config = config
        self.state = State.STARTING
        self.plan = make_plan(topology, config)
        self._system = system
        self._failure: BaseException | None = None
        self._errors = ErrorLog(name)
        self._configs = {c: component_config(config, spec.config) for c, spec in topology.components.items()}
        self._mailboxes = {
            task.task_id: self._mailbox(self._configs.get(task.component, config)) for task in self.plan.tasks
        }
        acker_ids = self.plan.tasks_of.get(ACKER_COMPONENT, ())
        self._ackers = [self._mailboxes[task_id] for task_id in acker_ids]
        self._guardian = _TopologyGuardian(self)
        self._root: Ref | None = None
        self._refs: dict[int, Ref] = {}
        self._spouts: list[SpoutTask] = []
        self._bolts: list[BoltTask] = []
        self._quiet = QuietWatch((), (), (), system.clock.monotonic)
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._told = False
        self._stall_watch: StallWatch | None = None
        self._stalls: list[Stall] = []
        self._on_killed = on_killed
        self._kill: asyncio.Task[None] | None = None

    # -- look --------------------------------------------------------------------------------------------------------

    def metrics(self) -> TopologyMetrics:
        """Counters of every component (the acker is `__acker`), as they are now."""
        by_component: dict[str, list[TaskMetrics]] = {c: [] for c in self.topology.components}
        for task in (*self._spouts, *self._bolts):
            by_component[task.task.component].append(task.metrics())
        found = [
            ComponentMetrics(c, self.topology.components[c].kind, tuple(tasks)) for c, tasks in by_component.items()
        ]
        if self._ackers:
            ackers = tuple(
                TaskMetrics.of(task_id, TaskCounters(), pending=0, fill=box.fill, capacity=box.capacity)
                for task_id, box in zip(self.plan.tasks_of[ACKER_COMPONENT], self._ackers, strict=True)
            )
            found.append(ComponentMetrics(ACKER_COMPONENT, "acker", ackers))
        return TopologyMetrics(found)

    def errors(self) -> list[ErrorReport]:
        """The last errors in user code, oldest first; `metrics()` counts all."""
        return self._errors.last

    def stalls(self) -> list[Stall]:
        """When user code blocked the event loop for longer than `topology.stall.report.secs`, and in which line."""
        return list(self._stalls)

    @property
    def unreported_failure(self) -> bool:
        """Has it failed without anybody having been told so?"""
        return self._failure is not None and not self._told

    def pending(self) -> dict[str, list[Any]]:
        """Spout component → the message ids that are neither acked nor failed."""
        open_ids: dict[str, list[Any]] = {}
        for spout in self._spouts:
            open_ids.setdefault(spout.task.component, []).extend(spout.open_messages())
        return open_ids

    async def results(self) -> dict[str, list[Any]]:
        """Component → what `result()` of each of its tasks returned (components that only return None are left out)."""
        self._check_alive()
        found: dict[str, list[Any]] = {}
        for task in (*self._spouts, *self._bolts):
            value = await self._ask(task)
            if value is not None:
                found.setdefault(task.task.component, []).append(value)
        return found

    # -- wait --------------------------------------------------------------------------------------------------------

    async def wait_idle(self, timeout_s: float | None = None, *, quiet_s: float = 1.0) -> None:
        """Wait until every spout is exhausted or quiet, every tree is acked or failed, and nothing is under way.

        A spout is quiet when `next_tuple` emitted nothing, or has been waiting for `quiet_s`. TimeoutError after
        `timeout_s`; TopologyFailedError if a component gave up; TopologyKilledError if it was killed.
        """
        async with asyncio.timeout(timeout_s):
            await self._quiet.wait(finished=False, quiet_s=quiet_s, broken=self._check_alive)

    async def wait_finished(self, timeout_s: float | None = None) -> None:
        """Wait until every spout has called `collector.finish()` and everything it emitted is done."""
        async with asyncio.timeout(timeout_s):
            await self._quiet.wait(finished=True, quiet_s=0.0, broken=self._check_alive)

    async def wait_ended(self) -> None:
        """Wait until it was killed or has failed (then TopologyFailedError)."""
        await asyncio.shield(self._ended)
        self._check_not_failed()

    # -- steer -------------------------------------------------------------------------------------------------------

    async def activate(self) -> None:
        """Let the spouts emit (again)."""
        self._check_alive()
        self._set_active(True)

    async def deactivate(self) -> None:
        """Stop calling `next_tuple`; what is under way goes on."""
        self._check_alive()
        self._set_active(False)

    async def drain(self, timeout_s: float | None = None) -> None:
        """End the spouts for good and wait until everything that they have emitted is done; then ask for `results()`.

        A `next_tuple` that waits is cancelled: nothing is emitted after this. TimeoutError after `timeout_s`, with the
        spouts ended all the same; TopologyFailedError and TopologyKilledError as in `wait_idle`.
        """
        self._check_alive()
        self.state = State.INACTIVE
        for spout in self._spouts:
            self._post(spout, Deactivate(end=True))
        async with asyncio.timeout(timeout_s):
            await self._quiet.wait(finished=False, quiet_s=0.0, broken=self._check_alive)

    async def kill(self, wait_s: float | None = None) -> None:
        """Deactivate, let what is under way finish for at most `wait_s` (default: the message timeout), then stop.

        `wait_s=0` stops at once. Killing twice waits for the first.
        """
        if self._kill is None:
            self._kill = self._system.guard(self._end(wait_s), name=f"kill {self.name}")
        await asyncio.shield(self._kill)

    # -- for the cluster ---------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Spawn the tasks; returns when every component is prepared or open, or raises TopologyFailedError."""
        env = Environment(
            name=self.name,
            topology=self.topology,
            plan=self.plan,
            config=self.config,
            clock=self._system.clock,
            rng=self._system.rng,
            errors=self._errors,
            mailboxes=self._mailboxes,
            ackers=self._ackers,
            on_quiet=lambda: self._quiet.notify(),
        )
        try:
            spouts, bolts = self._make_tasks(env)
        except Exception as error:  # a grouping of the user's own that cannot be prepared
            self._over()
            self.state = State.FAILED
            self._on_killed()
            raise TopologyFailedError(f"topology {self.name!r} cannot be wired: {error!r}") from error
        self._quiet = QuietWatch(spouts, bolts, self._ackers, self._system.clock.monotonic)
        self._spouts, self._bolts = spouts, bolts
        self._root = self._system.spawn(self._guardian, self.name, policy=_ESCALATE, mailbox=Mailbox(1))
        await self._guardian.up
        timeout_s = self.config.message_timeout_s if self.config.enable_message_timeouts else None
        for task in self.plan.tasks:
            if task.component == ACKER_COMPONENT:
                self._spawn(task.component, task.task_id, AckerActor(timeout_s, self._deliver), self.config)
        if self.config.stall_report_s > 0 and not is_virtual(asyncio.get_running_loop()):
            self._stall_watch = StallWatch(self.config.stall_report_s, self._stalled)
            self._stall_watch.start()
        try:
            await self._spawn_ready(bolts)
            await self._spawn_ready(spouts)
        except BaseException:
            await self.kill(0)
            raise
        if self.state is State.STARTING:
            self._set_active(True)

    def fail(self, path: str, error: BaseException) -> None:
        """A task has given up."""
        if self._failure is None:
            self._failure = error.__cause__ if isinstance(error, ActorEscalatedError) and error.__cause__ else error
            self._failed_path = path
            if self.state is not State.KILLED:
                self.state = State.FAILED
                log.error("topology %s failed: %s gave up: %r", self.name, path, self._failure)
            for spout in self._spouts:
                self._post(spout, Deactivate(end=True))
            self._over()

    # -- inside ------------------------------------------------------------------------------------------------------

    def _make_tasks(self, env: Environment) -> tuple[list[SpoutTask], list[BoltTask]]:
        spouts: list[SpoutTask] = []
        bolts: list[BoltTask] = []
        for task in self.plan.tasks:
            spec = self.topology.components.get(task.component)
            if spec is None:
                continue
            config = self._configs[task.component]
            if spec.kind == "spout":
                spouts.append(SpoutTask(env, task, spec, config))
            else:
                bolts.append(BoltTask(env, task, spec, config))
        return spouts, bolts

    async def _spawn_ready(self, tasks: list[SpoutTask] | list[BoltTask]) -> None:
        for task in tasks:
            self._spawn(task.task.component, task.task.task_id, task, task.config)
        for task in tasks:
            await asyncio.wait((task.ready, self._ended), return_when=asyncio.FIRST_COMPLETED)
            self._check_alive()

    def _spawn(self, component: str, task_id: int, actor: Actor, config: Config) -> None:
        policy = RestartPolicy(
            config.restart_max,
            config.restart_window_s,
            tuple(config.restart_backoff_s),
            decide=lambda e: Directive.ESCALATE if isinstance(e, ActorEscalatedError) else Directive.RESTART,
        )
        self._refs[task_id] = self._guardian.spawn(
            actor, f"{component}[{task_id}]", policy=policy, mailbox=self._mailboxes[task_id]
        )

    def _mailbox(self, config: Config) -> Mailbox:
        return Mailbox(config.mailbox_capacity_tuples, config.mailbox_high_mark, config.mailbox_low_mark)

    def _deliver(self, spout_task: int, verdicts: Verdicts) -> None:
        self._mailboxes[spout_task].post(verdicts)

    def _post(self, task: TaskActor, message: object) -> None:
        self._mailboxes[task.task.task_id].post(message)

    def _set_active(self, active: bool) -> None:
        self.state = State.ACTIVE if active else State.INACTIVE
        for spout in self._spouts:
            self._post(spout, Activate() if active else Deactivate())

    async def _ask(self, task: TaskActor) -> Any:
        reply: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._post(task, Question(GetResult(), reply))
        return await reply

    async def _end(self, wait_s: float | None) -> None:
        failed = self.state is State.FAILED
        self.state = State.FAILED if failed else State.KILLED
        if wait_s is None:
            wait_s = self.config.message_timeout_s
        for spout in self._spouts:
            self._post(spout, Deactivate(end=True))
        if wait_s > 0 and not failed and self._root is not None:
            await self._drain(wait_s)
        at_once = failed or wait_s <= 0
        order = [
            *(s.task.task_id for s in self._spouts),
            *self._bolt_order(),
            *self.plan.tasks_of.get(ACKER_COMPONENT, ()),
        ]
        for task_id in order:
            ref = self._refs.get(task_id)
            if ref is None:
                continue
            if at_once:
                ref.kill()
                await ref.wait_terminated()
            else:
                await self._stop(ref)
        if self._root is not None:
            self._root.kill()
            await self._root.wait_terminated()
        if self._stall_watch is not None:
            self._stall_watch.stop()
        self._over()
        self._on_killed()

    def _over(self) -> None:
        if not self._ended.done():
            self._ended.set_result(None)
        self._quiet.wake()

    async def _drain(self, wait_s: float) -> None:
        try:
            async with asyncio.timeout(wait_s):
                await self._quiet.wait(finished=False, quiet_s=0.0, broken=self._check_not_failed)
        except TimeoutError:
            left = sum(spout.pending for spout in self._spouts)
            log.warning("topology %s: killed with %d messages pending after %g s", self.name, left, wait_s)
        except TopologyFailedError:
            log.warning("topology %s failed while it drained", self.name)

    async def _stop(self, ref: Ref) -> None:
        """In order, but no longer than `topology.graceful.stop.secs`."""
        ref.stop()
        try:
            async with asyncio.timeout(self.config.graceful_stop_s):
                await ref.wait_terminated()
        except TimeoutError:
            log.warning("%s: did not stop in %g s and was killed", ref.path, self.config.graceful_stop_s)
            ref.kill()
            await ref.wait_terminated()

    def _bolt_order(self) -> list[int]:
        return [task_id for component in self.plan.order for task_id in self.plan.tasks_of[component]]

    def _check_alive(self) -> None:
        self._check_not_failed()
        if self.state is State.KILLED:
            raise TopologyKilledError(f"topology {self.name!r} was killed")

    def _check_not_failed(self) -> None:
        if self._failure is not None:
            self._told = True
            raise TopologyFailedError(
                f"topology {self.name!r} failed: {self._failed_path.rpartition('/')[2]} was given up (it failed more "
                f"often than topology.restart.max allows, or cannot be called again); its last error: {self._failure!r}"
            ) from self._failure

    def _stalled(self, stall: Stall) -> None:
        """In the watching thread. Each topology reports the stalls of its own tasks."""
        if stall.task.startswith(f"/{self.name}/"):
            self._stalls.append(stall)
            log.error("%s", stall)


_ESCALATE = RestartPolicy(decide=lambda error: Directive.ESCALATE)


class _TopologyGuardian(Actor):
    """Parent of a topology's tasks: one that gives up fails the topology."""

    def __init__(self, running: RunningTopology) -> None:
        self._running = running
        self.up: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def started(self) -> None:
        if not self.up.done():
            self.up.set_result(None)

    def receive(self, message: Any) -> None:
        raise TypeError(f"the guardian of a topology takes no messages: {message!r}")

    def child_escalated(self, ref: Ref, error: BaseException) -> None:
        self._running.fail(ref.path, error)
