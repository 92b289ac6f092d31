"""History: numbers of a topology in the past, of fixed size: 15 minutes by the second, 6 hours by 15 seconds.

1. It keeps at most FINE and COARSE rows, each an array of doubles; the oldest are overwritten.
2. The seconds only grow: a clock that is set back does not bring old ones again.
3. A coarse row is the first fine row of its 15 seconds. Counts only grow, so no count between two rows is lost.

Storm and JStorm: MetricsStore, windows of 10 minutes, 3 hours, 1 day.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final

FINE: Final = 900
COARSE: Final = 1_440
COARSE_S: Final = 15


class History:
    """The last rows of `width` numbers each."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._fine: deque[tuple[int, float, array[float]]] = deque(maxlen=FINE)
        self._coarse: deque[tuple[int, float, array[float]]] = deque(maxlen=COARSE)

    @property
    def last(self) -> int:
        """The second of the last row; 0 before the first."""
        return self._fine[-1][0] if self._fine else 0

    def next_second(self, at_s: float) -> int:
        """The number for a row that is taken now."""
        return max(self.last + 1, int(at_s))

    def add(self, second: int, at_s: float, values: Sequence[float]) -> None:
        """Add a row. ValueError if it has another width, or its second is not after the last."""
        if len(values) != self._width:
            raise ValueError(f"a row has {self._width} numbers, not {len(values)}")
        if second <= self.last:
            raise ValueError(f"second {second} is not after {self.last}")
        row = (second, at_s, array("d", values))
        self._fine.append(row)
        if not self._coarse or self._coarse[-1][0] // COARSE_S < second // COARSE_S:
            self._coarse.append(row)

    def since(self, second: int, *, coarse: bool = False) -> Iterator[tuple[int, float, Sequence[float]]]:
        """(second, time, numbers) of the rows after that second, the oldest first."""
        rows = self._coarse if coarse else self._fine
        return (row for row in rows if row[0] > second)
