"""SparkTableSinkBolt: appends rows to a table of Spark's catalogue. A tuple is acked when its append is committed.

    batches ─▶ buffer ─▶ max_rows, max_bytes, or flush_s ─▶ without the chunks that the table has ─▶ one append ─▶ acked
                                                             └ column _aiostorm_chunk, read once: TableLedger

1. Exactly once for rows with an identity (topology/tuples/identity.py) if an append is atomic: Iceberg, Delta, and
   files without partitions (an append is one file, which is renamed). The table has a column for the identity.
2. At least once for other rows, and for tables that were made without that column.
3. One task, since tasks do not know which chunks another task has just written.
4. Spark is called in a thread. A session that has died is made anew by the next append; failed rows are appended again.
5. With exactly-once, rows are in the snapshot, and are appended when it is durable (table_parts.py): each once, if an
   append is atomic. The table must have the column.
6. While Spark or the table is unavailable, rows are held as in ParquetSinkBolt (pending_writes.py).

Files are 50 times as fast: use this bolt where a catalogue is needed, and ParquetSinkBolt elsewhere.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from ...runtime import SystemRng
from ...state import Commits
from ...topology import Bolt, BoltCollector, TopologyContext, TupleBatch
from ..calls import SparkCalls
from ..errors import SinkError
from ..sessions import SessionLease, SessionSource, sessions
from .parquet_files import DatasetSchema
from .pending_writes import FlushLimits, PendingWrites
from .spark_table import SparkTable
from .table_parts import TableParts

CHUNK_COLUMN: Final = "_aiostorm_chunk"
MAX_ROWS: Final = 200_000
MAX_BYTES: Final = 64 * 1024 * 1024


class SparkTableSinkBolt(Bolt, Commits):
    """Appends Arrow batches and rows to `table` (`name`, `schema.name` or `catalogue.schema.name`), with one task.

    A missing table is created with the columns of the first batch and `chunk_column`; `format` (as of
    `DataFrameWriter.format`) and `partition_by` apply then. `session`: settings of Spark, or a function that makes a
    session; default: that of this process. `schema`: a pyarrow.Schema or a function that returns one; default: that of
    the first batch. `max_rows`, `max_bytes`, `flush_s`: when waiting rows are appended; an append takes about a second.
    With exactly-once they are appended with each snapshot, and wait in memory until then.
    """

    on_driver = True

    def __init__(
        self,
        table: str,
        *,
        session: SessionSource = None,
        format: str | None = None,  # noqa: A002 - Spark's name
        partition_by: str | Sequence[str] = (),
        schema: Any | Callable[[], Any] = None,
        chunk_column: str = CHUNK_COLUMN,
        max_rows: int = MAX_ROWS,
        max_bytes: int = MAX_BYTES,
        flush_s: float = 2.0,
    ) -> None:
        if not table or not chunk_column:
            raise ValueError(f"SparkTableSinkBolt needs a table and a column: {table=}, {chunk_column=}")
        limits = FlushLimits(max_rows, max_bytes, flush_s)
        limits.check()
        by = (partition_by,) if isinstance(partition_by, str) else tuple(partition_by)
        self.table = table
        self.config = limits.config  # type: ignore[misc] # of this instance, not the class
        self._limits = limits
        self._source = session
        self._schema = schema
        self._open_table = partial(SparkTable, table, chunk_column, format, by)
        self._calls: SparkCalls
        self._lease: SessionLease
        self._pending: PendingWrites
        self._table: SparkTable
        self._parts: TableParts | None = None

    @property
    def spark_session(self) -> Any:
        """The settings of its session, or the function that makes one."""
        return self._source

    def __deepcopy__(self, memo: dict[int, Any]) -> SparkTableSinkBolt:
        return copy.copy(self)  # for one task; a session or a DataFrame cannot be copied

    def prepare(self, context: TopologyContext, collector: BoltCollector) -> None:
        """Prepare without calling Spark, which is called with the first append."""
        if context.parallelism > 1:
            error = SinkError(
                f"{context.component!r} has parallelism {context.parallelism}: a table has one writer, which knows "
                "what the table has already. Give it one task (an append is a parallel Spark job), or write files "
                "with ParquetSinkBolt"
            )
            error.final = True
            raise error
        schema = DatasetSchema(self._schema, ())
        self._pending = PendingWrites(collector, schema, self._limits, SystemRng().generator().random)
        self._lease = sessions.lease(self._source)
        self._table = self._open_table(self._lease.get)
        self._calls = SparkCalls(1, name=f"spark-{context.component}")
        if context.config.guarantee == "exactly-once":
            self._parts = TableParts(f"{context.topology}/{context.component}")

    async def execute_batch(self, tuples: TupleBatch) -> None:
        for segment in tuples.segments:
            if self._pending.add(segment, buffers_chunks=True):
                await self._append()

    async def on_tick(self) -> None:
        if self._pending.tick():
            await self._append()

    async def flush(self) -> None:
        """A snapshot is taken: all rows belong to it."""
        self._pending.flush()
        await self._append()

    def pre_commit(self, number: int) -> Any:
        """The rows that are appended when the snapshot is durable."""
        return None if self._parts is None else self._parts.pre_commit(number)

    async def commit(self, handle: Any) -> None:
        """Append rows, unless the table has them."""
        await self._calls.run(self._table.commit, handle)

    def abort(self, handle: Any) -> None:
        """The rows belong to the next snapshot."""
        if self._parts is not None:
            self._parts.abort(handle)

    async def restored(self, number: int | None) -> None:
        """SinkError if a run has written to the table that is not continued."""
        if number is None and self._parts is not None:
            await self._calls.run(self._table.check_new, self._parts.sink)

    async def cleanup(self) -> None:
        try:
            if self._parts is None:
                self._pending.flush()
                await self._append()
                self._pending.give_up(f"{self.table} was not available until the end")
            await self._calls.run(self._lease.release)
        finally:
            self._calls.close()

    def result(self) -> Any:
        return {"table": self.table, "rows": self._table.rows, "appends": self._table.appends}

    async def _append(self) -> None:
        """Append what is pending, the oldest first, until an append fails; with exactly-once keep it for a snapshot."""
        for write in self._pending.writes:
            if self._parts is not None:
                self._parts.add(write.rows)
                self._pending.done()
                continue
            try:
                await self._calls.run(self._table.append, write.rows)
            except SinkError as error:
                if not self._pending.failed(error):
                    return
            else:
                self._pending.done()
