"""Listing: what a store contains, damaged or being changed meanwhile. It writes nothing."""

from __future__ import annotations

import pytest

from aiostorm.runtime import LoopClock, LoopTurns
from aiostorm.state import (
    BlobRef,
    Capture,
    Keeper,
    ListedComponent,
    ListedSnapshot,
    Manifest,
    State,
    TaskBlobs,
    list_snapshots,
    save_task,
)
from aiostorm.state.manifest import pack_framed

from .keeping import PLAN, TASKS, Memory

NUMBERS = (1, 2, 3, 4)
FULL = (1, 4)


class ReadOnly(Memory):
    """A store that refuses every change. `during(name)` is called before a blob is read."""

    async def read(self, name: str) -> bytes | None:
        self.during(name)
        return self.blobs.get(name)

    def during(self, name: str) -> None:
        """Nothing happens meanwhile."""

    async def write(self, name: str, data: bytes) -> None:
        raise AssertionError(name)

    append = write  # type: ignore[assignment]

    async def remove(self, name: str) -> None:
        raise AssertionError(name)

    async def sync(self) -> None:
        raise AssertionError


async def saved() -> ReadOnly:
    """Snapshots 1 to 4 of two tasks: 1 and 4 are full, 1 is a savepoint."""
    store = Memory()
    keeper = Keeper(store, "words", 77, keep=9)
    await keeper.open()
    states = {task: State[str, int]({"a": 1, "b": 2}) for task in TASKS}
    chains: dict[int, tuple[BlobRef, ...]] = dict.fromkeys(TASKS, ())
    for number in NUMBERS:
        saved_tasks = []
        for task, state in states.items():
            state.put(f"key {number}", number)
            capture = Capture(state, "count", task, full=number in FULL)
            found = await save_task(keeper, task, number, [capture], LoopTurns(LoopClock()))
            chains[task] = found.blobs if found.full else chains[task] + found.blobs
            saved_tasks.append(TaskBlobs(task, chains[task], found.sizes))
        await keeper.sync()
        await keeper.commit(Manifest(number, "words", PLAN, tuple(saved_tasks), number == 1, 1000.0 + number))
    return ReadOnly(store.blobs)


async def test_each_snapshot_is_listed_and_checked() -> None:
    store = await saved()
    found = await list_snapshots(store)
    assert [(each.number, each.savepoint, each.taken_s, each.problem) for each in found] == [
        (number, number == 1, 1000.0 + number, "") for number in NUMBERS
    ]
    assert {each.topology for each in found} == {"words"}
    sizes = [sum(len(blob) for name, blob in store.blobs.items() if name.startswith(f"t2-{n}-")) for n in NUMBERS]
    assert found[0].components == (ListedComponent("numbers", 1, 0), ListedComponent("count", 2, 2 * sizes[0]))
    assert found[1].size_bytes == 2 * (sizes[0] + sizes[1])


async def test_a_damaged_blob_damages_all_snapshots_that_need_it() -> None:
    store = await saved()
    store.blobs["t3-2-d-0"] = store.blobs["t3-2-d-0"][:-1] + b"?"
    found = await list_snapshots(store)
    assert [each.number for each in found if each.problem] == [2, 3]
    assert {each.problem.partition(":")[0] for each in found if each.problem} == {"t3-2-d-0"}


async def test_a_manifest_that_cannot_be_read_is_listed_with_the_reason() -> None:
    store = await saved()
    store.blobs["m-3"] = b"half"
    store.blobs["m-4"] = pack_framed("aiostorm-manifest", 9, {})
    found = await list_snapshots(store)
    problems = {each.number: each.problem for each in found}
    assert not problems[1]
    assert found[2] == ListedSnapshot(3, "", 0.0, False, (), problems[3]), "only its number is known"
    assert found[2].size_bytes == 0
    assert problems[3].startswith("m-3: its checksum is wrong")
    assert "use a newer one" in problems[4]


async def test_the_oldest_is_the_first_by_its_number() -> None:
    found = await list_snapshots(ReadOnly(dict.fromkeys(("m-10", "m-9", "m-100", "m-1x", "m-2", "m-"), b"?")))
    assert [each.number for each in found] == [2, 9, 10, 100]


async def test_what_is_removed_meanwhile_is_left_out() -> None:
    store = await saved()

    def during(name: str) -> None:
        if name == "m-2":  # the owner removes garbage
            for removed in [each for each in store.blobs if each.startswith(("m-2", "m-3", "t2-2-", "t3-3-"))]:
                del store.blobs[removed]

    store.during = during  # type: ignore[method-assign]
    found = await list_snapshots(store)
    assert [each.number for each in found] == [1, 4]


@pytest.mark.parametrize("names", [(), ("owner", "t2-7-f-0", "other")])
async def test_a_store_without_snapshots(names: tuple[str, ...]) -> None:
    assert await list_snapshots(ReadOnly(dict.fromkeys(names, b""))) == []
