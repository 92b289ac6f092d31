"""Write-ahead and upsert sinks on a PostgreSQL server: killed before and after each call, refused, two at once."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from aiostorm.state import SinkError, UpsertSink, WriteAheadSink

from .sink_runs import ROWS, Kill, KilledCursor, all_kills, context, row, run, sent

psycopg = pytest.importorskip("psycopg", reason="needs psycopg: uv sync --group dev")

BINARIES = sorted(Path("/usr/lib/postgresql").glob("*/bin")) or [Path(shutil.which("pg_ctl") or "/").parent]
pytestmark = [
    pytest.mark.sockets,
    pytest.mark.slow,
    pytest.mark.skipif(not (BINARIES[-1] / "pg_ctl").exists(), reason="needs a PostgreSQL server: package postgresql"),
]

INSERT = "INSERT INTO counts (key, n) VALUES (%s, %s)"
SETTINGS = "-c listen_addresses='' -c fsync=off -c full_page_writes=off -c shared_buffers=16MB -k"


@pytest.fixture(scope="module")
def folder() -> Iterator[str]:
    """The folder with the socket of a server that runs for these tests only. It does not run as root."""
    made = tempfile.mkdtemp(prefix="pg-")  # a socket's path must be short
    user: list[str] = []
    if os.geteuid() == 0:
        shutil.chown(made, "postgres")
        user = ["runuser", "-u", "postgres", "--"]

    def call(program: str, *arguments: str) -> None:
        command = [*user, str(BINARIES[-1] / program), "-D", f"{made}/data", *arguments]
        subprocess.run(command, check=True, cwd=made, stdout=subprocess.DEVNULL, timeout=60)

    call("initdb", "--auth=trust", "--username=postgres", "--no-sync", "--encoding=UTF8")
    call("pg_ctl", "start", "--wait", "--silent", "-l", f"{made}/log", "-o", f"{SETTINGS} {made}")
    try:
        yield made
    finally:
        call("pg_ctl", "stop", "--mode=immediate", "--silent")
        shutil.rmtree(made)


@pytest.fixture
def server(folder: str) -> str:
    with connect(folder) as connection:
        for statement in (
            "DROP TABLE IF EXISTS counts, last, aiostorm_commits",
            "CREATE TABLE counts (key TEXT, n INT)",
        ):
            connection.execute(statement)
    return folder


def connect(folder: str, **options: Any) -> Any:
    return psycopg.connect(host=folder, user="postgres", dbname="postgres", **options)


def content(folder: str, query: str = "SELECT key, n FROM counts ORDER BY n") -> list[tuple[Any, ...]]:
    with connect(folder) as connection:
        return connection.execute(query).fetchall()  # type: ignore[no-any-return]


class KilledConnection:
    """A connection whose calls are steps."""

    autocommit = False

    def __init__(self, folder: str, kill: Kill) -> None:
        self.real, self._kill = connect(folder), kill

    def cursor(self) -> KilledCursor:
        return KilledCursor(self.real.cursor(), self._kill)

    def commit(self) -> None:
        self._kill.step(self.real.commit)

    def rollback(self) -> None:
        self._kill.step(self.real.rollback)

    def close(self) -> None:
        self.real.close()


def test_killed_at_each_step_each_row_is_there_once(server: str) -> None:
    opened: list[KilledConnection] = []

    def make(kill: Kill) -> WriteAheadSink:
        def connecting() -> KilledConnection:
            opened.append(KilledConnection(server, kill))
            return opened[-1]

        return WriteAheadSink(connecting, INSERT, placeholder="%s")

    def end_process() -> None:
        for connection in opened:
            connection.close()  # the server rolls back, as when a process dies
        opened.clear()

    for kill in all_kills(make):
        end_process()
        with connect(server) as connection:
            connection.execute("TRUNCATE counts")
            connection.execute("TRUNCATE aiostorm_commits")
        run(make, kill, end_process)
        assert content(server) == ROWS, f"killed {'after' if kill._after else 'before'} step {kill._at}"
    end_process()


def test_a_connection_that_commits_each_statement_is_refused(server: str) -> None:
    sink = WriteAheadSink(lambda: connect(server, autocommit=True), INSERT, placeholder="%s")
    sink.prepare(context())
    sink.execute(row("a", 1), None)  # type: ignore[arg-type]
    with pytest.raises(SinkError, match="psycopg: without autocommit=True"):
        sink.commit(sent(sink.pre_commit(1)))
    assert content(server) == []


def test_a_wrong_row_leaves_nothing_behind_and_the_next_commit_connects_again(server: str) -> None:
    sink = WriteAheadSink(lambda: connect(server), INSERT, placeholder="%s")
    sink.prepare(context())
    sink.execute(row("a", 1), None)  # type: ignore[arg-type]
    sink.execute(row("b", "no number"), None)  # type: ignore[arg-type]
    with pytest.raises(psycopg.Error):
        sink.commit(sent(sink.pre_commit(1)))
    assert content(server) == []
    sink.execute(row("c", 3), None)  # type: ignore[arg-type]
    sink.commit(sent(sink.pre_commit(2)))
    sink.cleanup()
    assert content(server) == [("c", 3)]
    assert content(server, "SELECT topology, task, n FROM aiostorm_commits") == [("bank", 5, 2)]


def test_two_tasks_commit_at_once(server: str) -> None:
    def write(task: int) -> None:
        sink = WriteAheadSink(lambda: connect(server), INSERT, placeholder="%s")
        sink.prepare(context(task))
        for number in range(1, 21):
            sink.execute(row(f"task {task}", number), None)  # type: ignore[arg-type]
            handle = sent(sink.pre_commit(number))
            sink.commit(handle)
            sink.commit(handle)
        sink.cleanup()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    assert content(server, "SELECT key, count(*), sum(n) FROM counts GROUP BY key ORDER BY key") == [
        (f"task {task}", 20, 210) for task in range(4)
    ]


def test_an_upsert_keeps_the_last_word(server: str) -> None:
    with connect(server) as connection:
        connection.execute("CREATE TABLE last (word TEXT PRIMARY KEY, n INT, total INT, revision INT)")
    sink = UpsertSink(
        lambda: connect(server), "last", key="word", values="n", added="total", revision="revision", placeholder="%s"
    )
    sink.prepare(context())
    fields = ("word", "n", "total", "revision")
    rows = [("the", 7, 7, 0), ("the", 8, 1, 1), ("a", 1, 1, 0), ("the", 5, 5, 0)]  # the last is older
    for number, values in enumerate(rows, 1):
        sink.execute(row(*values, fields=fields), None)  # type: ignore[arg-type]
        sink.commit(sent(sink.pre_commit(number)))
    sink.cleanup()
    assert content(server, "SELECT * FROM last ORDER BY word") == [("a", 1, 1, 0), ("the", 8, 8, 1)]
