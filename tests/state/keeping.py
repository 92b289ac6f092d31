"""A small world for tests of the keeper: stores in memory and on a simulated disk, two tasks, their snapshots."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

from aiostorm.runtime import MAX_BLOB_BYTES, LoopClock, LoopTurns, Store, StoreError
from aiostorm.state import (
    BlobChain,
    Capture,
    ComponentPlan,
    Keeper,
    Manifest,
    State,
    TaskBlobs,
    load_task,
    save_task,
)
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
        self.broken = False

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
            self.broken = True  # as stores do
            raise StoreError("a sync failed")
        self.disk.sync()

    def _change(self, change: DiskChange) -> None:
        if self.disk.full and change.op != "remove":
            raise StoreError("the disk is full")
        self.disk.change(change)  # a crash in this call may keep it
        self._step()

    def _step(self) -> None:
        if self.broken:
            raise StoreError("a sync failed before")
        self.calls += 1
        if self.calls >= self.crash_at:
            self.disk.crash()
            raise CrashError


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


def virtually(main: Any) -> Any:
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(main)


async def opened(store: Store, topology: str = "words") -> Keeper:
    keeper = Keeper(store, topology, 77, keep=2)
    await keeper.open()
    return keeper


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
            saved = await save_task(keeper, task, number, [capture], LoopTurns(LoopClock()))
            made.append(TaskBlobs(task, chains[task].after(saved.blobs, full=full), saved.sizes))
        if aborted:
            for capture in captures:
                capture.give_back()
            return
        await keeper.sync()
        await keeper.commit(Manifest(number, "words", PLAN, tuple(made), savepoint=savepoint))
        self.counted = number
        for part in made:
            new = tuple(ref for ref in part.blobs if ref.name.startswith(f"t{part.task}-{number}-"))
            chains[part.task].committed(new, full=new == part.blobs)


def two_snapshots() -> tuple[dict[str, bytes], Models]:
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
                saved = await save_task(
                    keeper, task, number, [Capture(states[task], "count", task, full=full)], LoopTurns(LoopClock())
                )
                older = () if full else keeper.manifest(1).of_task(task).blobs
                made.append(TaskBlobs(task, older + saved.blobs, saved.sizes))
            world.models[number] = {task: dict(state) for task, state in states.items()}
            await keeper.commit(Manifest(number, "words", PLAN, tuple(made)))

    virtually(main())
    assert sorted(store.blobs) == ["m-1", "m-2", "owner", "t2-1-f-0", "t2-2-f-0", "t3-1-f-0", "t3-2-d-0"]
    return store.blobs, world.models


class Interrupted(Memory):
    """Before its call number `at`, what `then` does is done."""

    def __init__(self, blobs: dict[str, bytes], at: int, then: Callable[[], Awaitable[object]]) -> None:
        super().__init__(blobs)
        self.left = at
        self.then = then

    async def _step(self) -> None:
        self.left -= 1
        if not self.left:
            await self.then()

    async def read(self, name: str) -> bytes | None:
        await self._step()
        return await super().read(name)

    async def write(self, name: str, data: bytes) -> None:
        await self._step()
        await super().write(name, data)

    async def names(self, prefix: str = "") -> list[str]:
        await self._step()
        return await super().names(prefix)

    async def remove(self, name: str) -> None:
        await self._step()
        await super().remove(name)

    async def sync(self) -> None:
        await self._step()
        await super().sync()
