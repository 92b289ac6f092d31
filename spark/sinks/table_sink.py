"""SparkTableSinkBolt: appends rows to a table of Spark's catalogue. A tuple is acked when its append is committed.

    batches ─▶ buffer ─▶ max_rows, max_bytes, or flush_s ─▶ without the chunks that the table has ─▶ one append ─▶ acked
                                                             └ column _aiostorm_chunk, read once: TableLedger

1. Exactly once for rows with an identity (topology/identity.py) if an append is atomic: Iceberg, Delta, and files
   without partitions (an append is one file, which is renamed). The table has a column for the identity.
2. At least once for other rows, and for tables that were made without that column.
3. One task, since tasks do not know which chunks another task has just written.
4. Spark is called in a thread. A session that has died is made anew by the next append; failed rows are appended again.
5. While Spark or the table is unavailable, rows are held, which also stops the source (held_writes.py). Tuples that can
   never be appended fail with an error that says what to do; the task goes on.

Files are 50 times as fast: use this bolt where a catalogue is needed, and ParquetSinkBolt elsewhere.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any, Final

from ...runtime import SystemRng
from ...topology import Bolt, BoltCollector, ColumnRows, ColumnsError, Segment, TopologyContext, TupleBatch, batch_of
from ..calls import SparkCalls
from ..errors import SinkError, SparkUnavailableError
from ..needs import require
from ..sessions import SessionSource, activate_session, brief, is_user_error, sessions
from .held_writes import HeldWrites
from .parquet_buffer import RowBuffer
from .parquet_files import DatasetSchema, encoded, identity_of
from .table_ledger import TableLedger

log = logging.getLogger("aiostorm.spark")

CHUNK_COLUMN: Final = "_aiostorm_chunk"
MAX_ROWS: Final = 200_000
MAX_BYTES: Final = 64 * 1024 * 1024

_Waiting = tuple[Segment, Any, str | None]


class SparkTableSinkBolt(Bolt):
    """Appends Arrow batches and rows to `table` (`name`, `schema.name` or `catalogue.schema.name`), with one task.

    A missing table is created with the columns of the first batch and `chunk_column`; `format` (as of
    `DataFrameWriter.format`) and `partition_by` apply then. `session`: settings of Spark, or a function that makes a
    session; default: that of this process. `schema`: a pyarrow.Schema or a function that returns one; default: that of
    the first batch. `max_rows`, `max_bytes`, `flush_s`: when waiting rows are appended; an append takes about a second.
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
        if max_rows < 1 or max_bytes < 1 or not flush_s > 0:
            raise ValueError(
                f"max_rows and max_bytes are at least 1, flush_s is more than 0: {max_rows=}, {max_bytes=}, {flush_s=}"
            )
        self.table = table
        self.config = {"topology.tick.tuple.freq.secs": flush_s}  # type: ignore[misc] # of this instance, not the class
        self._source = session
        self._format = format
        self._partition_by = (partition_by,) if isinstance(partition_by, str) else tuple(partition_by)
        self._schema = schema
        self._column = chunk_column
        self._limits = (max_rows, max_bytes)
        self._flush_s = flush_s

    @property
    def spark_session(self) -> Any:
        """The settings of its session, or the function that makes one."""
        return self._source

    def __deepcopy__(self, memo: dict[int, Any]) -> SparkTableSinkBolt:
        """A copy for one task. Its arguments are shared: a session cannot be copied."""
        copied = type(self).__new__(type(self))
        copied.__dict__.update(self.__dict__)
        return copied

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
        self._collector = collector
        self._shape = DatasetSchema(self._schema, ())
        self._buffer: RowBuffer[_Waiting] = RowBuffer(*self._limits)
        self._held: HeldWrites[list[_Waiting]] = HeldWrites(SystemRng().generator().random)
        self._ledger = TableLedger(self.table, self._column)
        self._lease = sessions.lease(self._source)
        self._calls = SparkCalls(1, name=f"spark-{context.component}")
        self._has_column: bool | None = None
        self._rows = self._appends = 0

    async def execute_batch(self, tuples: TupleBatch) -> None:
        """Buffer the rows; append them when the buffer is full."""
        for segment in tuples.segments:
            try:
                batch = batch_of(segment.items, segment.origin)
                fitting = self._shape.fit(batch)
                waiting = (segment, fitting, _key(batch, fitting))
            except (SinkError, ColumnsError) as error:
                self._fail([segment], error)
                continue
            if self._buffer.add(waiting, fitting.num_rows, fitting.nbytes):
                await self._flush()

    async def on_tick(self) -> None:
        """Append buffered rows after `flush_s`, and retry held appends when they are due."""
        for kept in self._held.items:
            for segment, _, _ in kept:
                whole = type(segment.items) is ColumnRows  # a batch of columns is one message
                for offset in range(min(1, len(segment)) if whole else len(segment)):
                    self._collector.reset_timeout(segment.tuple_at(offset))
        if self._held.passed(self._flush_s):
            await self._append_held()
        if self._buffer.tick():
            await self._flush()

    async def cleanup(self) -> None:
        """Try once more to append the remaining rows."""
        try:
            await self._flush()
            await self._append_held()
            for kept in self._held.drop():
                self._fail([one[0] for one in kept], SinkError(f"{self.table} was not available until the end"))
            await self._calls.run(self._lease.release)
        finally:
            self._calls.close()

    def result(self) -> Any:
        """The output of this task."""
        return {"table": self.table, "rows": self._rows, "appends": self._appends}

    # -- inside ------------------------------------------------------------------------------------------------------

    async def _flush(self) -> None:
        kept = self._buffer.take()
        if not kept:
            return
        held = bool(self._held.items)
        self._held.hold(kept)
        if not held:
            await self._append_held()

    async def _append_held(self) -> None:
        """Append the held rows, the oldest first, until one append fails."""
        for kept in self._held.items:
            segments = [segment for segment, _, _ in kept]
            try:
                await self._calls.run(self._append, kept)
            except SparkUnavailableError:
                raise
            except SinkError as error:
                self._fail(segments, error)
            except Exception as error:  # Spark has many kinds of errors
                self._ledger.forget()
                self._has_column = None
                text = f"cannot append to table {self.table}: {await self._calls.run(brief, error)}"
                if not is_user_error(error, text):
                    wait_s = self._held.failed()
                    self._collector.report_error(SinkError(f"{text}; held, and tried again in {wait_s:.1f} s"))
                    return
                self._fail(segments, SinkError(text))
            else:
                self._collector.ack(TupleBatch(segments))
            self._held.written()

    def _fail(self, segments: list[Segment], error: Exception) -> None:
        self._collector.report_error(error)
        self._collector.fail(TupleBatch(segments), f"{type(error).__name__}: {error}")

    # -- in the thread -----------------------------------------------------------------------------------------------

    def _append(self, kept: list[_Waiting]) -> None:
        spark = self._lease.get()
        activate_session(spark)
        if self._has_column is None:
            self._ensure_table(spark, kept[0][1].schema)
        if self._has_column and not self._ledger.known:
            self._ledger.set_rows(self._counts(spark))
        named = [(key, batch.num_rows) for _, batch, key in kept if key is not None] if self._has_column else []
        missing = dict(zip(range(len(named)), self._ledger.missing(named), strict=True)) if named else {}
        at = 0
        fresh: list[tuple[Any, str | None]] = []
        for _, batch, key in kept:
            if not self._has_column or key is None:
                fresh.append((batch, None))
                continue
            if missing[at]:
                fresh.append((batch, key))
            at += 1
        if fresh:
            self._insert(spark, fresh)
            self._rows += sum(batch.num_rows for batch, _ in fresh)
            self._appends += 1
            self._ledger.wrote([(key, batch.num_rows) for batch, key in fresh if key is not None])

    def _ensure_table(self, spark: Any, schema: Any) -> None:
        """Create the table if it is missing, and check whether it has the column."""
        if not spark.catalog.tableExists(self.table):
            arrow = require("pyarrow")
            fields = [*schema, arrow.field(self._column, arrow.string())]
            row = {field.name: arrow.nulls(1, field.type) for field in fields}  # Connect makes no frame without rows
            writer = spark.createDataFrame(arrow.table(row)).limit(0).write
            if self._format is not None:
                writer = writer.format(self._format)
            if self._partition_by:
                writer = writer.partitionBy(*self._partition_by)
            writer.saveAsTable(self.table)
        columns = [name.lower() for name in spark.table(self.table).columns]
        self._has_column = self._column.lower() in columns
        if not self._has_column:
            log.warning(
                "table %s has no column %s: rows are written at least once (exactly once with ALTER TABLE … ADD "
                "COLUMN %s STRING)",
                *(self.table, self._column, self._column),
            )

    def _counts(self, spark: Any) -> dict[str, int]:
        chunk = self._column
        found = spark.table(self.table).where(f"`{chunk}` IS NOT NULL").groupBy(chunk).count().toArrow()
        return dict(zip(found.column(0).to_pylist(), found.column(1).to_pylist(), strict=True))

    def _insert(self, spark: Any, fresh: list[tuple[Any, str | None]]) -> None:
        arrow = require("pyarrow")
        table = arrow.Table.from_batches([batch for batch, _ in fresh])
        if self._has_column:
            keys = arrow.chunked_array(
                [arrow.repeat(arrow.scalar(key, arrow.string()), batch.num_rows) for batch, key in fresh]
            )
            table = table.append_column(self._column, keys)
        frame = spark.createDataFrame(table).coalesce(1)  # one file: atomic
        places = {name.lower(): name for name in table.column_names}
        columns = spark.table(self.table).columns
        unknown = set(places) - {name.lower() for name in columns}
        absent = [name for name in columns if name.lower() not in places]
        if unknown or absent:
            raise SinkError(
                f"table {self.table} has the columns {', '.join(columns)}, and what comes has "
                f"{', '.join(table.column_names)}: they must be the same"
            )
        frame.select(*[places[name.lower()] for name in columns]).write.insertInto(self.table)


def _key(batch: Any, fitting: Any) -> str | None:
    """`flights/7/3#` and a hash of part and contents: a chunk of the same name with other contents has another key."""
    identity = identity_of(batch)
    if not identity:
        return None
    table = require("pyarrow").Table.from_batches([fitting])
    text = blake2b(encoded(table, identity, None, {}), digest_size=8).hexdigest()
    return f"{identity[b'aiostorm.chunk'].decode('utf-8', 'replace')}#{text}"
