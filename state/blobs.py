"""Blobs: chunks of one task's snapshot in files of a limited size, each with a header that proves it is complete.

    t<task>-<number>-f-<part>, …-d-<part> = magic, version, kind, task, number, part, rows, size, crc32 ┆ chunks

1. The checksum covers header and chunks: a blob with one wrong bit, a part of a blob, and a blob under another name are
   refused. The manifest repeats size and checksum, so a blob of another snapshot is refused, too.
2. Sizes are checked before anything is allocated.
3. A blob has at most MAX_BLOB_BYTES, usually PART_BYTES: joining it must not hold up the event loop.
4. A full snapshot has at least one blob. A delta without changes has none.
"""

from __future__ import annotations

import re
import struct
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ..runtime import MAX_BLOB_BYTES
from .errors import DamagedError, ForeignError

if TYPE_CHECKING:
    from .chunks import PackedChunk

PART_BYTES: Final = 8 * 1024 * 1024
VERSION: Final = 1
"""The version of header and chunks."""

_MAGIC: Final = b"aioS"
_HEADER: Final = struct.Struct(">4sHBxIQIII")
_CRC: Final = struct.Struct(">I")
_KINDS: Final = {"f": 1, "d": 2}
_NAME: Final = re.compile(r"t(0|[1-9][0-9]{0,8})-([1-9][0-9]{0,17})-([fd])-(0|[1-9][0-9]{0,8})")


@dataclass(frozen=True, slots=True)
class BlobName:
    """Whose blob it is: a task's, of the snapshot `number`, full or a delta, part 0, 1, …"""

    task: int
    number: int
    full: bool
    part: int

    def __str__(self) -> str:
        return f"t{self.task}-{self.number}-{'f' if self.full else 'd'}-{self.part}"

    @classmethod
    def parse(cls, name: str) -> BlobName | None:
        """What a name says; None: it is not the name of a blob."""
        found = _NAME.fullmatch(name)
        if found is None:
            return None
        return cls(int(found[1]), int(found[2]), found[3] == "f", int(found[4]))


@dataclass(frozen=True, slots=True)
class BlobRef:
    """What the manifest says about a blob. `rows`: keys with values, and removed keys."""

    name: str
    size_bytes: int
    rows: int
    crc32: int


@dataclass(frozen=True, slots=True)
class Blob:
    """A blob to be written."""

    ref: BlobRef
    data: bytes


class BlobWriter:
    """Makes the blobs of one task's snapshot out of chunks."""

    __slots__ = ("_chunks", "_crc32", "_limit", "_name", "_rows", "_size_bytes")

    def __init__(self, task: int, number: int, *, full: bool, part_bytes: int = PART_BYTES) -> None:
        self._name = BlobName(task, number, full, 0)
        self._limit = min(part_bytes, MAX_BLOB_BYTES) - _HEADER.size - _CRC.size
        self._chunks: list[bytes] = []
        self._crc32 = 0
        self._size_bytes = 0
        self._rows = 0

    def add(self, chunk: PackedChunk) -> Blob | None:
        """Add a chunk. Returns a blob if one is complete. ValueError for a chunk that no blob can contain."""
        if len(chunk.data) > MAX_BLOB_BYTES - _HEADER.size - _CRC.size:
            raise ValueError(f"a chunk of {len(chunk.data):,} bytes: a blob has at most {MAX_BLOB_BYTES:,}")
        done = self._made() if self._chunks and self._size_bytes + len(chunk.data) > self._limit else None
        self._chunks.append(chunk.data)
        self._crc32 = zlib.crc32(chunk.data, self._crc32)
        self._size_bytes += len(chunk.data)
        self._rows += chunk.rows
        return done

    def finish(self) -> Blob | None:
        """The last blob; None if there is nothing to write."""
        if not self._chunks and not (self._name.full and self._name.part == 0):
            return None
        return self._made()

    def _made(self) -> Blob:
        name = self._name
        kind = _KINDS["f" if name.full else "d"]
        header = _HEADER.pack(_MAGIC, VERSION, kind, name.task, name.number, name.part, self._rows, self._size_bytes)
        crc32 = zlib.crc32(header, self._crc32)
        data = b"".join([header, _CRC.pack(crc32), *self._chunks])
        made = Blob(BlobRef(str(name), len(data), self._rows, crc32), data)
        self._name = BlobName(name.task, name.number, name.full, name.part + 1)
        self._chunks = []
        self._crc32 = self._size_bytes = self._rows = 0
        return made


def body_of(ref: BlobRef, data: bytes | None) -> memoryview:
    """The chunks of a blob, for `unpack_chunks`. DamagedError; ForeignError for a newer format."""
    name = BlobName.parse(ref.name)
    start = _HEADER.size + _CRC.size
    if name is None:
        raise DamagedError(ref.name, "this is not the name of a blob")
    if data is None:
        raise DamagedError(ref.name, "the blob is missing")
    if len(data) != ref.size_bytes or len(data) < start:
        raise DamagedError(ref.name, f"the blob has {len(data):,} bytes instead of {ref.size_bytes:,}")
    view = memoryview(data)
    (crc32,) = _CRC.unpack_from(data, _HEADER.size)
    if crc32 != ref.crc32 or zlib.crc32(view[: _HEADER.size], zlib.crc32(view[start:])) != crc32:
        raise DamagedError(ref.name, "its checksum is wrong: other bytes were written")
    magic, version, kind, task, number, part, rows, size_bytes = _HEADER.unpack_from(data)
    if magic == _MAGIC and version > VERSION:
        raise ForeignError(f"{ref.name} has format {version}, and this aiostorm reads up to {VERSION}: use a newer one")
    found = (magic, version, kind, task, number, part, rows, size_bytes)
    kind = _KINDS["f" if name.full else "d"]
    if found != (_MAGIC, VERSION, kind, name.task, name.number, name.part, ref.rows, len(data) - start):
        raise DamagedError(ref.name, f"its header is that of another blob: {found}")
    return view[start:]
