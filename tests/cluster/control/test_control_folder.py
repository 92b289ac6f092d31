"""Where running topologies are found: names that are safe, a folder that is ours alone."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from aiostorm.cluster.control.folder import NAME_CHARS, file_name, find, own_socket, running_topologies, shown_name
from aiostorm.cluster.errors import ControlError
from aiostorm.cluster.stale_files import own_name

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no unix sockets")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's, which is not made yet."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    tmp_path.chmod(0o700)
    return tmp_path / "aiostorm"


def runs(place: Path, name: str, pid: int) -> Path:
    """As if a process of that id ran it."""
    path = place / (own_name("").replace(f"-{os.getpid()}-", f"-{pid}-") + file_name(name))
    path.touch()
    return path


@given(st.text(max_size=50), st.text(max_size=50))
@example("../../etc/passwd", "a b")
@example("a" * 100 + "1", "a" * 100 + "2")
@example("A~B", "A%7EB")
@example("\x1b[2J", "\ud800")
def test_a_file_name_belongs_to_one_topology(one: str, other: str) -> None:
    name = file_name(one)
    assert len(name) <= NAME_CHARS
    assert set(name) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~%")
    assert (one == other) == (name == file_name(other))
    assert shown_name(name).isprintable()


@given(st.text(alphabet=st.characters(min_codepoint=33, max_codepoint=126), max_size=10))
def test_a_short_name_is_shown_as_it_is(name: str) -> None:
    assert shown_name(file_name(name)) == name


def test_a_long_name_is_shown_cut() -> None:
    assert shown_name(file_name("word-count-of-all-the-books-there-are")) == "word-count-of-all-the-b…"


def test_only_the_user_can_access_the_folder_of_sockets(folder: Path) -> None:
    path = own_socket("word count")
    assert path == f"{folder}/{own_name('')}word%20count"
    assert folder.stat().st_mode & 0o777 == 0o700


def test_the_folder_is_in_the_temporary_folder_without_a_runtime_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = f"{folder.parent}/aiostorm-{os.geteuid()}/"
    for runtime in ("", "not/absolute", str(folder / "not there")):
        monkeypatch.setenv("XDG_RUNTIME_DIR", runtime)
        assert own_socket("a").startswith(expected)
    folder.parent.chmod(0o777)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder.parent))
    assert own_socket("a").startswith(expected), "others may write to it"


def test_a_folder_that_other_users_can_access_is_refused(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o750)
    with pytest.raises(ControlError, match=f"others may access {folder}: chmod 700 {folder}"):
        own_socket("a")
    runs(folder, "a", os.getpid())
    with pytest.raises(ControlError, match=r"no topology 'a' of yours .* Not searched: others may access"):
        find("a")
    folder.chmod(0o700)
    assert find("a").pid == os.getpid()


def test_a_link_to_a_folder_is_refused(folder: Path) -> None:
    (folder.parent / "mine").mkdir(0o700)
    folder.symlink_to(folder.parent / "mine")
    with pytest.raises(ControlError, match="is not a folder: remove it, or set XDG_RUNTIME_DIR"):
        own_socket("a")


def test_a_folder_of_another_user_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.mkdir(0o700)
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    uid = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: uid + 1)
    (folder.parent / f"aiostorm-{uid + 1}").mkdir(0o700)
    with pytest.raises(ControlError, match=r"belongs to another user: set XDG_RUNTIME_DIR \(or TMPDIR\)"):
        own_socket("a")


def test_a_folder_that_cannot_be_made(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    monkeypatch.setattr(tempfile, "tempdir", str(folder / "not there"))
    with pytest.raises(ControlError, match="cannot be created: No such file or directory"):
        own_socket("a")


def test_without_a_folder_for_temporary_files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> str:
        raise FileNotFoundError(2, "No usable temporary directory found")

    monkeypatch.setattr(tempfile, "gettempdir", none)
    assert own_socket("a").startswith(str(folder))
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    with pytest.raises(ControlError, match="No usable temporary directory found: set XDG_RUNTIME_DIR to a folder"):
        own_socket("a")


def test_a_folder_that_cannot_be_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.write_text("no folder")
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    with pytest.raises(ControlError, match=r"Not searched: .* cannot be checked: Not a directory"):
        find("a")


def test_files_of_killed_processes_are_removed_by_the_next_one(folder: Path) -> None:
    folder.mkdir(0o700)
    left, kept = runs(folder, "a", 4194305), runs(folder, "b", os.getpid())
    with pytest.raises(ControlError, match=r"no topology 'a' of yours runs here with `aiostorm run`; running: b \(pid"):
        find("a")
    assert left.exists(), "who only looks removes nothing"
    own_socket("c")
    assert not left.exists()
    assert kept.exists()


def test_two_of_one_name_are_distinguished_by_their_pids(folder: Path) -> None:
    with pytest.raises(ControlError, match="no topology 'a@1' of yours runs here with `aiostorm run`; none does"):
        find("a@1")
    folder.mkdir(0o700)
    parent, own = os.getppid(), os.getpid()
    for pid in (parent, own):
        runs(folder, "a", pid)
    with pytest.raises(ControlError, match="2 topologies named a run here: choose one of ") as error:
        find("a")
    assert f"a@{own}" in str(error.value)
    assert find(f"a@{parent}").pid == parent
    with pytest.raises(ControlError, match="no topology 'a@1' of yours"):
        find("a@1")
    runs(folder, "b@1", own)
    assert find("b@1").pid == own, "it is called so"
    assert find(f"b@1@{own}").pid == own


def test_both_folders_are_searched(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = folder.parent / f"aiostorm-{os.geteuid()}"
    for place in (folder, other):
        place.mkdir(0o700)
    runs(folder, "a", os.getpid())
    runs(other, "b", os.getpid())
    found, refused = running_topologies()
    assert ([one.name for one in found], refused) == (["a", "b"], [])
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    assert [one.name for one in running_topologies()[0]] == ["b"]


def test_a_system_without_unix_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(ControlError, match="this system's Python has no unix sockets"):
        find("a")
