"""Keeper: after a crash at any step one whole snapshot is there; owners, garbage, and stores that fail."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from aiostorm.runtime import DirectoryStore, LoopClock, LoopTurns, StoreError
from aiostorm.state import (
    BlobChain,
    Capture,
    ForeignError,
    Keeper,
    Manifest,
    OwnedError,
    SaveError,
    State,
    StateError,
    TaskBlobs,
    load_task,
    save_task,
)
from aiostorm.state.manifest import pack_framed
from aiostorm.testing.simulation.disk import Disk

from .keeping import (
    PLAN,
    TASKS,
    CrashError,
    DiskStore,
    Interrupted,
    Memory,
    Models,
    World,
    opened,
    two_snapshots,
    virtually,
)


@pytest.fixture
def written() -> tuple[dict[str, bytes], Models]:
    return two_snapshots()


# -- crashes -----------------------------------------------------------------------------------------------------------


async def crash_twice(seed: int, first: int, second: int) -> bool:
    """Whether the first crash happened."""
    disk, world = Disk(random.Random(seed)), World(seed)
    crashed = False
    for incarnation, crash_at in enumerate((first, second, 10**9)):
        try:
            await world.run(DiskStore(disk, crash_at), 5, incarnation)
        except CrashError:
            crashed |= not incarnation
        else:
            disk.crash()  # after the last commit: nothing that counts is lost
    store = DiskStore(disk)
    await world.restore(await opened(store), store)
    return crashed


@pytest.mark.parametrize("seed", range(4))
def test_a_crash_at_any_step_leaves_a_whole_snapshot(seed: int) -> None:
    async def main() -> int:
        steps = 0
        while await crash_twice(seed, steps + 1, 7 * steps % 61 + 1):
            steps += 1
        return steps

    assert virtually(main()) > 30


# -- garbage, savepoints, numbers --------------------------------------------------------------------------------------


def test_what_no_kept_snapshot_names_is_removed() -> None:
    async def main() -> None:
        store, world = Memory(), World(0)
        keeper = await opened(store)
        states = {task: State[str, int]() for task in TASKS}
        world.chance = random.Random(8)
        for number in range(1, 9):
            chains = {task: BlobChain() for task in TASKS}  # without earlier blobs: all snapshots are full
            world.change(states)
            while world.counted != number:  # an aborted one leaves its blobs, with the same names
                await world.snapshot(keeper, states, chains, number, savepoint=number == 3)
            await store.write(f"t2-{number}-d-9", b"of an aborted snapshot")
        assert keeper.numbers == [3, 7, 8]
        kept = [f"t{task}-{number}-f-0" for task in TASKS for number in (3, 7, 8)]
        assert await store.names("m-") == ["m-3", "m-7", "m-8"]
        assert await store.names("t") == sorted([*kept, "t2-8-d-9"]), "what comes after the last commit"
        assert await Keeper(store, "words", 5).open() == 9
        assert await store.names("t") == sorted(kept), "until the next process opens the folder"

    virtually(main())


def test_a_snapshot_that_is_not_there_is_named(written: tuple[dict[str, bytes], Models]) -> None:
    keeper = virtually(opened(Memory(written[0])))
    assert keeper.manifest(1).number == 1
    with pytest.raises(StateError, match="words: there is no snapshot 5; there are: 1, 2"):
        keeper.manifest(5)


def test_a_number_is_not_used_twice(written: tuple[dict[str, bytes], Models]) -> None:
    blobs, _ = written

    async def main() -> None:
        store = Memory(blobs)
        keeper = await opened(store)
        with pytest.raises(ValueError, match="a number that is used"):
            await keeper.commit(Manifest(2, "words", PLAN))
        blobs["m-4"] = b"damaged"
        blobs["t2-6-d-0"] = b"of a snapshot that never counted"
        assert await Keeper(store, "words", 5).open() == 7

    virtually(main())


# -- owners ------------------------------------------------------------------------------------------------------------


def test_another_topology_is_refused(written: tuple[dict[str, bytes], Models]) -> None:
    blobs, _ = written

    async def main() -> None:
        with pytest.raises(OwnedError, match="the state of topology 'words', and not of 'other': use another folder"):
            await opened(Memory(dict(blobs)), "other")
        without_owner = {name: data for name, data in blobs.items() if name != "owner"}
        with pytest.raises(ForeignError, match="m-1 is a snapshot of topology 'words', not of 'other'"):
            await opened(Memory(without_owner), "other")
        newer = {**blobs, "m-9": pack_framed("aiostorm-manifest", 9, {})}
        with pytest.raises(ForeignError, match="m-9 has format 9"):
            await opened(Memory(newer))

    virtually(main())


def test_of_two_processes_the_later_one_owns_the_folder() -> None:
    async def main() -> None:
        store = Memory()
        one, other = Keeper(store, "words", 1), Keeper(store, "words", 2)
        await one.open()
        await other.open()
        with pytest.raises(OwnedError, match="another process runs topology 'words' with the same folder"):
            await one.commit(Manifest(1, "words", PLAN))
        await other.commit(Manifest(1, "words", PLAN))

    virtually(main())


async def commits(keeper: Keeper) -> bool:
    try:
        await keeper.commit(Manifest(1, "words", PLAN))
    except OwnedError:
        return False
    return True


def test_a_process_that_takes_over_during_a_commit_finds_what_counts() -> None:
    async def opens_within(at: int) -> tuple[bool, bool]:
        """Does the snapshot count, and was it found? The other one opens before call `at` of the commit."""
        blobs: dict[str, bytes] = {}
        other = Keeper(Memory(blobs), "words", 2)
        one = Keeper(store := Interrupted(blobs, 0, other.open), "words", 1)
        await one.open()
        store.left = at
        counts = await commits(one)
        assert store.left <= 0, "the commit has fewer calls"
        return counts, other.numbers == [1]

    async def commits_within(at: int) -> tuple[bool, bool]:
        """The snapshot is committed before call `at` of the other one's opening."""
        blobs: dict[str, bytes] = {}
        one = Keeper(Memory(blobs), "words", 1)
        await one.open()
        outcome: list[bool] = []

        async def commit() -> None:
            outcome.append(await commits(one))

        other = Keeper(Interrupted(blobs, at, commit), "words", 2)
        await other.open()
        return outcome[0], other.numbers == [1]

    async def main() -> None:
        found = [await opens_within(at) for at in range(1, 5)] + [await commits_within(at) for at in range(1, 6)]
        assert (True, False) not in found, "a snapshot that counts was not found"
        assert {(True, True), (False, False)} <= {*found}

    virtually(main())


async def test_a_second_process_is_refused_by_the_directory(tmp_path: Path) -> None:
    store, second = DirectoryStore(tmp_path), DirectoryStore(tmp_path)
    try:
        await opened(store)
        with pytest.raises(StoreError, match="in use by another store"):
            await opened(second)
    finally:
        await store.close()
        await second.close()


# -- a store that fails ------------------------------------------------------------------------------------------------


def test_a_full_disk_is_an_error_and_the_next_snapshot_succeeds() -> None:
    async def main() -> None:
        disk = Disk(random.Random(0))
        store = DiskStore(disk)
        keeper = await opened(store)
        state = State({"a": 1})
        disk.full = True
        capture = Capture(state, "count", 2, full=True)
        with pytest.raises(SaveError, match="words: a snapshot was not saved: the disk is full") as raised:
            await save_task(keeper, 2, 1, [capture], LoopTurns(LoopClock()))
        assert not raised.value.undecided
        assert not raised.value.final
        capture.give_back()
        with pytest.raises(SaveError, match="the folder cannot be used: the disk is full"):
            await opened(store)
        disk.full = False
        saved = await save_task(keeper, 2, 2, [Capture(state, "count", 2, full=True)], LoopTurns(LoopClock()))
        await keeper.sync()
        await keeper.commit(Manifest(2, "words", PLAN, (TaskBlobs(2, saved.blobs, saved.sizes),)))
        assert await load_task(store, keeper.manifest(2).of_task(2), LoopClock()) == {0: {"a": 1}}

    virtually(main())


def test_after_a_failed_sync_of_a_manifest_it_is_undecided() -> None:
    async def main() -> None:
        disk = Disk(random.Random(0))
        store = DiskStore(disk)
        keeper = await opened(store)
        disk.failing_syncs = 1
        with pytest.raises(SaveError, match="m-1 was not saved: a sync failed") as raised:
            await keeper.commit(Manifest(1, "words", PLAN))
        assert raised.value.undecided
        assert not keeper.numbers
        with pytest.raises(SaveError, match="m-1 may count: open the store again"):
            await keeper.commit(Manifest(2, "words", PLAN))

    virtually(main())


def test_a_manifest_that_a_full_disk_refuses_does_not_count() -> None:
    async def main() -> None:
        disk = Disk(random.Random(0))
        store = DiskStore(disk)
        keeper = await opened(store)
        disk.full = True
        with pytest.raises(SaveError, match="m-1 was not saved: the disk is full") as raised:
            await keeper.commit(Manifest(1, "words", PLAN))
        assert not raised.value.undecided
        disk.full = False
        await keeper.commit(Manifest(2, "words", PLAN))
        assert (await opened(store)).numbers == [2]

    virtually(main())


def test_garbage_that_cannot_be_removed_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    class Stubborn(Memory):
        async def remove(self, name: str) -> None:
            raise StoreError("read-only")

    async def main() -> None:
        keeper = await opened(Stubborn())
        for number in (1, 2, 3):
            await keeper.commit(Manifest(number, "words", PLAN))

    virtually(main())
    assert [record.getMessage() for record in caplog.records] == ["words: old snapshots were not removed: read-only"]


def test_at_least_one_snapshot_is_kept(written: tuple[dict[str, bytes], Models]) -> None:
    with pytest.raises(ValueError, match="at least one snapshot is kept: keep=0"):
        Keeper(Memory(), "words", 1, keep=0)
    blobs = written[0]
    assert Keeper(Memory(blobs), "words", 1, keep=1).numbers == []


def test_what_a_task_saved_is_counted() -> None:
    state: State[str, int] = State({f"k{n}": n for n in range(1_000)})

    async def main() -> None:
        keeper = await opened(Memory())
        saved = await save_task(keeper, 2, 1, [Capture(state, "count", 2, full=True)], LoopTurns(LoopClock()))
        assert (saved.rows, saved.sizes, saved.full) == (1_000, {0: 1_000}, True)
        assert sum(ref.rows for ref in saved.blobs) == 1_000
        state.discard("k1")
        state.put("new", 1)
        saved = await save_task(keeper, 2, 2, [Capture(state, "count", 2, full=False)], LoopTurns(LoopClock()))
        assert (saved.rows, saved.sizes, saved.full) == (2, {0: 1_000}, False)

    virtually(main())
