"""The simulated store keeps the promises of the seam, and no more."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from aiostorm.runtime import StoreError
from aiostorm.testing.simulation import World
from aiostorm.testing.simulation.disk import SimStore
from aiostorm.testing.simulation.process import Process

from .worlds import in_world

Work = Callable[[SimStore], Awaitable[None]]


def run_incarnations(*works: Work, seed: int = 0, crash: bool = True) -> None:
    """Each work in an incarnation of its own of one process, which is killed when the work is done."""

    async def run(world: World) -> None:
        done: list[int] = []

        async def main(process: Process) -> None:
            await works[process.incarnation - 1](process.store)
            done.append(process.incarnation)
            if crash:
                await asyncio.sleep(1000)

        process = world.process("a", main)
        for i in range(len(works)):
            process.start()
            await world.until(lambda i=i: len(done) > i, 60, "the end of its work")
            process.crash()
        assert len(done) == len(works)

    in_world(run, seed)


def after_crash(before: Work, seed: int) -> dict[str, bytes]:
    """The blobs that the next incarnation finds."""
    found: dict[str, bytes] = {}

    async def look(store: SimStore) -> None:
        for name in await store.names():
            data = await store.read(name)
            assert data is not None
            found[name] = data

    run_incarnations(before, look, seed=seed)
    return found


def test_a_write_can_be_read_at_once() -> None:
    async def work(store: SimStore) -> None:
        await store.write("a", b"1")
        await store.append("a", b"2")
        await store.append("b", b"3")
        await store.remove("c")
        assert await store.read("a") == b"12"
        assert await store.names() == ["a", "b"]
        assert await store.names("b") == ["b"]
        await store.remove("a")
        assert await store.read("a") is None
        with pytest.raises(ValueError, match="a blob's name"):
            await store.write("a/b", b"")

    run_incarnations(work)


def test_synced_data_survives_any_crash() -> None:
    async def before(store: SimStore) -> None:
        await store.write("old", b"1")
        await store.sync()
        await store.append("old", b"2")
        await store.write("new", b"3")
        await store.remove("never")
        await store.sync()

    for seed in range(30):
        assert after_crash(before, seed) == {"old": b"12", "new": b"3"}


def test_each_blob_has_its_old_or_its_new_content_after_a_crash() -> None:
    async def before(store: SimStore) -> None:
        for name in "abc":
            await store.write(name, b"old")
        await store.sync()
        await store.write("a", b"new")
        await store.write("b", b"new")
        await store.remove("c")

    found = [after_crash(before, seed) for seed in range(60)]
    assert {blob for blobs in found for blob in blobs.values()} == {b"old", b"new"}
    assert {(blobs["a"], blobs["b"], "c" in blobs) for blobs in found} >= {
        (b"old", b"old", True),
        (b"new", b"new", False),
        (b"old", b"new", False),
    }


def test_an_append_is_lost_kept_or_torn_and_synced_data_before_it_is_whole() -> None:
    synced, appended = bytes(100), bytes(range(1, 201))

    async def before(store: SimStore) -> None:
        await store.append("log", synced)
        await store.sync()
        await store.append("log", appended)

    kinds = set()
    for seed in range(80):
        blob = after_crash(before, seed)["log"]
        assert blob[:100] == synced
        rest = blob[100:]
        assert len(rest) <= len(appended)
        same = next((i for i, byte in enumerate(rest) if byte != appended[i]), len(rest))
        assert len(rest) - same <= 64
        kinds.add("damaged" if same < len(rest) else {0: "lost", 200: "kept"}.get(len(rest), "cut"))
    assert kinds == {"lost", "kept", "cut", "damaged"}


def test_calls_take_effect_in_order_even_when_they_are_cancelled() -> None:
    async def work(store: SimStore) -> None:
        made: list[bytes] = []

        async def append(i: int) -> None:
            made.append(b"%d " % i)  # the loop may begin them in any order
            await store.append("log", made[-1])

        loop = asyncio.get_running_loop()
        tasks = [loop.create_task(append(i)) for i in range(20)]
        while len(made) < len(tasks):  # noqa: ASYNC110 - one iteration of the loop after another
            await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        assert await store.read("log") == b"".join(made)

    for seed in range(10):
        run_incarnations(work, seed=seed)


def test_a_process_that_ends_by_itself_loses_nothing() -> None:
    async def write(store: SimStore) -> None:
        await store.write("a", b"1")

    async def read(store: SimStore) -> None:
        assert await store.read("a") == b"1"

    for seed in range(10):
        run_incarnations(write, read, seed=seed, crash=False)


def test_a_write_to_a_full_disk_changes_nothing_and_the_store_goes_on() -> None:
    async def work(store: SimStore) -> None:
        await store.write("a", b"1")
        store.disk.full = True
        for call in (store.write("a", b"2"), store.append("a", b"2"), store.append("b", b"2")):
            with pytest.raises(StoreError, match="full"):
                await call
        assert await store.names() == ["a"]
        await store.sync()
        await store.remove("a")
        store.disk.heal()
        await store.write("a", b"2")
        assert await store.read("a") == b"2"

    run_incarnations(work)


def test_an_append_that_would_make_a_blob_too_large_leaves_it_unchanged() -> None:
    async def work(store: SimStore) -> None:
        store.max_bytes = 3
        await store.append("a", b"123")
        for call in (store.append("a", b"4"), store.write("a", b"1234")):
            with pytest.raises(StoreError, match="3 bytes"):
                await call
        assert await store.read("a") == b"123"

    run_incarnations(work)


def test_a_failed_sync_closes_the_store_and_pending_writes_are_kept_or_lost() -> None:
    found = set()
    for seed in range(40):

        async def work(store: SimStore) -> None:
            await store.write("a", b"old")
            await store.sync()
            store.disk.failing_syncs = 1
            await store.write("a", b"new")
            with pytest.raises(StoreError, match="sync failed"):
                await store.sync()
            for call in (store.read("a"), store.write("a", b"3"), store.sync()):
                with pytest.raises(StoreError, match="Open the disk anew"):
                    await call
            again = store.reopen()
            found.add(await again.read("a"))
            await again.sync()

        run_incarnations(work, seed=seed)
    assert found == {b"old", b"new"}


def test_a_slow_disk() -> None:
    took: list[float] = []

    async def work(store: SimStore) -> None:
        loop = asyncio.get_running_loop()
        for store.disk.slowness in (1.0, 100.0):
            begin_s = loop.time()
            for _ in range(20):
                await store.append("a", b"1")
            took.append(loop.time() - begin_s)

    run_incarnations(work)
    assert 10 * took[0] < took[1] < 20 * 0.2
