"""Firing: what is due comes out a little at a time, however much it is.

    due? ─► _close_next: some results, some more, … ─► _ready ─► the iterator that `advance` gave

1. What is not taken from one iterator, the next one has first.
2. Between two results there may be much to do (a million keys are put in order): `work` does some of it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator
from typing import Generic, TypeVar

R = TypeVar("R")


class Firing(ABC, Generic[R]):
    """Base of windows by time. R is what fires."""

    def __init__(self) -> None:
        self._ready: deque[R] = deque()
        self._firing: Iterator[list[R]] = iter(())

    @abstractmethod
    def _close_next(self) -> Iterator[list[R]] | None:
        """Closes what fires next, and gives its results, some at a time; an empty list: not yet. None: nothing does."""

    def work(self) -> bool:
        """Does about a millisecond of what is to be done before the next result. False: there is nothing to be done.

        Who asks for results without it gets them as well, but may have to wait: a million keys are sorted first.
        """
        return not self._ready and self._fire_next() and not self._ready

    def _fire(self) -> Iterator[R]:
        ready = self._ready
        while ready or self._fire_next():
            if ready:
                yield ready.popleft()

    def _fire_next(self) -> bool:
        """Gets on with what fires, if something does."""
        while True:
            for some in self._firing:
                self._ready.extend(some)
                return True
            closed = self._close_next()
            if closed is None:
                return False
            self._firing = closed
