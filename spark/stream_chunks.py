"""Stream chunks: the rows of a micro-batch as Arrow, chunk after chunk, a few partitions at a time.

    planned ─► groups of partitions ─► `ahead` of them are computed, in Spark jobs ─► read as they are wanted, in order

1. Which row is in which chunk follows from the batch's data alone: the ids are the same when the batch comes again.
2. What is not read stays in the JVM. Python holds `READ_AT_ONCE` chunks and a batch of Arrow's beside what is pending.
3. Small partitions come together, since a job has its price; the size is learnt over batches.
4. Whoever gives it up ends it: its jobs are cancelled, its connections closed.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from typing import Any, Final

from .batch_loads import FetchedLoad, Piece
from .calls import SparkCalls, heard
from .errors import SparkSourceError
from .fetching import Fetching, TooLargeError, cancel, planned
from .group_size import GroupSize
from .jvm_watch import JvmWatch
from .sessions import use_here
from .types import arrow_schema, row_bytes

READ_AT_ONCE: Final = 4
"""Chunks that one call of a thread brings at most."""

_BYTES_PER_BATCH: Final = 16 * 1024 * 1024


class StreamChunks:
    """The way from micro-batches to chunks, for one query. `title`: for people, and in the names of groups of jobs."""

    def __init__(self, calls: SparkCalls, watch: JvmWatch, title: str, *, chunk_rows: int, ahead: int) -> None:
        self._calls = calls
        self._watch = watch
        self._title = title
        self._chunk_rows = chunk_rows
        self._ahead = ahead
        self._size = GroupSize()
        self._passes = 0

    async def of(self, frame: Any) -> AsyncGenerator[Piece, None]:
        """The chunks of a batch. What Spark raises; SparkSourceError for what trying again would not bring."""
        session = frame.sparkSession
        self._passes += 1
        jobs = f"{self._title}/{self._passes}"  # one that is cancelled takes none of the next along
        opening: deque[asyncio.Future[FetchedLoad]] = deque()
        load: FetchedLoad | None = None
        begun = False
        try:
            fetching, schema = await self._watch.during(self._calls.begin(self._plan, frame))
            begun, at = True, 0
            while opening or at < fetching.partitions:
                while len(opening) < self._ahead and at < fetching.partitions:
                    group = list(range(at, min(at + self._size.partitions, fetching.partitions)))
                    at = group[-1] + 1
                    opening.append(self._calls.begin(self._fetched, fetching, schema, session, group, jobs))
                load = await self._watch.during(opening[0])
                opening.popleft()
                more = True
                while more:
                    items, more = await self._watch.during(self._calls.begin(load.read, READ_AT_ONCE))
                    for item in items:
                        if isinstance(item, Piece):
                            yield item
                self._size.came(len(load.partitions), load.size_bytes)
            begun = False
        except TooLargeError as error:
            if error.partitions == 1:
                raise SparkSourceError(
                    f"a partition of a batch of {self._title} is larger than spark.driver.maxResultSize: let the "
                    "source bring less at a time (maxFilesPerTrigger, maxOffsetsPerTrigger, …), or repartition it"
                ) from None
            self._size.too_large()
            raise
        finally:
            if load is not None:
                load.close()
            for left in opening:
                left.add_done_callback(_close)
            if begun:
                self._calls.begin(cancel, session, jobs).add_done_callback(heard)

    def _plan(self, frame: Any) -> tuple[Fetching, Any]:
        settings = {
            "spark.sql.execution.arrow.maxBytesPerBatch": _BYTES_PER_BATCH,
            "spark.sql.execution.arrow.maxRecordsPerBatch": self._chunk_rows,
            "spark.sql.adaptive.enabled": "false",
        }
        use_here(frame.sparkSession)
        schema = arrow_schema(frame.schema, self._title)
        return Fetching(planned(frame, settings), row_bytes(schema)), schema

    def _fetched(self, fetching: Fetching, schema: Any, session: Any, group: list[int], jobs: str) -> FetchedLoad:
        use_here(session)
        return FetchedLoad(group, fetching.fetch(group, jobs), schema, self._chunk_rows)


def _close(opening: asyncio.Future[FetchedLoad]) -> None:
    """One that nobody waits for any more."""
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()
