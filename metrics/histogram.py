"""Histogram: how many values came of each size: log-linear, mergeable, of bounded size.

    octaves:   … [1/4, 1/2) [1/2, 1) [1, 2) [2, 4) …     each is cut into four equal parts: the buckets
    a value ─► its bucket += weight        quantile ─► the bucket that contains it ─► a value in its middle

1. A quantile differs from the value with that rank by at most RELATIVE_ERROR of that value, if it is LEAST or more.
   Smaller values count as 0, values of 2**42 or more as 2**42.
2. Two histograms are merged by adding their buckets: nothing is lost, in whatever order they are merged.
3. Who measures times adds them to a list, with no call of Python code: see `Timings`. Its buckets cover LEAST (0.24 µs)
   to 896 s; a longer time counts as 896 s. (The sum, and so the mean, is exact.)
4. Weight: one entry may stand for many values, such as the rows of a segment, of which each has the mean of them all.

From: HdrHistogram (linear parts of octaves), and OpenTelemetry's exponential histogram (sparse, merged by index).
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import compress, islice
from typing import Final, cast

PARTS: Final = 4
"""Buckets in an octave."""

RELATIVE_ERROR: Final = 1 / (2 * PARTS + 1)
"""Of quantiles: of the first bucket of an octave, [4, 5) say, the value shown is 40/9."""

LEAST: Final = 2.0**-22
LEAST_INDEX: Final = -22 * PARTS
MOST_INDEX: Final = 42 * PARTS
ZERO_INDEX: Final = LEAST_INDEX - 1
"""The bucket of values below LEAST."""

TIMED_OCTAVES: Final = 32

_INDICES: Final = range(ZERO_INDEX, LEAST_INDEX + TIMED_OCTAVES * PARTS)
"""The buckets of measured times."""


def lower(index: int) -> float:
    """The least value of a bucket."""
    if index < LEAST_INDEX:
        return 0.0
    octave, part = divmod(index, PARTS)
    return math.ldexp(PARTS + part, octave) / PARTS


BOUNDS: Final[list[float]] = [lower(i) for i in range(LEAST_INDEX, LEAST_INDEX + TIMED_OCTAVES * PARTS)]
"""Where the buckets of measured times begin, in seconds. (A list: searching a tuple is slower.)"""

LONG: Final = 128
"""With more numbers than that `Timings` are counted at the next occasion: 64 entries."""


class Timings(list[float]):
    """Measured times that are not yet counted, each with its weight: seconds, weight, seconds, weight, …

    `timings += (seconds, weight)` adds an entry. Who adds calls `counts` at the next occasion when it is long (LONG).
    """

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        super().__init__()
        self._counts = [0] * (len(BOUNDS) + 1)

    def counts(self) -> list[int]:
        """How many values are in each bucket of measured times; a list that changes.

        Of more than 64 entries each fourth stands for itself and the three before it: these are segments that follow
        each other within a turn, and to find a bucket costs more than all else that is measured of a segment.
        """
        counts, numbers = self._counts, iter(self)
        if len(self) > LONG:
            fours = islice(numbers, len(self) // 8 * 8)
            for _, first, _, second, _, third, seconds, fourth in zip(*[fours] * 8, strict=True):
                counts[bisect_right(BOUNDS, seconds)] += int(first + second + third + fourth)
        weights = cast("Iterator[int]", numbers)
        for seconds, weight in zip(numbers, weights, strict=True):
            counts[bisect_right(BOUNDS, seconds)] += weight
        self.clear()
        return counts


def index_of(value: float) -> int:
    """The bucket of a value that is 0 or more, and finite."""
    if value < LEAST:
        return ZERO_INDEX
    mantissa, exponent = math.frexp(value)
    return min((exponent - 1) * PARTS + int(mantissa * 2 * PARTS) - PARTS, MOST_INDEX)


@dataclass(frozen=True, slots=True)
class Histogram:
    """A histogram at one moment. `buckets`: (index, count), ascending, only those with values.

    `total`: the sum of all values.
    """

    buckets: tuple[tuple[int, int], ...] = ()
    total: float = 0.0

    @classmethod
    def of(cls, counts: Sequence[int], total: float) -> Histogram:
        """A copy of the counts of measured times; `total`: the sum of the values."""
        return cls(tuple(compress(zip(_INDICES, counts, strict=True), counts)), total)

    @property
    def count(self) -> int:
        """How many values came."""
        return sum([count for _, count in self.buckets])

    @property
    def mean(self) -> float:
        """The mean of the values, which is exact; 0 if there are none."""
        count = self.count
        return self.total / count if count else 0.0

    def quantile(self, q: float) -> float:
        """The value that a share `q` (0 to 1) of all values does not exceed; 0 if there are none. ValueError."""
        if not 0.0 <= q <= 1.0:
            raise ValueError(f"a quantile is between 0 and 1, not {q!r}: 0.99 is the value that 99 % do not exceed")
        rank, seen = max(1, math.ceil(q * self.count)), 0
        for index, count in self.buckets:
            seen += count
            if seen >= rank:
                return middle(index)
        return 0.0

    def below(self, bounds: Iterable[float]) -> list[int]:
        """How many values are below each of these ascending bounds; exact where a bucket begins."""
        found: list[int] = []
        seen = at = 0
        for bound in bounds:
            for index, count in islice(self.buckets, at, None):
                if lower(index + 1) > bound:
                    break
                seen += count
                at += 1
            found.append(seen)
        return found

    def __add__(self, other: Histogram) -> Histogram:
        if not self.buckets and not self.total:
            return other
        if not other.buckets:
            return self if not other.total else Histogram(self.buckets, self.total + other.total)
        counts = dict(self.buckets)
        for index, count in other.buckets:
            counts[index] = counts.get(index, 0) + count
        return Histogram(tuple(sorted(counts.items())), self.total + other.total)

    def since(self, earlier: Histogram) -> Histogram:
        """The values that have come since an earlier copy of the same histogram; a count never becomes negative."""
        if not earlier.buckets:
            return self
        before = dict(earlier.buckets)
        counts = tuple([(i, count - before.get(i, 0)) for i, count in self.buckets if count > before.get(i, 0)])
        return Histogram(counts, max(0.0, self.total - earlier.total))


EMPTY: Final = Histogram()


@cache  # there are 258 buckets
def middle(index: int) -> float:
    """The value that is shown for a bucket: its greatest relative error is the least."""
    least, most = lower(index), lower(index + 1)
    return 2 * least * most / (least + most)


def merged(histograms: Iterable[Histogram]) -> Histogram:
    """All of them as one."""
    return sum(histograms, EMPTY)
