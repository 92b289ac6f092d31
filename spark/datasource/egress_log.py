"""Egress log: which chunks of a topology's output are kept for Spark, by offset. Pure.

    committed by each consumer          end
       │                                 │
       ▼ first                           ▼
    ───[ 17 ][ 18 ][ 19 ] … [ 41 ][ 42 ]                 offsets count chunks; they never go back

1. Offsets belong to a log, which has an id: after a loss there is another log, and an offset of the old one is refused,
   with a reason. So is an offset of chunks that are no longer kept.
2. At most `max_rows` and `max_bytes` are kept; one chunk always fits. A chunk that does not fit waits until all
   consumers have committed some (`forgets` false), or replaces the oldest (`forgets` true: commits remove nothing).
3. A query from an offset gives at least one chunk if there is one, and otherwise keeps to its limits.
4. A chunk with a name is kept once (`has`).
5. A consumer's commit never goes back. A chunk is removed when every consumer has committed it.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

REMEMBERED: Final = 10_000
"""The number of removed chunks whose names are remembered, to detect replays."""


@dataclass(frozen=True, slots=True)
class ChunkInfo:
    """Size and name of a chunk."""

    rows: int
    size_bytes: int
    name: str = ""
    """The identity: a chunk with a name is kept once."""


class EgressLog:
    """The chunks of one bolt task. `committed`: by consumer, from an existing log."""

    def __init__(
        self,
        log: str,
        consumers: Sequence[str],
        *,
        max_rows: int,
        max_bytes: int,
        forgets: bool = False,
        first: int = 0,
        sizes: Sequence[ChunkInfo] = (),
        committed: Mapping[str, int] | None = None,
    ) -> None:
        self.log = log
        self.first = first
        self.rows = 0
        self.size_bytes = 0
        self._sizes: deque[ChunkInfo] = deque()
        self._names: OrderedDict[str, None] = OrderedDict()
        self._max_rows = max_rows
        self._max_bytes = max_bytes
        self._forgets = forgets
        known = committed or {}
        self.committed = {name: max(first, known.get(name, first)) for name in consumers}
        for size in sizes:
            self._add(size)

    @property
    def end(self) -> int:
        """The offset of the next chunk."""
        return self.first + len(self._sizes)

    def has(self, name: str) -> bool:
        """Whether a chunk of this name is kept, or was one of the last REMEMBERED."""
        return name in self._names

    def has_capacity(self, size: ChunkInfo) -> bool:
        """Whether a chunk may be added now."""
        if self._forgets or not self._sizes:
            return True
        return self.rows + size.rows <= self._max_rows and self.size_bytes + size.size_bytes <= self._max_bytes

    def add(self, size: ChunkInfo) -> int:
        """Add a chunk. Returns its offset. Chunks that it replaces are before `first`."""
        at = self.end
        self._add(size)
        while len(self._sizes) > 1 and self._forgets and self._exceeds_limits():
            self._drop()
        return at

    def trim(self, consumer: str, end: int) -> bool:
        """A consumer has committed all before `end`. Whether anything changed."""
        before = self.committed[consumer], self.first
        self.committed[consumer] = min(self.end, max(end, self.committed[consumer]))
        while not self._forgets and self.first < min(self.committed.values()):
            self._drop()
        return before != (self.committed[consumer], self.first)

    def upto(self, begin: int, max_rows: int = 0, max_bytes: int = 0) -> int:
        """The offset up to which the chunks from `begin` are within the limits (0: no limit). At least one chunk."""
        at, rows, size_bytes = begin, 0, 0
        while at < self.end:
            size = self._sizes[at - self.first]
            rows, size_bytes = rows + size.rows, size_bytes + size.size_bytes
            if at > begin and ((max_rows and rows > max_rows) or (max_bytes and size_bytes > max_bytes)):
                break
            at += 1
        return at

    def problem(self, consumer: str, log: str, begin: int, end: int | None = None) -> str | None:
        """Why these offsets are not available; None: they are."""
        if consumer and consumer not in self.committed:
            return (
                f"nothing is kept for consumer {consumer!r}: this log is kept for "
                f"{', '.join(self.committed)} (option consumer; consumers= of the bolt)"
            )
        if log and log != self.log:
            return (
                "the log of this checkpoint is lost: the topology was started again, and kept its output in memory "
                "(directory= of the bolt keeps it), or its directory was emptied. Start the query with a new checkpoint"
            )
        last = self.end if end is None else end
        if begin < self.first or not begin <= last <= self.end:
            return (
                f"chunks {begin} to {last} are not there: {self.first} to {self.end} are. Others were committed by "
                "every consumer, or replaced by newer ones. Start the query with a new checkpoint"
            )
        return None

    # -- internals ---------------------------------------------------------------------------------------------------

    def _exceeds_limits(self) -> bool:
        return self.rows > self._max_rows or self.size_bytes > self._max_bytes

    def _add(self, size: ChunkInfo) -> None:
        self._sizes.append(size)
        self.rows += size.rows
        self.size_bytes += size.size_bytes
        if size.name:
            self._names[size.name] = None
            while len(self._names) > len(self._sizes) + REMEMBERED:
                self._names.popitem(last=False)

    def _drop(self) -> None:
        size = self._sizes.popleft()
        self.first += 1
        self.rows -= size.rows
        self.size_bytes -= size.size_bytes
