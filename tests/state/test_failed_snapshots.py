"""Keeper: the blobs of snapshots that have failed, and a quota for all."""

from __future__ import annotations

import random

import pytest

from aiostorm.state import (
    Blob,
    BlobRef,
    Keeper,
    Manifest,
    QuotaError,
    SaveError,
    TaskBlobs,
)
from aiostorm.testing.simulation.disk import Disk

from .keeping import PLAN, DiskStore, Interrupted, Memory, opened, virtually


def blob(name: str, size: int = 10) -> Blob:
    return Blob(BlobRef(name, size, 1, 0), bytes(size))


async def committed(keeper: Keeper, number: int, *names: str, size: int = 10) -> None:
    """A snapshot of task 2 with these blobs."""
    written = [blob(name, size) for name in names]
    for each in written:
        await keeper.write(each)
    await keeper.commit(Manifest(number, "words", PLAN, (TaskBlobs(2, tuple(each.ref for each in written)),)))


def test_the_blobs_of_a_failed_snapshot_are_removed_at_once_but_for_one() -> None:
    async def main() -> None:
        store = Memory()
        keeper = await opened(store)
        await committed(keeper, 1, "t2-1-f-0")
        for name in ("t2-2-f-0", "t2-2-f-1", "t3-2-d-0"):
            await keeper.write(blob(name))
        await keeper.remove_failed(2)
        assert await store.names("t") == ["t2-1-f-0", "t3-2-d-0"]
        await keeper.write(blob("t3-2-d-1"))  # a task did not know yet
        await keeper.write(blob("t2-3-f-0"))
        await keeper.remove_failed(2)
        assert await store.names("t") == ["t2-1-f-0", "t2-3-f-0"], "3 is being written"
        await keeper.write(blob("t3-2-d-2"))
        await committed(keeper, 3, "t2-3-f-0")
        assert await store.names("t") == ["t2-1-f-0", "t2-3-f-0"]

    virtually(main())


def test_the_number_of_a_failed_snapshot_is_not_used_by_the_next_process() -> None:
    async def main() -> None:
        store = Memory()
        for incarnation in range(3):
            keeper = Keeper(store, "words", incarnation)
            assert await keeper.open() == (1 if not incarnation else 6), incarnation
            await keeper.write(blob("t2-4-f-0"))
            await keeper.write(blob("t2-5-f-0"))
            await keeper.write(blob("t3-5-f-0"))
            await keeper.remove_failed(5)
            assert await store.names("t") == ["t3-5-f-0"]

    virtually(main())


def test_the_next_process_removes_what_no_manifest_names() -> None:
    async def main() -> None:
        store = Memory()
        await committed(await opened(store), 1, "t2-1-f-0")
        for name in ("t2-2-f-0", "t3-2-f-0", "t2-3-d-0"):
            await store.write(name, b"of snapshots that were being written")
        assert await Keeper(store, "words", 5).open() == 4
        assert await store.names("t") == ["t2-1-f-0", "t2-3-d-0"]

    virtually(main())


def test_who_does_not_own_the_folder_any_more_removes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        store = Memory()
        one, other = Keeper(store, "words", 1), Keeper(store, "words", 2)
        await one.open()
        await one.write(blob("t2-1-f-0"))
        await one.write(blob("t3-1-f-0"))
        await other.open()
        await store.write("t2-1-f-0", b"late")
        before = await store.names()
        await one.remove_failed(1)
        assert await store.names() == before

    virtually(main())
    assert "another process runs topology 'words'" in caplog.text


def test_a_process_that_takes_over_during_a_removal_loses_nothing() -> None:
    async def taken_over_at(at: int) -> bool:
        """The other one opens before call `at`, and commits a snapshot. Had it been early enough?"""
        blobs: dict[str, bytes] = {}
        other = Keeper(Memory(blobs), "words", 2)

        async def take_over() -> None:
            free = await other.open()
            assert free > 3, "a blob of 3 may still come"
            await committed(other, free, f"t2-{free}-f-0")

        one = Keeper(store := Interrupted(blobs, 0, take_over), "words", 1)
        await one.open()
        await committed(one, 2, "t2-2-f-0")
        for name in ("t2-3-f-0", "t3-3-f-0"):
            await one.write(blob(name))
        store.left = at
        await one.remove_failed(3)
        for number in other.numbers:
            assert other.manifest(number).blob_names <= blobs.keys()
        return store.left <= 0

    async def main() -> None:
        assert [await taken_over_at(at) for at in range(1, 5)] == [True, True, True, False]

    virtually(main())


def test_while_it_is_not_known_what_counts_nothing_is_removed() -> None:
    async def main() -> None:
        disk = Disk(random.Random(0))
        store = DiskStore(disk)
        keeper = await opened(store)
        for name in ("t2-1-f-0", "t3-1-f-0"):
            await keeper.write(blob(name))
        await keeper.sync()
        disk.failing_syncs = 1
        with pytest.raises(SaveError) as raised:
            await keeper.commit(Manifest(1, "words", PLAN))
        assert raised.value.undecided
        await keeper.remove_failed(1)
        assert disk.names("t") == ["t2-1-f-0", "t3-1-f-0"]

    virtually(main())


# -- the quota ---------------------------------------------------------------------------------------------------------


def test_a_snapshot_above_the_quota_does_not_count() -> None:
    async def main() -> None:
        store = Memory()
        keeper = Keeper(store, "words", 1, keep=2, quota_bytes=25)
        await keeper.open()
        await committed(keeper, 1, "t2-1-f-0")
        await committed(keeper, 2, "t2-2-f-0")
        await committed(keeper, 3, "t2-3-f-0")  # 1 is removed with it
        assert keeper.stored_bytes == 20
        with pytest.raises(
            QuotaError, match=r"with snapshot 4 .* have 26 bytes, and topology.state.quota.mb allows 25"
        ) as raised:
            await committed(keeper, 4, "t2-4-f-0", size=16)
        assert not raised.value.undecided
        assert not raised.value.final
        assert keeper.numbers == [2, 3]
        await keeper.remove_failed(4)
        assert await store.names("t") == ["t2-2-f-0", "t2-3-f-0", "t2-4-f-0"], "its number is not used again"
        keeper.keep = 1
        await committed(keeper, 5, "t2-5-f-0", size=16)
        assert await store.names("t") == ["t2-5-f-0"]
        keeper.quota_bytes = None
        await committed(keeper, 6, "t2-6-f-0", size=99)
        assert keeper.numbers == [6]

    virtually(main())
