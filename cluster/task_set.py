"""TaskSet: the tasks of one running topology, or the part that this worker runs: started and ended in order.

    made ─► guardian, resources, ackers ─► bolts prepared ─► spouts opened …
    … spouts stop ─► bolts, source to sink ─► ackers ─► resources

1. Bolts are prepared before any spout is opened.
2. Tasks stop in the order of the stream, all of a component at once; each processes what it has accepted. All have
   `topology.graceful.stop.secs` together, however many components there are: then what is left is killed.
3. `gave_up` is called for a task that fails for good; the others continue until they are ended.
4. Once the end has begun, nothing is started any more.
5. Resources of the worker are open before any task here is made ready, and closed after the last has ended.

Storm: the executors of a worker (Worker.java).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING

from ..acker import AckerActor
from ..actors import Actor, ActorEscalatedError, ActorSystem, Directive, Inbox, Mailbox, Ref, RestartPolicy, restart
from ..tasks import TaskActor, WorkerResources
from ..topology import ACKER_COMPONENT, Config

if TYPE_CHECKING:
    from ..actors import Message
    from .tasks_here import TasksHere

log = logging.getLogger("aiostorm.cluster")


class TaskSet:
    """Starts and ends the tasks that `make_tasks` has made. `gave_up`: see 3."""

    def __init__(self, system: ActorSystem, tasks: TasksHere, *, gave_up: Callable[[str, BaseException], None]) -> None:
        self.tasks = tasks
        self.refs: dict[int, Ref] = {}
        self._system = system
        self._config = tasks.env.config
        self._acker_actors: list[AckerActor] = []
        worker = "local" if tasks.hosting is None else tasks.hosting.worker
        resources = WorkerResources(tasks.env, worker, _policy(self._config), system.guard, gave_up)
        self._guardian = _TopologyGuardian(gave_up, resources)
        self._root: Ref | None = None
        self._ending = False

    async def start(self, ended: asyncio.Future[None]) -> None:
        """Start all tasks. Returns when they are prepared or open, when `ended` is done, or when the end has begun."""
        await self.start_bolts(ended)
        await self.start_spouts(ended)

    async def start_bolts(self, ended: asyncio.Future[None]) -> None:
        """The first half of `start`: all tasks but spouts. Segments of other workers are accepted then."""
        tasks, guardian = self.tasks, self._guardian
        box = Mailbox(1, loop=self._system.loop)
        self._root = self._system.spawn(guardian, tasks.env.name, policy=_ESCALATE, mailbox=box)
        await asyncio.wait((guardian.up, ended), return_when=asyncio.FIRST_COMPLETED)
        if not self._ending:
            await guardian.resources.open(ended)
        if self._ending or ended.done():
            return
        timeout_s = self._config.message_timeout_s if self._config.enable_message_timeouts else None
        for task_id in tasks.acker_ids:
            self._acker_actors.append(AckerActor(timeout_s, self._spout_inboxes(task_id)))
            self._spawn(ACKER_COMPONENT, task_id, self._acker_actors[-1], self._config)
        if tasks.master is not None:
            self._spawn("topology_master", tasks.plan.master, tasks.master, self._config)
        guardian.spawn(tasks.monitor, "monitor", policy=_policy(self._config))
        await self._start(tasks.bolts, ended)
        if tasks.exchange is not None and not self._ending:
            tasks.exchange.begin()

    async def start_spouts(self, ended: asyncio.Future[None]) -> None:
        """The second half of `start`, once the bolts of all workers are prepared."""
        await self._start(self.tasks.spouts, ended)

    async def stop(self) -> None:
        """Stop in order."""
        self._ending = True
        tasks, plan = self.tasks, self.tasks.plan
        spouts = [spout.task.task_id for spout in tasks.spouts]
        stages = (spouts, *(plan.tasks_of[bolt] for bolt in plan.order), tasks.acker_ids)
        limit_s = self._config.graceful_stop_s
        try:
            async with asyncio.timeout(limit_s):
                for stage in stages:
                    await self._stop([self.refs[task_id] for task_id in stage if task_id in self.refs])
                if self._root is not None and tasks.topology.resources:
                    await self._stop([self._root])
        except TimeoutError:
            late = ", ".join(ref.path.rpartition("/")[2] for ref in self.refs.values() if ref.is_alive) or "resources"
            log.warning("topology %s did not stop in %g s: killed %s", tasks.env.name, limit_s, late)
        await self.kill()

    async def kill(self) -> None:
        """Kill all tasks."""
        self.abort()
        if self._root is not None:
            await self._root.wait_terminated()

    def abort(self) -> None:
        """As `kill`, without waiting."""
        self._ending = True
        self._guardian.resources.close_soon()
        if self.tasks.exchange is not None:
            self.tasks.exchange.close()
        if self._root is not None:
            self._root.kill()

    def update(self, config: Config) -> None:
        """Change the settings, which are already checked."""
        self._config = config
        self.tasks.update(config)
        if config.enable_message_timeouts:
            for acker in self._acker_actors:
                acker.ledger.time_out_after(config.message_timeout_s)

    # -- inside ------------------------------------------------------------------------------------------------------

    async def _start(self, tasks: Sequence[TaskActor], ended: asyncio.Future[None]) -> None:
        if self._ending or ended.done():
            return
        for task in tasks:
            self._spawn(task.task.component, task.task.task_id, task, task.config)
        for task in tasks:
            await asyncio.wait((task.ready, ended), return_when=asyncio.FIRST_COMPLETED)

    def _spawn(self, component: str, task_id: int, actor: Actor, config: Config) -> None:
        self.refs[task_id] = self._guardian.spawn(
            actor, f"{component}[{task_id}]", policy=_policy(config), mailbox=self.tasks.mailboxes[task_id]
        )

    def _spout_inboxes(self, acker: int) -> Callable[[int], Inbox]:
        tasks = self.tasks
        spouts = {task_id for spec in tasks.topology.spouts for task_id in tasks.plan.tasks_of[spec.id]}

        @cache
        def inbox(spout_task: int) -> Inbox:
            if spout_task not in spouts:
                raise KeyError(spout_task)
            return tasks.env.mailbox_of(acker, spout_task)

        return inbox

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
        self.resources = resources

    def started(self) -> None:
        if not self.up.done():
            self.up.set_result(None)

    async def stopped(self) -> None:
        """All tasks have ended."""
        await self.resources.close()

    def receive(self, message: Message) -> None:
        raise TypeError(f"the guardian of a topology takes no messages: {message!r}")

    def child_escalated(self, ref: Ref, error: BaseException) -> None:
        self._gave_up(ref.path, error)


_ESCALATE = RestartPolicy(decide=lambda error: Directive.ESCALATE)


def _policy(config: Config) -> RestartPolicy:
    return RestartPolicy(
        config.restart_max,
        config.restart_period_s,
        tuple(config.restart_backoff_s),
        decide=lambda e: Directive.ESCALATE if isinstance(e, ActorEscalatedError) else restart(e),
    )
