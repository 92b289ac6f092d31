"""Feed: the partitions being read and the chunks ready to emit, for one task: never more than `max_pending`.

    claim_next ─► readers (`ahead`: a Spark job, or a connection) ─► read, while chunks may be pending ─► ready ─► emit
                                                                       `max_pending` chunks in all; acks free capacity

1. Blocking calls are in threads; everything else happens in the event loop, in callbacks. There is no asyncio task.
2. Data that is not read stays in Spark: a slow topology slows it down.
3. After an error or `close` nothing more is read; ready chunks stay.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ..calls import SparkCalls
from ..connect import forget, is_connect
from ..errors import SparkJobError
from ..sessions import brief, is_lost
from .partitions import Partitions
from .read_order import ReadOrder
from .readers import End, PartitionReader, Piece

log = logging.getLogger("aiostorm.spark")

READ_AT_ONCE = 4
"""The most chunks that one call in a thread returns."""


class Opener(Protocol):
    """Opens partition readers."""

    readers: int
    """How many readers are read at the same time."""

    def main(self) -> Callable[[], None] | None:
        """A function that runs in a thread all the time, if there is one."""
        ...

    def next(self) -> Callable[[], PartitionReader] | None:
        """A function that opens the next reader, in a thread; None: there is none now. In the loop."""
        ...

    def opened(self, reader: PartitionReader) -> bool:
        """A reader is open. Whether to read it. In the loop."""
        ...

    def ended(self, reader: PartitionReader) -> None:
        """A reader was read to its end. In the loop."""
        ...

    def confirmed(self) -> Sequence[int]:
        """`main` has ended well. Returns the partitions that are complete now. In the loop."""
        ...

    def cancel(self) -> None:
        """Cancel the jobs in Spark; no more readers. Blocks."""
        ...


class Feed:
    """Reads partitions. `changed` is called when a chunk is ready, a partition has ended, or `error` is set."""

    def __init__(
        self,
        machine: Partitions,
        opener: Opener,
        calls: SparkCalls,
        *,
        ahead: int,
        max_pending: int,
        in_order: bool,
        changed: Callable[[], None],
    ) -> None:
        self.ready: deque[Piece] = deque()
        self.error: Exception | None = None
        self._machine = machine
        self._opener = opener
        self._calls = calls
        self._ahead = ahead
        self._max_pending = max_pending
        self._changed = changed
        self._main: asyncio.Future[None] | None = None
        self._opening: dict[asyncio.Future[PartitionReader], int] = {}
        self._readers = ReadOrder[PartitionReader](in_order=in_order)
        self._reading: dict[asyncio.Future[tuple[list[Piece | End], bool]], tuple[PartitionReader, int]] = {}
        self._closed = False

    @property
    def opener(self) -> Opener:
        """The opener of its readers."""
        return self._opener

    def begin(self) -> None:
        """Start reading."""
        main = self._opener.main()
        if main is not None:
            self._main = self._calls.begin(main)
            self._main.add_done_callback(self._on_main_ended)
        self.pump()

    def pump(self) -> None:
        """Start all reads that are possible now: called after every change."""
        if self._closed or self.error is not None:
            return
        while self._readers.in_progress < self._ahead:
            begin = self._opener.next()
            if begin is None:
                break
            opening = self._calls.begin(self._open, begin)
            self._opening[opening] = self._readers.begin()
            opening.add_done_callback(self._on_opened)
        busy = {id(reader) for reader, _ in self._reading.values()}
        for reader in self._readers.readable(self._opener.readers):
            free = self._max_pending - self._machine.open - sum(most for _, most in self._reading.values())
            if free <= 0:
                return
            if id(reader) not in busy:
                most = min(free, READ_AT_ONCE)
                reading = self._calls.begin(reader.read, most)
                self._reading[reading] = (reader, most)
                reading.add_done_callback(self._on_read)

    def stop(self) -> None:
        """Stop reading. Does not block: waiting reads end soon."""
        self._closed = True

    def close(self) -> None:
        """Cancel the jobs in Spark, and close all connections. Blocks; after `stop`."""
        try:
            self._opener.cancel()
        finally:
            for reader in [*self._readers.open_readers, *(reader for reader, _ in self._reading.values())]:
                reader.close()

    async def ended(self) -> None:
        """Wait until no thread works for the feed."""
        waited: list[asyncio.Future[Any]] = [*self._opening, *self._reading]
        if self._main is not None:
            waited.append(self._main)
        if waited:
            await asyncio.wait(waited)

    def _open(self, begin: Callable[[], PartitionReader]) -> PartitionReader:
        if self._closed:  # no new job after those that were cancelled
            raise EOFError("the feed is closed")
        return begin()

    # -- callbacks ---------------------------------------------------------------------------------------------------

    def _on_main_ended(self, main: asyncio.Future[None]) -> None:
        error = None if main.cancelled() else main.exception()
        if error is None and not self._closed and self.error is None:
            for partition in self._opener.confirmed():
                self._machine.end(partition)
            self._changed()
        if error is None:
            self._look_whether_all_came()
        elif not self._machine.is_read:  # else all data is here, and the error does not matter
            self._on_error(error)

    def _look_whether_all_came(self) -> None:
        """After the job has ended and all reads are done: fail if partitions are missing."""
        main = self._main
        if main is None or not main.done() or main.cancelled() or main.exception() is not None:
            return
        if not self._reading and not self._machine.is_read:
            self._on_error(SparkJobError("Spark's job has ended, but not all of its partitions came"))

    def _on_opened(self, opening: asyncio.Future[PartitionReader]) -> None:
        ticket = self._opening.pop(opening)
        error = None if opening.cancelled() else opening.exception()
        if error is not None or opening.cancelled():
            self._readers.failed(ticket)
            # If no executor connects any more, `main` has the error of their job.
            expected = isinstance(error, EOFError) and (self._main is not None or self._machine.is_read)
            if error is not None and not expected:
                self._on_error(error)
        else:
            reader = opening.result()
            if self._closed or self.error is not None or not self._opener.opened(reader):
                self._readers.failed(ticket)
                reader.close()
            else:
                self._readers.opened(ticket, reader)
        self.pump()

    def _on_read(self, reading: asyncio.Future[tuple[list[Piece | End], bool]]) -> None:
        reader, _ = self._reading.pop(reading)
        error = None if reading.cancelled() else reading.exception()
        if error is not None:
            self._on_error(error)
        elif not (self._closed or reading.cancelled() or self.error is not None):
            items, more = reading.result()
            try:
                self._accept(items)
            except Exception as wrong:  # a partition differs from before
                self._on_error(wrong)
            if not more:
                self._readers.ended(reader)
                self._opener.ended(reader)
            if items:
                self._changed()
        self._look_whether_all_came()
        self.pump()

    def _accept(self, items: list[Piece | End]) -> None:
        machine = self._machine
        for item in items:
            if isinstance(item, End):
                machine.end(item.partition)
            elif machine.chunk(item.partition, item.number, item.digest, item.rows):
                self.ready.append(item)

    def _on_error(self, error: BaseException) -> None:
        """Set the error; only the first one counts."""
        if self._closed or self.error is not None:
            log.debug("after the end: %r", error)
            return
        self.error = error if isinstance(error, Exception) else RuntimeError(repr(error))
        self._changed()


def close_quietly(feed: Feed, session: Any, title: str) -> bool:
    """Close a feed that has failed. Returns whether Spark was lost: then there is nothing left to close in it."""
    try:
        feed.close()
    except Exception as error:
        if is_lost(error, session):
            log.debug("%s: Spark was lost when its jobs were ended: %s", title, brief(error))
            if is_connect(session):
                forget(session)
            return True
        log.warning("%s: jobs left in Spark were not ended, and may go on there: %s", title, brief(error))
    return False


class FetchOpener:
    """Opens partitions through the driver: a Spark job for some partitions, whose results wait in its JVM."""

    readers = 1

    def __init__(
        self, machine: Partitions, begin: Callable[[list[int]], PartitionReader], size: Any, cancel: Callable[[], None]
    ) -> None:
        self._machine = machine
        self._begin = begin
        self._size = size
        self._cancel = cancel

    def main(self) -> Callable[[], None] | None:
        return None

    def next(self) -> Callable[[], PartitionReader] | None:
        group = self._machine.claim_next(self._size.partitions)
        return (lambda: self._begin(group)) if group else None

    def opened(self, reader: PartitionReader) -> bool:
        return True

    def confirmed(self) -> Sequence[int]:
        return ()

    def ended(self, reader: Any) -> None:
        self._size.record(len(reader.partitions), reader.size_bytes)

    def cancel(self) -> None:
        self._cancel()
