"""Pieces: how many rows of a shuffle go to one target before the next one.

    rows r0 r1 r2 │ r3 r4 r5 │ r6 …      pieces of three: one target each, the last one goes on with the next batch
         target b │ target a │ target c

1. A piece is about PIECE_S of a target's work, as the targets measure it (their median): one row if a row takes longer,
   or if nothing has been measured. So a turn that sends to many tasks does not send each a segment of one row, which
   costs as much as twenty rows; and no task waits long while another one gets its piece.
2. The size is the same for all pieces of a round.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

PIECE_S: Final = 0.001
"""Seconds of work."""

MOST: Final = 256
"""Rows: as many as a turn and a tree have."""

FASTEST_S: Final = 1e-8
"""No bolt is this fast: a clock that says so stands still."""


def piece_size(targets: Sequence[int], row_s: Callable[[int], float]) -> int:
    """Rows of a piece. `row_s(target)`: seconds of work for a row; 0.0: not measured yet."""
    median_s = sorted(map(row_s, targets))[len(targets) // 2]
    return max(1, min(MOST, int(PIECE_S / median_s))) if median_s > FASTEST_S else 1
