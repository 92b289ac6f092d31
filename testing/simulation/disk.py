"""Disk: the storage of a simulated process; it outlives the process, and loses as much as a real one may lose.

    write, append, remove ─► pending ─► sync ─► durable                         reads return durable and pending
                                └ crash: for each blob a prefix of its changes is kept, none or all;
                                         of the first append that is not, a part may be there, its end damaged

1. What a `sync` has confirmed stays, always. A write is there whole, or not at all: then the blob is an old version.
2. Which changes a crash keeps is drawn blob by blob: of two blobs the older change may be lost, and the newer kept.
3. A crash is a crash of the machine: a process that ends by itself loses nothing that a later `sync` makes durable.
4. Faults: `full` (writes and appends raise, and change nothing), `failing_syncs` (the next so many raise; what was
   pending is kept or lost as at a crash, and the store refuses every further call), `slowness`.

From: ALICE (OSDI 2014) for what a crash leaves; "Can Applications Recover from fsync Failures?" (ATC 2020).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from ...runtime import MAX_BLOB_BYTES, StoreError, check_blob_name

if TYPE_CHECKING:
    from .incarnation import Incarnation

LATENCY_S: Final = 0.002
"""The longest time of a call; a `sync` takes up to ten times that. `slowness` multiplies it."""

DAMAGED_BYTES: Final = 64
"""So much of the end of a torn append may be damaged."""

T = TypeVar("T")
Op = Literal["write", "append", "remove"]


@dataclass(frozen=True, slots=True)
class DiskChange:
    """A change of one blob."""

    op: Op
    name: str
    data: bytes = b""

    def applied_to(self, blob: bytes | None) -> bytes | None:
        """The blob after it."""
        if self.op == "append":
            return (blob or b"") + self.data
        return self.data if self.op == "write" else None


class Disk:
    """The blobs of one process name. `full`, `failing_syncs` and `slowness` are for faults."""

    def __init__(self, chance: random.Random) -> None:
        self.full = False
        self.failing_syncs = 0
        self.slowness = 1.0
        self.lost = 0
        """How many changes crashes have undone."""
        self.torn = 0
        self._chance = chance
        self._durable: dict[str, bytes] = {}
        self._pending: list[DiskChange] = []
        self._visible: dict[str, bytes] = {}

    def heal(self) -> None:
        """Remove all faults."""
        self.full, self.failing_syncs, self.slowness = False, 0, 1.0

    def read(self, name: str) -> bytes | None:
        """The current content, durable or not."""
        return self._visible.get(name)

    def names(self, prefix: str) -> list[str]:
        """The names with this prefix, sorted."""
        return sorted(name for name in self._visible if name.startswith(prefix))

    def change(self, change: DiskChange) -> None:
        """Apply a change: it is visible at once, and durable after the next `sync`."""
        self._pending.append(change)
        _put(self._visible, change.name, change.applied_to(self._visible.get(change.name)))

    def sync(self) -> None:
        """Make all changes durable."""
        self._durable = dict(self._visible)
        self._pending.clear()

    def crash(self) -> None:
        """Lose some of what is pending, as the seed decides."""
        of_blob: dict[str, list[DiskChange]] = {}
        for change in self._pending:
            of_blob.setdefault(change.name, []).append(change)
        fate = self._chance.choice(("lost", "kept", "mixed", "mixed"))
        for name, changes in of_blob.items():
            kept = {"lost": 0, "kept": len(changes)}.get(fate, self._chance.randint(0, len(changes)))
            blob = self._durable.get(name)
            for change in changes[:kept]:
                blob = change.applied_to(blob)
            if kept < len(changes):
                self.lost += len(changes) - kept
                if fate != "lost" and changes[kept].op == "append":
                    blob = (blob or b"") + self._tear(changes[kept].data)
            _put(self._durable, name, blob)
        self._pending.clear()
        self._visible = dict(self._durable)

    def draw_latency_s(self) -> float:
        """How long the next call takes."""
        return self._chance.random() * LATENCY_S * self.slowness

    def draw_started(self, waiting: int) -> int:
        """How many of the calls that wait for the disk have reached it when the process crashes."""
        return self._chance.randint(0, waiting)

    def _tear(self, data: bytes) -> bytes:
        self.torn += 1
        part = data[: self._chance.randint(0, len(data))]
        if part and self._chance.random() < 0.5:
            damaged = self._chance.randint(1, min(DAMAGED_BYTES, len(part)))
            part = part[:-damaged] + self._chance.randbytes(damaged)
        return part


class SimStore:
    """The `Store` of one incarnation. Made by its process: `process.store`; after a failed sync, by `reopen`."""

    def __init__(self, incarnation: Incarnation, disk: Disk, max_bytes: int = MAX_BLOB_BYTES) -> None:
        self.max_bytes = max_bytes
        self.disk = disk
        self._incarnation = incarnation
        self._name = incarnation.process.name
        self._waiting: list[tuple[Callable[[], Any], asyncio.Future[Any]]] = []
        self._free_s = 0.0
        self._broken = False

    def reopen(self) -> SimStore:
        """Open the disk again."""
        made = SimStore(self._incarnation, self.disk, self.max_bytes)
        self._incarnation.at_death.append(made.process_died)
        return made

    async def read(self, name: str) -> bytes | None:
        check_blob_name(name)
        return await self._do(lambda: self.disk.read(name))

    async def write(self, name: str, data: bytes) -> None:
        await self._change(DiskChange("write", check_blob_name(name), bytes(data)))

    async def append(self, name: str, data: bytes) -> None:
        await self._change(DiskChange("append", check_blob_name(name), bytes(data)))

    async def remove(self, name: str) -> None:
        await self._change(DiskChange("remove", check_blob_name(name)))

    async def names(self, prefix: str = "") -> list[str]:
        if prefix:
            check_blob_name(prefix)
        return await self._do(lambda: self.disk.names(prefix))

    async def sync(self) -> None:
        await self._do(self._sync, times=10.0)

    def process_died(self, crashed: bool) -> None:
        """Calls that have not reached the disk are lost; a crash decides about what was not synced."""
        waiting, self._waiting = self._waiting, []
        if crashed:
            for work, _ in waiting[: self.disk.draw_started(len(waiting))]:
                self._try(work)
            self.disk.crash()

    # -- how ---------------------------------------------------------------------------------------------------------

    async def _change(self, change: DiskChange) -> None:
        await self._do(lambda: self._checked(change))

    async def _do(self, work: Callable[[], T], times: float = 1.0) -> T:
        """One after another, in the order of the calls; cancelling a caller does not stop its call."""
        world = self._incarnation.process.world
        done: asyncio.Future[T] = self._incarnation.loop.create_future()
        if self._incarnation.alive:
            self._waiting.append((work, done))
            self._free_s = max(self._free_s, world.now_s) + self.disk.draw_latency_s() * times
            world.call_at(self._free_s, self._next)
        return await done

    def _next(self) -> None:
        if self._waiting:  # else the process died meanwhile
            work, done = self._waiting.pop(0)
            result, error = self._try(work)
            if done.done():
                return
            if error is None:
                done.set_result(result)
            else:
                done.set_exception(error)

    def _try(self, work: Callable[[], Any]) -> tuple[Any, StoreError | None]:
        if self._broken:
            return None, StoreError(f"{self._name}: a sync failed. Open the disk anew and read what is there")
        try:
            return work(), None
        except StoreError as error:
            return None, error

    def _checked(self, change: DiskChange) -> None:
        blob = change.applied_to(self.disk.read(change.name))
        if blob is not None and len(blob) > self.max_bytes:
            raise StoreError(f"{self._name}: {change.name} would have more than {self.max_bytes:,} bytes")
        if self.disk.full and change.op != "remove":
            raise StoreError(f"{self._name}: the disk is full: {change.name} is as it was")
        self.disk.change(change)

    def _sync(self) -> None:
        if self.disk.failing_syncs:
            self.disk.failing_syncs -= 1
            self.disk.crash()
            self._broken = True
            raise StoreError(f"{self._name}: a sync failed, what was written since the last may be lost")
        self.disk.sync()


def _put(blobs: dict[str, bytes], name: str, blob: bytes | None) -> None:
    if blob is None:
        blobs.pop(name, None)
    else:
        blobs[name] = blob
