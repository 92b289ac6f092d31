"""Whole files: a reader finds the old file or the new one, and nothing is left behind."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import pytest

from aiostorm.runtime import NewFile, make_folders, sync_folder, why_unwritable, write_file


def names(path: Path) -> list[str]:
    return sorted(file.name for file in path.iterdir())


@pytest.fixture
def no_umask() -> object:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("no_umask")
def test_a_file_replaces_another_whole_and_is_private(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")
    with NewFile(tmp_path / "a.new") as new:
        new.write(b"ne")
        new.write(memoryview(b"w"))
        new.sync()
        assert path.read_bytes() == b"old"
        new.replace(path)
    sync_folder(str(tmp_path))
    assert path.read_bytes() == b"new"
    assert names(tmp_path) == ["a"]
    if sys.platform != "win32":
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        write_file(path, b"for all", mode=0o755)
        assert stat.S_IMODE(path.stat().st_mode) == 0o755


def test_a_link_does_not_replace_a_file(tmp_path: Path) -> None:
    for number in range(2):
        with NewFile(tmp_path / "a.new") as new:
            new.write(b"%d" % number)
            assert new.link(tmp_path / "a") == (number == 0)
    assert (tmp_path / "a").read_bytes() == b"0"
    assert names(tmp_path) == ["a"]


def test_after_an_error_the_old_file_stays_and_nothing_else(tmp_path: Path) -> None:
    write_file(tmp_path / "a", b"old")
    with pytest.raises(TypeError):
        write_file(tmp_path / "a", "text")  # type: ignore[arg-type]
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="folder"):
        write_file(tmp_path / "folder", b"new")
    with NewFile(tmp_path / "a.new") as new:
        new.link(tmp_path / "b")
        with pytest.raises(ValueError, match="closed"):
            new.write(b"too late")
    assert (tmp_path / "a").read_bytes() == b"old"
    assert names(tmp_path) == ["a", "b", "folder"]


@pytest.mark.skipif(sys.platform == "win32", reason="symbolic links")
def test_a_stale_temporary_file_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "precious").write_bytes(b"precious")
    (tmp_path / "a.new").symlink_to(tmp_path / "precious")
    write_file(tmp_path / "a", b"new")
    assert (tmp_path / "precious").read_bytes() == b"precious"
    assert (tmp_path / "a").read_bytes() == b"new"
    assert not (tmp_path / "a").is_symlink()
    assert names(tmp_path) == ["a", "precious"]


@pytest.mark.usefixtures("no_umask")
def test_missing_folders_are_made(tmp_path: Path) -> None:
    for _ in range(2):
        make_folders(str(tmp_path / "a" / "b" / "c"), mode=0o700)
    assert (tmp_path / "a" / "b" / "c").is_dir()
    if sys.platform != "win32":
        assert stat.S_IMODE((tmp_path / "a" / "b" / "c").stat().st_mode) == 0o700


def test_why_a_file_cannot_be_written_is_known_before(tmp_path: Path) -> None:
    assert why_unwritable(tmp_path / "new") == ""
    assert why_unwritable(tmp_path) == f"{tmp_path} is a folder"
    assert why_unwritable(tmp_path / "no" / "new") == f"there is no folder {tmp_path / 'no'}"
    if os.geteuid():
        tmp_path.chmod(0o500)
        assert why_unwritable(tmp_path / "new") == f"nothing can be written in {tmp_path}"
