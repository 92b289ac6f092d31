"""Spark table: appends rows to a table of Spark's catalogue, without the chunks that the table has. Blocking.

rows ─► keys of their chunks ─► TableLedger: which are missing ─► one append
          └ column _aiostorm_chunk of the table, read before the first append and after one that failed
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from ..errors import SinkError, SparkUnavailableError
from ..needs import require
from ..sessions import activate_session, brief, is_user_error
from .parquet_files import CHUNK_KEY, encoded, parquet_errors
from .table_ledger import TableLedger

if TYPE_CHECKING:
    from .pending_writes import PendingRows

log = logging.getLogger("aiostorm.spark")


class SparkTable:
    """One table. `column`: for the keys of chunks. `format` and `partition_by`: of a table that is created here.

    `get_session`: returns the session, also after the last one was lost. `rows` and `appends` count what was appended.
    """

    def __init__(
        self,
        name: str,
        column: str,
        format: str | None,  # noqa: A002 - Spark's name
        partition_by: Sequence[str],
        get_session: Callable[[], Any],
    ) -> None:
        self._name = name
        self._column = column
        self._format = format
        self._partition_by = partition_by
        self._get_session = get_session
        self._ledger = TableLedger(name, column)
        self._has_column: bool | None = None
        self.rows = self.appends = 0

    def append(self, rows: Sequence[PendingRows]) -> None:
        """Append rows. SinkError; a temporary one if Spark may append them later."""
        self._tried(lambda: self._append(rows))

    def commit(self, parts: Sequence[tuple[str, Any]]) -> None:
        """Append batches with their keys, unless the table has them. SinkError, also if it has no column for keys."""
        self._tried(lambda: self._commit(parts))

    def check_new(self, sink: str) -> None:
        """Raise SinkError if the table has rows that this sink has committed by snapshots."""
        self._tried(lambda: self._check_new(sink))

    def _tried(self, work: Callable[[], None]) -> None:
        try:
            work()
        except (SinkError, SparkUnavailableError):
            raise
        except Exception as error:  # Spark has many kinds of errors
            self._ledger.forget()
            self._has_column = None
            text = f"cannot append to table {self._name}: {brief(error)}"
            failure = SinkError(text)
            failure.temporary = not is_user_error(error, text)
            raise failure from None

    def _append(self, rows: Sequence[PendingRows]) -> None:
        spark = self._opened(rows[0].batch.schema)
        if not self._has_column:
            self._insert(spark, [each.batch for each in rows], [])
            return
        self._add(spark, [(chunk_key(each.batch, each.identity), each.batch) for each in rows])

    def _commit(self, parts: Sequence[tuple[str, Any]]) -> None:
        spark = self._opened(parts[0][1].schema)
        if not self._has_column:
            error = SinkError(
                f"table {self._name} has no column {self._column}, by which a commit that is repeated finds its rows: "
                f"ALTER TABLE {self._name} ADD COLUMN {self._column} STRING, or use at-least-once"
            )
            error.final = True
            raise error
        self._add(spark, parts)

    def _check_new(self, sink: str) -> None:
        spark = self._get_session()
        activate_session(spark)
        if not spark.catalog.tableExists(self._name):
            return
        if self._column.lower() not in [name.lower() for name in spark.table(self._name).columns]:
            return
        self._ledger.set_rows(self._counts(spark))
        if self._ledger.has_prefix(f"{sink}/"):
            error = SinkError(
                f"table {self._name} has rows of a run of {sink} that is not continued, and this run begins from the "
                "start: its rows would be there twice. Give it the state_dir of that run, or another table, or delete "
                f"the rows whose {self._column} begins with '{sink}/'"
            )
            error.final = True
            raise error

    def _opened(self, schema: Any) -> Any:
        """The session, and the table with these columns."""
        spark = self._get_session()
        activate_session(spark)
        if self._has_column is None:
            self._has_column = self._ensured(spark, schema)
        return spark

    def _add(self, spark: Any, parts: Sequence[tuple[str | None, Any]]) -> None:
        if not self._ledger.known:
            self._ledger.set_rows(self._counts(spark))
        chunks = [(key, batch.num_rows) for key, batch in parts]
        missing = self._ledger.missing(chunks)
        batches = [batch for (_, batch), is_missing in zip(parts, missing, strict=True) if is_missing]
        fresh = [chunk for chunk, is_missing in zip(chunks, missing, strict=True) if is_missing]
        if fresh:
            self._insert(spark, batches, [key for key, _ in fresh])
            self._ledger.wrote(fresh)

    def _ensured(self, spark: Any, schema: Any) -> bool:
        """Create the table if it is missing. Whether it has the column."""
        if not spark.catalog.tableExists(self._name):
            arrow = require("pyarrow")
            fields = [*schema, arrow.field(self._column, arrow.string())]
            row = {field.name: arrow.nulls(1, field.type) for field in fields}  # Connect makes no frame without rows
            writer = spark.createDataFrame(arrow.table(row)).limit(0).write
            if self._format is not None:
                writer = writer.format(self._format)
            if self._partition_by:
                writer = writer.partitionBy(*self._partition_by)
            writer.saveAsTable(self._name)
        if self._column.lower() in [name.lower() for name in spark.table(self._name).columns]:
            return True
        log.warning(
            "table %s has no column %s: rows are written at least once (exactly once with ALTER TABLE … ADD COLUMN %s "
            "STRING)",
            *(self._name, self._column, self._column),
        )
        return False

    def _counts(self, spark: Any) -> dict[str, int]:
        chunk = self._column
        found = spark.table(self._name).where(f"`{chunk}` IS NOT NULL").groupBy(chunk).count().toArrow()
        return dict(zip(found.column(0).to_pylist(), found.column(1).to_pylist(), strict=True))

    def _insert(self, spark: Any, batches: Sequence[Any], keys: Sequence[str | None]) -> None:
        """One append. `keys`: of each batch, if the table has the column."""
        arrow = require("pyarrow")
        table = arrow.Table.from_batches(batches)
        if keys:
            repeated = zip(keys, batches, strict=True)
            column = [arrow.repeat(arrow.scalar(key, arrow.string()), batch.num_rows) for key, batch in repeated]
            table = table.append_column(self._column, arrow.chunked_array(column))
        frame = spark.createDataFrame(table).coalesce(1)  # one file: atomic
        places = {name.lower(): name for name in table.column_names}
        columns = spark.table(self._name).columns
        if sorted(places) != sorted(name.lower() for name in columns):
            raise SinkError(
                f"table {self._name} has the columns {', '.join(columns)}, and what comes has "
                f"{', '.join(table.column_names)}: they must be the same"
            )
        frame.select(*[places[name.lower()] for name in columns]).write.insertInto(self._name)
        self.rows += table.num_rows
        self.appends += 1


def chunk_key(batch: Any, identity: Mapping[bytes, bytes]) -> str | None:
    """`flights/7/3#` and a hash of part and contents: a chunk of the same name with other contents has another key."""
    if not identity:
        return None
    with parquet_errors():
        table = require("pyarrow").Table.from_batches([batch])
        text = blake2b(encoded(table, identity, None, {}), digest_size=8).hexdigest()
    return f"{identity[CHUNK_KEY].decode('utf-8', 'replace')}#{text}"
