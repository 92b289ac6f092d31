"""Warm pool: keeps a process that was started beforehand, so that a new one is ready at once.

    spawn ─┬─ there is a spare ─► it gets its arguments, and continues from where it waits
           └─ there is none    ─► a new process
    soon after that: the next spare is started

1. A spare has done everything that does not depend on its later task: it has imported its modules. Then it waits for a
   line on its standard input: the arguments, as JSON. The bytes after that line are its standard input. Without a line
   it ends.
2. There is at most one spare. It is started AFTER_S after the last new process, so that it takes no processor time from
   that process's start; or SOON_S after a spare was used, which has already started.
3. A spare that has ended is not used.
4. Leaving the block ends the spare. It dies with its parent like any child.

From: dask's and Celery's warm workers; Android's zygote, without its fork.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Sequence
from types import TracebackType
from typing import Final, Self

from ..errors import SpawnError
from .spawner import Child, PythonSpawner, WaitingChild, check_stdin

log = logging.getLogger(__name__)

AFTER_S: Final = 1.0
SOON_S: Final = 0.1


class WarmPool:
    """A Spawner that keeps a spare: `arguments` start a process as a spare (see the module). Use it in `async with`."""

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
        """Is there a spare?"""
        return self._spare is not None and self._spare.runs

    async def spawn(self, name: str, arguments: Sequence[str], *, stdin: bytes = b"") -> Child:
        """Start a process (see Spawner), from the spare if possible."""
        self._spawned.set()
        self._wait_s = AFTER_S
        if self._spare is not None and self._spare.runs:
            request = json.dumps(list(arguments)).encode() + b"\n" + stdin
            check_stdin(name, request)
            spare, self._spare = self._spare, None
            self._wait_s = SOON_S
            spare.assign(name, request)
            return spare
        return await self._spawner.spawn(name, arguments, stdin=stdin)

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
