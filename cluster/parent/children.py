"""The processes of workers, as their parent has them: those that it starts, and those that a user starts."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...actors import ActorSystem
    from ...runtime.processes import Child, Spawner
    from ..messages import WorkerJoined

log = logging.getLogger("aiostorm.cluster")

OnAbandoned = Callable[[str, int], None]
"""(name, process id) of a remote worker."""


class LocalChildren:
    """The child processes that run."""

    def __init__(self, system: ActorSystem, spawner: Spawner) -> None:
        self._system = system
        self._spawner = spawner
        self._running: dict[Child, None] = {}

    async def spawn(self, name: str, words: Sequence[str], secret: bytes) -> Child:
        """Start `aiostorm` with these arguments; the secret goes to its standard input. SpawnError."""
        child = await self._spawner.spawn(name, list(words), stdin=secret)
        self._running[child] = None
        self._system.guard(self._reap(child), name=f"end of {name}")
        return child

    async def kill(self, limit_s: float) -> None:
        """Kill what still runs; returns when it has ended, or after the limit."""
        try:
            async with asyncio.timeout(limit_s):
                for child in list(self._running):
                    child.kill()
                    await child.wait()
        except TimeoutError:
            log.warning("killed, but not ended: %s", ", ".join(child.name for child in self._running))

    async def _reap(self, child: Child) -> None:
        try:
            await child.wait()
        finally:
            self._running.pop(child, None)


class RemoteWorkers:
    """The workers that users start: their names, their processes, and the messages of those that came early.

    `stay`: the names of those that stay when their topology ends, for the next one. `since`: the generation of the
    first processes that have the code of the topology; earlier ones are ended.
    `on_abandoned(name, pid)`: a process is given up, and cannot be killed from here.
    """

    def __init__(self, on_abandoned: OnAbandoned) -> None:
        self.names: list[str] = []
        self.stay: frozenset[str] = frozenset()
        self.since = 0
        self.early: dict[str, WorkerJoined] = {}
        self._on_abandoned = on_abandoned
        self._children: dict[str, RemoteChild] = {}

    def child(self, name: str) -> RemoteChild | None:
        """The process that is used, or waited for; None before the first."""
        return self._children.get(name)

    def expect(self, name: str) -> RemoteChild:
        """Wait for a process of that name."""
        child = self._children[name] = RemoteChild(name, self._on_abandoned)
        return child

    def is_awaited(self, name: str) -> bool:
        """Is a process of that name used or waited for?"""
        child = self._children.get(name)
        return child is not None and not child.ended.done()


class RemoteChild:
    """The Child of a remote worker, which a user starts."""

    def __init__(self, name: str, on_abandoned: OnAbandoned) -> None:
        self.name = name
        self.pid = self.incarnation = 0  # until it has joined
        self._on_abandoned = on_abandoned
        self.ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def wait(self) -> int:
        return await asyncio.shield(self.ended)

    def terminate(self) -> None:
        """The worker ends on its command, or with its lease."""
        self.end("it is asked to end")

    def kill(self) -> None:
        """It cannot be killed from here: it ends with its lease, or `on_abandoned` has it killed."""
        if self.pid and not self.ended.done():
            self._on_abandoned(self.name, self.pid)
        self.end("it is abandoned")

    def end(self, reason: str) -> None:
        """Treat the worker as ended."""
        if not self.ended.done():
            log.info("%s: %s", self.name, reason)
            self.ended.set_result(0)
