"""TasksHere: the tasks of one running topology that this process runs, made and connected, but not started.

1. Tasks that are elsewhere are reached through an Exchange.
2. When a worker has died, the spouts here fail the messages that they have open; the ackers here forget those of the
   spouts that were there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from ..acker import ACKER_MESSAGES, Forget
from ..actors import ActorSystem, Mailbox
from ..backpressure import PRESSURE_MESSAGES, Settings
from ..tasks import (
    SNAPSHOT_MESSAGES,
    TIME_MESSAGES,
    BackpressureMonitor,
    BoltTask,
    Environment,
    ErrorLog,
    Exits,
    FailPending,
    MailboxWrapper,
    SnapshotAgent,
    SpoutTask,
    TaskActor,
    TopologyMaster,
    direct,
    import_hooks,
    update_bolt,
    update_spout,
)
from ..topology import ACKER_COMPONENT, Config, Failure, Plan, Topology, component_config, make_plan
from ..transport import Exchange, split_capacity
from .hosting import MASTER_TUPLES, Hosting, origins, remote_tasks

TASK_MESSAGES: Final = (ACKER_MESSAGES, PRESSURE_MESSAGES, TIME_MESSAGES, SNAPSHOT_MESSAGES)
"""Encodes the messages to the control lanes of tasks in other workers."""


@dataclass(slots=True)
class TasksHere:
    """Made by `make_tasks`. `configs`: of each component; `hosting`, `exchange`: None if all tasks are here."""

    env: Environment
    configs: dict[str, Config]
    hosting: Hosting | None
    exchange: Exchange | None = None
    spouts: list[SpoutTask] = field(default_factory=list)
    bolts: list[BoltTask] = field(default_factory=list)
    master: TopologyMaster | None = None
    monitor: BackpressureMonitor = field(init=False)

    def __iter__(self) -> Iterator[TaskActor]:
        """Spouts, then bolts."""
        yield from self.spouts
        yield from self.bolts

    @property
    def topology(self) -> Topology:
        """The whole topology."""
        return self.env.topology

    @property
    def plan(self) -> Plan:
        """Its plan, with all tasks."""
        return self.env.plan

    @property
    def mailboxes(self) -> Mapping[int, Mailbox]:
        """Of the tasks here, ackers and topology master included, by id."""
        return self.env.mailboxes

    @property
    def errors(self) -> ErrorLog:
        """The errors of the tasks here."""
        return self.env.errors

    @property
    def acker_ids(self) -> tuple[int, ...]:
        """The ackers here."""
        return tuple(t for t in self.plan.tasks_of.get(ACKER_COMPONENT, ()) if t in self.mailboxes)

    @property
    def ackers(self) -> list[Mailbox]:
        """The mailboxes of the ackers here."""
        return [self.mailboxes[task_id] for task_id in self.acker_ids]

    def post(self, task: TaskActor, message: object) -> None:
        """Put a message on a task's control lane."""
        self.mailboxes[task.task.task_id].post(message)

    def post_to_spouts(self, make: Callable[[], object]) -> None:
        """Put a message on the control lane of each spout task."""
        for spout in self.spouts:
            self.post(spout, make())

    def update(self, config: Config) -> None:
        """Change the settings of the tasks, which are already checked."""
        self.configs = {c: component_config(config, spec.config) for c, spec in self.topology.components.items()}
        for spout in self.spouts:
            update_spout(spout, self.configs[spout.task.component])
        for bolt in self.bolts:
            update_bolt(bolt, self.configs[bolt.task.component])
        settings = Settings.of(config)
        self.monitor.update(settings)
        if self.master is not None:
            self.master.update(settings)

    def worker_died(self, worker: str) -> None:
        """A worker has died, with its tasks."""
        failure = Failure("failed", error=f"worker {worker} has died, with its part of the tree")
        self.post_to_spouts(lambda: FailPending(failure))
        placement = {} if self.hosting is None else self.hosting.placement
        for spec in self.topology.spouts:
            for spout in self.plan.tasks_of[spec.id]:
                if placement.get(spout) == worker:  # it starts again; this worker ends the rows that it had pending
                    for acker in self.ackers:
                        acker.post(Forget(spout))


def make_tasks(
    system: ActorSystem,
    name: str,
    topology: Topology,
    config: Config,
    *,
    gave_up: Callable[[str, BaseException], None],
    mailbox_wrapper: MailboxWrapper = direct,
    hosting: Hosting | None = None,
    snapshots: SnapshotAgent | None = None,
) -> TasksHere:
    """Make the tasks that are here. ConfigError or TopologyError for mistakes that are found before a task runs."""
    plan = make_plan(topology, config)
    configs = {c: component_config(config, spec.config) for c, spec in topology.components.items()}
    for own in configs.values():
        import_hooks(own)
    config_of = {task.task_id: configs.get(task.component, config) for task in plan.tasks}
    mailboxes = _mailboxes(system, plan, config_of, hosting)
    env = Environment(
        name=name,
        topology=topology,
        plan=plan,
        config=config,
        clock=system.clock,
        rng=system.rng,
        errors=ErrorLog(name),
        exits=Exits(config.restart_period_s, config.restart_max, gave_up),
        mailboxes=mailboxes,
        same_machine=None if hosting is None else hosting.near(),
        acker_ids=plan.tasks_of.get(ACKER_COMPONENT, ()),
        mailbox_wrapper=mailbox_wrapper,
        snapshots=snapshots,
    )
    found = TasksHere(env, configs, hosting)
    if hosting is not None:
        _connect(found, hosting, config_of)
    for task in plan.tasks:
        spec = topology.components.get(task.component)
        if spec is None or task.task_id not in mailboxes:
            continue
        if spec.kind == "spout":
            found.spouts.append(SpoutTask(env, task, spec, configs[spec.id]))
        else:
            found.bolts.append(BoltTask(env, task, spec, configs[spec.id]))
    settings = Settings.of(config)
    if plan.master in mailboxes:
        found.master = TopologyMaster(env, settings, plan.master)
    found.monitor = BackpressureMonitor(env, settings, plan.master, found.spouts, found.bolts)
    return found


def _mailboxes(
    system: ActorSystem, plan: Plan, config_of: Mapping[int, Config], hosting: Hosting | None
) -> dict[int, Mailbox]:
    senders = 0 if hosting is None else len(hosting.peers)
    mailboxes = {}
    for task in plan.tasks:
        if hosting is None or hosting.placement[task.task_id] == hosting.worker:
            config = config_of[task.task_id]
            capacity, _ = split_capacity(config.mailbox_capacity_tuples, senders)
            mailboxes[task.task_id] = Mailbox(
                capacity, config.mailbox_high_mark, config.mailbox_low_mark, loop=system.loop
            )
    if hosting is None or hosting.master == hosting.worker:
        mailboxes[plan.master] = Mailbox(MASTER_TUPLES, loop=system.loop)
    return mailboxes


def _connect(tasks: TasksHere, hosting: Hosting, config_of: Mapping[int, Config]) -> None:
    """Connect the tasks here with those of other workers."""
    env = tasks.env
    exchange = tasks.exchange = Exchange(
        hosting.worker,
        hosting.router,
        mailboxes=env.mailboxes,
        capacities={task: _capacity(task, env.plan, config_of) for task in env.mailboxes},
        remote=remote_tasks(env.plan, hosting, config_of),
        origin_of=origins(env.topology, env.plan),
        codecs=TASK_MESSAGES,
        on_lost=tasks.worker_died,
        stopwatch=env.clock.stopwatch,
        sampled=env.span_mask,
        build=hosting.build,
    )
    env.remote, env.reaches = exchange.inboxes, exchange.is_open


def _capacity(task: int, plan: Plan, config_of: Mapping[int, Config]) -> int:
    return MASTER_TUPLES if task == plan.master else config_of[task].mailbox_capacity_tuples
