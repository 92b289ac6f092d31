"""Partitions: which chunks of which partitions are done, and which come next, as a pure machine.

    claim_next ──► chunk: 0, 1, 2 … ──► end ──► (all acked) finished, not read again
      ▲        │ known: acked chunks       │
      └────────┴── source_lost ────────────┘            acked, given_up: in any order, at any time

1. A partition has a number, and a chunk a number in it. The partitions of one task are `index`, `index + tasks`, …
2. A chunk is emitted unless it is acked, open (emitted before), or given up: each is emitted at least once, and again
   only after a crash that lost its ack.
3. A partition that is read again is compared: chunks that are open or were acked lately one by one, the others by a
   sum of their digests that does not depend on the order of the acks. A difference is a ReplayError.
4. Known partitions are read first: no new partition is claimed before all of them are compared, so that another source
   is detected before its rows are mixed with others.
5. A finished partition is never claimed. A partition with a chunk that was given up is not finished: the next run reads
   it again.
6. Of a finished partition the digest of the first chunk is kept (a sample; 0: no chunks).
7. `state` is sufficient to resume after a crash, with any number of tasks; `merged` merges the states of several tasks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from .runs import Runs

RECENT: Final = 8
"""The number of acked chunks whose digests are kept, to report which chunk differs."""

_SUM: Final = 1 << 64


class ReplayError(Exception):
    """A partition differs from before. `chunk`: in which chunk; None: in one of its first `chunks`."""

    def __init__(self, partition: int, chunk: int | None, chunks: int) -> None:
        self.partition, self.chunk, self.chunks = partition, chunk, chunks
        where = f"chunk {chunk}" if chunk is not None else f"one of its first {chunks} chunks"
        super().__init__(f"partition {partition} differs from before: {where} has changed")


class OpenChunk(NamedTuple):
    """An emitted chunk: its digest (64 bits) and its number of rows."""

    digest: int
    rows: int


@dataclass(slots=True)
class PartitionState:
    """A partition that is started and not finished.

    `first`: the digest of its first chunk. `length`: its number of chunks. Both are set once known in this run.
    """

    acked: Runs = field(default_factory=Runs)
    sum: int = 0
    rows: int = 0
    open: dict[int, OpenChunk] = field(default_factory=dict)
    recent: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=RECENT))
    given_up: set[int] = field(default_factory=set)
    first: int = 0
    length: int | None = None

    def ack(self, number: int) -> None:
        """Ack an open chunk."""
        chunk = self.open.pop(number)
        self.acked.add(number)
        self.sum = (self.sum + chunk.digest) % _SUM
        self.rows += chunk.rows
        self.recent.append((number, chunk.digest))

    @property
    def is_finished(self) -> bool:
        """Whether all its chunks are acked."""
        return self.length is not None and len(self.acked) == self.length

    @property
    def is_settled(self) -> bool:
        """Whether all its chunks are acked or given up."""
        return self.length is not None and len(self.acked) + len(self.given_up) == self.length


class _ReplayCheck:
    """Compares a partition that is read again with what is known of it."""

    __slots__ = ("_acked", "_checked", "_known", "_last", "_sum", "_wanted", "known", "next")

    def __init__(self, begun: PartitionState) -> None:
        self.next = 0
        self._acked = begun.acked.copy()
        self._wanted = begun.sum
        self._known = dict(begun.recent) | {number: chunk.digest for number, chunk in begun.open.items()}
        self._sum = 0
        self._checked = 0
        self._last = self._acked.end
        self.known = max([self._last, *(number + 1 for number in self._known)])

    def compare(self, partition: int, number: int, digest: int) -> None:
        known = self._known.get(number)
        if known is not None and known != digest:
            raise ReplayError(partition, number, self._last)
        if number in self._acked:
            self._sum = (self._sum + digest) % _SUM
            self._checked += 1
            if self._checked == len(self._acked) and self._sum != self._wanted:
                raise ReplayError(partition, None, self._last)

    def ended(self, partition: int, chunks: int) -> None:
        if chunks < self.known:  # fewer chunks than before
            raise ReplayError(partition, chunks, self.known)


class SavedProgress(NamedTuple):
    """The saved progress of tasks. `rows`, `samples` (by partition): of finished partitions."""

    finished: Runs
    rows: int
    begun: dict[int, PartitionState]
    samples: dict[int, int]


@dataclass(slots=True)
class _Record:
    """What a task saves besides the partitions that it has begun.

    `kept`: partitions of its last run that are of other tasks now. `finished`, `rows`, `samples`: finished by it.
    """

    kept: dict[int, PartitionState]
    finished: Runs
    rows: int
    samples: dict[int, int]

    def finish(self, partition: int, begun: PartitionState) -> None:
        """All chunks of a partition are acked."""
        self.finished.add(partition)
        self.rows += begun.rows
        self.samples[partition] = begun.first


class Partitions:
    """The partitions of one task. `known`: the saved progress of all tasks; `own`: that of this task.

    `total`: None if the number is not known before all have run (`ran`): then partitions are claimed as they arrive.
    """

    def __init__(
        self,
        total: int | None,
        *,
        index: int = 0,
        tasks: int = 1,
        known: SavedProgress | None = None,
        own: SavedProgress | None = None,
    ) -> None:
        self._share = None if total is not None else (index, tasks)
        total = total or 0
        if total < 0 or not 0 <= index < tasks:
            raise ValueError(f"{total} partitions, task {index} of {tasks}")
        known, own = known or merged(()), own or merged(())
        mine = range(index, total, tasks)
        self.total = len(mine)
        self._begun = {p: b for p, b in known.begun.items() if p in mine}
        self._unread = {p for p in mine if p not in known.finished}
        self._unsettled = len(self._unread)
        self._reading: dict[int, _ReplayCheck] = {}
        self._claimed: set[int] = set()
        self._ready: list[int] = []  # the next one is the last
        self._suspects: set[int] = set()  # known partitions that are not compared yet
        self.source_lost()
        self.done = self.total - len(self._unread)
        self.rows = sum(b.rows for b in self._begun.values())
        """The acked rows of these partitions, without those finished before."""
        kept = {p: b for p, b in own.begun.items() if p not in mine}  # other tasks may not have read them yet
        self._saved = _Record(kept, own.finished.copy(), own.rows, dict(own.samples))

    # -- reading -----------------------------------------------------------------------------------------------------

    def claim_next(self, most: int) -> list[int]:
        """Claim up to `most` partitions to read next, lowest first; they are not given again until `source_lost`."""
        taken: list[int] = []
        while self._ready and len(taken) < most and (self._ready[-1] in self._suspects or not self._suspects):
            taken.append(self._ready.pop())
        self._claimed.update(taken)
        return taken

    def claim(self, partition: int) -> bool:
        """Claim this partition. False if it is of another task, done, or claimed."""
        self._find(partition)
        if partition not in self._unread or partition in self._claimed:
            return False
        self._ready.remove(partition)
        self._claimed.add(partition)
        return True

    def ran(self, partitions: Iterable[int]) -> None:
        """These are all partitions. Changes nothing if their number was known."""
        for partition in partitions:
            self._find(partition)
        self._share = None

    def is_claimed(self, partition: int) -> bool:
        """Whether the partition is being read."""
        return partition in self._claimed

    def is_acked(self, partition: int, number: int) -> bool:
        """Whether a chunk of an unfinished partition is acked."""
        begun = self._begun.get(partition)
        return begun is not None and number in begun.acked

    def unread(self) -> list[int]:
        """Partitions that are not read to their end; those to compare first."""
        return sorted(self._unread, key=lambda p: (p not in self._suspects, p))

    @property
    def waiting(self) -> int:
        """The number of partitions that are not claimed."""
        return len(self._ready)

    def chunk(self, partition: int, number: int, digest: int, rows: int) -> bool:
        """The next chunk of a claimed partition was read. Whether to emit it. ReplayError if it differs."""
        begun = self._begin(partition)
        reading = self._reading[partition]
        if number != reading.next:
            raise ValueError(f"chunk {number} of partition {partition} came, {reading.next} is next")
        reading.next += 1
        if number == 0:
            begun.first = digest
        reading.compare(partition, number, digest)
        if reading.next >= reading.known:
            self._suspects.discard(partition)
        if number in begun.acked or number in begun.open or number in begun.given_up:
            return False
        begun.open[number] = OpenChunk(digest, rows)
        return True

    def end(self, partition: int) -> None:
        """A partition was read to its end. ReplayError if it had more chunks before."""
        begun = self._begin(partition)
        reading = self._reading.pop(partition)
        reading.ended(partition, reading.next)
        self._suspects.discard(partition)
        begun.length = reading.next
        self._claimed.discard(partition)
        self._unread.discard(partition)
        self._settle(partition, begun)

    def source_lost(self) -> None:
        """The source was lost: partitions not read to their end are claimed again. Open chunks stay open."""
        self._suspects = {p for p, b in self._begun.items() if p in self._unread and (b.acked or b.open or b.recent)}
        self._ready = sorted(self._unread, key=lambda p: (p not in self._suspects, p), reverse=True)
        self._claimed.clear()
        self._reading.clear()

    # -- outcomes of chunks ------------------------------------------------------------------------------------------

    def acked(self, partition: int, number: int) -> bool:
        """A chunk is acked. False if it was not open."""
        begun = self._begun.get(partition)
        if begun is None or number not in begun.open:
            return False
        self.rows += begun.open[number].rows
        begun.ack(number)
        self._settle(partition, begun)
        return True

    def given_up(self, partition: int, number: int) -> None:
        """A chunk failed for good: this run goes on without it, the next run emits it again."""
        begun = self._begun.get(partition)
        if begun is not None and begun.open.pop(number, None) is not None:
            begun.given_up.add(number)
            self._settle(partition, begun)

    @property
    def open(self) -> int:
        """The number of chunks that are neither acked nor given up."""
        return sum(len(b.open) for b in self._begun.values())

    @property
    def is_read(self) -> bool:
        """Whether every partition was read to its end."""
        return not self._unread and self._share is None

    @property
    def is_settled(self) -> bool:
        """Whether every chunk is acked or given up."""
        return not self._unsettled and self._share is None

    # -- saved state -------------------------------------------------------------------------------------------------

    @property
    def samples(self) -> dict[int, int]:
        """The samples of the partitions that this task has finished."""
        return dict(self._saved.samples)

    def state(self, *, samples: bool = True) -> dict[str, Any]:
        """The progress of this task as plain data, for JSON."""
        saved = self._saved
        begun = {str(p): _shown(b) for p, b in sorted((saved.kept | self._begun).items())}
        sampled = {str(p): f"{digest:016x}" for p, digest in saved.samples.items()} if samples else {}
        return {"finished": str(saved.finished), "rows": saved.rows, "begun": begun, "samples": sampled}

    def _find(self, partition: int) -> None:
        """Add a partition of this task that was not known yet."""
        if self._share is None:
            return
        index, tasks = self._share
        known = partition in self._unread or partition in self._begun or partition in self._saved.finished
        if partition % tasks == index and not known:
            self._unread.add(partition)
            self._ready.append(partition)
            self._unsettled += 1
            self.total += 1

    def _begin(self, partition: int) -> PartitionState:
        if partition not in self._claimed:
            raise ValueError(f"partition {partition} was not taken")
        begun = self._begun.setdefault(partition, PartitionState())
        if partition not in self._reading:
            self._reading[partition] = _ReplayCheck(begun)
        return begun

    def _settle(self, partition: int, begun: PartitionState) -> None:
        if partition in self._unread or not begun.is_settled:
            return
        self._unsettled -= 1
        if begun.is_finished:
            self.done += 1
            self._saved.finish(partition, begun)
            del self._begun[partition]


# -- states ------------------------------------------------------------------------------------------------------------


def merged(states: Iterable[Mapping[str, Any]]) -> SavedProgress:
    """Merge states: finished by one task is finished; of started ones the longest counts. ValueError, KeyError."""
    finished, rows = Runs(), 0
    begun: dict[int, PartitionState] = {}
    samples: dict[int, int] = {}
    for state in states:
        for begin, end in Runs.parsed(state["finished"]).pairs():
            finished.add_range(begin, end)
        rows += _count(state["rows"])
        samples.update((int(text), int(digest, 16)) for text, digest in dict(state["samples"]).items())
        for text, shown in dict(state["begun"]).items():
            found, partition = _read(shown), int(text)
            if partition not in begun or len(found.acked) > len(begun[partition].acked):
                begun[partition] = found
    return SavedProgress(finished, rows, {p: b for p, b in begun.items() if p not in finished}, samples)


def _shown(begun: PartitionState) -> dict[str, Any]:
    return {
        "acked": str(begun.acked),
        "sum": f"{begun.sum:016x}",
        "rows": begun.rows,
        "recent": {str(number): f"{digest:016x}" for number, digest in begun.recent},
        "open": {str(number): f"{chunk.digest:016x}" for number, chunk in sorted(begun.open.items())},
    }


def _read(shown: Mapping[str, Any]) -> PartitionState:
    begun = PartitionState(Runs.parsed(shown["acked"]), int(shown["sum"], 16), _count(shown["rows"]))
    # Chunks open when the state was saved have an unknown outcome: they are compared, and emitted again.
    known = [*shown["recent"].items(), *shown["open"].items()]
    begun.recent = deque(((int(number), int(digest, 16)) for number, digest in known), maxlen=max(RECENT, len(known)))
    return begun


def _count(value: object) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r} is no count")
    return value
