"""SqliteTree does what Tree does; and what only a file can: restarts, other processes, damage, limits."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiostorm.cluster.coordination import (
    BadVersionError,
    Check,
    CoordinationError,
    Create,
    Delete,
    NoNodeError,
    Operation,
    Put,
    SessionLostError,
    UnavailableError,
)
from aiostorm.cluster.coordination import sqlite_tree as module
from aiostorm.cluster.coordination.sqlite_tree import SqliteTree
from aiostorm.cluster.coordination.tree import Tree
from aiostorm.runtime import ProcessIdentity

from ...tries import examples

PATHS = st.sampled_from(["/a", "/b", "/a/x", "/a/y", "/a/x/z"])
VERSIONS = st.none() | st.integers(0, 2)
OPERATIONS: st.SearchStrategy[Operation] = (
    st.builds(Check, PATHS, st.integers(0, 2))
    | st.builds(Create, PATHS, st.binary(max_size=3), st.booleans())
    | st.builds(Put, PATHS, st.binary(max_size=3), VERSIONS)
    | st.builds(Delete, PATHS, VERSIONS)
)
STEPS = (
    st.tuples(st.just("apply"), st.integers(0, 1), st.lists(OPERATIONS, min_size=1, max_size=4))
    | st.tuples(st.just("end"), st.integers(0, 1))
    | st.tuples(st.just("poll"), st.integers(0, 1), st.booleans())
    | st.tuples(st.just("wait"), st.integers(1, 6))
)
SESSION_S = 10.0


def outcome(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except CoordinationError as error:
        return type(error), str(error)


@settings(max_examples=examples(60))
@given(st.lists(STEPS, max_size=30))
def test_it_does_what_the_model_does(steps: list[Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        real, model, now_s = SqliteTree(Path(folder) / "store"), Tree(), 100.0
        sessions = [real.begin(now_s, SESSION_S) for _ in range(2)]
        assert sessions == [model.begin(now_s + SESSION_S) for _ in range(2)]
        for step in steps:
            match step:
                case ("apply", who, operations):
                    model.expire(now_s)
                    wanted = outcome(lambda: model.apply(operations, sessions[who]))
                    real.expire(now_s)
                    assert outcome(lambda: real.apply(operations, sessions[who], now_s)) == wanted  # noqa: B023
                case ("end", who):
                    model.end(sessions[who])
                    real.end(sessions[who])
                case ("poll", who, renew):
                    expires_s = now_s + SESSION_S if renew else model.sessions.get(sessions[who], 0.0)
                    wanted = outcome(lambda: model.renew(sessions[who], now_s, expires_s))  # noqa: B023
                    found = outcome(lambda: real.poll(sessions[who], now_s, SESSION_S if renew else None))  # noqa: B023
                    if wanted is None:
                        assert found == model.take_changed()
                    else:
                        assert found == wanted
                case ("wait", seconds):
                    now_s += seconds
            real.expire(now_s)
            model.expire(now_s)
            for path in ("/a", "/b", "/a/x", "/a/y", "/a/x/z"):
                assert real.get(path) == model.nodes.get(path)
                assert outcome(lambda: real.children(path)) == outcome(lambda: model.children(path))  # noqa: B023
            assert real.children("/") == model.children("/")
        real.close()


def opened(folder: Path, **options: Any) -> SqliteTree:
    return SqliteTree(folder / "deep" / "store", **options)


def test_what_was_committed_is_there_when_the_file_is_opened_again(tmp_path: Path) -> None:
    tree = opened(tmp_path)
    session = tree.begin(0.0, 10.0)
    assert tree.apply([Create("/a", b"1"), Put("/a", b"2"), Create("/e", b"3", ephemeral=True)], session, 0.0) == (
        0,
        1,
        0,
    )
    tree.close()
    again = opened(tmp_path)
    assert again.get("/a").value == b"2"  # type: ignore[union-attr]
    assert again.children("/") == ["a", "e"], "the session has not ended"
    assert again.poll(session, 9.9, None) == set()
    assert again.begin(9.9, 10.0) > session
    with pytest.raises(SessionLostError):
        again.poll(session, 10.0, 10.0)
    assert again.children("/") == ["a"]
    again.close()


def test_the_file_and_its_folder_are_the_users_alone(tmp_path: Path) -> None:
    opened(tmp_path).close()
    assert stat.S_IMODE((tmp_path / "deep" / "store").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "deep").stat().st_mode) == 0o700


def test_after_a_restart_of_the_machine_every_session_has_ended(tmp_path: Path) -> None:
    tree = opened(tmp_path, boot="one")
    session = tree.begin(1000.0, 10.0)
    tree.apply([Create("/a"), Create("/e", ephemeral=True)], session, 1000.0)
    tree.close()
    again = opened(tmp_path, boot="two")
    assert again.children("/") == ["a"]
    with pytest.raises(SessionLostError):
        again.apply([Put("/a", b"")], session, 1.0)
    again.close()


def test_the_session_of_a_process_that_was_killed_ends_at_the_next_question(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    theirs = opened(tmp_path, owner=ProcessIdentity.of(process.pid))
    session = theirs.begin(0.0, 1000.0)
    theirs.apply([Create("/e", ephemeral=True)], session, 0.0)
    ours = opened(tmp_path)
    own = ours.begin(0.0, 1000.0)
    assert ours.poll(own, 1.0, None) == set()
    assert ours.children("/") == ["e"]
    process.kill()
    process.wait()
    process.stdin.close()  # type: ignore[union-attr]
    assert ours.poll(own, 1.1, None) == {"/", "/e"}
    assert ours.children("/") == []
    theirs.close()
    ours.close()


def test_a_client_that_asks_too_rarely_learns_that_anything_may_have_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "KEPT", 20)
    writer, reader = opened(tmp_path), opened(tmp_path)
    session, other = writer.begin(0.0, 10.0), reader.begin(0.0, 10.0)
    writer.apply([Create("/a")], session, 0.0)
    assert reader.poll(other, 0.0, None) == {"/", "/a"}
    for number in range(150):
        writer.apply([Put("/a", b"%d" % number)], session, 0.0)
    assert reader.poll(other, 0.0, None) is None
    assert reader.poll(other, 0.0, None) == set()
    with contextlib.closing(sqlite3.connect(tmp_path / "deep" / "store")) as rows:
        assert rows.execute("SELECT count(*) FROM changes").fetchone()[0] <= 120
    writer.close()
    reader.close()


def test_two_connections_see_one_order(tmp_path: Path) -> None:
    one, two = opened(tmp_path), opened(tmp_path)
    mine, yours = one.begin(0.0, 10.0), two.begin(0.0, 10.0)
    one.apply([Create("/a")], mine, 0.0)
    assert two.apply([Put("/a", b"x", 0)], yours, 0.0) == (1,)
    with pytest.raises(BadVersionError, match="node /a has version 1, and not version 0"):
        one.apply([Put("/a", b"y", 0)], mine, 0.0)
    with pytest.raises(NoNodeError):
        one.apply([Put("/a", b"z"), Put("/none", b"")], mine, 0.0)
    assert two.get("/a").value == b"x"  # type: ignore[union-attr]
    one.close()
    two.close()


def test_a_file_that_is_none_of_ours_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "store"
    path.parent.mkdir()
    path.write_bytes(b"a letter" * 1000)
    with pytest.raises(CoordinationError, match="file is not a database"):
        opened(tmp_path)


def test_a_file_of_another_version_is_refused(tmp_path: Path) -> None:
    opened(tmp_path).close()
    with contextlib.closing(sqlite3.connect(tmp_path / "deep" / "store", isolation_level=None)) as rows:
        rows.execute("UPDATE about SET value = '99' WHERE name = 'format'")
    with pytest.raises(
        CoordinationError, match=r"was written by another version of aiostorm \(format 99, and this is 1"
    ):
        opened(tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write everywhere")
def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir(mode=0o500)
    with pytest.raises(UnavailableError, match="Permission denied"):
        opened(tmp_path)


def test_a_store_is_not_on_a_file_system_of_several_machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "shared_file_system", lambda folder: "nfs4")
    with pytest.raises(CoordinationError, match="is on nfs4, where SQLite's locks do not hold: use a local"):
        opened(tmp_path)
