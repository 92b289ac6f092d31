"""Runs: a compact set of mostly consecutive numbers: `0-5,7`."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import Final, Self

_TEXT: Final = re.compile(r"\d{1,15}(-\d{1,15})?(,\d{1,15}(-\d{1,15})?)*", re.ASCII)


class Runs:
    """The begin and end (exclusive) of each run, ascending, with gaps between runs."""

    __slots__ = ("_begins", "_ends", "_length")

    def __init__(self) -> None:
        self._begins: list[int] = []
        self._ends: list[int] = []
        self._length = 0

    @classmethod
    def parsed(cls, text: object) -> Self:
        """Parse the result of `str`. ValueError if it is invalid."""
        runs = cls()
        if text == "":
            return runs
        if not isinstance(text, str) or not _TEXT.fullmatch(text):
            raise ValueError(f"{text!r:.80} is no list of runs such as 0-5,7")
        for part in text.split(","):
            first, _, last = part.partition("-")
            runs.add_range(int(first), int(last or first) + 1)
        return runs

    @property
    def prefix(self) -> int:
        """The count of numbers from 0 on without a gap."""
        return self._ends[0] if self._begins and self._begins[0] == 0 else 0

    @property
    def end(self) -> int:
        """One more than the greatest number; 0 if the set is empty."""
        return self._ends[-1] if self._ends else 0

    def pairs(self) -> list[tuple[int, int]]:
        """Begin and end (exclusive) of each run."""
        return list(zip(self._begins, self._ends, strict=True))

    def copy(self) -> Runs:
        """An independent copy."""
        other = Runs()
        other._begins, other._ends, other._length = list(self._begins), list(self._ends), self._length
        return other

    def add(self, number: int) -> None:
        """Add a number."""
        self.add_range(number, number + 1)

    def add_range(self, begin: int, end: int) -> None:
        """Add the numbers from `begin` to before `end`."""
        if begin < 0 or end < begin:
            raise ValueError(f"from {begin} to {end}")
        if begin == end:
            return
        first = bisect_right(self._ends, begin - 1)  # the first run that it touches, or the next one
        last = bisect_right(self._begins, end)
        if first < last:
            begin, end = min(begin, self._begins[first]), max(end, self._ends[last - 1])
        replaced = sum(self._ends[at] - self._begins[at] for at in range(first, last))
        self._begins[first:last], self._ends[first:last] = [begin], [end]
        self._length += end - begin - replaced

    def __contains__(self, number: int) -> bool:
        at = bisect_right(self._begins, number) - 1
        return at >= 0 and number < self._ends[at]

    def __len__(self) -> int:
        return self._length

    def __str__(self) -> str:
        return ",".join(f"{b}-{e - 1}" if e - b > 1 else str(b) for b, e in self.pairs())

    def __repr__(self) -> str:
        return f"Runs({str(self)!r})"
