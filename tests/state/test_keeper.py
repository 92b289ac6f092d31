"""Keeper: after a crash at any step one whole snapshot is loaded; damage is never loaded, and always reported."""

from __future__ import annotations

import asyncio
import logging
import random
from pathlib import Path
from typing import Any

import pytest

from aiostorm.runtime import MAX_BLOB_BYTES, DirectoryStore, LoopClock, Store, StoreError
from aiostorm.state import (
    BlobChain,
    Capture,
    ComponentPlan,
    DamagedError,
    ForeignError,
    Keeper,
    KeyedState,
    Manifest,
    OwnedError,
    SaveError,
    State,
    StateError,
    TaskBlobs,
    load_owned,
    load_task,
    pack_manifest,
    save_capture,
)
from aiostorm.state.manifest import pack_framed
from aiostorm.testing import VirtualTimeLoop
from aiostorm.testing.simulation.disk import Disk, DiskChange

TASKS = (2, 3)
PLAN = (ComponentPlan("numbers", (1,)), ComponentPlan("count", TASKS, 256, ("word",), 1))
Models = dict[int, dict[int, dict[Any, Any]]]


class CrashError(Exception):
    """The machine has crashed."""


class DiskStore:
    """A store on a simulated disk; the machine crashes in the call number `crash_at`."""

    max_bytes = MAX_BLOB_BYTES

    def __init__(self, disk: Disk, crash_at: int = 10**9) -> None:
        self.disk = disk
        self.calls = 0
        self.crash_at = crash_at

    async def read(self, name: str) -> bytes | None:
        self._step()
        return self.disk.read(name)

    async def write(self, name: str, data: bytes) -> None:
        self._change(DiskChange("write", name, data))

    async def append(self, name: str, data: bytes) -> None:
        self._change(DiskChange("append", name, data))

    async def remove(self, name: str) -> None:
        self._change(DiskChange("remove", name))

    async def names(self, prefix: str = "") -> list[str]:
        self._step()
        return self.disk.names(prefix)

    async def sync(self) -> None:
        self._step()
        if self.disk.failing_syncs:
            self.disk.failing_syncs -= 1
            self.disk.crash()
            raise StoreError("a sync failed")
        self.disk.sync()

    def _change(self, change: DiskChange) -> None:
        if self.disk.full and change.op != "remove":
            raise StoreError("the disk is full")
        self.disk.change(change)  # a crash in this call may keep it
        self._step()

    def _step(self) -> None:
        self.calls += 1
        if self.calls >= self.crash_at:
            self.disk.crash()
            raise CrashError


class World:
    """Two tasks with state, of which snapshots are taken; what each snapshot must contain."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.models: Models = {}
        self.counted = 0
        """The last snapshot of which `commit` has returned."""

    async def run(self, store: Store, snapshots: int, incarnation: int) -> None:
        """Open the folder, restore, and take snapshots. Checks what is restored."""
        keeper = Keeper(store, "words", incarnation, keep=2)
        first = await keeper.open()
        assert first > self.counted
        states = await self.restore(keeper, store)
        chains = {task: BlobChain() for task in TASKS}
        for number in range(first, first + snapshots):
            self.change(states)
            await self.snapshot(keeper, states, chains, number)

    async def restore(self, keeper: Keeper, store: Store) -> dict[int, State[str, int]]:
        for number in keeper.numbers:
            await keeper.check(keeper.manifest(number))  # each that is there can be loaded
        manifest = await keeper.latest()
        if manifest is None:
            assert not self.counted, "a snapshot was lost"
            return {task: State() for task in TASKS}
        assert manifest.number >= self.counted, "an older snapshot was loaded"
        loaded = {task: (await load_task(store, manifest.of_task(task), LoopClock()))[0] for task in TASKS}
        assert loaded == self.models[manifest.number], "a wrong or mixed snapshot was loaded"
        return {task: State(loaded[task]) for task in TASKS}

    def change(self, states: dict[int, State[str, int]]) -> None:
        for state in states.values():
            for _ in range(self.chance.randint(0, 4)):
                key = f"k{self.chance.randint(0, 30)}"
                if self.chance.random() < 0.3:
                    state.discard(key)
                else:
                    state.put(key, self.chance.randint(0, 99))

    async def snapshot(
        self,
        keeper: Keeper,
        states: dict[int, State[str, int]],
        chains: dict[int, BlobChain],
        number: int,
        *,
        savepoint: bool = False,
    ) -> None:
        self.models[number] = {task: dict(state) for task, state in states.items()}
        aborted = self.chance.random() < 0.15
        made: list[TaskBlobs] = []
        captures: list[Capture] = []
        for task, state in states.items():
            full = not chains[task].blobs or self.chance.random() < 0.2
            capture = Capture(state, "count", task, full=full)
            captures.append(capture)
            saved = await save_capture(keeper, capture, task, number, LoopClock())
            made.append(TaskBlobs(task, chains[task].after(saved.blobs, full=full), {0: saved.size}))
        if aborted:
            for capture in captures:
                capture.give_back()
            return
        await keeper.sync()
        await keeper.commit(Manifest(number, "words", PLAN, tuple(made), offsets={1: b"at"}, savepoint=savepoint))
        self.counted = number
        for part in made:
            new = tuple(ref for ref in part.blobs if ref.name.startswith(f"t{part.task}-{number}-"))
            chains[part.task].committed(new, full=new == part.blobs)


def virtually(main: Any) -> Any:
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(main)


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


async def opened(store: Store, topology: str = "words") -> Keeper:
    keeper = Keeper(store, topology, 77, keep=2)
    await keeper.open()
    return keeper


@pytest.mark.parametrize("seed", range(4))
def test_a_crash_at_any_step_leaves_a_whole_snapshot(seed: int) -> None:
    async def main() -> int:
        steps = 0
        while await crash_twice(seed, steps + 1, 7 * steps % 61 + 1):
            steps += 1
        return steps

    assert virtually(main()) > 30


# -- damage ------------------------------------------------------------------------------------------------------------


class Memory:
    """A store in a dict."""

    max_bytes = MAX_BLOB_BYTES

    def __init__(self, blobs: dict[str, bytes] | None = None) -> None:
        self.blobs = {} if blobs is None else blobs

    async def read(self, name: str) -> bytes | None:
        return self.blobs.get(name)

    async def write(self, name: str, data: bytes) -> None:
        self.blobs[name] = data

    async def append(self, name: str, data: bytes) -> None:
        self.blobs[name] = self.blobs.get(name, b"") + data

    async def remove(self, name: str) -> None:
        self.blobs.pop(name, None)

    async def names(self, prefix: str = "") -> list[str]:
        return sorted(name for name in self.blobs if name.startswith(prefix))

    async def sync(self) -> None:
        """All is there."""


@pytest.fixture
def written() -> tuple[dict[str, bytes], Models]:
    """A folder with two snapshots: one in full, and one whose second task is a delta."""
    store, world = Memory(), World(1)
    world.chance = random.Random(3)

    async def main() -> None:
        keeper = await opened(store)
        states = {task: State({f"k{n}": n for n in range(20)}) for task in TASKS}
        for number in (1, 2):
            made = []
            for task in TASKS:
                states[task].put(f"n{number}", number)
                full = number == 1 or task == 2
                saved = await save_capture(
                    keeper, Capture(states[task], "count", task, full=full), task, number, LoopClock()
                )
                older = () if full else keeper.manifest(1).of_task(task).blobs
                made.append(TaskBlobs(task, older + saved.blobs, {0: saved.size}))
            world.models[number] = {task: dict(state) for task, state in states.items()}
            await keeper.commit(Manifest(number, "words", PLAN, tuple(made)))

    virtually(main())
    assert sorted(store.blobs) == ["m-1", "m-2", "owner", "t2-1-f-0", "t2-2-f-0", "t3-1-f-0", "t3-2-d-0"]
    return store.blobs, world.models


async def load(blobs: dict[str, bytes]) -> tuple[int, dict[int, dict[Any, Any]]]:
    store = Memory(dict(blobs))
    keeper = await opened(store)
    manifest = await keeper.latest()
    assert manifest is not None
    return manifest.number, {task: (await load_task(store, manifest.of_task(task), LoopClock()))[0] for task in TASKS}


def test_500_wrong_bits_are_never_loaded(
    written: tuple[dict[str, bytes], Models], caplog: pytest.LogCaptureFixture
) -> None:
    blobs, models = written
    chance = random.Random(500)
    names = [name for name in sorted(blobs) if name != "owner"]
    outcomes: dict[str, int] = {"newest": 0, "before": 0, "none": 0}

    async def main() -> None:
        for _ in range(500):
            name = chance.choice(names)
            data = bytearray(blobs[name])
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
            caplog.clear()
            try:
                number, content = await load({**blobs, name: bytes(data)})
            except StateError as error:
                assert (name, name in str(error)) == ("t3-1-f-0", True), "both snapshots need this one"  # noqa: PT017
                outcomes["none"] += 1
                continue
            assert content == models[number]
            of_newest = name in ("m-2", "t2-2-f-0", "t3-2-d-0")
            assert number == (1 if of_newest else 2)
            assert (f"{name}: " in caplog.text) is (of_newest or name == "m-1")
            outcomes["before" if of_newest else "newest"] += 1

    virtually(main())
    assert all(outcomes.values()), outcomes


def test_going_back_is_reported(written: tuple[dict[str, bytes], Models], caplog: pytest.LogCaptureFixture) -> None:
    blobs, _ = written
    del blobs["t3-2-d-0"]
    number, _ = virtually(load(blobs))
    assert number == 1
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    text = "words: snapshot 2 is damaged (t3-2-d-0: the blob is missing): going back to snapshot 1"
    assert record.getMessage() == text


def test_blobs_of_two_snapshots_are_never_mixed(written: tuple[dict[str, bytes], Models]) -> None:
    blobs, models = written
    blobs["t2-2-f-0"] = blobs["t2-1-f-0"]
    assert virtually(load(blobs)) == (1, models[1])


def test_a_state_with_another_number_of_keys_is_damage(written: tuple[dict[str, bytes], Models]) -> None:
    blobs, _ = written

    async def main() -> None:
        store = Memory(blobs)
        saved = (await opened(store)).manifest(2).of_task(3)
        with pytest.raises(DamagedError, match="section 0 has 22 keys instead of 21"):
            await load_task(store, TaskBlobs(3, saved.blobs, {0: 21}), LoopClock())

    virtually(main())


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
        young = ["t2-7-d-9", "t2-8-d-9"]
        assert await store.names("m-") == ["m-3", "m-7", "m-8"]
        assert await store.names("t") == sorted([*kept, *young])
        assert await Keeper(store, "words", 5).open() == 9

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
            await save_capture(keeper, capture, 2, 1, LoopClock())
        assert not raised.value.undecided
        assert not raised.value.final
        capture.give_back()
        with pytest.raises(SaveError, match="the folder cannot be used: the disk is full"):
            await opened(store)
        disk.full = False
        saved = await save_capture(keeper, Capture(state, "count", 2, full=True), 2, 2, LoopClock())
        await keeper.sync()
        await keeper.commit(Manifest(2, "words", PLAN, (TaskBlobs(2, saved.blobs, {0: saved.size}),)))
        assert await load_task(store, keeper.manifest(2).of_task(2), LoopClock()) == {0: {"a": 1}}

    virtually(main())


def test_after_a_failed_sync_of_a_manifest_it_is_undecided() -> None:
    async def main() -> None:
        disk = Disk(random.Random(0))
        keeper = await opened(DiskStore(disk))
        disk.failing_syncs = 1
        with pytest.raises(SaveError, match="m-1 was not saved: a sync failed") as raised:
            await keeper.commit(Manifest(1, "words", PLAN))
        assert raised.value.undecided
        assert not keeper.numbers

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


# -- in a folder, and at another parallelism ---------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "state"


async def test_another_parallelism_reads_the_files_of_all_tasks(folder: Path) -> None:
    declared = KeyedState("word")
    content = {f"word{number}": number for number in range(500)}
    store = DirectoryStore(folder)
    try:
        keeper = await opened(store)
        parts: dict[int, dict[Any, Any]] = {0: content}
        for number, n_tasks in enumerate((4, 6, 3, 1), start=1):
            tasks = tuple(range(10 * number, 10 * number + n_tasks))
            made: list[TaskBlobs] = []
            parts = {}
            for index, task in enumerate(tasks):
                if number == 1:
                    state = State({key: value for key, value in content.items() if value % 4 == index})  # any division
                else:
                    state = State(
                        await load_owned(
                            store, keeper.manifest(number - 1), "count", declared, index, n_tasks, LoopClock()
                        )
                    )
                parts[task] = dict(state)
                saved = await save_capture(keeper, Capture(state, "count", task, full=True), task, number, LoopClock())
                made.append(TaskBlobs(task, saved.blobs, {0: saved.size}))
            plan = (ComponentPlan("count", tasks, 256, ("word",), 1),)
            await keeper.sync()
            await keeper.commit(Manifest(number, "words", plan, tuple(made)))
            assert sum(map(len, parts.values())) == len(content)
            assert {key: value for part in parts.values() for key, value in part.items()} == content
        assert (await load_owned(store, keeper.manifest(4), "new", declared, 0, 2, LoopClock())) == {}
    finally:
        await store.close()


def test_a_manifest_of_any_size_fits() -> None:
    many = Manifest(1, "words", (ComponentPlan("count", tuple(range(1000)), 1024),), savepoint=True)
    assert len(pack_manifest(many)) < MAX_BLOB_BYTES
