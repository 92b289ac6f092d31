"""Stamping: rows carry the time at which they came into the topology, for windows by ingestion time.

    spout: segment ◄─ the clock           bolt: segment ◄─ that of the segment whose rows it was made of

1. All rows of a segment have one time: rows of different times are not put into one branch.
2. What a bolt emits outside of a turn, or when a window fires, came in when it is sent.

From: Flink, ingestion time. (JStorm takes the time at which the last task emitted the tuple: depart.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...topology import Origin, Segment
from .branches import Branch, OutStream
from .emitter import Emitter

_NONE = -2
"""The root of no branch."""


class StampingEmitter(Emitter):
    """An emitter that stamps. `wall_ms` is set once by the task; `born_ms` is that of the rows that are executed."""

    __slots__ = ("_born", "_sealing_ms", "born_ms", "wall_ms")

    def begin(self, wall_ms: Callable[[], int]) -> None:
        """Before anything is emitted."""
        self.wall_ms = wall_ms
        self.born_ms: int | None = None
        self._sealing_ms: int | None = None
        self._born: dict[int, int] = {}  # by the identity of a branch, until it is sealed

    def enter(self, born_ms: int | None) -> None:
        """What is emitted from here on is of rows that came in then; None: of nobody's."""
        if born_ms != self.born_ms:
            self.born_ms = born_ms
            if self._branches:
                self._branches.append(Branch(_NONE))  # what comes now is not put to what came before

    def branch(self, root: int) -> Branch:
        """See Emitter."""
        return self._stamped(super().branch(root))

    def add(self, root: int, stream: OutStream, items: list[Any], marks: Sequence[Any] | None) -> None:
        """See Emitter."""
        super().add(root, stream, items, marks)
        self._stamped(self._branches[-1])

    def put_columns(self, root: int, stream: OutStream, target: int | None, rows: Any, mark: Any) -> None:
        """See Emitter."""
        super().put_columns(root, stream, target, rows, mark)
        for branch in self._branches[-2:]:
            self._stamped(branch)

    def seal(self, branch: Branch) -> None:
        """See Emitter."""
        self._sealing_ms = self._born.pop(id(branch), None)
        super().seal(branch)
        self._sealing_ms = None

    def _stamped(self, branch: Branch) -> Branch:
        if self.born_ms is not None:
            self._born.setdefault(id(branch), self.born_ms)
        return branch

    def segment(self, origin: Origin, items: Sequence[Any], marks: Sequence[Any] | None, root: int) -> Segment:
        """See Emitter."""
        segment = super().segment(origin, items, marks, root)
        segment.born_ms = self.wall_ms() if self._sealing_ms is None else self._sealing_ms
        return segment
