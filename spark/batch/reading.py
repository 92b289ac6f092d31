"""Reading: reads the partitions of an open source, again after each error that a restart can correct.

    read: the streams of a way ─► machine ─► ready                (until every partition is read)
      └ error ─► explained ─► next_tuple raises it ─► the jobs are cancelled, the source is opened again if it was lost

1. Spark that has died is restarted, at most RETRIES times in a row without a chunk in between; then the error is final.
   Errors that a restart cannot correct are final at once.
2. The next attempt begins when `next_tuple` has raised the error of the last one: the task's backoff sets the pace.
3. Chunks that are ready stay, whatever happens to the source.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, Final

from ..errors import SparkJobError, SparkLostError, SparkSourceError
from ..sessions import brief
from .fetching import TooLargeError
from .readers import End, Piece
from .ways import cancel_quietly

if TYPE_CHECKING:
    from .partitions import Partitions
    from .source import OpenedSource
    from .way_factory import WayFactory

RETRIES: Final = 5


class Reading:
    """Reads one task's partitions. `changed` is called when a chunk is ready, a partition has ended, or it has failed.

    `reopen` opens the source again, and checks that it is the same.
    """

    def __init__(
        self,
        opened: OpenedSource,
        ways: WayFactory,
        reopen: Callable[[OpenedSource], Awaitable[OpenedSource]],
        changed: Callable[[], None],
    ) -> None:
        self.opened = opened
        self.ready: deque[Piece] = deque()
        self.failures = 0
        """How often it has failed since a chunk was emitted."""
        self._error: Exception | None = None
        self._raised = asyncio.Event()
        self._ways = ways
        self._reopen = reopen
        self._changed = changed
        self._way = ways.make(opened)
        self._group = asyncio.TaskGroup()
        self._task: asyncio.Task[None] | None = None

    @property
    def machine(self) -> Partitions:
        """Which chunks are done."""
        return self._ways.machine

    async def start(self, name: str) -> None:
        """Run it in a task of its own."""
        await self._group.__aenter__()
        self._task = self._group.create_task(self.run(), name=name)

    async def stop(self) -> None:
        """End its task. Jobs in Spark go on until they are cancelled."""
        if self._task is not None:
            self._task.cancel()
            await self._group.__aexit__(None, None, None)

    async def run(self) -> None:
        """Read until every partition is read, or an error is final. Cancel it to end it before."""
        failed: Exception | None = None
        while not is_final(failed):
            try:
                if failed is not None:
                    await self._restart(failed)
                await self._read()
                return
            except TooLargeError as error:  # now fewer partitions are fetched at a time, or executors push
                failed = error
            except Exception as error:
                failed = await self._reported(error)

    def raise_error(self) -> None:
        """Raise the error, if there is one: a final one each time."""
        error = self._error
        if error is not None:
            if not is_final(error):
                self._error = None
                self._raised.set()
            raise error

    def fail(self, error: Exception) -> None:
        """Set a final error."""
        self._error = error

    def settled(self) -> None:
        """Chunks were acked or given up: more may be read."""
        self._ways.capacity.changed()

    def cancel(self) -> None:
        """Cancel the jobs in Spark. Blocks."""
        self._way.cancel()

    async def _read(self) -> None:
        """Read all partitions that are not read. Raises the first error, explained."""
        try:
            async with asyncio.TaskGroup() as group:
                for stream in self._way.streams():
                    group.create_task(self._take(stream))
            if not self._ways.machine.is_read:
                raise SparkJobError("Spark's job has ended, but not all of its partitions came")
        except Exception as error:
            first = await self._way.reason(error.exceptions[0] if isinstance(error, ExceptionGroup) else error)
            explained = await self._ways.calls.run(self._ways.explain, first, self.opened)
            raise self._ways.adapted(explained, repeated=self.failures > 0) from None
        finally:
            await self._way.close()

    async def _take(self, stream: AsyncGenerator[Piece | End, None]) -> None:
        async with aclosing(stream):
            async for item in stream:
                if isinstance(item, End):
                    self._ways.machine.end(item.partition)
                elif self._ways.machine.chunk(item.partition, item.number, item.digest, item.rows):
                    self.ready.append(item)
                self._changed()

    async def _restart(self, failed: Exception) -> None:
        """Resume from the acked and open chunks, with the same source or a new one."""
        jobs = self._ways.jobs
        ended = await self._ways.calls.run(cancel_quietly, self._way, self.opened.session, jobs.group)
        if ended or isinstance(failed, SparkLostError):
            try:
                self.opened = await self._reopen(self.opened)
            except (SparkSourceError, SparkLostError):
                raise
            except Exception as error:
                raise SparkLostError(f"{jobs.title}: it could not be opened again: {brief(error)}") from None
        self._ways.machine.source_lost()
        self._way = self._ways.make(self.opened)

    async def _reported(self, error: Exception) -> Exception:
        """Count the error, and wait until next_tuple has raised it. Returns the raised error."""
        self.failures += 1
        if self.failures > RETRIES and not is_final(error):
            error = SparkSourceError(f"{error}; given up after {self.failures} failures in a row")
        self._error = error
        self._changed()
        if not is_final(error):
            await self._raised.wait()
            self._raised.clear()
        return error


def is_final(error: BaseException | None) -> bool:
    """Whether a restart cannot correct the error."""
    return bool(getattr(error, "final", False))
