"""Stream chunks: the rows of a micro-batch as Arrow, chunk after chunk, a few partitions at a time.

    planned ─► groups of partitions ─► `ahead` of them are computed, in Spark jobs ─► read on demand, in order

1. Which row is in which chunk depends on the batch's data alone: the ids are the same when the batch comes again.
2. Data that is not read stays in the JVM. Python has `READ_AT_ONCE` chunks and one Arrow batch besides pending chunks.
3. Small partitions are fetched together, since each job has a cost; the group size is adapted over batches.
4. A partition that is too large for the JVM's memory (batch/fetching.py) is detected when a part of it is read. The
   batch is then written to disk as it is computed, and read from there in pieces.
5. A reader that is closed early is cleaned up: its jobs are cancelled, its connections closed.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final

from ..batch.fetching import Fetching, TooLargeError, cancel, checkpointed, planned
from ..batch.group_size import GroupSize
from ..batch.readers import End, FetchedReader, Piece, PieceBatches, WholeBatches
from ..calls import SparkCalls, log_error
from ..errors import SparkSourceError
from ..sessions import activate_session
from ..types import arrow_schema, row_bytes

if TYPE_CHECKING:
    from ..jvm_watch import JvmWatch

log = logging.getLogger("aiostorm.spark")

READ_AT_ONCE: Final = 4
"""The most chunks that one call in a thread returns."""

_BYTES_PER_BATCH: Final = 16 * 1024 * 1024


class StreamChunks:
    """Reads micro-batches as chunks, for one query. `title`: for messages and the names of job groups."""

    def __init__(self, calls: SparkCalls, watch: JvmWatch, title: str, *, chunk_rows: int, ahead: int) -> None:
        self._calls = calls
        self._watch = watch
        self._title = title
        self._chunk_rows = chunk_rows
        self._ahead = ahead
        self._size = GroupSize()
        self._passes = 0

    async def of(self, frame: Any) -> AsyncGenerator[Piece, None]:
        """The chunks of a batch. Raises Spark's errors; SparkSourceError if a retry would not help."""
        session = frame.sparkSession
        self._passes += 1
        jobs = f"{self._title}/{self._passes}"  # its own group: cancelling it does not cancel the next
        begun, received = False, _ReceivedChunks()
        try:
            plan, fetching, schema = await self._watch.during(self._calls.begin(self._plan, frame))
            begun = True
            try:
                async with aclosing(self._in_groups(fetching, schema, session, jobs, received)) as pieces:
                    async for piece in pieces:
                        yield piece
            except TooLargeError as error:
                self._size.too_large()
                if error.partitions > 1:
                    raise
                log.info("%s: a partition is larger than %s: it is kept on disk, and read in pieces", jobs, error.than)
                kept_there = self._calls.begin(self._checkpointed, plan, schema, session, jobs)
                fetching = await self._watch.during(kept_there)
                async with aclosing(self._in_pieces(fetching, schema, session, jobs, received)) as pieces:
                    async for piece in pieces:
                        yield piece
            begun = False
        finally:
            if begun:
                self._calls.begin(cancel, session, jobs).add_done_callback(log_error)

    async def _in_groups(
        self, fetching: Fetching, schema: Any, session: Any, jobs: str, received: _ReceivedChunks
    ) -> AsyncGenerator[Piece, None]:
        opening: deque[asyncio.Future[FetchedReader]] = deque()
        reader: FetchedReader | None = None
        at = 0
        try:
            while opening or at < fetching.partitions:
                while len(opening) < self._ahead and at < fetching.partitions:
                    group = list(range(at, min(at + self._size.partitions, fetching.partitions)))
                    at = group[-1] + 1
                    opening.append(self._calls.begin(self._fetched, fetching, schema, session, group, jobs))
                reader = await self._watch.during(opening[0])
                opening.popleft()
                more = True
                while more:
                    items, more = await self._watch.during(self._calls.begin(reader.read, READ_AT_ONCE))
                    for piece in received.record(items):
                        yield piece
                self._size.record(len(reader.partitions), reader.size_bytes)
        finally:
            if reader is not None:
                reader.close()
            for left in opening:
                left.add_done_callback(_close)

    async def _in_pieces(
        self, fetching: Fetching, schema: Any, session: Any, jobs: str, received: _ReceivedChunks
    ) -> AsyncGenerator[Piece, None]:
        """Read the remaining chunks, one partition after another."""
        for partition in range(received.partition, fetching.partitions):
            reader = FetchedReader([partition], PieceBatches(fetching, jobs, schema), self._chunk_rows)
            again = received.restart_partition()
            try:
                more = True
                while more:
                    items, more = await self._watch.during(self._calls.begin(self._read, reader, session))
                    for piece in received.record(items):
                        if piece.number >= len(again):
                            yield piece
                        elif piece.digest != again[piece.number]:
                            raise SparkSourceError(
                                f"partition {partition} of a batch of {self._title} came out different when it was "
                                "computed again: sort what is behind a shuffle (sortWithinPartitions), or let the "
                                "source bring less at a time"
                            )
            except TooLargeError as error:
                raise SparkSourceError(
                    f"a row of a batch of {self._title} is larger than {error.than}: raise it, or leave columns out"
                ) from None
            finally:
                reader.close()

    def _read(self, reader: FetchedReader, session: Any) -> tuple[list[Piece | End], bool]:
        activate_session(session)
        return reader.read(READ_AT_ONCE)

    def _checkpointed(self, plan: Any, schema: Any, session: Any, jobs: str) -> Fetching:
        activate_session(session)
        session.sparkContext.setJobGroup(jobs, f"{self._title}: a large partition", False)
        return Fetching(checkpointed(plan), row_bytes(schema))

    def _plan(self, frame: Any) -> tuple[Any, Fetching, Any]:
        settings = {
            "spark.sql.execution.arrow.maxBytesPerBatch": _BYTES_PER_BATCH,
            "spark.sql.execution.arrow.maxRecordsPerBatch": self._chunk_rows,
            "spark.sql.adaptive.enabled": "false",
        }
        activate_session(frame.sparkSession)
        schema = arrow_schema(frame.schema, self._title)
        plan = planned(frame, settings)
        return plan, Fetching(plan, row_bytes(schema)), schema

    def _fetched(self, fetching: Fetching, schema: Any, session: Any, group: list[int], jobs: str) -> FetchedReader:
        activate_session(session)
        return FetchedReader(group, WholeBatches(fetching.fetch(group, jobs), schema), self._chunk_rows)


class _ReceivedChunks:
    """The progress in a batch: all partitions before `partition`, and the digests of that one's chunks."""

    def __init__(self) -> None:
        self.partition = 0
        self._digests: list[int] = []

    def record(self, items: Iterable[Piece | End]) -> Iterator[Piece]:
        """Record items as they are iterated; the chunks among them."""
        for item in items:
            if isinstance(item, End):
                self.partition, self._digests = item.partition + 1, []
            else:
                self._digests.append(item.digest)
                yield item

    def restart_partition(self) -> list[int]:
        """The partition is read again from its beginning. Returns the digests of its chunks so far."""
        before, self._digests = self._digests, []
        return before


def _close(opening: asyncio.Future[FetchedReader]) -> None:
    """Close a reader that is not needed any more."""
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()
