"""Kept chunks: the chunks that one task keeps for Spark's readers: what the log allows, in the store.

add ─► capacity? ─► store ─► log          query, read ─► of the log          commit ─► removed: capacity
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import SparkSourceError
from ..executors.messages import LogQuery, LogState, Trim
from .egress_log import ChunkInfo, EgressLog

if TYPE_CHECKING:
    from .egress_store import ChunkStore


@dataclass(frozen=True, slots=True)
class LogLimits:
    """A chunk is removed when all `consumers` have committed it; with `forgets` also when the log is full."""

    consumers: tuple[str, ...]
    max_rows: int
    max_bytes: int
    forgets: bool


class KeptChunks:
    """The log and the store of one task. Errors (SparkSourceError) are for the reader."""

    _log: EgressLog
    mark: tuple[int, int] = (0, 0)
    """The last snapshot whose chunks were added, and the offset of the first of them."""

    def __init__(self, store: ChunkStore, limits: LogLimits) -> None:
        self._store = store
        self._limits = limits
        self._freed = asyncio.Event()
        self._trimming = asyncio.Lock()

    async def open(self) -> bytes | None:
        """Open the store. Returns the first chunk that it has."""
        found, limits = await self._store.open(), self._limits
        self._log = EgressLog(
            found.log,
            limits.consumers,
            max_rows=limits.max_rows,
            max_bytes=limits.max_bytes,
            forgets=limits.forgets,
            first=found.first,
            sizes=found.sizes,
            committed=found.committed,
        )
        self.mark = found.mark
        return await self._store.read(found.first) if found.sizes else None

    async def close(self) -> None:
        """Close the store."""
        await self._store.close()

    async def add(self, chunk: ChunkInfo, data: bytes) -> None:
        """Keep a chunk, when there is capacity. Does nothing if it is kept already."""
        log = self._log
        if self._has(chunk):
            return
        while not log.has_capacity(chunk):
            self._freed.clear()
            await self._freed.wait()
        if self._has(chunk):  # it arrived twice, and was kept meanwhile
            return
        await self._store.add(log.end, chunk, data)
        log.add(chunk)
        if self._limits.forgets:
            await self._trim()

    async def add_snapshot(self, number: int, chunks: Sequence[tuple[int, bytes]]) -> None:
        """Add the chunks of a snapshot, as there is capacity. It may be repeated, also if it was interrupted."""
        log = self._log
        if number < self.mark[0]:
            return
        if number > self.mark[0]:
            self.mark = number, log.end
            await self._store.set_mark(self.mark, log.first, dict(log.committed))
        for rows, data in chunks[log.end - self.mark[1] :]:
            await self.add(ChunkInfo(rows, len(data)), data)

    async def query(self, query: LogQuery) -> LogState:
        """The state of the log for a reader. Commits what it says is done."""
        log = self._log
        begin = query.begin if query.begin >= 0 else max(log.first, log.committed.get(query.consumer, log.first))
        self.check(query.consumer, query.log, begin)
        if query.done:
            await self._commit(query.consumer, begin)
        upto = log.upto(begin, query.max_rows, query.max_bytes)
        return LogState(log.log, log.first, begin, upto, log.end)

    async def read(self, at: int) -> bytes:
        """The data of a chunk."""
        try:
            return await self._store.read(at)
        except KeyError as error:
            raise SparkSourceError(self._log.problem("", "", at) or f"chunk {at} is not there") from error

    async def commit(self, trim: Trim) -> None:
        """A consumer commits chunks."""
        self.check(trim.consumer, trim.log, max(trim.end, self._log.first))
        await self._commit(trim.consumer, trim.end)

    def check(self, consumer: str, log: str, begin: int, end: int | None = None) -> None:
        """Raise if these chunks are not in this log, or the consumer is unknown."""
        wrong = self._log.problem(consumer, log, begin, end)
        if wrong is not None:
            raise SparkSourceError(wrong)

    def _has(self, chunk: ChunkInfo) -> bool:
        return bool(chunk.name) and self._log.has(chunk.name)

    async def _commit(self, consumer: str, end: int) -> None:
        if self._log.trim(consumer, end):
            await self._trim()
            self._freed.set()

    async def _trim(self) -> None:
        async with self._trimming:
            await self._store.trim(self._log.first, dict(self._log.committed))
