"""SqliteTree: the nodes and sessions of a coordination store in one SQLite file, for the processes of one machine.

    nodes(path, parent, value, version, session)      sessions(id, owner, expires_s, …)      changes(seq, path)

1. Everything is one transaction (BEGIN IMMEDIATE, write-ahead log, `synchronous=FULL`): what was committed survives a
   kill and a power failure.
2. Times are seconds since the machine was started, which all its processes share and which no change of the wall clock
   moves. After a restart of the machine every session has ended.
3. A session belongs to a process. If that has ended, so has its session, at the next question of any client; the time
   of a session is for a process that hangs. (Of a process in another container nothing is known: its time is.)
4. Changes are kept for clients that ask at least once in KEPT of them; others learn that anything may have changed.

Blocking: `sqlite.py` calls it in a thread.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from ...runtime import NewFile, ProcessIdentity, boot_id, make_folders, shared_file_system
from .operations import (
    DELETED,
    BadVersionError,
    Check,
    CoordinationError,
    Create,
    Delete,
    EphemeralParentError,
    Node,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    Operation,
    Put,
    UnavailableError,
    parent_of,
)
from .tree import lost

FORMAT: Final = 1
KEPT: Final = 10_000
BUSY_S: Final = 5.0
"""How long an operation waits for one of another process."""

_TABLES: Final = """
CREATE TABLE IF NOT EXISTS about(name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS nodes(path TEXT PRIMARY KEY, parent TEXT NOT NULL, value BLOB NOT NULL,
    version INTEGER NOT NULL, session INTEGER) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS nodes_by_parent ON nodes(parent);
CREATE INDEX IF NOT EXISTS nodes_by_session ON nodes(session) WHERE session IS NOT NULL;
CREATE TABLE IF NOT EXISTS sessions(id INTEGER PRIMARY KEY AUTOINCREMENT, owner TEXT NOT NULL,
    expires_s REAL NOT NULL);
CREATE TABLE IF NOT EXISTS changes(seq INTEGER PRIMARY KEY AUTOINCREMENT, path TEXT NOT NULL);
"""


class SqliteTree:
    """One connection to the file, which is made if it is not there (mode 0600). CoordinationError, UnavailableError.

    `boot`: which start of the machine this is.
    """

    __slots__ = ("_connection", "_owner", "_path", "_seq")

    def __init__(self, path: Path, *, boot: str | None = None, owner: ProcessIdentity | None = None) -> None:
        self._path = path
        self._owner = owner or ProcessIdentity.own()
        shared = shared_file_system(path.parent)
        if shared:
            raise CoordinationError(
                f"{path} is on {shared}, where SQLite's locks do not hold: use a local folder, or ZooKeeper (zk://…) "
                "for a cluster of several machines"
            )
        with self._errors():
            make_folders(str(path.parent), mode=0o700)
            with NewFile(f"{path}.{self._owner}") as new:  # SQLite's own files have the mode of this one
                new.link(path)
            self._connection = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
        try:
            with self._errors():
                self._prepare(boot_id() if boot is None else boot)
        except BaseException:
            self._connection.close()
            raise

    # -- sessions ------------------------------------------------------------------------------------------------------

    def begin(self, now_s: float, session_s: float) -> int:
        """A new session of this process."""
        with self._transaction() as run:
            cursor = run("INSERT INTO sessions(owner, expires_s) VALUES (?, ?)", (str(self._owner), now_s + session_s))
            return int(cursor.lastrowid or 0)

    def poll(self, session: int, now_s: float, renew_s: float | None) -> set[str] | None:
        """Paths that have changed since the call before; None: any may have. SessionLostError.

        `renew_s`: the session lasts so long from now.
        """
        self.expire(now_s)
        with self._errors():
            if not self._is_alive(session, now_s):
                raise lost(session)
            if renew_s is not None:
                self._connection.execute("UPDATE sessions SET expires_s = ? WHERE id = ?", (now_s + renew_s, session))
            return self._changes()

    def expire(self, now_s: float) -> None:
        """End the sessions whose time is over, or whose process has ended."""
        with self._errors():
            over = self._over(now_s)
        if over:
            with self._transaction():
                for session in over:
                    self._end(session)

    def end(self, session: int) -> None:
        """End a session."""
        with self._transaction():
            self._end(session)

    # -- nodes ---------------------------------------------------------------------------------------------------------

    def get(self, path: str) -> Node | None:
        """A node."""
        with self._errors():
            row = self._one("SELECT value, version, session FROM nodes WHERE path = ?", (path,))
        return None if row is None else Node(bytes(row[0]), int(row[1]), row[2])

    def children(self, path: str) -> list[str]:
        """The sorted names of the children. NoNodeError."""
        with self._errors():
            rows = self._connection.execute("SELECT path FROM nodes WHERE parent = ?", (path,)).fetchall()
            if not rows and path != "/" and self._one("SELECT 1 FROM nodes WHERE path = ?", (path,)) is None:
                raise NoNodeError(path)
        return sorted(str(row[0]).rpartition("/")[2] for row in rows)

    def apply(self, operations: Sequence[Operation], session: int, now_s: float) -> tuple[int, ...]:
        """Do all of it, or nothing. RefusedError, SessionLostError."""
        with self._transaction():
            if not self._is_alive(session, now_s):
                raise lost(session)
            return tuple([self._apply(operation, session) for operation in operations])

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    # -- inside --------------------------------------------------------------------------------------------------------

    def _prepare(self, boot: str) -> None:
        run = self._connection.execute
        run("PRAGMA journal_mode = WAL")
        run("PRAGMA synchronous = FULL")
        for statement in _TABLES.split(";")[:-1]:
            run(statement)
        with self._transaction():
            about = dict(run("SELECT name, value FROM about").fetchall())
            if about.get("format", str(FORMAT)) != str(FORMAT):
                raise CoordinationError(
                    f"{self._path} was written by another version of aiostorm (format {about['format']}, and this is "
                    f"{FORMAT}): use that version, or another file"
                )
            if about.get("boot", boot) != boot:
                for (session,) in run("SELECT id FROM sessions").fetchall():
                    self._end(session)
            run("INSERT OR REPLACE INTO about VALUES ('format', ?), ('boot', ?)", (str(FORMAT), boot))
        self._seq = self._newest()

    def _apply(self, operation: Operation, session: int) -> int:
        run, path = self._connection.execute, operation.path
        if isinstance(operation, Create):
            self._create(operation, session)
            return 0
        row = self._one("SELECT version FROM nodes WHERE path = ?", (path,))
        if row is None:
            raise NoNodeError(path)
        version = int(row[0])
        if operation.version is not None and operation.version != version:
            raise BadVersionError(path, operation.version, version)
        match operation:
            case Check():
                return version
            case Put():
                run("UPDATE nodes SET value = ?, version = version + 1 WHERE path = ?", (operation.value, path))
                self._note(path)
                return version + 1
            case Delete():
                if self._one("SELECT 1 FROM nodes WHERE parent = ? LIMIT 1", (path,)) is not None:
                    raise NotEmptyError(path)
                run("DELETE FROM nodes WHERE path = ?", (path,))
                self._note(path, parent_of(path))
                return DELETED

    def _create(self, operation: Create, session: int) -> None:
        path, above = operation.path, parent_of(operation.path)
        if self._one("SELECT 1 FROM nodes WHERE path = ?", (path,)) is not None:
            raise NodeExistsError(path)
        if above != "/":
            row = self._one("SELECT session FROM nodes WHERE path = ?", (above,))
            if row is None:
                raise NoNodeError(above)
            if row[0] is not None:
                raise EphemeralParentError(above)
        self._connection.execute(
            "INSERT INTO nodes VALUES (?, ?, ?, 0, ?)",
            (path, above, operation.value, session if operation.ephemeral else None),
        )
        self._note(path, above)

    def _is_alive(self, session: int, now_s: float) -> bool:
        row = self._one("SELECT expires_s FROM sessions WHERE id = ?", (session,))
        return row is not None and float(row[0]) > now_s

    def _over(self, now_s: float) -> list[int]:
        rows = self._connection.execute("SELECT id, owner, expires_s FROM sessions").fetchall()
        return [int(n) for n, owner, expires_s in rows if expires_s <= now_s or ProcessIdentity.parse(owner).has_ended]

    def _end(self, session: int) -> None:
        run = self._connection.execute
        run("DELETE FROM sessions WHERE id = ?", (session,))
        for (path,) in run("SELECT path FROM nodes WHERE session = ?", (session,)).fetchall():
            run("DELETE FROM nodes WHERE path = ?", (path,))
            self._note(path, parent_of(path))

    def _note(self, *paths: str) -> None:
        self._connection.executemany("INSERT INTO changes(path) VALUES (?)", [(path,) for path in paths])
        newest = self._newest()
        if newest % 100 < len(paths):  # not with each change
            self._connection.execute("DELETE FROM changes WHERE seq <= ?", (newest - KEPT,))

    def _newest(self) -> int:
        row = self._one("SELECT coalesce(max(seq), 0) FROM changes")
        return 0 if row is None else int(row[0])

    def _changes(self) -> set[str] | None:
        rows = self._connection.execute("SELECT seq, path FROM changes WHERE seq > ? ORDER BY seq", (self._seq,))
        found = rows.fetchall()
        if not found:
            return set()
        missed = found[0][0] != self._seq + 1
        self._seq = int(found[-1][0])
        return None if missed else {str(path) for _, path in found}

    def _one(self, statement: str, parameters: Sequence[str | int] = ()) -> tuple[Any, ...] | None:
        row: tuple[Any, ...] | None = self._connection.execute(statement, parameters).fetchone()
        return row

    @contextmanager
    def _transaction(self) -> Iterator[Callable[..., sqlite3.Cursor]]:
        with self._errors():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection.execute
                self._connection.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    self._connection.execute("ROLLBACK")
                raise

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            kind = UnavailableError if isinstance(error, sqlite3.OperationalError) else CoordinationError
            raise kind(f"{self._path}: {error}") from error
        except OSError as error:
            raise UnavailableError(f"{self._path}: {error.strerror or error}") from error
