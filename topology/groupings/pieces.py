"""Pieces: how many rows of a shuffle one target is dealt before it is the next one's turn.

    rows r0 r1 r2 │ r3 r4 r5 │ r6 …      pieces of three: one target each, the last one goes on with the next batch
         target b │ target a │ target c

1. A piece is about PIECE_S of a target's work, as the targets measure it (the median of them): one row where a row
   takes as long, or nothing has been measured. So what a turn sends to many tasks is not a segment of one row for each,
   whose own price is that of twenty rows; and no task waits long because another one has its piece.
2. The size is the same for all pieces of a round.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

PIECE_S: Final = 0.001
"""Of work."""

MOST: Final = 256
"""Rows: what a turn and a tree have."""

FASTEST_S: Final = 1e-8
"""No bolt is as fast: a clock that says so stands still."""


def piece_size(targets: Sequence[int], row_s: Callable[[int], float]) -> int:
    """Rows of a piece. `row_s(target)`: seconds of work for a row; 0.0: not measured yet."""
    median_s = sorted(map(row_s, targets))[len(targets) // 2]
    return max(1, min(MOST, int(PIECE_S / median_s))) if median_s > FASTEST_S else 1


class Parts:
    """Rows and their marks, and what of them goes to whom: in one piece or in several."""

    __slots__ = ("_marks", "_parts", "_rows")

    def __init__(self, rows: Sequence[object], marks: Sequence[object] | None) -> None:
        self._rows = rows
        self._marks = marks
        self._parts: dict[int, list[slice]] = {}

    def add(self, target: int, start: int, stop: int) -> None:
        """These rows are for this target."""
        self._parts.setdefault(target, []).append(slice(start, stop))

    def shares(self) -> list[tuple[int, Sequence[object], Sequence[object] | None]]:
        """One for each target that gets rows, which are in order."""
        rows, marks = self._rows, self._marks
        return [
            (target, _joined(rows, parts), None if marks is None else _joined(marks, parts))
            for target, parts in self._parts.items()
        ]


def _joined(items: Sequence[object], parts: Sequence[slice]) -> Sequence[object]:
    if len(parts) == 1:
        return items[parts[0]]
    return [item for part in parts for item in items[part]]
