"""Shrink: the fewest faults with which something still fails (pure).

    [0 1 2 3 4 5 6 7] ─ nothing at all? ─ [0 1 2 3] or [4 5 6 7]? ─ all but a quarter, an eighth, … ? ─► [2 5]

1. The result has failed, unless nothing was tried; with `minimal`, no single element can be left out.
2. Nothing is tried twice. After `max_tries` it returns the best so far.

From: "Simplifying and Isolating Failure-Inducing Input" (Zeller and Hildebrandt, 2002), the algorithm ddmin.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from typing import Final

MAX_TRIES: Final = 200

Subset = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Shrunk:
    """What is left, the number of tries, and whether every element is needed."""

    indices: Subset
    tries: int
    minimal: bool


def shrink(indices: Iterable[int], fails: Callable[[Subset], bool], max_tries: int = MAX_TRIES) -> Shrunk:
    """The smallest subset of `indices` for which `fails` is true. For all of them it is: that is not tried."""
    known: dict[Subset, bool] = {}
    search = _ddmin(tuple(dict.fromkeys(indices)))
    asked = next(search)
    while True:
        smallest, part = asked
        if part not in known:
            if len(known) >= max_tries:
                return Shrunk(smallest, len(known), minimal=False)
            known[part] = fails(part)
        try:
            asked = search.send(known[part])
        except StopIteration as end:
            return Shrunk(end.value, len(known), minimal=True)


def _ddmin(smallest: Subset) -> Generator[tuple[Subset, Subset], bool, Subset]:
    """Yields (the smallest that fails so far, what to try), is sent whether that fails, and returns the smallest."""
    if (yield smallest, ()):
        return ()
    parts = 2
    while len(smallest) > 1:
        pieces = _cut(smallest, parts)
        halves = pieces if parts > 2 else []
        for piece in [*pieces, *(tuple(i for i in smallest if i not in piece) for piece in halves)]:
            if (yield smallest, piece):
                parts = 2 if piece in pieces else max(parts - 1, 2)
                smallest = piece
                break
        else:
            if parts >= len(smallest):
                break
            parts = min(2 * parts, len(smallest))
    return smallest


def _cut(whole: Subset, parts: int) -> list[Subset]:
    """So many pieces, of almost the same length."""
    size, longer = divmod(len(whole), parts)
    pieces: list[Subset] = []
    begin = 0
    for i in range(parts):
        end = begin + size + (i < longer)
        pieces.append(whole[begin:end])
        begin = end
    return pieces
