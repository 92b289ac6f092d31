"""Egress store: keeps the chunks of a log in memory, or in a directory, where they survive a crash.

    directory:   meta               the log's id, what each consumer has committed: written whole
                 log-000…0042       records from offset 42 on: header (offset, rows, size, CRC-32, name), data
                 log-000…0067       the next, when one has SEGMENT_BYTES

1. A chunk is durable when `add` has returned.
2. A damaged record at the end of the last file was never acknowledged: it is removed when the log is opened. Damage
   elsewhere is an error: acknowledged data is lost.
3. A file is removed when all its chunks are trimmed.

From: Kafka's segments.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections import OrderedDict, deque
from typing import Final, Protocol

from ...runtime import DirectoryStore, SystemRng
from ..errors import SparkSourceError
from .egress_log import ChunkInfo

SEGMENT_BYTES: Final = 8 * 1024 * 1024
RECENT_BYTES: Final = 8 * 1024 * 1024

_HEADER: Final = struct.Struct(">QIII40s")
_META: Final = "meta"
_LOG: Final = "log-"
_VERSION: Final = 2
_MAX_BLOB_BYTES: Final = 64 * 1024 * 1024


class StoredLog:
    """The contents of a store when it was opened."""

    def __init__(
        self, log: str, first: int, sizes: list[ChunkInfo], committed: dict[str, int], mark: tuple[int, int] = (0, 0)
    ) -> None:
        self.log = log
        self.first = first
        self.sizes = sizes
        self.committed = committed
        self.mark = mark
        """The last snapshot whose chunks were added, and the offset of the first of them."""


class ChunkStore(Protocol):
    """Stores the data of chunks, by offset."""

    async def open(self) -> StoredLog:
        """Open the store. Returns its contents."""
        ...

    async def add(self, at: int, size: ChunkInfo, data: bytes) -> None:
        """Store the next chunk."""
        ...

    async def read(self, at: int) -> bytes:
        """The data of a chunk. KeyError if it was trimmed."""
        ...

    async def trim(self, first: int, committed: dict[str, int]) -> None:
        """Remove chunks before `first`, and store the commits."""
        ...

    async def set_mark(self, mark: tuple[int, int], first: int, committed: dict[str, int]) -> None:
        """Store durably which snapshot's chunks are added next, and from which offset on."""
        ...

    async def close(self) -> None:
        """Close the store."""
        ...


class MemoryChunkStore:
    """In memory: lost with the process."""

    def __init__(self) -> None:
        self._first = 0
        self._chunks: deque[bytes] = deque()

    async def open(self) -> StoredLog:
        """Start a new log."""
        return StoredLog(_new_id(), 0, [], {})

    async def add(self, at: int, size: ChunkInfo, data: bytes) -> None:
        self._chunks.append(data)

    async def read(self, at: int) -> bytes:
        if not 0 <= at - self._first < len(self._chunks):
            raise KeyError(at)
        return self._chunks[at - self._first]

    async def trim(self, first: int, committed: dict[str, int]) -> None:
        while self._first < first:
            self._chunks.popleft()
            self._first += 1

    async def set_mark(self, mark: tuple[int, int], first: int, committed: dict[str, int]) -> None:
        pass

    async def close(self) -> None:
        pass


class DirectoryChunkStore:
    """In its own directory."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._store = DirectoryStore(path, max_bytes=_MAX_BLOB_BYTES)
        self._log = ""
        self._places: OrderedDict[int, tuple[int, int, int]] = OrderedDict()  # offset → file's first, position, size
        self._files: list[int] = []
        self._last_bytes = 0
        self._recent: OrderedDict[int, bytes] = OrderedDict()
        self._recent_bytes = 0
        self._last_read: tuple[int, bytes] = (-1, b"")
        self._written_commits: dict[str, int] = {}
        self._mark = (0, 0)

    async def open(self) -> StoredLog:
        """Read the log. SparkSourceError if it is damaged, StoreError if it is in use."""
        meta = await self._store.read(_META)
        committed: dict[str, int] = {}
        first = 0
        if meta is None:
            self._log = _new_id()
            await self._write_meta(0, {})
        else:
            self._log, first, committed = self._read_meta(meta)
            self._written_commits = committed
        names = await self._store.names(_LOG)
        sizes: list[ChunkInfo] = []
        for name in names:
            sizes += await self._read_records(int(name.removeprefix(_LOG)), last=name == names[-1])
        begins = next(iter(self._places), first)
        if first > begins:
            sizes = sizes[first - begins :]
            for at in [at for at in self._places if at < first]:
                del self._places[at]
        return StoredLog(self._log, max(first, begins), sizes, committed, self._mark)

    async def add(self, at: int, size: ChunkInfo, data: bytes) -> None:
        if not self._files or self._last_bytes >= SEGMENT_BYTES:
            self._files.append(at)
            self._last_bytes = 0
        file = self._files[-1]
        record = _HEADER.pack(at, size.rows, len(data), zlib.crc32(data), size.name.encode()) + data
        await self._store.append(_name(file), record)
        await self._store.sync()
        self._places[at] = file, self._last_bytes + _HEADER.size, len(data)
        self._last_bytes += len(record)
        self._recent[at] = data
        self._recent_bytes += len(data)
        while self._recent_bytes > RECENT_BYTES and len(self._recent) > 1:
            self._recent_bytes -= len(self._recent.popitem(last=False)[1])

    async def read(self, at: int) -> bytes:
        recent = self._recent.get(at)
        if recent is not None:
            return recent
        file, position, size = self._places[at]
        if self._last_read[0] != file or len(self._last_read[1]) < position + size:
            found = await self._store.read(_name(file))
            if found is None:
                raise KeyError(at)
            self._last_read = file, found
        return self._last_read[1][position : position + size]

    async def trim(self, first: int, committed: dict[str, int]) -> None:
        while self._places and next(iter(self._places)) < first:
            at, _ = self._places.popitem(last=False)
            self._recent_bytes -= len(self._recent.pop(at, b""))
        empty = len(self._files) > 1 and self._files[1] <= first
        if empty or committed != self._written_commits:
            await self._write_meta(first, committed)
        while len(self._files) > 1 and self._files[1] <= first:
            await self._store.remove(_name(self._files.pop(0)))

    async def set_mark(self, mark: tuple[int, int], first: int, committed: dict[str, int]) -> None:
        self._mark = mark
        await self._write_meta(first, committed)

    async def close(self) -> None:
        """Release the directory."""
        await self._store.close()

    # -- internals ---------------------------------------------------------------------------------------------------

    async def _write_meta(self, first: int, committed: dict[str, int]) -> None:
        self._written_commits = dict(committed)
        meta = {"version": _VERSION, "log": self._log, "first": first, "committed": committed, "mark": self._mark}
        await self._store.write(_META, json.dumps(meta).encode())
        await self._store.sync()

    def _read_meta(self, data: bytes) -> tuple[str, int, dict[str, int]]:
        try:
            meta = json.loads(data)
            if meta["version"] != _VERSION:
                raise ValueError(f"version {meta['version']}, and this is {_VERSION}")
            number, begin = meta.get("mark", (0, 0))
            self._mark = int(number), int(begin)
            return str(meta["log"]), int(meta["first"]), {str(k): int(v) for k, v in meta["committed"].items()}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise SparkSourceError(
                f"{self._path} holds no log of this bolt: {error}. Give it another directory"
            ) from error

    async def _read_records(self, file: int, *, last: bool) -> list[ChunkInfo]:
        """Read the records of a file."""
        data = await self._store.read(_name(file)) or b""
        at, position, sizes = file, 0, []
        if self._places and next(reversed(self._places)) + 1 != file:
            raise SparkSourceError(f"{self._path}: chunks before {file} are missing. Give the bolt another directory")
        while position + _HEADER.size <= len(data):
            number, rows, size, crc, name = _HEADER.unpack_from(data, position)
            begin = position + _HEADER.size
            if number != at or begin + size > len(data) or zlib.crc32(memoryview(data)[begin : begin + size]) != crc:
                break
            self._places[at] = file, begin, size
            sizes.append(ChunkInfo(rows, size, name.rstrip(b"\0").decode()))
            at, position = at + 1, begin + size
        if position < len(data):
            if not last:
                raise SparkSourceError(
                    f"{self._path}: the log is damaged at chunk {at}. Give the bolt another directory"
                )
            await self._store.write(_name(file), data[:position])
            await self._store.sync()
        self._files.append(file)
        self._last_bytes = position
        return sizes


def _name(file: int) -> str:
    return f"{_LOG}{file:020d}"


def _new_id() -> str:
    return SystemRng().token_bytes(12).hex()
