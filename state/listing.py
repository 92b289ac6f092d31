"""Listing: the snapshots in a store, for people. It only reads: the topology that owns the store may be running.

1. Every blob of every snapshot is read and checked: what is listed without a problem can be restored.
2. Snapshots that the owner removes meanwhile are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .blobs import body_of
from .errors import DamagedError, ForeignError
from .manifest import Manifest, manifest_number, read_manifest

if TYPE_CHECKING:
    from ..runtime import Store


@dataclass(frozen=True, slots=True)
class ListedComponent:
    """A component in a snapshot. `size_bytes`: of its blobs, also of those that other snapshots need, too."""

    component: str
    tasks: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class ListedSnapshot:
    """A snapshot. `taken_s`: since 1970. `problem`: why it cannot be loaded; empty: it can.

    `new_bytes`: of its blobs that no older one needs, so that their sum is what all have together. If its manifest
    cannot be read, only its number is known.
    """

    number: int
    topology: str = ""
    taken_s: float = 0.0
    savepoint: bool = False
    components: tuple[ListedComponent, ...] = ()
    problem: str = ""
    new_bytes: int = 0

    @property
    def size_bytes(self) -> int:
        """The size of its blobs."""
        return sum(part.size_bytes for part in self.components)


async def list_snapshots(store: Store) -> list[ListedSnapshot]:
    """The snapshots in a store, the oldest first. StoreError if it cannot be read."""
    checked: dict[str, str] = {}
    counted: set[str] = set()
    found = [await _listed(store, name, number, checked, counted) for name, number in await _manifests(store)]
    there = {number for _, number in await _manifests(store)} if any(each.problem for each in found) else set[int]()
    return [each for each in found if not each.problem or each.number in there]


async def _manifests(store: Store) -> list[tuple[str, int]]:
    names = await store.names("m")
    numbers = [(name, number) for name in names if (number := manifest_number(name)) is not None]
    return sorted(numbers, key=lambda each: each[1])


async def _listed(store: Store, name: str, number: int, checked: dict[str, str], counted: set[str]) -> ListedSnapshot:
    try:
        manifest = read_manifest(name, await store.read(name))
    except (DamagedError, ForeignError) as error:
        return ListedSnapshot(number, problem=str(error))
    new_bytes = sum(ref.size_bytes for part in manifest.tasks for ref in part.blobs if ref.name not in counted)
    counted |= manifest.blob_names
    return ListedSnapshot(
        number,
        manifest.topology,
        manifest.taken_s,
        manifest.savepoint,
        tuple(
            ListedComponent(
                part.component,
                len(part.tasks),
                sum(blob.size_bytes for task in part.tasks for blob in manifest.of_task(task).blobs),
            )
            for part in manifest.plan
        ),
        await _problem(store, manifest, checked),
        new_bytes,
    )


async def _problem(store: Store, manifest: Manifest, checked: dict[str, str]) -> str:
    """What is wrong with its blobs. `checked`: those that were read for another snapshot."""
    for part in manifest.tasks:
        for ref in part.blobs:
            if ref.name not in checked:
                try:
                    body_of(ref, await store.read(ref.name))
                except (DamagedError, ForeignError) as error:
                    checked[ref.name] = str(error)
                else:
                    checked[ref.name] = ""
            if checked[ref.name]:
                return checked[ref.name]
    return ""
