"""The store on fsspec keeps the contract of stores, and snapshots in it survive."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from aiostorm.runtime import DirectoryStore, LoopClock, LoopTurns, Store, StoreError
from aiostorm.state import (
    Capture,
    ComponentPlan,
    FsspecStore,
    Keeper,
    Manifest,
    State,
    TaskBlobs,
    load_task,
    open_store,
    save_task,
)
from aiostorm.testing import VirtualTimeLoop

from ..runtime.test_store import CONTRACT

fsspec = pytest.importorskip("fsspec")


@pytest.fixture(params=["memory", "local"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Any, str]:
    if request.param == "local":
        return fsspec.filesystem("local"), str(tmp_path / "state")
    filesystem = fsspec.filesystem("memory", skip_instance_cache=True)
    filesystem.store = {}
    return filesystem, "/state"


@pytest.mark.parametrize("promise", CONTRACT, ids=lambda promise: promise.__name__)
def test_fsspec_keeps(promise: Callable[[Store], Awaitable[None]], place: tuple[Any, str]) -> None:
    async def run() -> None:
        store = FsspecStore(*place, max_bytes=100)
        try:
            await promise(store)
        finally:
            await store.close()

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(run())


async def test_a_snapshot_in_it_is_loaded(place: tuple[Any, str]) -> None:
    for number in (1, 2):
        store = FsspecStore(*place)
        keeper = Keeper(store, "words", number)
        assert await keeper.open() == number
        state = State({"a": number})
        saved = await save_task(keeper, 1, number, [Capture(state, "count", 1, full=True)], LoopTurns(LoopClock()))
        await keeper.sync()
        plan = (ComponentPlan("count", (1,), 256, ("word",), 1),)
        await keeper.commit(Manifest(number, "words", plan, (TaskBlobs(1, saved.blobs, saved.sizes),)))
        found = await keeper.latest()
        assert found is not None
        assert await load_task(store, found.of_task(1), LoopClock()) == {0: {"a": number}}
        await store.close()
        with pytest.raises(StoreError, match="is closed"):
            await store.sync()


async def test_errors_of_a_driver_are_store_errors(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    store = FsspecStore(fsspec.filesystem("local"), str(tmp_path / "file"))
    with pytest.raises(StoreError, match=r"cannot write a: .*may this user write there"):
        await store.write("a", b"")
    await store.close()


async def test_a_folder_or_a_url_is_opened(tmp_path: Path) -> None:
    for where in (str(tmp_path), f"file://{tmp_path}"):
        store = open_store(where)
        assert isinstance(store, DirectoryStore)
        assert store.where == str(tmp_path)
        await store.close()
    shared = open_store(str(tmp_path / "none"), shared=True)
    with pytest.raises(StoreError, match="does not exist on this machine"):
        await shared.names()
    await shared.close()
    store = open_store("memory://state/words")
    assert isinstance(store, FsspecStore)
    assert store.where == "/state/words"
    await store.close()
    with pytest.raises(StoreError, match=r"nothing://x cannot be opened: .* Use a folder, or a URL that"):
        open_store("nothing://x")
    with pytest.raises(ValueError, match="at least 1 byte"):
        FsspecStore(fsspec.filesystem("memory"), "/", max_bytes=0)
