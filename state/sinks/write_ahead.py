"""WriteAheadSink: rows are saved with the snapshot, and then written to a database in one transaction with its number.

    pre_commit(n): rows ─► handle (in the snapshot)
    commit(handle): one transaction ┌ aiostorm_commits(topology, task): n, if it is smaller; else nothing is done
                                    ╰ apply(rows, task, n)

1. The transaction commits both or none. So a second commit of the same handle finds the number, and does nothing.
2. The number is written first: the row of the task is locked, and a connection that commits each statement by itself is
   detected before a row is written.
3. After an error the connection is closed, and the next commit makes another one.

From: Flink's GenericWriteAheadSink with its CheckpointCommitter; the DB-API of Python (PEP 249).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

from .sink import Sink, SinkError

if TYPE_CHECKING:
    from ...topology import BasicCollector, TopologyContext, Tuple

_log = logging.getLogger(__name__)

_CREATE = (
    "CREATE TABLE IF NOT EXISTS aiostorm_commits (topology VARCHAR(128) NOT NULL, task BIGINT NOT NULL, "
    "n BIGINT NOT NULL, PRIMARY KEY (topology, task))"
)
_SELECT = "SELECT n FROM aiostorm_commits WHERE topology = ? AND task = ?"
_UPDATE = "UPDATE aiostorm_commits SET n = ? WHERE topology = ? AND task = ?"
_INSERT = "INSERT INTO aiostorm_commits (n, topology, task) VALUES (?, ?, ?)"

PART_ROWS: Final = 10_000
"""Rows are saved, and written to the database, in parts of at most so many."""


class WriteAheadSink(Sink):
    """Writes rows to a database, each once: SQLite, PostgreSQL, any with transactions and a DB-API module.

    `connect`: makes a connection, such as `lambda: sqlite3.connect("counts.db", timeout=30)`. `statement`: is executed
    for each row, whose values are its parameters. For anything else derive from this class and override `apply`.
    `placeholder`: how the module writes a parameter: "?" or "%s". The table `aiostorm_commits` is created if missing.
    Rows are kept in memory until the next snapshot, and are part of it. Methods run in the task's own thread.
    """

    blocking: ClassVar[bool] = True

    def __init__(self, connect: Callable[[], Any], statement: str = "", *, placeholder: str = "?") -> None:
        self.connection: Any = None
        """The connection, inside of `apply`."""
        self._connect = connect
        self._statement = statement
        self._placeholder = placeholder
        self._rows: list[Sequence[Any]] = []
        self._parts: list[list[Sequence[Any]]] = []  # of PART_ROWS rows
        self._topology = ""
        self._task = 0

    def prepare(self, context: TopologyContext) -> None:
        """Remember which task this is."""
        self._topology = context.topology
        self._task = context.task_id

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        """Keep the row until the next snapshot."""
        self.keep(tup.values)

    def keep(self, row: Sequence[Any]) -> None:
        """Write this row with the next snapshot."""
        self._rows.append(row)
        if len(self._rows) >= PART_ROWS:
            self._parts.append(self._rows)
            self._rows = []

    def pre_commit(self, number: int) -> list[Any] | None:
        """A list: the task and the number, and then the rows, in lists of at most PART_ROWS; None without rows."""
        parts = [*self._parts, self._rows] if self._rows else self._parts
        self._parts, self._rows = [], []
        return [(self._task, number), *parts] if parts else None

    def commit(self, handle: Sequence[Any]) -> None:
        """Write the rows and the number in one transaction, unless the database has the number."""
        (task, number), *parts = handle
        try:
            self._write(parts, task, number)
        except BaseException:
            self._close()  # and so roll back
            raise

    def abort(self, handle: Sequence[Any]) -> None:
        """Keep the rows for the next snapshot."""
        self._parts = [*handle[1:], *self._parts]

    def cleanup(self) -> None:
        """Close the connection."""
        self._close()

    def apply(self, rows: Sequence[Sequence[Any]], task: int, number: int) -> None:
        """Write the rows with `self.connection`, in the transaction that is open: do not commit.

        Called once for each PART_ROWS rows of the snapshot.
        """
        if not self._statement:
            raise SinkError(f"{type(self).__name__} needs a statement, or must define apply(rows, task, number)")
        self.connection.cursor().executemany(self._statement, rows)

    def _write(self, parts: Sequence[Sequence[Sequence[Any]]], task: int, number: int) -> None:
        if self.connection is None:
            self.connection = self._connect()
            self._create_table()
        cursor = self.connection.cursor()
        cursor.execute(self._sql(_SELECT), (self._topology, task))
        found = cursor.fetchone()
        if found is not None and found[0] >= number:
            if found[0] > number:
                _log.warning(
                    "the database has snapshot %s of topology %s, task %s, but snapshot %s was restored: "
                    "rows between them will be there twice",
                    *(found[0], self._topology, task, number),
                )
            self.connection.rollback()
            return
        cursor.execute(self._sql(_INSERT if found is None else _UPDATE), (number, self._topology, task))
        self._check_transaction()
        for rows in parts:
            self.apply(rows, task, number)
        self.connection.commit()

    def _create_table(self) -> None:
        try:
            self.connection.cursor().execute(_CREATE)
        except Exception:  # the module's own; PostgreSQL: two tasks create it at once, and one of them fails
            self.connection.rollback()
            self.connection.cursor().execute(_CREATE)
        self.connection.commit()

    def _check_transaction(self) -> None:
        # sqlite3 has in_transaction, psycopg autocommit; both have isolation_level, with other meanings.
        connection = self.connection
        if getattr(connection, "autocommit", False) is True or not getattr(connection, "in_transaction", True):
            raise SinkError(
                "the connection commits each statement by itself: rows could be there twice. Let connect() make one "
                "with transactions (sqlite3: without isolation_level=None; psycopg: without autocommit=True)"
            )

    def _sql(self, text: str) -> str:
        return text.replace("?", self._placeholder)

    def _close(self) -> None:
        connection, self.connection = self.connection, None
        if connection is not None:
            connection.close()
