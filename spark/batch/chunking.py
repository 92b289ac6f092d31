"""Chunking: record batches of any size become chunks with a fixed number of rows, each with a digest of its values.

    batches of a partition ──► Chunker ──► chunk 0, chunk 1, … (the last one may be shorter)

1. Which row is in which chunk depends only on the order of the rows, not on the sizes of Spark's batches.
2. A digest depends only on the number of the chunk and the values of its rows, not on batches, offsets or metadata.
3. Memory: at most a chunk and a batch.

This file and digests.py also run in Spark's Python workers, where aiostorm need not be installed: they import nothing
else of aiostorm.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

from ..digests import digest_of as digest_of_rows


class Chunker:
    """The chunks of one partition."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._held: list[Any] = []
        self._count = 0

    def add(self, batch: Any) -> Iterator[Any]:
        """Add a batch. Returns the chunks that are complete now."""
        at = 0
        while self._count + batch.num_rows - at >= self._rows:
            missing = self._rows - self._count
            yield self._joined(batch.slice(at, missing))
            at += missing
        if at < batch.num_rows:
            self._held.append(batch.slice(at))
            self._count += batch.num_rows - at

    def end(self) -> Any | None:
        """The partition has no more rows. Returns the last chunk, if rows are left."""
        return self._joined(None) if self._held else None

    def _joined(self, last: Any) -> Any:
        parts, self._held, self._count = self._held, [], 0
        if last is not None:
            parts.append(last)
        return parts[0] if len(parts) == 1 else _concatenated(parts)


def digest_of(number: int, chunk: Any) -> int:
    """A 64-bit digest of a chunk."""
    found = hashlib.blake2b(b"%d:" % number, digest_size=8)
    found.update(digest_of_rows(chunk))
    return int.from_bytes(found.digest(), "big")


def _concatenated(batches: list[Any]) -> Any:
    import pyarrow as pa

    arrays = [pa.concat_arrays([batch.column(at) for batch in batches]) for at in range(len(batches[0].schema))]
    return pa.RecordBatch.from_arrays(arrays, schema=batches[0].schema)
