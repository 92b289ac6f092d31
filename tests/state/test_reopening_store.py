"""A store is opened again after a failed sync, and never after it was closed."""

from __future__ import annotations

import random
from typing import Any

import pytest

from aiostorm.runtime import StoreError
from aiostorm.state import ReopeningStore
from aiostorm.testing.simulation.disk import Disk

from .keeping import DiskStore


class Places:
    """Opens stores on one disk, and counts them."""

    def __init__(self) -> None:
        self.disk = Disk(random.Random(1))
        self.opened: list[DiskStore] = []

    def open(self) -> DiskStore:
        self.opened.append(DiskStore(self.disk))
        return self.opened[-1]


class Closing(DiskStore):
    """A store that is closed, as a directory is."""

    closed = 0

    async def close(self) -> None:
        self.closed += 1


async def test_every_call_goes_to_the_one_store() -> None:
    places = Places()
    store = ReopeningStore(places.open)
    assert store.max_bytes == places.opened[0].max_bytes
    await store.write("a", b"1")
    await store.append("a", b"2")
    await store.write("b", b"3")
    await store.write("c1", b"4")
    assert await store.read("a") == b"12"
    assert await store.read("x") is None
    await store.remove("b")
    assert sorted(await store.names()) == ["a", "c1"]
    assert await store.names("c") == ["c1"]
    await store.sync()
    places.disk.crash()
    assert await places.opened[0].read("a") == b"12", "it was synced"
    assert len(places.opened) == 1


async def test_after_a_failed_sync_the_next_call_opens_it_again() -> None:
    places = Places()
    store = ReopeningStore(places.open)
    await store.write("a", b"1")
    places.disk.failing_syncs = 1
    with pytest.raises(StoreError, match="a sync failed"):
        await store.sync()
    assert len(places.opened) == 1, "not before it is needed"
    await store.write("b", b"2")
    await store.sync()
    assert len(places.opened) == 2
    with pytest.raises(StoreError, match="a sync failed before"):
        await places.opened[0].read("b")
    assert await store.read("b") == b"2"


async def test_another_error_does_not_open_it_again() -> None:
    places = Places()
    store = ReopeningStore(places.open)
    places.disk.full = True
    with pytest.raises(StoreError, match="the disk is full"):
        await store.write("a", b"1")
    places.disk.full = False
    await store.write("a", b"1")
    assert len(places.opened) == 1


async def test_the_place_is_released_once_after_a_failed_sync_and_at_the_end() -> None:
    made: list[Closing] = []

    def opening() -> Closing:
        made.append(Closing(Disk(random.Random(1))))
        return made[-1]

    store = ReopeningStore(opening)
    made[0].disk.failing_syncs = 1
    with pytest.raises(StoreError):
        await store.sync()
    assert made[0].closed == 1
    await store.close()
    assert [each.closed for each in made] == [1]
    store = ReopeningStore(opening)
    await store.close()
    await store.close()
    assert [each.closed for each in made] == [1, 1]


@pytest.mark.parametrize("call", [("read", "a"), ("write", "a", b""), ("names",), ("sync",)])
async def test_a_closed_store_is_not_opened_again(call: tuple[Any, ...]) -> None:
    places = Places()
    store = ReopeningStore(places.open)
    await store.close()
    with pytest.raises(StoreError, match="the store of snapshots is closed"):
        await getattr(store, call[0])(*call[1:])
    assert len(places.opened) == 1
