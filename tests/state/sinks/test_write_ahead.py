"""WriteAheadSink on SQLite: killed before and after each call of the database, and by itself."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from aiostorm.state import Sink, SinkError, WriteAheadSink
from aiostorm.state.sinks import write_ahead

from .sink_runs import ROWS, Kill, Killed, KilledCursor, all_kills, context, row, run, sent

INSERT = "INSERT INTO counts (key, n) VALUES (?, ?)"


class KilledConnection:
    """A connection of sqlite3, whose calls are steps."""

    def __init__(self, path: Path, kill: Kill) -> None:
        self._connection, self._kill = connect(path), kill

    @property
    def in_transaction(self) -> bool:
        return self._connection.in_transaction

    def cursor(self) -> KilledCursor:
        return KilledCursor(self._connection.cursor(), self._kill)

    def commit(self) -> None:
        self._kill.step(self._connection.commit)

    def rollback(self) -> None:
        self._kill.step(self._connection.rollback)

    def close(self) -> None:
        self._connection.close()


def connect(path: Path, **options: Any) -> sqlite3.Connection:
    connection = sqlite3.connect(path, **options)
    connection.execute("PRAGMA synchronous = OFF")  # no crash of the machine here, and many transactions
    return connection


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "counts.db"
    with closing(connect(made)) as connection:
        connection.execute("CREATE TABLE counts (key TEXT, n INTEGER)")
        connection.commit()
    return made


def content(path: Path) -> list[tuple[str, int]]:
    with closing(connect(path)) as connection:
        return connection.execute("SELECT key, n FROM counts ORDER BY n").fetchall()


def prepared(path: Path, connecting: Callable[[], Any] | None = None, task: int = 5) -> WriteAheadSink:
    sink = WriteAheadSink(connecting or (lambda: connect(path)), INSERT)
    sink.prepare(context(task))
    return sink


def handle_of(sink: Sink, number: int, *rows: tuple[str, int]) -> Any:
    for values in rows:
        sink.execute(row(*values), None)  # type: ignore[arg-type]
    return sent(sink.pre_commit(number))


def test_each_row_is_there_once_wherever_it_is_killed(path: Path) -> None:
    def make(kill: Kill) -> Sink:
        return WriteAheadSink(lambda: KilledConnection(path, kill), INSERT)

    def clear() -> None:
        with closing(connect(path)) as connection:
            connection.execute("DELETE FROM counts")
            connection.execute("DROP TABLE IF EXISTS aiostorm_commits")
            connection.commit()

    for kill in all_kills(make):
        clear()
        run(make, kill)
        assert content(path) == ROWS, f"killed at step {kill.steps}"


def test_a_repeated_commit_writes_nothing_also_by_another_task(path: Path) -> None:
    first, second = prepared(path), prepared(path, task=9)
    handle = handle_of(first, 3, ("a", 1))
    for sink in (first, first, second):  # after a change of parallelism another task may get the handle
        sink.commit(handle)
    assert content(path) == [("a", 1)]
    with closing(connect(path)) as connection:
        assert connection.execute("SELECT topology, task, n FROM aiostorm_commits").fetchall() == [("bank", 5, 3)]
    first.cleanup()
    second.cleanup()


def test_tasks_have_numbers_of_their_own(path: Path) -> None:
    first, second = prepared(path, task=1), prepared(path, task=2)
    first.commit(handle_of(first, 7, ("a", 1)))
    second.commit(handle_of(second, 7, ("b", 2)))
    assert content(path) == [("a", 1), ("b", 2)]
    first.cleanup()
    second.cleanup()


def test_an_older_snapshot_than_the_database_has_is_reported(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    sink = prepared(path)
    old = handle_of(sink, 1, ("a", 1))
    sink.commit(old)
    sink.commit(handle_of(sink, 2, ("b", 2)))
    with caplog.at_level(logging.WARNING):
        sink.commit(old)
    assert "the database has snapshot 2 of topology bank, task 5, but snapshot 1 was restored" in caplog.text
    assert content(path) == [("a", 1), ("b", 2)]
    sink.cleanup()


def test_a_connection_without_transactions_is_refused_before_a_row_is_written(path: Path) -> None:
    sink = prepared(path, lambda: connect(path, isolation_level=None))
    with pytest.raises(SinkError, match="commits each statement by itself"):
        sink.commit(handle_of(sink, 1, ("a", 1)))
    assert content(path) == []


def test_after_an_error_of_the_database_the_commit_can_be_repeated(path: Path) -> None:
    sink = prepared(path)
    handle = handle_of(sink, 1, ("a", 1))
    with closing(connect(path)) as connection:
        connection.execute("ALTER TABLE counts RENAME TO hidden")
        connection.commit()
        with pytest.raises(sqlite3.OperationalError, match="no such table"):
            sink.commit(handle)
        assert sink.connection is None
        connection.execute("ALTER TABLE hidden RENAME TO counts")
        connection.commit()
    sink.commit(handle)
    assert content(path) == [("a", 1)]
    sink.cleanup()


def test_apply_can_do_anything_in_the_transaction(path: Path) -> None:
    class Upsert(WriteAheadSink):
        def apply(self, rows: Sequence[Sequence[Any]], task: int, number: int) -> None:
            assert (task, number) == (5, 1)
            for key, n in rows:
                cursor = self.connection.cursor()
                cursor.execute("DELETE FROM counts WHERE key = ?", (key,))
                cursor.execute(INSERT, (key, n))
                if n == 13:
                    raise Killed

    sink = Upsert(lambda: connect(path))
    sink.prepare(context())
    handle = handle_of(sink, 1, ("a", 1), ("a", 2))
    handle[1].append(["b", 13])
    with pytest.raises(Killed):
        sink.commit(handle)
    assert content(path) == [], "nothing of an interrupted transaction"
    handle[1].pop()
    sink.commit(handle)
    assert content(path) == [("a", 2)]
    sink.cleanup()


def test_without_a_statement_apply_must_be_defined(path: Path) -> None:
    sink = WriteAheadSink(lambda: connect(path))
    sink.prepare(context())
    with pytest.raises(SinkError, match="needs a statement, or must define apply"):
        sink.commit(handle_of(sink, 1, ("a", 1)))


def test_without_rows_there_is_nothing_to_commit(path: Path) -> None:
    assert prepared(path).pre_commit(1) is None


def test_many_rows_are_saved_and_written_in_parts(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_ahead, "PART_ROWS", 3)
    sizes: list[int] = []

    class Counting(WriteAheadSink):
        def apply(self, rows: Sequence[Sequence[Any]], task: int, number: int) -> None:
            sizes.append(len(rows))
            super().apply(rows, task, number)

    sink = Counting(lambda: connect(path), INSERT)
    sink.prepare(context())
    rows = [(f"key{n}", n) for n in range(8)]
    failed = handle_of(sink, 1, *rows[:4])
    assert [[tuple(values) for values in part] for part in failed[1:]] == [rows[:3], rows[3:4]]
    for values in rows[4:]:
        sink.execute(row(*values), None)  # type: ignore[arg-type]
    sink.abort(failed)
    sink.commit(sent(sink.pre_commit(2)))
    assert sizes == [3, 1, 3, 1]
    assert content(path) == rows
    assert sink.pre_commit(3) is None
    sink.commit(handle_of(sink, 4, *rows[:3]))
    assert sizes[4:] == [3], "a whole part, and nothing after it"
    sink.cleanup()


class Recorded(sqlite3.Connection):
    """A connection that lists its transactions."""

    ends: list[str]

    def commit(self) -> None:
        self.ends.append(f"commit of {self.in_transaction}")
        super().commit()

    def rollback(self) -> None:
        self.ends.append("rollback")
        super().rollback()

    def close(self) -> None:
        self.ends.append("close")
        super().close()


def test_each_transaction_ends_and_the_connection_is_closed_with_the_task(path: Path) -> None:
    ends: list[str] = []

    def connecting() -> Any:
        connection = connect(path, factory=Recorded)
        connection.ends = ends  # type: ignore[attr-defined]
        return connection

    sink = prepared(path, connecting)
    handle = handle_of(sink, 1, ("a", 1))
    sink.commit(handle)
    assert ends == ["commit of False", "commit of True"], "the table is made in a transaction of its own"
    sink.commit(handle)
    assert ends[2:] == ["rollback"], "no lock is kept by a commit that writes nothing"
    sink.cleanup()
    assert ends[3:] == ["close"]
    sink.cleanup()
    assert len(ends) == 4
    sink.commit(handle_of(sink, 2, ("b", 2)))
    assert content(path) == [("a", 1), ("b", 2)], "another connection"
    sink.cleanup()


def test_a_handle_of_an_older_snapshot_takes_its_rows_before_the_newer_ones(path: Path) -> None:
    sink = prepared(path)
    first, second = handle_of(sink, 1, ("a", 1)), handle_of(sink, 2, ("a", 2))
    sink.abort(second)
    sink.abort(first)
    sink.execute(row("a", 3), None)  # type: ignore[arg-type]
    (task, number), *parts = sent(sink.pre_commit(3))
    assert (task, number) == (5, 3)
    assert [tuple(values) for part in parts for values in part] == [("a", 1), ("a", 2), ("a", 3)]
