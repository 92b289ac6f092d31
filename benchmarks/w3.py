"""W3, identity: numbers through three bolts in a row, the third of which adds them up. `size` is numbers.

Oracle: how many there were, and their sum by Gauss.

Limit: three objects, each calling a method of the next; the third adds up.
"""

from __future__ import annotations

from typing import Protocol

from .cells import Outcome, WrongResultError
from .clocking import Stopwatch


class Stage(Protocol):
    """Something that takes numbers."""

    def execute(self, number: int) -> None:
        """Take one."""
        ...


class Identity:
    """Hands on what it gets."""

    def __init__(self, following: Stage) -> None:
        self.following = following

    def execute(self, number: int) -> None:
        self.following.execute(number)


class Total:
    """The end of the row: counts and adds."""

    def __init__(self) -> None:
        self.count = 0
        self.total = 0

    def execute(self, number: int) -> None:
        self.count += 1
        self.total += number


def check(size: int, count: int, total: int) -> None:
    """WrongResultError unless all numbers below `size` arrived once."""
    if (count, total) != (size, size * (size - 1) // 2):
        raise WrongResultError(f"{count} numbers arrived, their sum is {total}; {size} were sent")


def nested_calls(size: int) -> Outcome:
    """The limit."""
    end = Total()
    first = Identity(Identity(end))
    with Stopwatch() as watch:
        for number in range(size):
            first.execute(number)
    check(size, end.count, end.total)
    return Outcome(size, watch.wall_s, watch.cpu_s)
