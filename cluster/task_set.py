"""TaskSet: the tasks of one running topology, or the part that this worker runs: made, started and ended in order.

    made ─► guardian, resources, ackers ─► bolts prepared ─► spouts opened …
    … spouts stop ─► bolts, source to sink ─► ackers ─► resources

1. Bolts are prepared before any spout is opened.
2. Tasks stop in the order of the stream, all of a component at once; each processes what it has accepted. All have
   `topology.graceful.stop.secs` together, however many components there are: then what is left is killed.
3. `gave_up` is called for a task that fails for good; the others continue until they are ended.
4. Once the end has begun, nothing is started any more.
5. Resources of the worker are open before any task here is made ready, and closed after the last has ended.
6. Tasks that are elsewhere are reached through an Exchange. When a worker died, what the spouts here have open fails.

Storm: the executors of a worker (Worker.java).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any, Final

from ..acker import ACKER_MESSAGES, AckerActor, Forget, Verdicts
from ..actors import Actor, ActorEscalatedError, ActorSystem, Directive, Inbox, Mailbox, Ref, RestartPolicy, restart
from ..backpressure import PRESSURE_MESSAGES, Settings
from ..tasks import (
    TIME_MESSAGES,
    BackpressureMonitor,
    BoltTask,
    Environment,
    ErrorLog,
    Exits,
    FailPending,
    SpoutTask,
    TaskActor,
    TopologyMaster,
    Wire,
    WorkerResources,
    direct,
    load_hooks,
    update_bolt,
    update_spout,
)
from ..topology import ACKER_COMPONENT, Config, Failure, Topology, component_config, make_plan
from ..transport import Exchange, joined, split_capacity
from .hosting import MASTER_TUPLES, Hosting, origins, remote_tasks

log = logging.getLogger("aiostorm.cluster")

TASK_MESSAGES: Final = joined(ACKER_MESSAGES, PRESSURE_MESSAGES, TIME_MESSAGES)
"""Encodes the messages to the control lanes of tasks in other workers."""


class TaskSet:
    """Makes the tasks; raises ConfigError or TopologyError for mistakes that are found before a task runs."""

    def __init__(
        self,
        system: ActorSystem,
        name: str,
        topology: Topology,
        config: Config,
        *,
        on_idle: Callable[[], None],
        gave_up: Callable[[str, BaseException], None],
        wire: Wire = direct,
        hosting: Hosting | None = None,
    ) -> None:
        self.plan = make_plan(topology, config)
        self.configs = {c: component_config(config, spec.config) for c, spec in topology.components.items()}
        self.errors = ErrorLog(name)
        here = [t for t in self.plan.tasks if hosting is None or hosting.placement[t.task_id] == hosting.worker]
        config_of = {task.task_id: self.configs.get(task.component, config) for task in self.plan.tasks}
        senders = 0 if hosting is None else len(hosting.peers)
        self.mailboxes = {task.task_id: _mailbox(config_of[task.task_id], system, senders) for task in here}
        master = self.plan.master
        self._master_is_here = hosting is None or hosting.master == hosting.worker
        if self._master_is_here:
            self.mailboxes[master] = Mailbox(MASTER_TUPLES, loop=system.loop)
        capacities = {t.task_id: config_of[t.task_id].mailbox_capacity_tuples for t in here} | {master: MASTER_TUPLES}
        self.acker_ids = tuple(t for t in self.plan.tasks_of.get(ACKER_COMPONENT, ()) if t in self.mailboxes)
        self._acker_actors: list[AckerActor] = []
        self.ackers = [self.mailboxes[task_id] for task_id in self.acker_ids]
        self._spout_ids = [task_id for spec in topology.spouts for task_id in self.plan.tasks_of[spec.id]]
        self.refs: dict[int, Ref] = {}
        self.spouts: list[SpoutTask] = []
        self.bolts: list[BoltTask] = []
        self._name = name
        self._hosting = hosting
        self.topology = topology
        self._config = config
        self._system = system
        self._wire = wire
        self._root: Ref | None = None
        self._ending = False
        for own in self.configs.values():
            load_hooks(own)
        self.exchange: Exchange | None = None
        if hosting is not None:
            self.exchange = Exchange(
                hosting.worker,
                hosting.router,
                mailboxes=self.mailboxes,
                capacities=capacities,
                remote=remote_tasks(self.plan, hosting, config_of),
                origin_of=origins(topology, self.plan),
                codec=TASK_MESSAGES,
                on_lost=self._worker_died,
                on_idle=on_idle,
            )
        self._near = None if hosting is None else hosting.near()
        self._make_tasks(topology, on_idle, gave_up)
        settings = Settings.of(config)
        self.master = TopologyMaster(self._env, settings, master) if self._master_is_here else None
        self.monitor = BackpressureMonitor(self._env, settings, master, self.spouts, self.bolts)

    @property
    def tasks(self) -> Iterator[TaskActor]:
        """The tasks of all components: spouts, then bolts."""
        yield from self.spouts
        yield from self.bolts

    async def start(self, ended: asyncio.Future[None]) -> None:
        """Start all tasks. Returns when they are prepared or open, when `ended` is done, or when the end has begun."""
        await self.start_bolts(ended)
        await self.start_spouts(ended)

    async def start_bolts(self, ended: asyncio.Future[None]) -> None:
        """The first half of `start`: all tasks but spouts. Segments of other workers are accepted then."""
        self._root = self._system.spawn(self._guardian, self._name, policy=_ESCALATE, mailbox=_small(self._system))
        await asyncio.wait((self._guardian.up, ended), return_when=asyncio.FIRST_COMPLETED)
        if not self._ending:
            await self._resources.open(ended)
        if self._ending or ended.done():
            return
        timeout_s = self._config.message_timeout_s if self._config.enable_message_timeouts else None
        for task_id in self.acker_ids:
            self._acker_actors.append(AckerActor(timeout_s, self._delivery(task_id)))
            self._spawn(ACKER_COMPONENT, task_id, self._acker_actors[-1], self._config)
        if self.master is not None:
            self._spawn("topology_master", self.plan.master, self.master, self._config)
        self._guardian.spawn(self.monitor, "monitor", policy=_policy(self._config))
        await self._start(self.bolts, ended)
        if self.exchange is not None and not self._ending:
            self.exchange.begin()

    async def start_spouts(self, ended: asyncio.Future[None]) -> None:
        """The second half of `start`, once the bolts of all workers are prepared."""
        await self._start(self.spouts, ended)

    async def stop(self) -> None:
        """Stop in order."""
        self._ending = True
        spouts = [spout.task.task_id for spout in self.spouts]
        stages = (spouts, *(self.plan.tasks_of[bolt] for bolt in self.plan.order), self.acker_ids)
        limit_s = self._config.graceful_stop_s
        try:
            async with asyncio.timeout(limit_s):
                for stage in stages:
                    await self._stop([self.refs[task_id] for task_id in stage if task_id in self.refs])
                if self._root is not None and self.topology.resources:
                    await self._stop([self._root])
        except TimeoutError:
            late = ", ".join(ref.path.rpartition("/")[2] for ref in self.refs.values() if ref.is_alive) or "resources"
            log.warning("topology %s did not stop in %g s: killed %s", self._name, limit_s, late)
        await self.kill()

    async def kill(self) -> None:
        """Kill all tasks."""
        self.abort()
        if self._root is not None:
            await self._root.wait_terminated()

    def abort(self) -> None:
        """As `kill`, without waiting."""
        self._ending = True
        self._resources.close_soon()
        if self.exchange is not None:
            self.exchange.close()
        if self._root is not None:
            self._root.kill()

    def update(self, config: Config) -> None:
        """Change the settings, which are already checked."""
        self._config = config
        self.configs = {c: component_config(config, spec.config) for c, spec in self.topology.components.items()}
        for spout in self.spouts:
            update_spout(spout, self.configs[spout.task.component])
        for bolt in self.bolts:
            update_bolt(bolt, self.configs[bolt.task.component])
        if config.enable_message_timeouts:
            for acker in self._acker_actors:
                acker.ledger.time_out_after(config.message_timeout_s)
        settings = Settings.of(config)
        self.monitor.update(settings)
        if self.master is not None:
            self.master.update(settings)

    def post(self, task: TaskActor, message: object) -> None:
        """Put a message on a task's control lane."""
        self.mailboxes[task.task.task_id].post(message)

    def post_to_spouts(self, make: Callable[[], object]) -> None:
        """Put a message on the control lane of each spout task."""
        for spout in self.spouts:
            self.post(spout, make())

    # -- inside ------------------------------------------------------------------------------------------------------

    def _make_tasks(
        self, topology: Topology, on_idle: Callable[[], None], gave_up: Callable[[str, BaseException], None]
    ) -> None:
        env = Environment(
            name=self._name,
            topology=topology,
            plan=self.plan,
            config=self._config,
            clock=self._system.clock,
            rng=self._system.rng,
            errors=self.errors,
            exits=Exits(self._config.restart_window_s, self._config.restart_max, gave_up),
            mailboxes=self.mailboxes,
            remote={} if self.exchange is None else self.exchange.inboxes,
            same_machine=self._near,
            acker_ids=self.plan.tasks_of.get(ACKER_COMPONENT, ()),
            wire=self._wire,
            on_idle=on_idle,
            reaches=lambda target: self.exchange is None or self.exchange.is_open(target),
        )
        self._env = env
        worker = "local" if self._hosting is None else self._hosting.worker
        self._resources = WorkerResources(env, worker, _policy(self._config), self._system.guard, gave_up)
        self._guardian = _TopologyGuardian(gave_up, self._resources)
        for task in self.plan.tasks:
            spec = topology.components.get(task.component)
            if spec is None or task.task_id not in self.mailboxes:
                continue
            if spec.kind == "spout":
                self.spouts.append(SpoutTask(env, task, spec, self.configs[spec.id]))
            else:
                self.bolts.append(BoltTask(env, task, spec, self.configs[spec.id]))

    async def _start(self, tasks: Sequence[TaskActor], ended: asyncio.Future[None]) -> None:
        if self._ending or ended.done():
            return
        for task in tasks:
            self._spawn(task.task.component, task.task.task_id, task, task.config)
        for task in tasks:
            await asyncio.wait((task.ready, ended), return_when=asyncio.FIRST_COMPLETED)

    def _spawn(self, component: str, task_id: int, actor: Actor, config: Config) -> None:
        self.refs[task_id] = self._guardian.spawn(
            actor, f"{component}[{task_id}]", policy=_policy(config), mailbox=self.mailboxes[task_id]
        )

    def _delivery(self, acker: int) -> Callable[[int, Verdicts], None]:
        @cache
        def inbox(spout_task: int) -> Inbox:
            if spout_task not in self._spout_ids:
                raise KeyError(spout_task)
            return self._env.mailbox_of(acker, spout_task)

        return lambda spout_task, verdicts: inbox(spout_task).post(verdicts)

    def _worker_died(self, worker: str) -> None:
        failure = Failure("failed", error=f"worker {worker} has died, with its part of the tree")
        self.post_to_spouts(lambda: FailPending(failure))
        placement = {} if self._hosting is None else self._hosting.placement
        for spout in self._spout_ids:
            if placement.get(spout) == worker:  # it starts again; this worker ends the rows that it had pending
                for acker in self.ackers:
                    acker.post(Forget(spout))

    async def _stop(self, refs: Sequence[Ref]) -> None:
        for ref in refs:
            ref.stop()
        for ref in refs:
            await ref.wait_terminated()


class _TopologyGuardian(Actor):
    """The parent actor of a topology's tasks."""

    def __init__(self, gave_up: Callable[[str, BaseException], None], resources: WorkerResources) -> None:
        self.up: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._gave_up = gave_up
        self._resources = resources

    def started(self) -> None:
        if not self.up.done():
            self.up.set_result(None)

    async def stopped(self) -> None:
        """All tasks have ended."""
        await self._resources.close()

    def receive(self, message: Any) -> None:
        raise TypeError(f"the guardian of a topology takes no messages: {message!r}")

    def child_escalated(self, ref: Ref, error: BaseException) -> None:
        self._gave_up(ref.path, error)


_ESCALATE = RestartPolicy(decide=lambda error: Directive.ESCALATE)


def _policy(config: Config) -> RestartPolicy:
    return RestartPolicy(
        config.restart_max,
        config.restart_window_s,
        tuple(config.restart_backoff_s),
        decide=lambda e: Directive.ESCALATE if isinstance(e, ActorEscalatedError) else restart(e),
    )


def _mailbox(config: Config, system: ActorSystem, senders: int) -> Mailbox:
    capacity, _ = split_capacity(config.mailbox_capacity_tuples, senders)
    return Mailbox(capacity, config.mailbox_high_mark, config.mailbox_low_mark, loop=system.loop)


def _small(system: ActorSystem) -> Mailbox:
    return Mailbox(1, loop=system.loop)
