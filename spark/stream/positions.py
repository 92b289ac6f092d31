"""Stream positions: what of a query's batches was emitted, in snapshots, and which batch Spark may commit. Pure.

    emitted … all of batch n ─ snapshot ─► position ─► the snapshot is durable ─► Spark commits batch n
    restored: batch n comes again ─┬─ all of it is in the position ─► Spark commits it, nothing is emitted
                                   ╰─ a part of it ─► the other chunks are emitted

1. A position has the chunks that were emitted, of the last batch that has come; all batches before it are whole.
2. Spark commits a batch after a durable snapshot contains all of it. So each batch is emitted, or it comes again.
3. Batches have consecutive numbers. A gap means that rows would be lost: it is an error.
4. Digests of the last batch are in the position: a batch that comes again has the same rows, or it is an error.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from typing import Any, Final

from ..errors import SparkSourceError

_VERSION: Final = 1


class StreamPositions:
    """What was emitted of the last batch, `batch` (-1: none has come yet).

    `emitted`: its chunks by partition; `whole`: are these all? `durable`: the last batch that is in a durable snapshot.
    """

    __slots__ = ("_in_snapshot", "batch", "durable", "emitted", "name", "whole")

    def __init__(self, name: str) -> None:
        self.name = name
        self.batch = -1
        self.durable = -1
        self.emitted: dict[int, int] = {}
        self.whole = True
        self._in_snapshot = -1

    def begin(self, batch_id: int) -> bool:
        """Spark brings a batch. Whether all of it was emitted. SparkSourceError if batches are missing before it."""
        if batch_id == self.batch:
            return self.whole
        if batch_id != self.batch + 1 or not self.whole:
            there = f"has batches to {self.batch}" if self.whole else f"has a part of batch {self.batch}"
            if self.batch < 0:
                there = "has no batches"
            raise SparkSourceError(
                f"Spark brings batch {batch_id} of {self.name!r}, and the snapshot {there}: rows between them would be "
                "lost. The checkpoint and state_dir belong together: put back the one that was replaced, or begin with "
                "an empty state_dir and an empty checkpoint"
            )
        self.batch, self.whole, self.emitted = batch_id, False, {}
        return False

    def not_emitted(self, chunks: Iterable[tuple[int, int]]) -> None:
        """These chunks were fetched, and are dropped before they were emitted."""
        for partition, chunk in chunks:
            self.emitted[partition] = min(chunk, self.emitted.get(partition, 0))

    def snapshot(self, open_chunks: Iterable[tuple[int, int]], digests: Mapping[int, array[int]]) -> dict[str, Any]:
        """The position. `open_chunks`: fetched, and not emitted. `digests`: of the chunks that were fetched."""
        emitted = dict(self.emitted)
        for partition, chunk in open_chunks:
            emitted[partition] = min(chunk, emitted.get(partition, 0))
        self._in_snapshot = self.batch if self.whole else self.batch - 1
        kept = {partition: list(found) for partition, found in digests.items()}
        return {"version": _VERSION, "batch": self.batch, "whole": self.whole, "emitted": emitted, "digests": kept}

    def committed(self) -> None:
        """The snapshot that was taken last is durable."""
        self.durable = max(self.durable, self._in_snapshot)

    def restore(self, position: Any) -> dict[int, list[int]]:
        """Continue after a position. Returns the digests of its batch. SparkSourceError if it is none."""
        try:
            if position["version"] != _VERSION:
                raise ValueError(f"version {position['version']!r:.20}")
            self.batch, self.whole = int(position["batch"]), bool(position["whole"])
            self.emitted = {int(partition): int(count) for partition, count in position["emitted"].items()}
            digests = {int(partition): [int(d) for d in found] for partition, found in position["digests"].items()}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise SparkSourceError(
                f"the position of {self.name!r} in the snapshot cannot be read ({error!s:.200}): was it made by "
                "another version of aiostorm, or by another spout? Begin with empty folders for both"
            ) from error
        self._in_snapshot = self.batch if self.whole else self.batch - 1
        self.durable = self._in_snapshot
        return digests
