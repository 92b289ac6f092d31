"""Piece reader: reads a partition that is too large for one fetch in pieces, one Spark job after another.

    rows 0 … most_rows ─► chunks ─► rows most_rows … 2 * most_rows ─► chunks ─► … ─► a piece that is shorter: the end

1. The JVM holds one piece at a time: the next job starts when the piece is read.
2. Chunks do not end where pieces do: they are the same as if the whole partition were read at once.
3. A piece that is more than the driver accepts at once (spark.driver.maxResultSize) is requested again with fewer rows.
4. Each piece is computed from the beginning of the partition: its source must be checkpointed
   (`fetching.checkpointed`), so that all pieces are of the same rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from .batch.chunking import Chunker
from .batch.fetching import Fetched, Fetching, TooLargeError
from .batch.readers import End, Piece, piece_of
from .needs import require

SMALLER: Final = 4


class PieceReader:
    """A PartitionReader. `group`: the group of its jobs."""

    def __init__(self, partition: int, fetching: Fetching, group: str, schema: Any, chunk_rows: int) -> None:
        self.partitions = [partition]
        self.size_bytes = 0
        self._fetching = fetching
        self._group = group
        self._schema = schema
        self._chunk_rows = chunk_rows
        self._arrow = require("pyarrow")
        self._fetched: Fetched | None = None
        self._closed = False
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
        self._closed = True
        if self._fetched is not None:
            self._fetched.close()

    def _all(self) -> Iterator[Piece | End]:
        [partition] = self.partitions
        chunker, number = Chunker(self._chunk_rows), 0
        for batch in self._batches(partition):
            for chunk in chunker.add(batch):
                yield piece_of(partition, number, chunk)
                number += 1
        last = chunker.end()
        if last is not None:
            yield piece_of(partition, number, last)
        yield End(partition)

    def _batches(self, partition: int) -> Iterator[Any]:
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
                data = fetched.read()
                self.size_bytes += len(data)
                batch = self._arrow.ipc.read_record_batch(self._arrow.py_buffer(data), self._schema)
                rows += batch.num_rows
                yield batch
            fetched.close()
            begin += rows
