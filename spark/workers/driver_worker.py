"""Driver worker: a worker in the parent's own process and event loop, for components that need the parent's Spark
session.

1. It runs the program of every worker (`cluster.work`), with a link to the parent like every worker.
2. A Spark session cannot be handed to another process, and a second session would need its own cores: so this worker is
   not a process of its own.
3. To kill it, its tasks are cancelled; code that blocks the event loop blocks the parent too.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import platform
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ...cluster import PARENT, WORKER, WorkerOptions, work
from ...transport import Node, Security, open_network

if TYPE_CHECKING:
    from ...runtime.processes import Child

log = logging.getLogger("aiostorm.worker")

KILLED: Final = -9
BROKEN: Final = 1


class DriverWorkerSpawner:
    """A Spawner of workers in this process. `node` is the parent's; its actor system supervises them."""

    def __init__(self, security: Security, node: Node) -> None:
        self._security = security
        self._node = node

    async def spawn(self, name: str, arguments: Sequence[str], *, stdin: bytes = b"") -> Child:
        """Start a worker (see Spawner). Only its addresses and target are used of its arguments."""
        if stdin:
            raise ValueError("a worker in the parent's process has no standard input")
        after = dict(itertools.pairwise(arguments))
        options = WorkerOptions(
            name,
            after["--connect"],
            after["--listen"],
            os.getpid(),
            platform.node(),
            is_child=True,
            targets=(after["--target"],),
        )
        child = _DriverWorkerChild(name, options, self._security)
        child.task = self._node.system.guard(child.run(), name=f"{name} beside the parent")
        return child


class _DriverWorkerChild:
    """A Child implemented by an asyncio task."""

    def __init__(self, name: str, options: WorkerOptions, security: Security) -> None:
        self.name = name
        self.pid = options.pid
        self.task: asyncio.Task[None] | None = None
        self._options = options
        self._security = security
        self._stopping = asyncio.Event()
        self._ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def run(self) -> None:
        code = KILLED
        try:
            async with open_network(self.name, self._security, role=WORKER, roles=(PARENT, WORKER)) as network:
                code = await work(self._options, network, self._stopping)
        except Exception:
            log.exception("%s has failed", self.name)
            code = BROKEN
        finally:
            self._ended.set_result(code)

    async def wait(self) -> int:
        return await asyncio.shield(self._ended)

    def terminate(self) -> None:
        self._stopping.set()

    def kill(self) -> None:
        if self.task is not None:
            self.task.cancel()
