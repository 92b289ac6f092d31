"""Stream batches: the outcome of the chunks of the current micro-batch, as a pure machine.

    EMITTING ──all fetched, all acked──► ACKED       Spark may commit it
       │  └────a chunk failed for good─► FAILED      the query fails; Spark brings the same batch again
       └───────the topology ends, …────► ABANDONED   the same
       pass 1 ─ fetching failed ─► pass 2 … at most max_attempts passes, then FAILED

1. One batch at a time. Its id is that of the batch before (Spark brings it again) or higher; a lower id means another
   checkpoint.
2. A chunk is (partition, number); within a partition chunks are in order. A chunk that was emitted in an earlier pass
   is not emitted again: the framework replays chunks that fail.
3. Each chunk has a digest. A batch that comes again and differs in a chunk is an error: consumers that keep results by
   (batch id, partition, chunk) would lose or double rows. Only a batch that was never fetched completely may come with
   more chunks than before.
4. It ends once. Later outcomes, and outcomes of chunks that were not emitted, change nothing.
5. Memory: 8 bytes a chunk of the last batch, and the ids of the open chunks.
6. With exactly-once (positions.py) a chunk counts as acked when it is emitted, and is not emitted again if its batch
   comes again. An ACKED batch is `returnable` when a durable snapshot contains all of it.

From: Storm's Trident (transaction ids), Spark's ForeachBatchSink.
"""

from __future__ import annotations

import enum
from array import array
from collections.abc import Mapping
from typing import Any, Final, Self

from ..errors import SparkSourceError
from .positions import StreamPositions

DIGEST_MASK: Final = 2**64 - 1

MAX_FAILURES: Final = 5
"""The consecutive failures of a query, without a completed batch, after which it is given up."""


class BatchState(enum.Enum):
    """The state of a batch."""

    EMITTING = "emitting"
    ACKED = "acked"
    FAILED = "failed"
    ABANDONED = "abandoned"


class ChunkDigests:
    """The digests of the chunks of one batch, over all times Spark brought it. `whole`: all of them are known."""

    __slots__ = ("_digests", "whole")

    def __init__(self) -> None:
        self._digests: dict[int, array[int]] = {}
        self.whole = False

    @property
    def by_partition(self) -> Mapping[int, array[int]]:
        """The known digests, by partition."""
        return self._digests

    @classmethod
    def known(cls, digests: Mapping[int, list[int]], *, whole: bool) -> Self:
        """Those of a restored batch."""
        made = cls()
        made._digests = {partition: array("Q", found) for partition, found in digests.items()}
        made.whole = whole
        return made

    def difference(self, partition: int, chunk: int, digest: int) -> str:
        """Record a chunk. Returns how it differs from before; "" if it does not."""
        digest &= DIGEST_MASK
        known = self._digests.setdefault(partition, array("Q"))
        if chunk < len(known):
            return f"chunk {chunk} of partition {partition} has other rows" if known[chunk] != digest else ""
        if self.whole:
            return f"partition {partition} has more than {len(known)} chunks"
        known.append(digest)
        return ""

    def missing(self, chunks: Mapping[int, int]) -> str:
        """A pass has ended with so many chunks of each partition. Returns which were more before; "" if none."""
        for partition, known in self._digests.items():
            count = chunks.get(partition, 0)
            if count < len(known):
                return f"partition {partition} has {count} chunks, and had {len(known)}"
        self.whole = True
        return ""


class MicroBatch:
    """One batch. `attempt` counts the passes over its data, `why` is the reason of its end."""

    __slots__ = (
        "_digests",
        "_emitted",
        "_max_attempts",
        "_next_chunks",
        "_open",
        "attempt",
        "batch_id",
        "fetched",
        "name",
        "rows",
        "state",
        "why",
    )

    def __init__(
        self,
        name: str,
        batch_id: int,
        max_attempts: int,
        digests: ChunkDigests,
        emitted: dict[int, int] | None = None,
    ) -> None:
        self.name = name
        self.batch_id = batch_id
        self.state = BatchState.EMITTING
        self.attempt = 0
        self.rows = 0
        self.why = ""
        self.fetched = False
        self._max_attempts = max_attempts
        self._digests = digests
        self._emitted = {} if emitted is None else emitted
        self._next_chunks: dict[int, int] = {}
        self._open: set[tuple[int, int]] = set()

    @property
    def open_chunks(self) -> int:
        """Chunks that are emitted, and neither acked nor failed."""
        return len(self._open)

    @property
    def open_ids(self) -> frozenset[tuple[int, int]]:
        """Their partitions and numbers."""
        return frozenset(self._open)

    @property
    def settled(self) -> bool:
        return self.state is not BatchState.EMITTING

    # -- its data ----------------------------------------------------------------------------------------------------

    def begin_pass(self) -> None:
        """Start to fetch its data from the beginning."""
        self.attempt += 1
        self._next_chunks = {}

    def offer(self, partition: int, chunk: int, digest: int, rows: int) -> bool:
        """A chunk was fetched. Whether to emit it. SparkSourceError if it differs from before."""
        expected = self._next_chunks.get(partition, 0)
        if expected != chunk:
            raise ValueError(f"chunk {chunk} of partition {partition} came, {expected} is next")
        self._next_chunks[partition] = chunk + 1
        if what := self._digests.difference(partition, chunk, digest):
            raise self._differs(what)
        if self.settled or chunk < self._emitted.get(partition, 0):
            return False
        self._emitted[partition] = chunk + 1
        self.rows += rows
        self._open.add((partition, chunk))
        return True

    def end_pass(self) -> None:
        """All its data was fetched. SparkSourceError if there were more chunks before."""
        if what := self._digests.missing(self._next_chunks):
            raise self._differs(what)
        self.fetched = True
        self._close_if_done()

    def was_emitted(self) -> None:
        """All of it was emitted before: there is no pass over its data."""
        self.fetched = True
        self._close_if_done()

    def pass_failed(self, why: str) -> bool:
        """Fetching failed. True: fetch again; False: the batch has failed."""
        if self.settled:
            return False
        if self.attempt < self._max_attempts:
            return True
        self._end(BatchState.FAILED, f"its data could not be fetched in {self.attempt} attempts; the last: {why}")
        return False

    # -- outcomes ----------------------------------------------------------------------------------------------------

    def acked(self, partition: int, chunk: int) -> None:
        """The tree of a chunk is complete."""
        self._open.discard((partition, chunk))
        self._close_if_done()

    def failed(self, partition: int, chunk: int, why: str) -> None:
        """A chunk has failed for good: the framework does not replay it again."""
        if not self.settled and (partition, chunk) in self._open:
            self._end(BatchState.FAILED, f"chunk {self.name}/b{self.batch_id}/{partition}/{chunk} failed: {why}")

    def broken(self, why: str) -> None:
        """Fail the batch: its data differs from before."""
        self._end(BatchState.FAILED, why)

    def abandon(self, why: str) -> None:
        """Abandon the batch: the topology or the query ends."""
        self._end(BatchState.ABANDONED, why)

    def _close_if_done(self) -> None:
        if self.fetched and not self._open:
            self._end(BatchState.ACKED, "")

    def _end(self, state: BatchState, why: str) -> None:
        if self.state is BatchState.EMITTING:
            self.state, self.why = state, why

    def _differs(self, what: str) -> SparkSourceError:
        return SparkSourceError(
            f"batch {self.batch_id} of {self.name!r} came again and differs: {what}. Its rows must be the same, in the "
            "same order, each time Spark computes it: sort what is behind a shuffle (sortWithinPartitions), and use "
            "neither rand() nor UDFs that give something else each time"
        )


class StreamBatches:
    """The batches of one query, one after another.

    `done`: the number of acked batches; `rows`: their rows; `last_done`: the id of the last one, -1 if there is none.
    `positions`: what was emitted, with exactly-once.
    """

    __slots__ = (
        *("_digests", "_failures", "_max_attempts", "current", "done", "last_done", "last_id", "name", "positions"),
        "rows",
    )

    def __init__(self, name: str, max_attempts: int, *, exact: bool = False) -> None:
        if max_attempts < 1:
            raise ValueError(f"max_attempts is 1 or more, not {max_attempts}")
        self.name = name
        self.current: MicroBatch | None = None
        self.last_id: int | None = None
        self.done = 0
        self.last_done = -1
        self.rows = 0
        self.positions = StreamPositions(name) if exact else None
        self._max_attempts = max_attempts
        self._digests = ChunkDigests()
        self._failures = 0

    def begin(self, batch_id: int) -> MicroBatch:
        """Spark brings a batch. SparkSourceError if it cannot belong to this query."""
        before = self.current
        if before is not None and not before.settled:
            before.abandon("the query brought another batch")
        if before is not None and self.positions is not None:
            self.positions.not_emitted(before.open_ids)
        if self.last_id is not None and batch_id < self.last_id:
            raise SparkSourceError(
                f"Spark brings batch {batch_id} of {self.name!r} after batch {self.last_id}: the checkpoint was "
                "replaced or put back while the query ran. Give each query a checkpoint that nothing else changes"
            )
        was_emitted, emitted = False, None
        if self.positions is not None:
            was_emitted = self.positions.begin(batch_id)
            emitted = self.positions.emitted
        if batch_id != self.last_id:
            self._digests = ChunkDigests()
        self.last_id = batch_id
        self.current = MicroBatch(self.name, batch_id, self._max_attempts, self._digests, emitted)
        if was_emitted:
            self.current.was_emitted()
        return self.current

    def of(self, batch_id: int) -> MicroBatch | None:
        """The batch with this id, if it is current and has not ended."""
        current = self.current
        return current if current is not None and current.batch_id == batch_id and not current.settled else None

    @property
    def is_returnable(self) -> bool:
        """Whether Spark may commit the current batch, once it is ACKED."""
        return self.positions is None or self.positions.durable == self.last_id

    def emitted(self, partition: int, chunk: int) -> None:
        """With exactly-once: a chunk was emitted, and counts as acked."""
        if self.current is not None and self.positions is not None:
            self.current.acked(partition, chunk)
            self.note_whole()

    def note_whole(self) -> None:
        """With exactly-once: all of a batch was emitted, if so."""
        batch, positions = self.current, self.positions
        if batch is not None and positions is not None and batch.fetched and not batch.open_chunks:
            positions.whole = True

    def snapshot(self) -> dict[str, Any] | None:
        """The position; None: no batch has come."""
        positions, batch = self.positions, self.current
        if positions is None or positions.batch < 0:
            return None
        return positions.snapshot(() if batch is None else batch.open_ids, self._digests.by_partition)

    def restore(self, position: dict[str, Any] | None) -> None:
        """Continue after a position. SparkSourceError if it is none."""
        if position is not None and self.positions is not None:
            digests = self.positions.restore(position)
            self._digests = ChunkDigests.known(digests, whole=self.positions.whole)
            self.last_id = self.positions.batch

    def count(self, batch: MicroBatch) -> None:
        self.done += 1
        self.rows += batch.rows
        self.last_done = batch.batch_id
        self._failures = 0

    def query_failed(self) -> bool:
        """The query has failed, or could not be started. True: give it up."""
        self._failures += 1
        return self._failures > MAX_FAILURES
