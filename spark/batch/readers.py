"""Readers: read the chunks of partitions, in threads. FetchedReader reads partitions that the driver has fetched.

PartitionReader.read(most) ─► Piece, Piece, End(partition), Piece, … ─► nothing more
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

from ..needs import require
from .chunking import Chunker, digest_of
from .fetching import Fetched, TooLargeError


class Piece(NamedTuple):
    """A chunk that was read. `batch`: None if it was not sent, since it is done already."""

    partition: int
    number: int
    digest: int
    rows: int
    batch: Any


class End(NamedTuple):
    """A partition has no more chunks."""

    partition: int


class PartitionReader(Protocol):
    """Reads the chunks of partitions."""

    size_bytes: int
    """The bytes read so far."""

    def read(self, most: int) -> tuple[list[Piece | End], bool]:
        """Read up to `most` chunks and ends. Also returns whether there may be more. Blocks; raises Spark's errors."""
        ...

    def close(self) -> None:
        """Close it, from any thread. May be called twice."""
        ...


class FetchedReader:
    """Reads partitions that wait in the JVM."""

    def __init__(self, partitions: list[int], fetched: Fetched, schema: Any, chunk_rows: int) -> None:
        self.partitions = partitions
        self.size_bytes = 0
        self._fetched = fetched
        self._schema = schema
        self._chunk_rows = chunk_rows
        self._arrow = require("pyarrow")
        self._items = self._all()

    def read(self, most: int) -> tuple[list[Piece | End], bool]:
        items: list[Piece | End] = []
        pieces = 0
        for item in self._items:
            items.append(item)
            pieces += isinstance(item, Piece)
            if pieces >= most:
                return items, True
        self.close()
        return items, False

    def close(self) -> None:
        self._fetched.close()

    def _all(self) -> Iterator[Piece | End]:
        for partition, batches in zip(self.partitions, self._fetched.sizes, strict=True):
            chunker, number, rows = Chunker(self._chunk_rows), 0, 0
            for _ in range(batches):
                batch = self._batch()
                rows += batch.num_rows
                if rows > self._fetched.most_rows:
                    than = f"what the memory of Spark's JVM allows ({self._fetched.most_rows:,} rows)"
                    raise TooLargeError([partition], than)
                for chunk in chunker.add(batch):
                    yield piece_of(partition, number, chunk)
                    number += 1
            last = chunker.end()
            if last is not None:
                yield piece_of(partition, number, last)
            yield End(partition)

    def _batch(self) -> Any:
        data = self._fetched.read()
        self.size_bytes += len(data)
        return self._arrow.ipc.read_record_batch(self._arrow.py_buffer(data), self._schema)


def piece_of(partition: int, number: int, chunk: Any) -> Piece:
    """A chunk with its digest."""
    return Piece(partition, number, digest_of(number, chunk), chunk.num_rows, chunk)
