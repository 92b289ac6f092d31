"""WorkerSetup: takes one process of a worker through the steps of the builds, as long as it lives.

    ImportTopology ─► [ all imported ─► Connect ─► Prepare ─ all prepared ─► Open ─► it works ] ─ another build ─╮
                      ▲──────────────────────── EndTasks, Rebuild ◄─────────────────────────────────────────────╯
    a standing (see adoption.py) ─┬─ UpdateConfig ─► it works (at least once), or EndTasks, Rebuild (exactly once)
                                  ├─ EndTasks, Rebuild ─► ImportTopology (its tasks were of another plan)
                                  ╰─ it does not fit ─► Finish

1. A build that begins meanwhile ends the steps of the one before, wherever they are.
2. A process that does not end its tasks within its lease is killed: it is frozen, or user code blocks it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...actors import AskFailedError, AskTimeoutError
from ...runtime import AiostormError
from ..errors import WorkerError
from ..messages import CONTROL, SETUP, CommandFailed, Connect, Open, Prepare, UpdateConfig
from ..snapshots.messages import EndTasks
from .adoption import Fit, fit
from .cancelling import cancelled
from .command_errors import command_error

if TYPE_CHECKING:
    from ..messages import Standing
    from .assignment import Deployment
    from .builds import Builds
    from .start_order import StartOrder
    from .worker_handle import WorkerHandle
    from .worker_process import WorkerEvents, WorkerProcess
    from .worker_registry import WorkerRegistry

log = logging.getLogger("aiostorm.cluster")


class WorkerSetup:
    """One process of a worker."""

    def __init__(
        self,
        worker: WorkerHandle,
        process: WorkerProcess,
        registry: WorkerRegistry,
        deployment: Deployment,
        builds: Builds,
        events: WorkerEvents,
    ) -> None:
        self._worker = worker
        self._process = process
        self._registry = registry
        self._deployment = deployment
        self._builds = builds
        self._events = events

    async def begin(self, standing: Standing | None) -> bool:
        """Let the process import the topology, or go on with what it has. False if it cannot, which is reported."""
        command, order = self._deployment.import_command(), self._builds.current
        found = fit(standing, command.digest, exactly_once=order.setup is not None)
        if standing is None or found is Fit.NEW:
            return not self._has_failed(await self._worker.ask(SETUP, command))
        if found is Fit.ADOPTED and not self._events.may_adopt(self._worker.name, standing):
            found = "an earlier parent had given it up"
        if not isinstance(found, Fit):
            await self._worker.dismiss(found)
            return False
        if found is Fit.REPLANNED:
            if standing.has_tasks and not await self._end_tasks(counted=False):
                return False
            return not self._has_failed(await self._worker.ask(SETUP, command))
        await self._worker.ask(CONTROL, UpdateConfig(command.config))  # those of the earlier parent may differ
        if found is Fit.ADOPTED:
            self._adopt(order, standing)
        else:
            self._process.has_tasks = self._process.has_former_tasks = standing.has_tasks
        return True

    def _adopt(self, order: StartOrder, standing: Standing) -> None:
        """Its tasks go on as they are."""
        worker, name = self._worker, self._worker.name
        log.info("%s (pid %d) is adopted", name, worker.pid)
        self._process.has_tasks = self._process.works = True
        self._registry.set_address(name, standing.address)
        order.adopted(name)
        self._events.on_connected(name)
        for peer in self._deployment.workers:  # the earlier parent may have ended before it could say where they are
            if peer != name and order.is_dialled(peer, name) and self._registry.address_of(peer):
                worker.peer_restarted(peer, self._registry.address_of(peer))
        if standing.gave_up is not None:
            self._events.on_task_gave_up(name, standing.gave_up)

    async def follow_builds(self) -> None:
        """Take part in the present build, and in each that begins later. Does not return."""
        guard, name = self._registry.system.guard, self._worker.name
        while True:
            order = self._builds.current
            work = guard(self._take_part(order), name=f"{name}: build {order.build}")
            try:
                await self._builds.wait_for_another(order)
            finally:
                await cancelled(work)

    @contextlib.contextmanager
    def reporting(self) -> Iterator[None]:
        """Reports errors of the worker instead of raising them."""
        name = self._worker.name
        try:
            yield
        except (WorkerError, AskTimeoutError) as error:
            log.debug("%s: %s", name, error)  # its end is about to be noticed
        except AskFailedError as error:
            self._events.on_failed(WorkerError(f"{name} failed: {error}"))
        except AiostormError as error:
            self._events.on_failed(error)

    # -- one build -----------------------------------------------------------------------------------------------------

    async def _take_part(self, order: StartOrder) -> None:
        with self.reporting():
            if order.setup is None and self._process.works:
                return  # it is adopted
            if self._process.has_tasks and not await self._end_tasks():
                return
            if not order.is_broken:
                await self._start_tasks(order)

    async def _end_tasks(self, *, counted: bool = True) -> bool:
        """End the tasks of the build before. False if the process does not: it is killed.

        `counted`: their last status counts. It does not if they were of another plan.
        """
        worker, process, clock = self._worker, self._process, self._registry.system.clock
        process.works = False
        process.mode = ""
        lease_s = self._deployment.assignment.timings.lease_s
        if process.end_tasks_by_s is None:  # further builds do not give it more time
            process.end_tasks_by_s = clock.monotonic() + lease_s
        left_s = max(0.0, process.end_tasks_by_s - clock.monotonic())
        try:
            async with asyncio.timeout(left_s):
                await worker.tell(EndTasks())
                last = await worker.ask(SETUP, worker.reports.rebuild_command())
        except (TimeoutError, AskFailedError) as error:
            why = str(error) or f"not within {lease_s:g} s"
            log.warning("%s has not ended its tasks, and is killed: %s", worker.name, why)
            process.kill()
            return False
        if counted:
            worker.take_last_status(last)
        process.has_tasks = False
        process.end_tasks_by_s = None
        return True

    async def _start_tasks(self, order: StartOrder) -> None:
        worker, name = self._worker, self._worker.name
        await order.wait_for_all(name, "imported")
        self._events.on_all_imported(name)
        await order.wait_for_turn(name)
        self._process.has_tasks = True
        address = await worker.ask(SETUP, self._connect_command(order))
        self._process.has_former_tasks = False
        if self._has_failed(address):
            return
        self._registry.set_address(name, address)
        order.step(name, "connected")
        self._events.on_connected(name)
        gave_up = await worker.ask(SETUP, Prepare())
        if gave_up is None:
            await order.wait_for_all(name, "prepared")
            gave_up = await worker.ask(SETUP, Open())
        if gave_up is not None:
            self._events.on_task_gave_up(name, gave_up)
            return
        self._process.works = True
        worker.send_mode()
        order.step(name, "ready")

    def _connect_command(self, order: StartOrder) -> Connect:
        name = self._worker.name
        addresses: dict[str, str | None] = {
            peer: self._registry.address_of(peer) if order.is_dialled(peer, name) else None
            for peer in self._deployment.workers
            if peer != name
        }
        return Connect(addresses, self._events.nodes(), order.setup, order.build)

    def _has_failed(self, answer: object) -> bool:
        """Is this answer an error? Then it is reported."""
        if isinstance(answer, CommandFailed):
            self._events.on_failed(command_error(self._worker.name, answer, self._deployment.code))
            return True
        return False
