"""TopologyProcess: the process of a simulation: it runs the topology, and starts again after each crash."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

from ...cluster import LocalCluster, RunningTopology, TopologyFailedError
from ...topology import Config, Topology, make_plan
from .faulty_mailboxes import FaultyMailboxes
from .invariants import is_users
from .operator import Operator
from .process import Process, ProcessDiedError
from .process_faults import draw_machine

if TYPE_CHECKING:
    from .bolt_errors import BoltErrors
    from .incarnation import Incarnation
    from .world import World

RESTARTS: Final = 20
"""How often a process may end by itself (its topology failed) before it is given up."""


class TopologyProcess:
    """The process, with what its incarnations run. `operator` injects the faults."""

    def __init__(self, world: World, topology: Topology, config: Any, bolt_errors: BoltErrors) -> None:
        self.world = world
        self.topology = topology
        self.process = world.process("storm", self._main)
        self.process.may_outlive = is_users
        draw_machine(self.process)
        world.on_process_ended = self._process_ended
        self.operator = Operator(self, bolt_errors)
        self.mailboxes: FaultyMailboxes | None = None
        self.stopped = False
        self.carried = 0
        """How many messages were sent between tasks, before the present incarnation."""
        self._config = config
        self._up: tuple[Incarnation, RunningTopology] | None = None
        self._ending: asyncio.Future[None]
        self._failures = 0

    def is_up(self) -> RunningTopology | None:
        """The running topology, if there is one right now."""
        if self._up is None:
            return None
        incarnation, running = self._up
        return running if incarnation.runs else None

    async def call(self, work: Callable[[RunningTopology], Awaitable[Any]]) -> Any:
        """Run this in the process. ProcessDiedError if it does not run, or dies first."""
        running = self.is_up()
        if running is None:
            raise ProcessDiedError("the process does not run")
        return await self.process.call(lambda: work(running))

    def stop(self) -> None:
        """End the topology, and with it the process."""
        self.stopped = True
        self.process.loop.call_soon(_settle, self._ending)

    async def _main(self, process: Process) -> None:
        self._ending = asyncio.get_running_loop().create_future()
        settings = Config().merge(self.topology.config).merge(self._config)
        self.mailboxes = FaultyMailboxes(process, make_plan(self.topology, settings))
        self.operator.rewire()
        async with LocalCluster(rng=process.rng, mailbox_wrapper=self.mailboxes) as cluster:
            running = await cluster.submit("storm", self.topology, self._config)
            self._up = process.current, running
            process.spawn(_when_ended(running, self._ending), "the topology's end", background=True)
            await self._ending
            await running.kill()
        if self.stopped and cluster.dead_letters:
            self.world.problem(f"an idle topology was stopped, and {cluster.dead_letters} segments were not executed")

    def _process_ended(self, process: Process, error: BaseException | None) -> None:
        self.carried += self.mailboxes.carried if self.mailboxes is not None else 0
        if self.stopped and error is None:
            return
        world = self.world
        if error is not None and not isinstance(error, TopologyFailedError):
            world.problem(f"the process ended with {error!r}")
        elif error is not None:
            self._failures += 1
            if self._failures > RESTARTS or not self.operator.faulty:
                world.problem(f"the topology failed: {error}")
                return
        world.call_at(world.now_s + 1.0, self.operator.start)


async def _when_ended(running: RunningTopology, ending: asyncio.Future[None]) -> None:
    with contextlib.suppress(TopologyFailedError):  # the cluster's block ends with it
        await running.wait_ended()
    _settle(ending)


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
