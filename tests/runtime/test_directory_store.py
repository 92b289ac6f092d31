"""DirectoryStore: blobs on a real disk; a model of it, a crash at each call to the system, a disk that fails."""

from __future__ import annotations

import asyncio
import errno
import itertools
import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiostorm.runtime import DirectoryStore, Store, StoreError
from aiostorm.testing import VirtualTimeLoop

CALLS = ("open", "write", "fsync", "replace", "unlink", "ftruncate", "close")


@asynccontextmanager
async def opened(path: Path, **options: Any) -> AsyncIterator[DirectoryStore]:
    store = DirectoryStore(path, **options)
    try:
        yield store
    finally:
        await store.close()


# -- what it does ------------------------------------------------------------------------------------------------------


async def test_written_data_is_read_by_this_and_the_next_store(tmp_path: Path) -> None:
    async with opened(tmp_path / "deep" / "store") as store:
        assert await store.read("a") is None
        await store.write("a", b"one")
        await store.append("a", b", two")
        await store.append("b", b"")
        await store.write("..", b"dots")
        assert await store.read("a") == b"one, two"
        assert await store.names() == ["..", "a", "b"]
        assert await store.names("a") == ["a"]
        await store.sync()
    async with opened(tmp_path / "deep" / "store") as store:
        assert await store.read("a") == b"one, two"
        assert await store.read("..") == b"dots"
        await store.remove("a")
        await store.remove("a")
        assert await store.names() == ["..", "b"]


def test_a_directory_store_is_a_store(tmp_path: Path) -> None:
    store: Store = DirectoryStore(tmp_path)
    assert store.max_bytes == 64 * 1024 * 1024
    with pytest.raises(ValueError, match="at least 1 byte"):
        DirectoryStore(tmp_path, max_bytes=0)


async def test_names_lead_nowhere_else(tmp_path: Path) -> None:
    async with opened(tmp_path / "store") as store:
        for name in ("../a", "", "a/b", "/etc/passwd", "a\0"):
            for call in (store.read, store.remove):
                with pytest.raises(ValueError, match="no slash"):
                    await call(name)
            for put in (store.write, store.append):
                with pytest.raises(ValueError, match="no slash"):
                    await put(name, b"")
    assert not (tmp_path / "store").exists(), "nothing is touched before the first call that is one"


async def test_shared_stores_write_beside_the_owner_and_each_other(tmp_path: Path) -> None:
    async with opened(tmp_path / "s") as owner:
        await owner.write("a", b"owner")
        async with opened(tmp_path / "s", shared=True) as one, opened(tmp_path / "s", shared=True) as other:
            assert await one.read("a") == b"owner"
            (tmp_path / "s" / "b.new").write_bytes(b"another writes it now")
            await other.write("c", b"other")
            await asyncio.gather(one.sync(), other.sync())
            assert (tmp_path / "s" / "b.new").exists(), "what belongs to others stays"
            assert await one.names() == await owner.names() == ["a", "c"]
        with pytest.raises(StoreError, match="in use by another store"):
            async with opened(tmp_path / "s") as second:
                await second.names()


async def test_a_shared_store_does_not_make_the_folder(tmp_path: Path) -> None:
    async with opened(tmp_path / "s", shared=True) as store:
        with pytest.raises(StoreError, match=r"does not exist on this machine.*a URL that all machines reach"):
            await store.write("a", b"")
        assert not (tmp_path / "s").exists()
        (tmp_path / "s").mkdir()
        await store.write("a", b"a")
        assert await store.read("a") == b"a"


@pytest.mark.skipif(os.name == "nt", reason="modes are POSIX")
async def test_only_its_owner_may_read(tmp_path: Path) -> None:
    path = tmp_path / "store"
    path.mkdir(mode=0o755)
    before = os.umask(0)
    try:
        async with opened(path) as store:
            await store.write("a", b"a")
            await store.append("b", b"b")
            assert stat.S_IMODE(path.stat().st_mode) == 0o700
            assert {stat.S_IMODE(file.stat().st_mode) for file in path.iterdir()} == {0o600}
            assert len(list(path.iterdir())) == 3
    finally:
        os.umask(before)


@pytest.mark.skipif(os.name == "nt", reason="links")
async def test_a_link_in_the_place_of_a_blob_is_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"secret")
    async with opened(tmp_path / "store") as store:
        await store.names()
        (tmp_path / "store" / "a.blob").symlink_to(secret)
        with pytest.raises(StoreError, match="there is a symbolic link"):
            await store.read("a")
        with pytest.raises(StoreError, match="there is a symbolic link"):
            await store.append("a", b"more")
        await store.write("a", b"own")  # takes the link's place
        assert await store.read("a") == b"own"
    assert secret.read_bytes() == b"secret"


async def test_a_blob_has_a_largest_size(tmp_path: Path) -> None:
    async with opened(tmp_path, max_bytes=10) as store:
        await store.write("a", b"x" * 10)
        for call in (store.write("b", b"x" * 11), store.append("a", b"x")):
            with pytest.raises(StoreError, match="larger max_bytes"):
                await call
        assert await store.read("a") == b"x" * 10
        assert await store.names() == ["a"]
        (tmp_path / "big.blob").write_bytes(b"x" * 11)
        with pytest.raises(StoreError, match="larger max_bytes"):
            await store.read("big")


@pytest.mark.skipif(os.name == "nt", reason="flock")
async def test_one_at_a_time_uses_a_directory(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await store.write("a", b"a")
        async with opened(tmp_path) as second:
            with pytest.raises(StoreError, match="is in use"):
                await second.read("a")
        script = f"""
import asyncio
from aiostorm.runtime import DirectoryStore, StoreError
try:
    asyncio.run(DirectoryStore({str(tmp_path)!r}).write("a", b"b"))
except StoreError as error:
    print(error)
"""
        done = await asyncio.to_thread(_run, script)
        assert "is in use" in done.stdout
        assert await store.read("a") == b"a"
        await store.close()
        await store.close()
        async with opened(tmp_path) as third:
            assert await third.read("a") == b"a"
        with pytest.raises(StoreError, match="is closed"):
            await store.read("a")


def _run(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)


async def test_calls_at_once_take_effect_in_their_order(tmp_path: Path) -> None:
    async with opened(tmp_path) as store, asyncio.TaskGroup() as group:
        for number in range(100):
            group.create_task(store.append("log", b"%d " % number))
            group.create_task(store.write("last", b"%d" % number))
        group.create_task(store.sync())
        read = group.create_task(store.read("log"))
        last = group.create_task(store.read("last"))
    assert read.result() == b"".join(b"%d " % number for number in range(100))
    assert last.result() == b"99"


async def test_a_caller_that_is_cancelled_leaves_nothing_half_done(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        async with asyncio.TaskGroup() as group:
            writers = [group.create_task(store.write("a", b"%d" % number * 1000)) for number in range(10)]
            await asyncio.sleep(0)
            for writer in writers:
                writer.cancel()
        found = await store.read("a")
        assert found is None or (len(found) == 1000 and len(set(found)) == 1)
        assert await store.names() in ([], ["a"])


async def test_many_blobs_are_appended_to_with_few_open_files(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        for turn in range(2):
            for number in range(100):
                await store.append(f"log-{number}", b"%d" % turn)
        await store.sync()
        assert [await store.read(f"log-{number}") for number in range(100)] == [b"01"] * 100


# -- a model -----------------------------------------------------------------------------------------------------------

names = st.sampled_from(["a", "b", "a.b", "..", "x" * 128])
datas = st.binary(max_size=20)
steps = st.one_of(
    st.tuples(st.just("write"), names, datas),
    st.tuples(st.just("append"), names, datas),
    st.tuples(st.just("remove"), names),
    st.tuples(st.just("sync")),
    st.tuples(st.just("reopen")),
)


@given(script=st.lists(steps, max_size=25))
def test_a_store_behaves_like_a_dict(script: list[tuple[Any, ...]]) -> None:
    with tempfile.TemporaryDirectory() as path, asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(_follow(Path(path), script))


async def _follow(path: Path, script: list[tuple[Any, ...]]) -> None:
    model: dict[str, bytes] = {}
    store = DirectoryStore(path)
    for step, *arguments in script:
        if step == "reopen":
            await store.close()
            store = DirectoryStore(path)
            continue
        await getattr(store, step)(*arguments)
        match step, arguments:
            case "write", (name, data):
                model[name] = data
            case "append", (name, data):
                model[name] = model.get(name, b"") + data
            case "remove", (name,):
                model.pop(name, None)
    assert {name: await store.read(name) for name in await store.names()} == model
    await store.close()


# -- crashes and failures ----------------------------------------------------------------------------------------------


class Crash(BaseException):
    """The process ends here."""


@contextmanager
def system_calls(hook: Callable[[int, str, tuple[Any, ...]], Any]) -> Iterator[None]:
    """Before each call to the system, `hook(number, name, arguments)`; what it returns is done instead, if not None."""
    made = itertools.count(1)

    def watched(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def called(*arguments: Any, **named: Any) -> Any:
            instead = hook(next(made), name, arguments)
            return real(*arguments, **named) if instead is None else instead

        return called

    with pytest.MonkeyPatch.context() as patch:
        for name in CALLS:
            patch.setattr(os, name, watched(name, getattr(os, name)))
        yield


async def test_a_write_is_whole_or_not_at_all_wherever_it_ends(tmp_path: Path) -> None:
    contents: set[bytes | None] = set()
    for last in range(1, 30):
        path = tmp_path / str(last)
        async with opened(path) as store:
            await store.write("a", b"old")
            await store.sync()

            def crash(number: int, name: str, arguments: tuple[Any, ...], last: int = last) -> None:
                if number >= last:
                    raise Crash

            ended = True
            with system_calls(crash):
                try:
                    await store.write("a", b"new")
                    await store.sync()
                except Crash:
                    ended = False
        async with opened(path) as after:
            found = await after.read("a")
            assert found in (b"old", b"new")
            assert not ended or found == b"new"
            contents.add(found)
            assert sorted(os.listdir(path)) == ["a.blob", "lock"], "what was cut short is cleared away"
        if ended:
            break
    else:
        pytest.fail("it makes more calls than expected")
    assert contents == {b"old", b"new"}


async def test_nothing_is_renamed_before_it_is_on_the_disk(tmp_path: Path) -> None:
    made: list[str] = []
    async with opened(tmp_path) as store:
        await store.names()
        with system_calls(lambda number, name, arguments: made.append(name)):
            await store.write("a", b"a")
            made.append("|")
            await store.append("a", b"b")
            made.append("|")
            await store.sync()
            made.append("|")
            await store.sync()
    write, append, sync, again = " ".join([*made, ""]).split("| ")
    assert write == "open write fsync close replace "
    assert append == "open write "
    assert sync == "fsync close open fsync close "  # the blob, then the directory
    assert again == "", "nothing has changed: nothing is synced"


def failing(what: str, code: int, *, partly: bool = False) -> Callable[[int, str, tuple[Any, ...]], Any]:
    began = False

    def hook(number: int, name: str, arguments: tuple[Any, ...]) -> Any:
        nonlocal began
        if name != what:
            return None
        if partly and not began:
            began = True
            os.pwrite(arguments[0], b"?", 3)  # what got through
            return 1
        raise OSError(code, os.strerror(code))

    return hook


async def test_a_full_disk_is_reported_and_changes_nothing(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await store.write("a", b"old")
        for partly in (False, True):
            with (
                system_calls(failing("write", errno.ENOSPC, partly=partly)),
                pytest.raises(StoreError, match="free some space"),
            ):
                await store.write("a", b"new")
            with (
                system_calls(failing("write", errno.ENOSPC, partly=partly)),
                pytest.raises(StoreError, match="free some space"),
            ):
                await store.append("a", b"new")
            assert await store.read("a") == b"old"
        assert sorted(os.listdir(tmp_path)) == ["a.blob", "lock"]
        await store.append("a", b", and new")
        await store.sync()
        assert await store.read("a") == b"old, and new"


async def test_after_a_sync_that_failed_the_store_refuses(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await store.append("a", b"a")
        with system_calls(failing("fsync", errno.EIO)), pytest.raises(StoreError, match="the disk fails"):
            await store.sync()
        for call in (store.sync(), store.read("a"), store.write("a", b"b")):
            with pytest.raises(StoreError, match="open the store again"):
                await call
    async with opened(tmp_path) as store:
        await store.sync()


async def test_a_write_with_a_failed_fsync_is_not_done(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await store.write("a", b"old")
        with system_calls(failing("fsync", errno.EIO)), pytest.raises(StoreError, match="the disk fails"):
            await store.write("a", b"new")
        assert await store.read("a") == b"old"
        await store.sync()


async def test_half_an_append_that_stays_ends_the_store(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await store.write("a", b"old")
        half = failing("write", errno.EIO, partly=True)
        stays = failing("ftruncate", errno.EIO)
        with (
            system_calls(lambda *call: half(*call) if call[1] == "write" else stays(*call)),
            pytest.raises(StoreError, match="the disk fails"),
        ):
            await store.append("a", b"new")
        with pytest.raises(StoreError, match="cannot be removed"):
            await store.read("a")
