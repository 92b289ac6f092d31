"""The store's seam: names; and one contract, which the real store and the simulated one both keep."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from aiostorm.runtime import DirectoryStore, Store, StoreError, check_blob_name
from aiostorm.testing import VirtualTimeLoop
from aiostorm.testing.simulation import world_loop
from aiostorm.testing.simulation.process import Process

# -- names -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a", "A-1_b.c", ".", "..", "...", "x" * 128, "con", "snapshot.0000001"])
def test_names(name: str) -> None:
    assert check_blob_name(name) == name


@pytest.mark.parametrize(
    "name", ["", "x" * 129, "a/b", "../a", "a\\b", "a b", "a\n", "a\0", "ä", "a:b", "/", "~", "%2e", "a*"]
)
def test_invalid_names_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="no slash"):
        check_blob_name(name)


# -- the contract ------------------------------------------------------------------------------------------------------


async def what_was_written_is_read_at_once(store: Store) -> None:
    assert await store.read("a") is None
    await store.write("a", b"one")
    await store.append("a", b", two")
    await store.append("b", b"three")
    assert [await store.read(name) for name in ("a", "b", "c")] == [b"one, two", b"three", None]
    await store.write("a", b"")
    assert await store.read("a") == b""
    await store.sync()
    assert await store.read("b") == b"three"


async def a_removed_blob_does_not_exist(store: Store) -> None:
    await store.append("a", b"old")
    await store.remove("a")
    await store.remove("a")
    assert await store.read("a") is None
    await store.append("a", b"new")
    assert await store.read("a") == b"new"


async def names_are_sorted_and_chosen_by_their_beginnings(store: Store) -> None:
    for name in ("b.2", "b.10", "a", "..", "B"):
        await store.write(name, b"")
    assert await store.names() == ["..", "B", "a", "b.10", "b.2"]
    assert await store.names("b.") == ["b.10", "b.2"]
    assert await store.names("b.2.") == []


async def names_are_names(store: Store) -> None:
    calls: list[Callable[[str], Awaitable[Any]]] = [
        store.read,
        store.remove,
        store.names,
        lambda name: store.write(name, b""),
        lambda name: store.append(name, b""),
    ]
    for call in calls:
        for name in ("a/b", "..\\a", "a b", "x" * 129):
            with pytest.raises(ValueError, match="no slash"):
                await call(name)


async def a_blob_has_a_largest_size(store: Store) -> None:
    most = bytes(store.max_bytes)
    await store.write("a", most)
    for change in (store.write("a", most + b"x"), store.append("a", b"x"), store.append("b", most + b"x")):
        with pytest.raises(StoreError):
            await change
    assert await store.read("a") == most
    assert not await store.read("b"), "nothing of it is there"
    await store.sync()


async def calls_at_once_take_effect_in_their_order(store: Store) -> None:
    async with asyncio.TaskGroup() as group:
        for number in range(20):
            group.create_task(store.append("log", b"%d " % number))
        read = group.create_task(store.read("log"))
        group.create_task(store.write("log", b"last"))
    assert read.result() == b"".join(b"%d " % number for number in range(20))
    assert await store.read("log") == b"last"


CONTRACT = [
    what_was_written_is_read_at_once,
    a_removed_blob_does_not_exist,
    names_are_sorted_and_chosen_by_their_beginnings,
    names_are_names,
    a_blob_has_a_largest_size,
    calls_at_once_take_effect_in_their_order,
]


@pytest.mark.parametrize("promise", CONTRACT, ids=lambda promise: promise.__name__)
def test_a_directory_keeps(promise: Callable[[Store], Awaitable[None]], tmp_path: Path) -> None:
    async def run() -> None:
        store = DirectoryStore(tmp_path, max_bytes=100)
        try:
            await promise(store)
        finally:
            await store.close()

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(run())


@pytest.mark.parametrize("promise", CONTRACT, ids=lambda promise: promise.__name__)
def test_a_shared_directory_keeps(promise: Callable[[Store], Awaitable[None]], tmp_path: Path) -> None:
    async def run() -> None:
        store = DirectoryStore(tmp_path, max_bytes=100, shared=True)
        try:
            await promise(store)
        finally:
            await store.close()

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(run())


@pytest.mark.parametrize("promise", CONTRACT, ids=lambda promise: promise.__name__)
def test_a_simulated_disk_keeps(promise: Callable[[Store], Awaitable[None]]) -> None:
    loop = world_loop(0, order="fifo")

    async def main(process: Process) -> None:
        process.store.max_bytes = 100
        await promise(process.store)

    async def run() -> None:
        process = loop.world.process("a", main)
        process.start()
        await loop.world.until(lambda: not process.runs, 60, "the end of it")

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(run())
    assert not loop.world.problems
