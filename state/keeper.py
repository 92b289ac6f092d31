"""Keeper: the snapshots of one topology in a store. A thin shell; it has one owner at a time.

    write blobs ─► sync ─► write manifest ─► sync: the snapshot counts ─► remove what no kept manifest names
    load: the highest manifest whose blobs all check; if it is damaged, the one before, with a WARNING

1. A snapshot counts when `commit` has returned. Before that, the one before it counts.
2. After a crash at any step, one whole snapshot is loaded: the last that counts, or the one that was being committed.
3. Kept are the newest `keep` snapshots, savepoints, and all blobs that they name. Other blobs are removed when they
   are found: at `open`, with each commit, and when a snapshot has failed (see garbage, with each interleaving). The
   highest number stays. So no number is used twice: the next number is above all that the store contains.
4. A folder belongs to one topology; another one is refused. Of two processes with one topology the one that opened the
   folder last owns it, and `commit` of the other is refused. (DirectoryStore refuses a second process at once.)
   `commit` looks for the owner after the manifest is durable, and `open` lists manifests after it has become the owner:
   so a snapshot of the other either is found by `open`, or does not count.
5. A manifest that cannot be read is never removed: an operator may want to see it.
6. A snapshot that would bring what is kept above the quota does not count: its manifest is not written.

From: Flink's CompletedCheckpointStore; JStorm's SnapshotStateMaster.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from itertools import chain
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Protocol

from ..runtime import Clock, LoopTurns, Store, StoreError
from .blobs import Blob, BlobRef, BlobWriter, body_of
from .chunks import Captured, Chunk, PackedChunk, unpack_chunks
from .errors import DamagedError, OwnedError, QuotaError, SaveError, StateError
from .garbage import garbage, highest_number, kept_manifests, stored_bytes
from .manifest import (
    PREFIX,
    Manifest,
    TaskBlobs,
    manifest_number,
    pack_framed,
    pack_manifest,
    read_manifest,
    unpack_framed,
)

OWNER: Final = "owner"
KEEP: Final = 3

_MAGIC: Final = "aiostorm-state"
_FORMAT: Final = 1

_log = logging.getLogger("aiostorm.state")


class Keeper:
    """The snapshots of a topology. `incarnation`: a number that differs for each process; call `open` first.

    `quota_bytes`: of all blobs that kept snapshots name; None: any number. It and `keep` may be changed at any time.
    """

    def __init__(
        self, store: Store, topology: str, incarnation: int, *, keep: int = KEEP, quota_bytes: int | None = None
    ) -> None:
        if keep < 1:
            raise ValueError(f"at least one snapshot is kept: keep={keep}")
        self.keep = keep
        self.quota_bytes = quota_bytes
        self._store = store
        self._topology = topology
        self._incarnation = incarnation
        self._manifests: dict[int, Manifest] = {}
        self._unreadable: dict[int, DamagedError] = {}
        self._undecided = ""
        """The manifest of which it is not known whether it is durable."""

    @property
    def numbers(self) -> list[int]:
        """The snapshots whose manifests can be read, the oldest first."""
        return sorted(self._manifests)

    @property
    def highest(self) -> int:
        """The number of the newest snapshot, also of one that cannot be read; 0: there is none."""
        return max([0, *self._manifests, *self._unreadable])

    @property
    def stored_bytes(self) -> int:
        """Of all blobs that snapshots name, without those whose manifest cannot be read."""
        return stored_bytes(self._manifests.values())

    @property
    def is_undecided(self) -> bool:
        """Is it not known whether a manifest is durable? Then the store must be opened by another keeper."""
        return bool(self._undecided)

    async def open(self) -> int:
        """Take the folder over, and read its manifests. Returns the first free number.

        OwnedError: it is another topology's. ForeignError: a manifest is of a newer aiostorm, or of another topology.
        SaveError if the folder cannot be written, StoreError if it cannot be read or is in use.
        """
        await self._check_topology()
        await self._read_manifests()
        owner = {"topology": self._topology, "incarnation": self._incarnation}
        await self._write("the folder cannot be used", OWNER, pack_framed(_MAGIC, _FORMAT, owner))
        await self.sync()
        names = await self._read_manifests()
        highest = highest_number(names)
        await self._remove(garbage(names, self._manifests, self._oldest(), highest), "blobs of failed snapshots")
        return 1 + highest

    async def _read_manifests(self) -> list[str]:
        """Read those that were not read yet, and forget those that were removed. Returns the names of all blobs."""
        names = await self._store.names()
        self._manifests = {number: found for number, found in self._manifests.items() if found.name in names}
        for name in names:
            number = manifest_number(name)
            if number is None or number in self._manifests or number in self._unreadable:
                continue
            try:
                self._manifests[number] = read_manifest(name, await self._store.read(name), self._topology)
            except DamagedError as error:
                _log.warning("%s: a manifest cannot be read: %s", self._topology, error)
                self._unreadable[number] = error
        return names

    # -- writing -----------------------------------------------------------------------------------------------------

    async def write(self, blob: Blob) -> None:
        """Write a blob. SaveError."""
        await self._write("a snapshot was not saved", blob.ref.name, blob.data)

    async def sync(self) -> None:
        """Make all blobs durable; before `commit`. SaveError: the store must then be opened again."""
        try:
            await self._store.sync()
        except StoreError as error:
            raise SaveError(f"{self._topology}: a snapshot was not saved: {error}") from error

    async def commit(self, manifest: Manifest) -> None:
        """Write the manifest of a snapshot whose blobs are durable, then remove garbage.

        OwnedError: another process has the folder. QuotaError. SaveError: if it is `undecided`, the snapshot may count:
        open the store again with another keeper, and load what is there; this one commits nothing more. ValueError for
        a number that is not above all others.
        """
        if manifest.topology != self._topology or manifest.number <= self.highest:
            raise ValueError(f"{manifest.name} of {manifest.topology!r}: another topology, or a number that is used")
        if self._undecided:
            raise SaveError(f"{self._topology}: {self._undecided} may count: open the store again", undecided=True)
        self._check_quota(manifest)
        await self._write_manifest(manifest)
        self._manifests[manifest.number] = manifest
        try:
            await self._remove_garbage(manifest.number - 1)
        except StoreError as error:
            _log.warning("%s: old snapshots were not removed: %s", self._topology, error)

    async def _write_manifest(self, manifest: Manifest) -> None:
        name, reached = manifest.name, False
        try:
            await self._check_owner()
            reached = True
            await self._store.write(name, pack_manifest(manifest))
            await self._store.sync()
            await self._check_owner()  # who has taken the folder over meanwhile may not have found the manifest
        except StoreError as error:
            undecided = reached and await self._may_be_there(name)
            if undecided:
                self._undecided = name
            raise SaveError(f"{self._topology}: {name} was not saved: {error}", undecided=undecided) from error

    async def _may_be_there(self, name: str) -> bool:
        try:
            return await self._store.read(name) is not None
        except StoreError:
            return True

    async def _write(self, what: str, name: str, data: bytes) -> None:
        try:
            await self._store.write(name, data)
        except StoreError as error:
            raise SaveError(f"{self._topology}: {what}: {error}") from error

    async def remove_failed(self, number: int) -> None:
        """Remove the blobs of snapshot `number`, which has failed for good, and of earlier ones. Never raises.

        What cannot be removed now is tried again with the next snapshot.
        """
        if self._undecided:
            return
        try:
            names = await self._store.names()
            await self._check_owner()  # after the listing: see garbage
        except (StoreError, OwnedError) as error:
            _log.warning("%s: the blobs of failed snapshot %d stay for now: %s", self._topology, number, error)
            return
        found = garbage(names, self._manifests, self._oldest(), number)
        await self._remove(found, f"the blobs of failed snapshot {number}")

    def _check_quota(self, manifest: Manifest) -> None:
        """After the commit it must hold: until then there is also what the commit removes."""
        quota = self.quota_bytes
        if quota is None:
            return
        after = stored_bytes(kept_manifests({**self._manifests, manifest.number: manifest}, self.keep).values())
        if after > quota:
            raise QuotaError(
                f"{self._topology}: with snapshot {manifest.number} those that are kept would have {after:,} bytes, "
                f"and topology.state.quota.mb allows {quota:,}: raise it (aiostorm update), keep fewer "
                "(topology.snapshot.keep), or keep less state. Data goes on meanwhile, without new snapshots"
            )

    def _oldest(self) -> int:
        """The number of the oldest that is among the newest `keep`; 0: there is none."""
        return min(self.numbers[-self.keep :], default=0)

    async def _remove_garbage(self, until: int) -> None:
        kept = kept_manifests(self._manifests, self.keep)
        for number in self._manifests.keys() - kept.keys():
            await self._store.remove(f"{PREFIX}{number}")
        if len(kept) != len(self._manifests):
            await self._store.sync()  # a manifest must not come back without its blobs
            self._manifests = kept
        for name in garbage(await self._store.names(), kept, self._oldest(), until):
            await self._store.remove(name)

    async def _remove(self, names: Sequence[str], what: str) -> None:
        try:
            for name in names:
                await self._store.remove(name)
        except StoreError as error:
            _log.warning("%s: %s stay for now: %s", self._topology, what, error)

    # -- the owner ---------------------------------------------------------------------------------------------------

    async def _check_topology(self) -> None:
        owner = await self._owner()
        if owner is not None and owner.get("topology") != self._topology:
            raise OwnedError(
                f"the folder contains the state of topology {owner.get('topology')!r}, and not of {self._topology!r}: "
                "use another folder"
            )

    async def _check_owner(self) -> None:
        owner = await self._owner()
        if owner != {"topology": self._topology, "incarnation": self._incarnation}:
            raise OwnedError(
                f"another process runs topology {self._topology!r} with the same folder: it is the owner now ({owner})"
            )

    async def _owner(self) -> dict[str, Any] | None:
        data = await self._store.read(OWNER)
        if data is None:
            return None
        try:
            found: dict[str, Any] = unpack_framed(_MAGIC, _FORMAT, OWNER, data)
        except DamagedError as error:  # the manifests name the topology, too
            _log.warning("%s: %s", self._topology, error)
            return None
        return found

    # -- reading -----------------------------------------------------------------------------------------------------

    async def latest(self) -> Manifest | None:
        """The newest snapshot that can be loaded; None if there is none yet.

        A damaged one is left out with a WARNING. StateError if there are snapshots, and none can be loaded.
        """
        problems = dict(self._unreadable)
        for number in sorted(self._manifests, reverse=True):
            try:
                await self.check(self._manifests[number])
            except DamagedError as error:
                problems[number] = error
                continue
            for damaged in sorted(problems, reverse=True):
                if damaged > number:
                    text = "%s: snapshot %d is damaged (%s): going back to snapshot %d. Sinks repeat the rows after it"
                    _log.warning(text, self._topology, damaged, problems[damaged], number)
            return self._manifests[number]
        if problems:
            newest = max(problems)
            raise StateError(
                f"{self._topology}: none of {len(problems)} snapshots can be loaded; {newest}: {problems[newest]}. "
                "Repair the folder, or use an empty one to start without state"
            )
        return None

    def manifest(self, number: int) -> Manifest:
        """The snapshot with this number. StateError that lists those there are."""
        if number in self._unreadable:
            raise self._unreadable[number]
        if number not in self._manifests:
            there = ", ".join(map(str, self.numbers)) or "none"
            raise StateError(f"{self._topology}: there is no snapshot {number}; there are: {there}")
        return self._manifests[number]

    async def check(self, manifest: Manifest) -> None:
        """Read all blobs of a snapshot. DamagedError; ForeignError for a newer format."""
        for part in manifest.tasks:
            for ref in part.blobs:
                body_of(ref, await self._store.read(ref.name))


class SavedTask(NamedTuple):
    """What a task wrote for a snapshot. `rows`: how many keys were packed; `loop_s`: of the event loop's time."""

    blobs: tuple[BlobRef, ...]
    sizes: dict[int, int]
    rows: int
    full: bool
    loop_s: float


class Blobs(Protocol):
    """Where blobs are written: a Keeper, or another process of its topology."""

    async def write(self, blob: Blob) -> None:
        """Write a blob. SaveError."""
        ...


async def save_task(
    keeper: Blobs,
    task: int,
    number: int,
    captures: Sequence[Captured],
    turns: LoopTurns,
    singles: Mapping[int, PackedChunk] = MappingProxyType({}),
) -> SavedTask:
    """Pack the captures of a task, one a section, and write its blobs; other code runs between slices.

    `singles`: sections that are one value, with each snapshot. UnsavableError; SaveError. After an error, or if the
    snapshot is aborted later: `give_back` of each capture. ValueError if some captures are full and others are not.
    """
    full = all(capture.full for capture in captures)
    if not full and any(capture.full for capture in captures):
        raise ValueError(f"task {task}: full captures and deltas in one snapshot")
    sizes = {**dict.fromkeys(singles, 1), **{capture.section: capture.size for capture in captures}}
    if len(sizes) != len(singles) + len(captures):
        raise ValueError(f"task {task}: two states in one section")
    writer = BlobWriter(task, number, full=full)
    refs: list[BlobRef] = []
    clock = turns.clock
    rows, loop_s, began_s = 0, 0.0, clock.stopwatch()
    packed = chain(singles.values(), *(capture.slices(clock.stopwatch) for capture in captures))
    for chunk in packed:
        blob = writer.add(chunk)
        rows += chunk.rows
        loop_s += clock.stopwatch() - began_s
        if blob is not None:
            refs.append(blob.ref)
            await keeper.write(blob)
        await turns.next()
        began_s = clock.stopwatch()
    if (blob := writer.finish()) is not None:
        refs.append(blob.ref)
        await keeper.write(blob)
    return SavedTask(tuple(refs), sizes, rows, full, loop_s)


async def chunks_of(store: Store, saved: TaskBlobs, clock: Clock) -> AsyncIterator[Chunk]:
    """The chunks of a task's blobs, in the order in which they are applied. DamagedError, ForeignError."""
    for ref in saved.blobs:
        body = body_of(ref, await store.read(ref.name))
        for chunk in unpack_chunks(body, ref.name):
            yield chunk
            await clock.sleep(0)


class SectionLoader(Protocol):
    """Makes the content of a section of its chunks, in their order."""

    def apply(self, chunk: Chunk) -> None:
        """Apply the next chunk. ValueError if it does not fit the chunks before it."""
        ...

    def finish(self) -> tuple[dict[Any, Any], int]:
        """The content, and how many keys it has. ValueError if chunks are missing."""
        ...


class DictLoader:
    """The content of a section is a dict."""

    def __init__(self) -> None:
        self._content: dict[Any, Any] = {}

    def apply(self, chunk: Chunk) -> None:
        chunk.apply_to(self._content)

    def finish(self) -> tuple[dict[Any, Any], int]:
        return self._content, len(self._content)


async def load_task(
    store: Store,
    saved: TaskBlobs,
    clock: Clock,
    loaders: Mapping[int, Callable[[], SectionLoader]] = MappingProxyType({}),
) -> dict[int, dict[Any, Any]]:
    """The saved state of a task by section. `loaders`: of sections that are no dicts of their keys.

    DamagedError if it does not have as many keys as it had, or its chunks do not fit; ForeignError.
    """
    made = {section: loaders.get(section, DictLoader)() for section in saved.sizes}
    last = saved.blobs[-1].name if saved.blobs else f"task {saved.task}"
    try:
        async for chunk in chunks_of(store, saved, clock):
            if chunk.section in made:  # a section that is not saved any more may be in earlier blobs
                made[chunk.section].apply(chunk)
        sections: dict[int, dict[Any, Any]] = {}
        for section, loader in made.items():
            sections[section], size = loader.finish()
            if size != saved.sizes.get(section):
                raise ValueError(f"section {section} has {size} keys instead of {saved.sizes.get(section)}")
    except ValueError as error:
        raise DamagedError(last, str(error)) from error
    return sections
