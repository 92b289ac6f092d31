"""Several workers in one loop: a task set each, in an actor system of its own; send queues instead of links.

What is between two workers is carried in order, a payload each turn of the loop. `kill` ends a worker as kill -9 does:
nothing more comes from it, what was under way is lost; `revive` starts it again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from aiostorm import Config, Topology
from aiostorm.acker import AckerActor, Ledger
from aiostorm.actors import ActorSystem
from aiostorm.cluster.hosting import Hosting
from aiostorm.cluster.scheduler import WorkerInfo, place
from aiostorm.cluster.task_set import TaskSet
from aiostorm.cluster.tasks_here import make_tasks
from aiostorm.tasks import Activate
from aiostorm.topology import make_plan

from ..transport.exchange.routers import Router


class Hosted:
    """One worker."""

    def __init__(self, router: Router, topology: Topology, config: Config, placement: dict[int, str]) -> None:
        self.router = router
        self.system = ActorSystem(router.name)
        self.failures: list[BaseException] = []
        self._arguments = (topology, config, placement)

    async def start(self) -> None:
        topology, config, placement = self._arguments
        await self.system.start()
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        tasks = make_tasks(
            self.system,
            "hosted",
            topology,
            config,
            gave_up=self._gave_up,
            hosting=Hosting(self.router.name, placement, self.router),
        )
        self.task_set = TaskSet(self.system, tasks, gave_up=self._gave_up)
        await self.task_set.start_bolts(self.ended)

    def _gave_up(self, path: str, error: BaseException) -> None:
        self.failures.append(error)

    async def emit(self) -> None:
        await self.task_set.start_spouts(self.ended)
        self.task_set.tasks.post_to_spouts(Activate)

    @property
    def is_idle(self) -> bool:
        task_set = self.task_set
        return (
            task_set.tasks.exchange is not None
            and task_set.tasks.exchange.is_idle
            and all(task.is_idle and not task.pending for task in task_set.tasks)
            and not any(box.has_control for box in task_set.tasks.ackers)
        )


class Workers:
    """`async with Workers(topology, config, 2) as workers`: started, and emitting."""

    def __init__(self, topology: Topology, config: Config | None = None, count: int = 2) -> None:
        self.routers: dict[str, Router] = {}
        self.names = [f"w{i}" for i in range(count)]
        self.topology = topology
        self.config = (config or Config()).merge({"topology.workers": count})
        plan = make_plan(topology, self.config)
        self.placement = place(topology, plan, [WorkerInfo(name) for name in self.names])
        self.living: dict[str, Hosted] = {}
        self.carried = 0
        self._carriers: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        for name in self.names:
            Router(name, self.routers)
        for name in self.names:
            await self._start(name)
        self._group = asyncio.TaskGroup()
        await self._group.__aenter__()
        self._carriers = self._group.create_task(self._carry())
        for worker in self.living.values():
            await worker.emit()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._carriers is not None
        self._carriers.cancel()
        await self._group.__aexit__(None, None, None)
        for worker in self.living.values():
            await worker.task_set.kill()
            await worker.system.stop(drain=False)

    async def _start(self, name: str) -> None:
        worker = self.living[name] = Hosted(self.routers[name], self.topology, self.config, self.placement)
        await worker.start()

    async def _carry(self) -> None:
        while True:
            for name in list(self.living):
                router = self.routers[name]
                for peer in list(router.send_queues):
                    self.carried += router.send(peer)
                    router.deliver(peer)
            await asyncio.sleep(0.0001)

    async def kill(self, name: str) -> None:
        worker = self.living.pop(name)
        incarnation = self.routers[name].own_incarnation
        worker.router.send_queues.clear()
        await worker.task_set.kill()
        await worker.system.stop(drain=False)
        for other in self.living.values():
            assert other.task_set.tasks.exchange is not None
            other.task_set.tasks.exchange.peer_died(name, incarnation)

    async def revive(self, name: str) -> None:
        self.routers[name].reborn()
        await self._start(name)
        await self.living[name].emit()

    async def wait_quiet(self, until: Callable[[], bool] = lambda: True, timeout_s: float = 60.0) -> None:
        async with asyncio.timeout(timeout_s):
            while True:
                quiet = all(worker.is_idle for worker in self.living.values())
                sums = [
                    worker.task_set.tasks.exchange.sent[peer]
                    - other.task_set.tasks.exchange.received[worker.router.name]  # type: ignore[union-attr]
                    for worker in self.living.values()
                    for peer, other in self.living.items()
                    if other is not worker
                ]
                if quiet and not any(sums) and until():
                    return
                await asyncio.sleep(0.01)

    def component(self, name: str) -> list[Any]:
        """The components of all tasks of that name."""
        return [
            task.user.component
            for worker in self.living.values()
            for task in worker.task_set.tasks
            if task.task.component == name
        ]

    @property
    def rows(self) -> int:
        """In all ledgers."""
        return sum(map(len, self.ledgers))

    @property
    def ledgers(self) -> list[Ledger]:
        """Of all ackers."""
        return [
            cell.supervision.actor.ledger
            for worker in self.living.values()
            for cell in worker.system.cells
            if isinstance(cell.supervision.actor, AckerActor)
        ]
