"""Garbage: which manifests are kept, how many bytes they name, and which blobs of a store no snapshot needs. Pure.

A snapshot that has failed leaves blobs, and some may be written after it has failed: a write in a thread ends late, a
worker does not know yet. The numbers decide (see Coordinator): one snapshot at a time, each with a number above all
that were used. So when snapshot n has failed, no later manifest names a blob of n, nor an older one that none names.

What may happen while blobs are removed, or after that, and why it does no harm:

1. A blob of n is written late. The next removal takes it: with the next snapshot, failed or not, or at `open`.
2. Snapshot n + 1 is written, or counts. Its own blobs are above `until`. What it names of older ones is named by the
   newest manifest that counts, which is kept.
3. It is not known whether manifest n was written. Then the keeper removes nothing, and n fails only after another
   keeper has read the store.
4. Another process takes the folder over. Names are listed before the owner is checked, so what is removed was there
   before that process listed names: the snapshots that it takes have higher numbers, and the manifests that it found
   are those that are known here.
5. This process ends, and the next one looks for the first free number. The highest number stays in the store: of n one
   blob is left, until there is a higher number. So n is not used again while blobs of it may come.
6. An earlier owner has written a manifest that does not count, and is not known here. Blobs with the number of a
   manifest stay until they are older than all that is kept; the others that it names are those of the one before it.
7. An earlier owner writes such a manifest after the removal. It does not count. If it is ever tried, it is found to be
   damaged, and the one before it is loaded.

Only the process that owns the manifests removes blobs; workers write them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from .blobs import BlobName
from .manifest import Manifest, manifest_number


def kept_manifests(manifests: Mapping[int, Manifest], keep: int) -> dict[int, Manifest]:
    """The newest `keep`, and savepoints."""
    newest = sorted(manifests)[-keep:]
    return {number: found for number, found in manifests.items() if number in newest or found.savepoint}


def stored_bytes(manifests: Iterable[Manifest]) -> int:
    """How many bytes the blobs have that they name; what several name counts once."""
    return sum({ref.name: ref.size_bytes for found in manifests for part in found.tasks for ref in part.blobs}.values())


def garbage(names: Collection[str], manifests: Mapping[int, Manifest], oldest: int, until: int) -> list[str]:
    """The blobs to remove, of those with numbers up to `until`, which are not being written any more.

    `names`: all in the store. `manifests`: all that count, or may be loaded. `oldest`: of those that are kept.
    """
    needed = {name for found in manifests.values() for name in found.blob_names}
    blobs: list[tuple[str, int]] = []
    listed: set[int] = set()
    for name in names:
        if (blob := BlobName.parse(name)) is not None:
            blobs.append((name, blob.number))
        elif (number := manifest_number(name)) is not None:
            listed.add(number)
    unread = listed - manifests.keys()
    found = {
        name: number
        for name, number in blobs
        if number <= until and name not in needed and (number < oldest or number not in unread)
    }
    highest = max((number for _, number in blobs), default=0)
    left = {*listed, *(number for name, number in blobs if name not in found)}
    if max(left, default=0) < highest:
        found.pop(max(name for name, number in found.items() if number == highest))
    return sorted(found)


def highest_number(names: Iterable[str]) -> int:
    """The highest number that a name has, of a blob or a manifest; 0: none has one."""
    return max((number for name in names if (number := _number_of(name)) is not None), default=0)


def _number_of(name: str) -> int | None:
    blob = BlobName.parse(name)
    return blob.number if blob is not None else manifest_number(name)
