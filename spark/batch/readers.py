"""Readers: read the chunks of partitions, in threads. FetchedReader reads them through the driver.

FetchedReader.read(most) ─► Piece, Piece, End(partition), Piece, … ─► nothing more
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from ..needs import require
from .chunking import Chunker, digest_of
from .fetching import Fetched, Fetching, TooLargeError

SMALLER: Final = 4
"""A piece that was too large is requested again with a fourth of its rows."""


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


class FetchedReader:
    """Reads partitions through the driver. `batches`: the record batches of a partition, and how to close them."""

    def __init__(self, partitions: list[int], batches: WholeBatches | PieceBatches, chunk_rows: int) -> None:
        self.partitions = partitions
        self._batches = batches
        self._chunk_rows = chunk_rows
        self._items = self._all()

    @property
    def size_bytes(self) -> int:
        """The bytes read so far."""
        return self._batches.size_bytes

    def read(self, most: int) -> tuple[list[Piece | End], bool]:
        """Read up to `most` chunks, and ends. Also returns whether there may be more. Blocks; raises Spark's errors."""
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
        """Close it, from any thread. May be called twice."""
        self._batches.close()

    def _all(self) -> Iterator[Piece | End]:
        for at, partition in enumerate(self.partitions):
            chunker, number = Chunker(self._chunk_rows), 0
            for batch in self._batches.of(at, partition):
                for chunk in chunker.add(batch):
                    yield piece_of(partition, number, chunk)
                    number += 1
            last = chunker.end()
            if last is not None:
                yield piece_of(partition, number, last)
            yield End(partition)


class WholeBatches:
    """Partitions that wait in the JVM, fetched by one job."""

    def __init__(self, fetched: Fetched, schema: Any) -> None:
        self.size_bytes = 0
        self._fetched = fetched
        self._schema = schema

    def of(self, at: int, partition: int) -> Iterator[Any]:
        """The batches of the partition at this place. TooLargeError if they are not all of its rows."""
        rows = 0
        for _ in range(self._fetched.sizes[at]):
            batch, size = batch_of(self._fetched, self._schema)
            self.size_bytes += size
            rows += batch.num_rows
            if rows > self._fetched.most_rows:
                than = f"what the memory of Spark's JVM allows ({self._fetched.most_rows:,} rows)"
                raise TooLargeError([partition], than)
            yield batch

    def close(self) -> None:
        """Close the connection, from any thread."""
        self._fetched.close()


class PieceBatches:
    """A partition that is too large for one fetch, read in pieces, one Spark job after another.

        rows 0 … most_rows ─► rows most_rows … 2 * most_rows ─► … ─► a piece that is shorter: the end

    1. The JVM holds one piece at a time: the next job starts when the piece is read.
    2. Chunks do not end where pieces do: they are the same as if the whole partition were read at once.
    3. A piece that is more than the driver accepts at once (spark.driver.maxResultSize) is requested again with fewer
       rows.
    4. Each piece is computed from the beginning of the partition: its source must be checkpointed
       (`fetching.checkpointed`), so that all pieces are of the same rows.
    """

    def __init__(self, fetching: Fetching, group: str, schema: Any) -> None:
        self.size_bytes = 0
        self._fetching = fetching
        self._group = group
        self._schema = schema
        self._fetched: Fetched | None = None
        self._closed = False

    def of(self, at: int, partition: int) -> Iterator[Any]:
        """The batches of a partition."""
        begin, wanted = 0, self._fetching.most_rows
        rows = wanted
        while rows == wanted and not self._closed:
            try:
                self._fetched = fetched = self._fetching.piece(partition, begin, wanted, self._group)
            except TooLargeError:  # more bytes than the driver accepts at once
                if wanted == 1:
                    raise
                rows = wanted = max(1, wanted // SMALLER)
                continue
            rows = 0
            for _ in range(fetched.sizes[0]):
                batch, size = batch_of(fetched, self._schema)
                self.size_bytes += size
                rows += batch.num_rows
                yield batch
            fetched.close()
            begin += rows

    def close(self) -> None:
        """Close the connection and start no more jobs, from any thread."""
        self._closed = True
        if self._fetched is not None:
            self._fetched.close()


def batch_of(fetched: Fetched, schema: Any) -> tuple[Any, int]:
    """The next batch, and the number of its bytes."""
    arrow = require("pyarrow")
    data = fetched.read()
    return arrow.ipc.read_record_batch(arrow.py_buffer(data), schema), len(data)


def piece_of(partition: int, number: int, chunk: Any) -> Piece:
    """A chunk with its digest."""
    return Piece(partition, number, digest_of(number, chunk), chunk.num_rows, chunk)
