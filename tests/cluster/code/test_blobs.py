"""Blobs and the cache: hashes are checked on both ways, code is unpacked once, and what no topology uses is removed."""

from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path

import pytest

from aiostorm.cluster.code import UNUSED_S, BlobError, Blobs, CodeCache, digest, pack
from aiostorm.cluster.home import Home
from aiostorm.runtime import LoopClock, ProcessIdentity, StoreError

NONE = "0" * 64


def code(folder: Path, text: str = "topology = 1\n") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "words.py").write_text(text)
    return folder


async def test_what_is_stored_is_found_by_its_hash(tmp_path: Path) -> None:
    async with Blobs(str(tmp_path / "blobs")) as blobs:
        assert not (tmp_path / "blobs").exists()
        sha256 = await blobs.put(code(tmp_path / "in"))
        assert sha256 == digest(pack(tmp_path / "in"))
        assert await blobs.put(pack(tmp_path / "in")) == sha256
        assert await blobs.fetch(sha256) == pack(tmp_path / "in")
        assert await blobs.names() == [sha256]
        assert await blobs.has(sha256)
        assert not await blobs.has(NONE)
        assert stat.S_IMODE((tmp_path / "blobs").stat().st_mode) == 0o700
        assert [stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "blobs").iterdir()] == [0o600]
        await blobs.remove(sha256)
        await blobs.remove(sha256)
        assert await blobs.names() == []


async def test_damage_is_found_and_repaired(tmp_path: Path) -> None:
    async with Blobs(f"file://{tmp_path / 'blobs'}") as blobs:
        sha256 = await blobs.put(code(tmp_path / "in"))
        (file,) = (tmp_path / "blobs").iterdir()
        file.write_bytes(file.read_bytes()[:-1] + b"?")
        with pytest.raises(BlobError, match=r"is damaged .* submit the same code again"):
            await blobs.fetch(sha256)
        assert await blobs.put(code(tmp_path / "in")) == sha256
        assert await blobs.fetch(sha256) == pack(tmp_path / "in")


@pytest.mark.parametrize("name", ["", "abc", NONE[1:], NONE.replace("0", "A"), "../" + NONE[3:], NONE + "\n"])
async def test_only_hashes_are_names(tmp_path: Path, name: str) -> None:
    async with Blobs(str(tmp_path)) as blobs:
        cache = CodeCache(Home(tmp_path), blobs, LoopClock())
        for call in (blobs.fetch, blobs.has, blobs.remove, cache.path):
            with pytest.raises(BlobError, match="a blob is named by its SHA-256"):
                await call(name)


async def test_what_is_not_there(tmp_path: Path) -> None:
    async with Blobs(str(tmp_path / "blobs")) as blobs:
        with pytest.raises(StoreError, match="does not exist on this machine"):
            await blobs.fetch(NONE)
        (tmp_path / "blobs").mkdir()
        with pytest.raises(BlobError, match="has no code with the SHA-256 0000"):
            await blobs.fetch(NONE)


async def test_several_processes_store_the_same_at_once(tmp_path: Path) -> None:
    """Their temporary files are not one: else the rename of the first would publish a part of the second's."""
    data = pack(code(tmp_path / "in", "x" * 100_000))
    places = [Blobs(str(tmp_path / "blobs")) for _ in range(8)]
    async with asyncio.TaskGroup() as group:
        putting = [group.create_task(blobs.put(data)) for blobs in places]
    assert {task.result() for task in putting} == {digest(data)}
    assert len(list((tmp_path / "blobs").iterdir())) == 1
    assert await places[0].fetch(digest(data)) == data
    for blobs in places:
        await blobs.close()


async def test_a_place_of_fsspec() -> None:
    pytest.importorskip("fsspec")
    async with Blobs("memory://code-of-topologies") as blobs:
        sha256 = await blobs.put(b"any bytes")
        assert await blobs.fetch(sha256) == b"any bytes"
        await blobs.remove(sha256)
        assert await blobs.names() == []


async def test_code_is_unpacked_once(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    async with Blobs(str(home.blobs)) as blobs:
        sha256 = await blobs.put(code(tmp_path / "in"))
        caches = [CodeCache(home, blobs, LoopClock()) for _ in range(3)]  # as of several processes
        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(cache.path(sha256)) for cache in caches for _ in range(3)]
        (path,) = {task.result() for task in asked}
        assert path == str(home.code(sha256))
        assert (Path(path) / "words.py").read_text() == "topology = 1\n"
        assert os.listdir(home.path / "code") == [sha256]
        await blobs.remove(sha256)
        assert await caches[0].path(sha256) == path, "it is there, and not fetched again"
        with pytest.raises(BlobError):
            await caches[0].path(NONE)
        assert os.listdir(home.path / "code") == [sha256]


async def test_an_unpacking_that_is_cancelled_leaves_nothing_behind(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    async with Blobs(str(home.blobs)) as blobs:
        sha256 = await blobs.put(code(tmp_path / "in"))
        cache = CodeCache(home, blobs, LoopClock())
        async with asyncio.TaskGroup() as group:
            first, second = (group.create_task(cache.path(sha256)) for _ in range(2))
            await asyncio.sleep(0)
            first.cancel()
        assert (Path(second.result()) / "words.py").exists()
        assert os.listdir(home.path / "code") == [sha256]


async def test_what_no_topology_uses_is_removed_after_a_while(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    async with Blobs(str(home.blobs)) as blobs:
        cache = CodeCache(home, blobs, LoopClock())
        await cache.remove_unused(())  # nothing is there yet
        used, unused = await blobs.put(code(tmp_path / "in")), await blobs.put(code(tmp_path / "in", "other"))
        await cache.path(unused)
        await cache.path(used)
        await cache.remove_unused({used})
        await asyncio.sleep(UNUSED_S - 1)
        await cache.remove_unused({used})
        assert unused in os.listdir(home.path / "code")
        await cache.remove_unused({used, unused})  # another topology names it
        await asyncio.sleep(UNUSED_S - 1)
        await cache.remove_unused({used})
        await asyncio.sleep(2)
        await cache.remove_unused({used})
        assert unused in os.listdir(home.path / "code"), "counted anew"
        await asyncio.sleep(UNUSED_S)
        await cache.remove_unused({used})
        assert await blobs.names() == [used]
        assert os.listdir(home.path / "code") == [used]


async def test_what_a_process_left_unfinished_is_removed(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    own = ProcessIdentity.own()
    ended = ProcessIdentity(own.space, own.pid, own.started + 1)
    for name in (f".{NONE}.{own}.0", f".{NONE}.{ended}.0", ".other", "other"):
        (home.path / "code" / name).mkdir(parents=True)
    async with Blobs(str(home.blobs)) as blobs:
        cache = CodeCache(home, blobs, LoopClock())
        await cache.remove_unused(())
        await asyncio.sleep(2 * UNUSED_S)
        await cache.remove_unused(())
    assert sorted(os.listdir(home.path / "code")) == sorted([f".{NONE}.{own}.0", ".other", "other"])
