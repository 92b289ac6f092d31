"""UpsertSink on SQLite: the table has the last word for each key."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from aiostorm.state import SinkError, UpsertSink

from .sink_runs import context, row, sent

FIELDS = ("word", "start", "n", "at", "revision")
ROWS = [
    ("the", 0, 7, "noon", 0),
    ("a", 0, 1, "noon", 0),
    ("the", 100, 3, "noon", 0),
    ("the", 0, 2, "late", 1),
    ("the", 0, 1, "later", 2),
    ("a", 0, 5, "late", 3),
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "counts.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(
            'CREATE TABLE "the counts" (word, start, n, at, revision, "with ""quotes""", PRIMARY KEY (word, start))'
        )
        connection.commit()
    return path


def written(path: Path, rows: list[tuple[Any, ...]], fields: tuple[str, ...] = FIELDS, **settings: Any) -> list[Any]:
    """The table after these rows, three in each snapshot, each committed twice."""
    sink = UpsertSink(lambda: sqlite3.connect(path), "the counts", key=("word", "start"), **settings)
    sink.prepare(context())
    for number, at in enumerate(range(0, len(rows), 3), 1):
        for values in rows[at : at + 3]:
            sink.execute(row(*values, fields=fields), None)  # type: ignore[arg-type]
        handle = sent(sink.pre_commit(number))
        sink.commit(handle)
        sink.commit(handle)
    sink.cleanup()
    with closing(sqlite3.connect(path)) as connection:
        return sorted(connection.execute('SELECT word, start, n, at, revision FROM "the counts"').fetchall())


def test_the_last_row_of_a_key_is_there(path: Path) -> None:
    assert written(path, ROWS, values=("n", "at"), revision="revision") == [
        ("a", 0, 5, "late", 3),
        ("the", 0, 1, "later", 2),
        ("the", 100, 3, "noon", 0),
    ]


def test_corrections_are_added(path: Path) -> None:
    early = ("the", 0, 6, "early", 0)  # an early result is replaced
    assert written(path, [early, *ROWS], values="at", added="n", revision="revision") == [
        ("a", 0, 6, "late", 3),
        ("the", 0, 10, "later", 2),
        ("the", 100, 3, "noon", 0),
    ]


def test_an_older_row_changes_nothing(path: Path) -> None:
    rows = [("a", 0, 5, "late", 3), ("a", 0, 1, "noon", 0), ("a", 0, 4, "late", 2)]
    assert written(path, rows, values=("n", "at"), revision="revision") == [("a", 0, 5, "late", 3)]


def test_without_a_revision_the_last_wins(path: Path) -> None:
    assert written(path, ROWS, values="n")[0] == ("a", 0, 5, None, None)


def test_a_row_of_a_key_alone_is_kept_once(path: Path) -> None:
    assert written(path, ROWS) == [("a", 0, None, None, None), ("the", 0, *[None] * 3), ("the", 100, *[None] * 3)]


def test_names_are_quoted(path: Path) -> None:
    written(path, [("a", 0, 1)], ("word", "start", 'with "quotes"'), values='with "quotes"')
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute('SELECT * FROM "the counts"').fetchone()[-1] == 1


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"key": ()}, "needs a key"),
        ({"key": "word", "values": "word"}, "names each column once: word, word"),
        ({"key": "word", "added": "n"}, "adds n: name the field `revision`"),
    ],
)
def test_settings_that_make_no_sense(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(SinkError, match=text):
        UpsertSink(lambda: None, "counts", **settings)


def test_a_missing_field_is_named(path: Path) -> None:
    with pytest.raises(Exception, match="revision"):
        written(path, [("a", 0, 1)], ("word", "start", "n"), values="n", revision="revision")
