"""Pending writes: what both sinks do with rows between their tuple and its ack.

    add ─► in the dataset's schema ─► buffer ─► a write ─► written ─► all of its tuples acked
                 │ does not fit           │                 ├ the store is unavailable ─► held, retried with backoff
                 └─► fails its tuples     └ full, a tick    └ can never be written ─► fails its tuples

1. A tuple is acked when its rows are written. It fails for no other reason than its own rows.
2. Writes are done in order: a later one waits for those that are held.
3. Tuples of held writes do not time out: each tick restarts their timeouts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ...state import SaveError
from ...topology import BoltCollector, ColumnRows, ColumnsError, Segment, TupleBatch, batch_of
from ..errors import SinkError
from .held_writes import HeldWrites
from .parquet_files import DatasetSchema, ParquetFile, identity_of, parquet_errors
from .row_buffer import RowBuffer


@dataclass(frozen=True, slots=True)
class PendingRows:
    """The rows of a segment, in the dataset's schema. `identity`: of their chunk; empty if they have none."""

    segment: Segment
    batch: Any
    identity: Mapping[bytes, bytes]


@dataclass(slots=True)
class Write:
    """Rows that are written together. `files`: made by the first attempt of a sink that writes files."""

    rows: list[PendingRows]
    files: list[ParquetFile] = field(default_factory=list)

    @property
    def tuples(self) -> TupleBatch:
        return TupleBatch([rows.segment for rows in self.rows])


@dataclass(frozen=True, slots=True)
class FlushLimits:
    """When buffered rows are written: at `max_rows`, at `max_bytes`, or after one to two times `flush_s`."""

    max_rows: int
    max_bytes: int
    flush_s: float

    def check(self, **more: int) -> None:
        """Raise ValueError if one of them, or of the sink's other limits, is wrong."""
        counts = {"max_rows": self.max_rows, "max_bytes": self.max_bytes, **more}
        if min(counts.values()) < 1 or not self.flush_s > 0:
            *names, last = counts
            given = ", ".join(f"{name}={value!r}" for name, value in {**counts, "flush_s": self.flush_s}.items())
            raise ValueError(f"{', '.join(names)} and {last} are at least 1, flush_s is more than 0: {given}")

    @property
    def config(self) -> dict[str, Any]:
        """The bolt's configuration: a tick every `flush_s`."""
        return {"topology.tick.tuple.freq.secs": self.flush_s}


class PendingWrites:
    """The pending writes of one task. `random`: returns a number from 0 to 1.

    `add`, `tick` and `flush` return whether to write now. The bolt then writes each of `writes`, and calls `done` or
    `failed` after each.
    """

    def __init__(
        self, collector: BoltCollector, schema: DatasetSchema, limits: FlushLimits, random: Callable[[], float]
    ) -> None:
        self._collector = collector
        self._schema = schema
        self._flush_s = limits.flush_s
        self._buffer: RowBuffer[PendingRows] = RowBuffer(limits.max_rows, limits.max_bytes)
        self._held: HeldWrites[Write] = HeldWrites(random)

    @property
    def writes(self) -> tuple[Write, ...]:
        return self._held.items

    @property
    def is_empty(self) -> bool:
        """Whether no rows are kept."""
        return not self.writes and not self._buffer.rows

    @property
    def rows(self) -> int:
        """How many rows are kept."""
        in_writes: int = sum(rows.batch.num_rows for write in self.writes for rows in write.rows)
        return self._buffer.rows + in_writes

    def add(self, segment: Segment, *, buffers_chunks: bool) -> bool:
        """Add the rows of a segment. Unless the sink buffers chunks, a chunk is a write of its own."""
        try:
            with parquet_errors():
                batch = batch_of(segment.items, segment.origin)
                rows = PendingRows(segment, self._schema.fit(batch), identity_of(batch))
        except (SinkError, ColumnsError) as error:
            self._fail(TupleBatch([segment]), error)
            return False
        if rows.identity and not buffers_chunks:
            return self._hold([rows])
        return self._buffer.add(rows, rows.batch.num_rows, rows.batch.nbytes) and self.flush()

    def tick(self) -> bool:
        """`flush_s` has passed."""
        for write in self.writes:
            for rows in write.rows:
                self._restart_timeouts(rows.segment)
        is_due = self._held.passed(self._flush_s)
        return (self._buffer.tick() and self.flush()) or is_due

    def flush(self) -> bool:
        """Write the buffered rows."""
        rows = self._buffer.take()
        return bool(rows) and self._hold(rows)

    def done(self) -> None:
        """The oldest write is done."""
        self._collector.ack(self.writes[0].tuples)
        self._held.written()

    def failed(self, error: SinkError) -> bool:
        """The oldest write has failed. Whether to go on with the next. Raises an error that fails the topology."""
        if error.final:
            raise error
        if error.temporary:
            wait_s = self._held.failed()
            self._collector.report_error(SinkError(f"{error}; held, and tried again in {wait_s:.1f} s"))
            return False
        self._fail(self.writes[0].tuples, error)
        self._held.written()
        return True

    def raise_held(self, where: str) -> None:
        """SaveError if there are held writes: a snapshot cannot contain them, and a later one will."""
        if self.writes:
            raise SaveError(f"{where} cannot be written: its rows are kept in memory and tried again")

    def give_up(self, why: str) -> bool:
        """The task ends: fail what is left. Whether there was anything."""
        left = self._held.drop()
        for write in left:
            self._fail(write.tuples, SinkError(why))
        return bool(left)

    def _hold(self, rows: list[PendingRows]) -> bool:
        is_first = not self.writes
        self._held.hold(Write(rows))
        return is_first

    def _fail(self, tuples: TupleBatch, error: Exception) -> None:
        self._collector.report_error(error)
        self._collector.fail(tuples, f"{type(error).__name__}: {error}")

    def _restart_timeouts(self, segment: Segment) -> None:
        is_whole = type(segment.items) is ColumnRows  # a batch of columns is one message
        for offset in range(min(1, len(segment)) if is_whole else len(segment)):
            self._collector.reset_timeout(segment.tuple_at(offset))
