"""Table parts: the rows of a table's sink between two snapshots (exactly once). Pure: the handle contains the rows.

    add ─► kept in memory ─ pre_commit(n) ─► handle: (key, batch), … ─ commit ─► appended, unless the table has the key
                                                 ╰─ abort ─► before the rows of the next handle

1. Each part has a key in the column of the table: that of its chunk; of rows without one, the sink, the number of
   the snapshot, and a hash of the rows. So a repeated commit finds what the table has.
2. Parts are cut to PART_BYTES, so that a snapshot saves them between other work.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ..digests import digest_of
from ..needs import require
from .spark_table import chunk_key

if TYPE_CHECKING:
    from .pending_writes import PendingRows

PART_BYTES: Final = 8 * 1024 * 1024


class TablePart(NamedTuple):
    """Rows that are appended together."""

    key: str
    batch: Any


class TableParts:
    """The rows of one task. `sink`: topology and component, as `job/sink`."""

    def __init__(self, sink: str) -> None:
        self.sink = sink
        self._rows: list[PendingRows] = []
        self._aborted: list[TablePart] = []

    def add(self, rows: Sequence[PendingRows]) -> None:
        """Rows for the next handle."""
        self._rows += rows

    def pre_commit(self, number: int) -> list[tuple[str, Any]] | None:
        """The handle: all rows since the last one. SinkError if they cannot be keyed."""
        parts = self._aborted
        unnamed = [rows.batch for rows in self._rows if not rows.identity]
        for rows in self._rows:
            if (key := chunk_key(rows.batch, rows.identity)) is not None:
                cut = list(_cut(rows.batch))
                parts += [TablePart(key if len(cut) == 1 else f"{key}-{at}", part) for at, part in enumerate(cut)]
        if unnamed:
            table = require("pyarrow").Table.from_batches(unnamed).combine_chunks()
            for whole in table.to_batches():
                for at, part in enumerate(_cut(whole), len(parts)):
                    parts.append(TablePart(f"{self.sink}/{number}/{at}#{digest_of(part).hex()}", part))
        self._rows, self._aborted = [], []
        return [(part.key, part.batch) for part in parts] or None

    def abort(self, handle: Sequence[Sequence[Any]]) -> None:
        """The rows belong to the next handle."""
        self._aborted = [TablePart(*part) for part in handle] + self._aborted


def _cut(batch: Any) -> Iterator[Any]:
    if batch.nbytes <= PART_BYTES or batch.num_rows < 2:
        yield batch
        return
    half = batch.num_rows // 2
    yield from _cut(batch.slice(0, half))
    yield from _cut(batch.slice(half))
