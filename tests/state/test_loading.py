"""Loading: damage is never loaded, and always reported; sections; another parallelism."""

from __future__ import annotations

import logging
import random
from pathlib import Path
from typing import Any

import pytest

from aiostorm.runtime import MAX_BLOB_BYTES, DirectoryStore, LoopClock, LoopTurns
from aiostorm.state import (
    BlobRef,
    Capture,
    ComponentPlan,
    DamagedError,
    KeyedState,
    KeySplitter,
    Manifest,
    State,
    StateError,
    TaskBlobs,
    UnsavableError,
    load_task,
    pack_manifest,
    pack_single,
    save_task,
)

from .keeping import TASKS, Memory, Models, opened, two_snapshots, virtually


@pytest.fixture
def written() -> tuple[dict[str, bytes], Models]:
    return two_snapshots()


# -- damage ------------------------------------------------------------------------------------------------------------


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
    why = "words: snapshot 2 is damaged (t3-2-d-0: the blob is missing)"
    assert record.getMessage() == f"{why}: going back to snapshot 1. Sinks repeat the rows after it"


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


# -- several sections --------------------------------------------------------------------------------------------------


def test_sections_of_a_task_are_loaded_apart() -> None:
    async def main() -> None:
        store = Memory()
        keeper = await opened(store)
        state, windows = State({"a": 1}), State({("w", 5): [1]})
        blobs: tuple[BlobRef, ...] = ()
        for number, full in ((1, True), (2, False)):
            captures = [
                Capture(state, "count", 2, full=full),
                Capture(windows, "count", 2, full=full, section=1),
            ]
            total = {"total": [number]}
            singles = {2: pack_single(total, "count", 2, 2)}
            total["total"].append(99)  # too late
            saved = await save_task(keeper, 2, number, captures, LoopTurns(LoopClock()), singles)
            blobs += saved.blobs
            assert saved.sizes == {0: 1, 1: 1, 2: 1}
            found = await load_task(store, TaskBlobs(2, blobs, saved.sizes), LoopClock())
            assert found == {0: state, 1: windows, 2: {None: {"total": [number]}}}
            state.put("a", 2)
            windows.touch_keys([("w", 5)])
            windows[("w", 5)].append(2)
        mixed = [Capture(state, "c", 2, full=True), Capture(windows, "c", 2, full=False, section=1)]
        with pytest.raises(ValueError, match="task 2: full captures and deltas"):
            await save_task(keeper, 2, 3, mixed, LoopTurns(LoopClock()))
        with pytest.raises(ValueError, match="task 2: two states in one section"):
            await save_task(keeper, 2, 3, mixed[:1], LoopTurns(LoopClock()), {0: pack_single(1, "c", 2, 0)})

    virtually(main())


def test_an_unsavable_single_value_is_named() -> None:
    with pytest.raises(UnsavableError, match=r"'total', task 2: the state of key None .*object"):
        pack_single(object(), "total", 2, 0)


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
            if number == 1:  # any division
                split = [{key: n for key, n in content.items() if n % 4 == index} for index in range(4)]
            else:
                manifest = keeper.manifest(number - 1)
                split = [{} for _ in range(n_tasks)]
                for part in manifest.tasks:
                    loaded = await load_task(store, part, LoopClock())
                    KeySplitter(declared, n_tasks).split(loaded[0], split)
            for index, task in enumerate(tasks):
                state = State(split[index])
                parts[task] = dict(state)
                saved = await save_task(
                    keeper, task, number, [Capture(state, "count", task, full=True)], LoopTurns(LoopClock())
                )
                made.append(TaskBlobs(task, saved.blobs, saved.sizes))
            plan = (ComponentPlan("count", tasks, 256, ("word",), 1),)
            await keeper.sync()
            await keeper.commit(Manifest(number, "words", plan, tuple(made)))
            assert sum(map(len, parts.values())) == len(content)
            assert {key: value for part in parts.values() for key, value in part.items()} == content
    finally:
        await store.close()


def test_a_manifest_of_any_size_fits() -> None:
    many = Manifest(1, "words", (ComponentPlan("count", tuple(range(1000)), 1024),), savepoint=True)
    assert len(pack_manifest(many)) < MAX_BLOB_BYTES
