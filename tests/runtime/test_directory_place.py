"""DirectoryStore in a place that cannot be one: each error says which place it is, and what to do."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path
from typing import Any

import pytest

from aiostorm.runtime import StoreError, StorePlaceError

from .test_directory_store import failing, opened, system_calls


@pytest.mark.parametrize("path", ["file", "file/sub"])
async def test_a_file_in_the_way_is_reported(tmp_path: Path, path: str) -> None:
    (tmp_path / "file").write_text("")
    async with opened(tmp_path / path) as store:
        with pytest.raises(StorePlaceError, match=r"cannot be made as a folder: .* is a file\. Use another folder"):
            await store.read("a")


async def test_a_folder_with_files_of_others_is_refused_and_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("of the user")
    os.chmod(tmp_path, 0o755)  # noqa: S103 - it must stay so
    refused = r"has files of others in it \(notes\.txt\).* Use a new folder: .*state"
    async with opened(tmp_path) as store:
        with pytest.raises(StorePlaceError, match=refused):
            await store.write("a", b"a")
    assert os.listdir(tmp_path) == ["notes.txt"]
    assert os.stat(tmp_path).st_mode & 0o777 == 0o755


@pytest.mark.parametrize("there", [".hidden", "lost+found", "a.blob", "b.new"])
async def test_what_belongs_to_a_store_or_a_file_system_may_be_there(tmp_path: Path, there: str) -> None:
    (tmp_path / there).write_bytes(b"a")
    async with opened(tmp_path) as store:
        await store.write("a", b"b")
    (tmp_path / "notes.txt").write_text("later")
    async with opened(tmp_path) as store:
        assert await store.read("a") == b"b"


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        (errno.EROFS, "cannot be used as a folder: its file system is read-only. Use a folder on another one"),
        (errno.EACCES, "cannot be used as a folder: this user may not write there, or does not own it"),
        (errno.EPERM, "cannot be used as a folder: this user may not write there, or does not own it"),
    ],
)
async def test_a_folder_that_cannot_be_written_says_what_to_do(tmp_path: Path, code: int, advice: str) -> None:
    async with opened(tmp_path) as store:
        with system_calls(failing("open", code)), pytest.raises(StorePlaceError, match=re.escape(advice)):
            await store.write("a", b"a")
        await store.write("a", b"a")


async def test_a_folder_that_cannot_be_opened_for_now_is_no_wrong_place(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        with system_calls(failing("open", errno.EMFILE)), pytest.raises(StoreError, match="ulimit -n") as caught:
            await store.write("a", b"a")
        assert not isinstance(caught.value, StorePlaceError)


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        (errno.ENOENT, "cannot be made as a folder: no folder can be made in "),
        (errno.EACCES, "cannot be made as a folder: this user may not write in "),
        (errno.EROFS, "cannot be made as a folder: its file system is read-only"),
    ],
)
async def test_a_folder_that_cannot_be_made_says_what_to_do(tmp_path: Path, code: int, advice: str) -> None:
    def refused(path: str, *_: Any, **__: Any) -> None:
        raise OSError(code, os.strerror(code), path)

    async with opened(tmp_path / "deep" / "store") as store:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "makedirs", refused)
            with pytest.raises(StorePlaceError, match=re.escape(advice)):
                await store.read("a")
        assert await store.read("a") is None
