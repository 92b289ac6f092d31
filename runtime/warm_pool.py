"""Warm processes: a process that was started beforehand, for when one is needed at once.

    spawn ─┬─ a spare is there ─► it is given its arguments, and goes on from where it waits
           └─ none is           ─► a new process
    soon after that: the next spare is started

1. A spare has done all that does not depend on what it will be: it has imported. Then it waits for a line on its
   standard input: the arguments, as JSON. What follows is its standard input. Without a line it ends.
2. There is one at most. It is started AFTER_S after the last process that was new, so that it takes no processor time
   from that one's start; and SOON_S after the last that was a spare, which has its start behind it.
3. A spare that has ended meanwhile is none. Whoever is spawned with an environment of its own is a new process.
4. Leaving the block ends the spare. It dies with its parent as any child does.

From: dask's and Celery's warm workers; Android's zygote, without its fork.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Final, Self

from .errors import SpawnError
from .spawner import Child, PythonSpawner, WaitingChild, check_stdin

log = logging.getLogger(__name__)

AFTER_S: Final = 1.0
SOON_S: Final = 0.1


class WarmPool:
    """A Spawner that keeps a spare: `arguments` make a process one (see the module). `async with`."""

    def __init__(self, spawner: PythonSpawner, arguments: Sequence[str]) -> None:
        self._spawner = spawner
        self._arguments = tuple(arguments)
        self._spare: WaitingChild | None = None
        self._spawned = asyncio.Event()
        self._wait_s = AFTER_S
        self._group = asyncio.TaskGroup()
        self._keeper: asyncio.Task[None]

    @property
    def has_spare(self) -> bool:
        """Is one there?"""
        return self._spare is not None and self._spare.runs

    async def spawn(
        self,
        name: str,
        arguments: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        stdin: bytes = b"",
    ) -> Child:
        """Start one (see Spawner)."""
        self._spawned.set()
        self._wait_s = AFTER_S
        if environment is None and self._spare is not None and self._spare.runs:
            request = json.dumps(list(arguments)).encode() + b"\n" + stdin
            check_stdin(name, request)
            spare, self._spare = self._spare, None
            self._wait_s = SOON_S
            spare.assign(name, request)
            return spare
        return await self._spawner.spawn(name, arguments, environment=environment, stdin=stdin)

    async def __aenter__(self) -> Self:
        await self._group.__aenter__()
        self._keeper = self._group.create_task(self._keep(), name="spare processes")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._keeper.cancel()
        try:
            await self._group.__aexit__(None, None, None)
        finally:
            if self._spare is not None:
                self._spare.kill()
                await self._spare.wait()

    async def _keep(self) -> None:
        while True:
            await self._spawned.wait()
            self._spawned.clear()
            try:
                async with asyncio.timeout(self._wait_s):
                    await self._spawned.wait()
            except TimeoutError:
                if not self.has_spare:
                    await self._start()

    async def _start(self) -> None:
        try:
            self._spare = await self._spawner.start_waiting("spare", self._arguments)
        except SpawnError as error:
            log.warning("no spare process: %s", error)
