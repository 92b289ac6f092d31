"""Windows in snapshots: what is captured, packed, loaded and continued is what it would be without."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiostorm.runtime import LoopClock, LoopTurns
from aiostorm.state import (
    DamagedError,
    ForeignError,
    Manifest,
    PackedChunk,
    StateError,
    TaskBlobs,
    UnsavableError,
    load_task,
    save_task,
    unpack_chunks,
)
from aiostorm.tasks.snapshots.saved import WINDOWS
from aiostorm.tasks.snapshots.sections import LOADERS
from aiostorm.tasks.snapshots.window_capture import WindowCapture, WindowTables
from aiostorm.tasks.snapshots.window_loading import WindowLoader, load_windows
from aiostorm.windows import Collect, Count, PlainWindows, Session, SessionWindows, Sum, Tumbling

from ...state.keeping import PLAN, Memory, opened, virtually
from ...tries import examples
from ...windows.test_dump_load import KINDS, Boxed, Restarted, assert_same, done, script


def stopwatch() -> float:
    return 0.0


def bytes_of(capture: WindowCapture) -> bytes:
    return b"".join(chunk.data for chunk in capture.slices(stopwatch))


def loaded(blobs: list[bytes]) -> tuple[dict[str, Any], int]:
    loader = WindowLoader()
    for blob in blobs:
        for chunk in unpack_chunks(blob, "blob"):
            loader.apply(chunk)
    return loader.finish()


class Saved(Restarted):
    """A machine of which snapshots are taken now and then, some of them aborted, and that is restored."""

    def __init__(self, make: Callable[[], Any], rng: random.Random, restarts: float) -> None:
        super().__init__(make, rng, restarts)
        self._begin()

    def step(self) -> None:
        rng = self._rng
        if rng.random() < self._restarts:
            self._save()
        if rng.random() < self._restarts:
            self._save()
            content, size = loaded(self.blobs)
            assert size == self.size
            self.machine = self.make()
            load_windows(self.machine, content, "windows", 3)
            self._begin()

    def _begin(self) -> None:
        self.tables = WindowTables(self.machine, "windows", 3)
        self.blobs: list[bytes] = []
        self.since: int | None = None
        self.added = set()

    def _capture(self) -> WindowCapture:
        self._number += 1
        full = self.since is None or self._rng.random() < 0.2
        changed, there = self.tables.counts()
        assert (changed, there) == (there, there) if self.since is None else there == self.machine.saved_rows
        return self.tables.capture(self._number, None if full else self.since)

    def _save(self) -> None:
        if self._rng.random() < 0.3:
            aborted = self._capture()
            for _ in aborted.slices(stopwatch):
                if self._rng.random() < 0.5:
                    break
            aborted.give_back()
        capture = self._capture()
        made = bytes_of(capture)
        self.blobs = [made] if capture.full else [*self.blobs, made]
        self.size, self.since = capture.size, self._number
        self.tables.committed(self._number)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=examples(40))
@given(rng=st.randoms(use_true_random=False))
def test_a_restored_machine_continues(kind: str, rng: random.Random) -> None:
    assert_same(KINDS[kind](rng), script(rng), rng, Saved)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_thousands_of_restored_machines_continue(kind: str) -> None:
    for seed in range(300):
        rng = random.Random(seed)
        assert_same(KINDS[kind](rng), script(rng), rng, Saved)


def content_of(machine: Any) -> str:
    dump = machine.dump()
    tables = {name: [list(column.items()) for column in columns] for name, columns in dump["tables"].items()}
    return repr((dump["head"]["state"], {name: columns for name, columns in tables.items() if columns[0]}))


@pytest.mark.parametrize("kind", KINDS)
def test_windows_go_on_while_they_are_packed(kind: str) -> None:
    for seed in range(40):
        rng = random.Random(seed)
        make = KINDS[kind](rng)
        machine, steps = make(), script(rng)
        half = len(steps) // 2
        for step in steps[:half]:
            if step[0] != "show":
                list(done(machine, step))
        expected = content_of(machine)
        slices, data = WindowTables(machine, "windows", 3).capture(1, None).slices(stopwatch), b""
        for step in steps[half:]:
            data += next(slices, PackedChunk(b"", 0)).data
            if step[0] != "show":
                list(done(machine, step))
        data += b"".join(chunk.data for chunk in slices)
        again = make()
        again.load(loaded([data])[0])
        assert content_of(again) == expected


# -- damage ------------------------------------------------------------------------------------------------------------


def snapshots() -> tuple[dict[str, bytes], Manifest, dict[str, Any]]:
    """A store with the full snapshot of some windows and two deltas, and what the last contains."""
    store, machine = Memory(), SessionWindows(Session(10), Sum())
    tables, blobs = WindowTables(machine, "windows", 2), ()
    made: list[TaskBlobs] = []

    async def main() -> None:
        nonlocal blobs
        keeper = await opened(store)
        for number in (1, 2, 3):
            keys = [f"k{key}" for key in range(30) if key % number == 0]
            machine.add(keys, [100 * number] * len(keys), [1] * len(keys))
            list(machine.advance(100 * number - 50))
            capture = tables.capture(number, None if number == 1 else number - 1)
            saved = await save_task(keeper, 2, number, [capture], LoopTurns(LoopClock()))
            blobs += saved.blobs
            made.append(TaskBlobs(2, blobs, saved.sizes))
            tables.committed(number)

    virtually(main())
    return store.blobs, Manifest(3, "words", PLAN, (made[-1],)), loaded([bytes_of(tables.capture(4, None))])[0]


def loaded_from(blobs: dict[str, bytes], saved: TaskBlobs) -> dict[str, Any]:
    async def main() -> dict[str, Any]:
        return (await load_task(Memory(blobs), saved, LoopClock(), LOADERS))[WINDOWS]

    content: dict[str, Any] = virtually(main())
    return content


def test_500_wrong_bits_are_never_loaded() -> None:
    blobs, manifest, content = snapshots()
    saved, chance = manifest.of_task(2), random.Random(500)
    assert loaded_from(blobs, saved)["tables"] == content["tables"]
    names = [ref.name for ref in saved.blobs]
    assert len(names) == 3
    for _ in range(500):
        name = chance.choice(names)
        data = bytearray(blobs[name])
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        with pytest.raises(StateError, match=name):
            loaded_from({**blobs, name: bytes(data)}, saved)


def test_an_incomplete_snapshot_is_never_loaded() -> None:
    blobs, manifest, _ = snapshots()
    saved = manifest.of_task(2)
    first, _, third = saved.blobs
    for wrong in ((first, third), (first,), ()):
        with pytest.raises(DamagedError):
            loaded_from(blobs, TaskBlobs(2, wrong, saved.sizes))
    with pytest.raises(DamagedError, match="section 3 has"):
        loaded_from(blobs, TaskBlobs(2, saved.blobs, {WINDOWS: 7}))


def test_a_missing_chunk_is_damage() -> None:
    machine = PlainWindows(Tumbling(10), Count())
    machine.add([f"k{key}" for key in range(2_000)], [1] * 2_000, [0] * 2_000)
    chunks = [chunk.data for chunk in WindowTables(machine, "windows", 2).capture(1, None).slices(stopwatch)]
    assert len(chunks) > 3
    assert len(loaded(chunks)[0]["tables"][0][0]) == 2_000
    for at in range(len(chunks)):
        with pytest.raises(ValueError, match=r"lack \d+ rows|no head"):
            loaded(chunks[:at] + chunks[at + 1 :])


def test_other_windows_are_not_restored() -> None:
    machine = PlainWindows(Tumbling(10), Count())
    machine.add(["a"], [1], [0])
    content, size = loaded([bytes_of(WindowTables(machine, "windows", 2).capture(1, None))])
    assert size == 2
    with pytest.raises(ForeignError, match=r"component 'hours', task 7: its windows .*windows was .*Restore"):
        load_windows(PlainWindows(Tumbling(20), Count()), content, "hours", 7)


# -- states that cannot be saved ---------------------------------------------------------------------------------------


class Own:
    """A class that is not registered."""


class Broken(Boxed):
    def pack_state(self, state: Any) -> Any:
        raise ValueError("no")


@pytest.mark.parametrize(
    ("machine", "value", "text"),
    [
        (lambda: PlainWindows(Tumbling(10), Collect()), Own(), "window or slice from 0, the state of Collect"),
        (lambda: SessionWindows(Session(10), Collect()), Own(), "SessionWindows, its sessions"),
        (lambda: PlainWindows(Tumbling(10), Broken()), 1, "Broken.pack_state raised ValueError for the state of key"),
    ],
)
@pytest.mark.parametrize("when", ["first rows", "packed", "changed meanwhile"])
def test_a_state_that_cannot_be_saved_is_named(machine: Callable[[], Any], value: Any, text: str, when: str) -> None:
    windows = machine()
    windows.add(["ann"], [5], [value])
    tables = WindowTables(windows, "hours", 7)

    def saved() -> None:
        if when == "first rows":
            tables.check_first_rows()
        capture = tables.capture(1, None)
        if when == "changed meanwhile":
            assert windows.add(["ann"], [5], [value]).failed == []
        bytes_of(capture)

    with pytest.raises(UnsavableError, match=rf"component 'hours', task 7: the state of key 'ann' .*{text}") as raised:
        saved()
    assert raised.value.key == "ann"
    assert windows.states == 1


def test_a_key_that_cannot_be_saved_is_named() -> None:
    windows, key = PlainWindows(Tumbling(10), Count()), Own()
    windows.add([key], [5], [1])
    with pytest.raises(UnsavableError, match=r"task 7: the state of key .*Own .*PlainWindows") as raised:
        WindowTables(windows, "hours", 7).check_first_rows()
    assert raised.value.key is key
