"""Ways: how the partitions of an open source come here: fetched by the driver, or pushed by executors.

    Way.streams() ─► async generators, read at the same time ─► Piece, Piece, End(partition), Piece, …

FetchWay is one stream: a Spark job for some partitions, whose results wait in its JVM. push_way.py has the other way.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ..connect import forget, is_connect
from ..sessions import brief, is_lost

if TYPE_CHECKING:
    from ..calls import SparkCalls
    from .capacity import Capacity
    from .group_size import GroupSize
    from .partitions import Partitions
    from .readers import End, FetchedReader, Piece

log = logging.getLogger("aiostorm.spark")

READ_AT_ONCE: Final = 4
"""The most chunks that one call in a thread returns."""


class Way(ABC):
    """Reads the partitions of one task once. After an error it is of no use any more."""

    @abstractmethod
    def cancel(self) -> None:
        """Cancel the jobs in Spark, and start no more. Blocks. May be called twice."""

    @abstractmethod
    def streams(self) -> Sequence[AsyncGenerator[Piece | End, None]]:
        """What is read, to be iterated at the same time. They raise Spark's errors."""

    async def reason(self, error: Exception) -> Exception:
        """The reason of an error that a stream has raised. Called before `close`."""
        return error

    @abstractmethod
    async def close(self) -> None:
        """The streams have ended."""


@dataclass(eq=False)
class FetchWay(Way):
    """Partitions through the driver. `begin` runs the job for some partitions (blocking).

    `ahead` jobs are run at a time, and one result after another is read: with `in_order` in the order of the
    partitions, else in the order in which the jobs have ended.
    """

    machine: Partitions
    calls: SparkCalls
    capacity: Capacity
    size: GroupSize
    begin: Callable[[list[int]], FetchedReader]
    cancel_jobs: Callable[[], None]
    ahead: int
    in_order: bool
    _cancelled: bool = False

    def streams(self) -> Sequence[AsyncGenerator[Piece | End, None]]:
        return (self._pieces(),)

    def cancel(self) -> None:
        self._cancelled = True
        self.cancel_jobs()

    async def close(self) -> None:
        """Nothing: the stream has closed its readers."""

    async def _pieces(self) -> AsyncGenerator[Piece | End, None]:
        opening: list[asyncio.Future[FetchedReader]] = []
        try:
            while True:
                self._begin_jobs(opening)
                if not opening:
                    return
                first = await self._first(opening)
                reader, more = first.result(), True
                while more:
                    async with self.capacity.reserve(READ_AT_ONCE) as most:
                        items, more = await self.calls.run(reader.read, most)
                        for item in items:
                            yield item
                    self._begin_jobs(opening)
                opening.remove(first)
                self.size.record(len(reader.partitions), reader.size_bytes)
        finally:
            for left in opening:
                left.add_done_callback(close_opened)

    def _begin_jobs(self, opening: list[asyncio.Future[FetchedReader]]) -> None:
        while len(opening) < self.ahead and (group := self.machine.claim_next(self.size.partitions)):
            opening.append(self.calls.begin(self._open, group))

    async def _first(self, opening: list[asyncio.Future[FetchedReader]]) -> asyncio.Future[FetchedReader]:
        """The next reader to read."""
        await asyncio.wait(opening[:1] if self.in_order else opening, return_when=asyncio.FIRST_COMPLETED)
        return next(one for one in opening if one.done())

    def _open(self, group: list[int]) -> FetchedReader:
        if self._cancelled:  # no new job after those that were cancelled
            raise EOFError("no more jobs are started")
        return self.begin(group)


def close_opened(opening: asyncio.Future[Any]) -> None:
    """Close a reader that was opened, when it is not needed any more."""
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()


def cancel_quietly(way: Way, session: Any, title: str) -> bool:
    """Cancel the jobs of a way that has failed. Returns whether Spark was lost: then no job is left in it. Blocks."""
    try:
        way.cancel()
    except Exception as error:
        if is_lost(error, session):
            log.debug("%s: Spark was lost when its jobs were ended: %s", title, brief(error))
            if is_connect(session):
                forget(session)
            return True
        log.warning("%s: jobs left in Spark were not ended, and may go on there: %s", title, brief(error))
    return False
