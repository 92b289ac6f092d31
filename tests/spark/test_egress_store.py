"""The egress store: what was kept is there after a crash, what was cut short is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from aiostorm.spark import SparkSourceError
from aiostorm.spark.datasource import egress_store
from aiostorm.spark.datasource.egress_log import ChunkInfo
from aiostorm.spark.datasource.egress_store import DirectoryChunkStore, MemoryChunkStore

pytestmark = pytest.mark.sockets  # a thread writes: real time


async def filled(path: Path, chunks: int) -> str:
    store = DirectoryChunkStore(str(path))
    found = await store.open()
    for at in range(len(found.sizes) + found.first, chunks):
        await store.add(at, ChunkInfo(3, 0, f"name/{at}"), b"%d " % at * 100)
    await store.close()
    return found.log


async def test_kept_rows_are_there_in_the_next_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(egress_store, "SEGMENT_BYTES", 1000)
    monkeypatch.setattr(egress_store, "RECENT_BYTES", 500)
    name = await filled(tmp_path / "log", 20)
    store = DirectoryChunkStore(str(tmp_path / "log"))
    found = await store.open()
    assert (found.log, found.first, len(found.sizes), found.committed) == (name, 0, 20, {})
    assert found.sizes[0] == ChunkInfo(3, 200, "name/0")
    assert [await store.read(at) for at in range(20)] == [b"%d " % at * 100 for at in range(20)]
    await store.trim(11, {"spark": 11})
    with pytest.raises(KeyError):
        await store.read(10)
    assert await store.read(11) == b"11 " * 100
    await store.close()
    files = sorted(file.name for file in (tmp_path / "log").iterdir())
    assert not any("00000.blob" in name for name in files)
    store = DirectoryChunkStore(str(tmp_path / "log"))
    found = await store.open()
    assert (found.log, found.first, len(found.sizes), found.committed) == (name, 11, 9, {"spark": 11})
    await store.add(20, ChunkInfo(1, 1), b"x")
    assert await store.read(20) == b"x"
    await store.close()


async def test_all_is_trimmed_and_goes_on(tmp_path: Path) -> None:
    await filled(tmp_path / "log", 3)
    store = DirectoryChunkStore(str(tmp_path / "log"))
    await store.open()
    await store.trim(3, {"spark": 3})
    await store.close()
    store = DirectoryChunkStore(str(tmp_path / "log"))
    found = await store.open()
    assert (found.first, found.sizes) == (3, [])
    await store.close()


async def test_an_incomplete_record_is_cut_off(tmp_path: Path) -> None:
    await filled(tmp_path / "log", 3)
    [file] = (tmp_path / "log").glob("log-*")
    data = file.read_bytes()
    for cut in (1, 150, 215):
        file.write_bytes(data[:-cut])
        store = DirectoryChunkStore(str(tmp_path / "log"))
        found = await store.open()
        assert len(found.sizes) == 2
        await store.add(2, ChunkInfo(3, 0, "name/2"), b"2 " * 100)
        await store.close()
        assert file.read_bytes() == data


async def test_damage_in_the_middle_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(egress_store, "SEGMENT_BYTES", 100)
    await filled(tmp_path / "log", 3)
    first, second, _ = sorted((tmp_path / "log").glob("log-*"))
    kept = first.read_bytes()
    first.write_bytes(kept[:-1] + b"?")
    store = DirectoryChunkStore(str(tmp_path / "log"))
    with pytest.raises(SparkSourceError, match="damaged"):
        await store.open()
    await store.close()
    first.write_bytes(kept)
    second.unlink()
    store = DirectoryChunkStore(str(tmp_path / "log"))
    with pytest.raises(SparkSourceError, match="missing"):
        await store.open()
    await store.close()


async def test_a_directory_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "meta.blob").write_bytes(b"{}")
    store = DirectoryChunkStore(str(tmp_path))
    with pytest.raises(SparkSourceError, match="another directory"):
        await store.open()
    await store.close()


async def test_memory_keeps_and_lets_go() -> None:
    store = MemoryChunkStore()
    await store.open()
    for at in range(3):
        await store.add(at, ChunkInfo(1, 1), b"%d" % at)
    await store.trim(2, {})
    assert await store.read(2) == b"2"
    with pytest.raises(KeyError):
        await store.read(1)
