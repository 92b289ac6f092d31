"""Firing: what is due at a watermark comes out a little at a time, however much it is.

    advance ─► due? ─► _close_next: some results, some more, … ─► _ready ─► the iterator that `advance` gave

1. The watermark does not go back. A window is due when it is at its end plus `allowed_lateness_ms`.
2. What is not taken from one iterator, the next one has first.
3. Between two results there may be much to do (a million keys are put in order): `work` does some of it.
4. What is due has closed before a row is added, though nobody has asked for it yet.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from .assigners import duration
from .timestamps import to_ms
from .window import AddResult

R = TypeVar("R")


class Firing(ABC, Generic[R]):
    """Base of windows by time. R is what fires."""

    def __init__(self, allowed_lateness_ms: int) -> None:
        self.watermark: int | None = None
        self._lateness_ms = duration(allowed_lateness_ms, "allowed_lateness_ms", 0)
        self._ready: deque[R] = deque()
        self._firing: Iterator[list[R]] = iter(())

    @abstractmethod
    def _close_next(self) -> Iterator[list[R]] | None:
        """Closes what fires next, and gives its results, some at a time; an empty list: not yet. None: nothing does."""

    def advance(self, watermark_ms: int) -> Iterator[R]:
        """What fires at this watermark. What is not taken from the iterator now, the next one has first."""
        if self.watermark is None or watermark_ms > self.watermark:
            self.watermark = watermark_ms
        return self._fire()

    def work(self) -> bool:
        """Does about a millisecond of what is to be done before the next result. False: there is nothing to be done.

        Who asks for results without it gets them as well, but may have to wait: a million keys are sorted first.
        """
        return not self._ready and self._fire_next() and not self._ready

    def _has_passed(self, end: int) -> bool:
        return self.watermark is not None and end + self._lateness_ms <= self.watermark

    def _add_each(
        self, keys: Sequence[Any], timestamps: Sequence[Any], rows: Sequence[Any], put: Callable[[Any, int, Any], bool]
    ) -> AddResult:
        """Row by row. `put` says False of one that is late; what it raises fails that row."""
        while self._fire_next():
            pass
        added = AddResult()
        for place, (key, timestamp, row) in enumerate(zip(keys, timestamps, rows, strict=True)):
            at_ms = readable_row(timestamp, place, added)
            if at_ms is None:
                continue
            try:
                on_time = put(key, at_ms, row)
            except Exception as error:  # the row's, not the task's: whoever gave the batch fails it
                added.failed.append((place, error))
            else:
                if not on_time:
                    added.late.append(place)
        return added

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


def readable_row(timestamp: Any, place: int, added: AddResult) -> int | None:
    """Milliseconds, or None: the row has failed."""
    try:
        return to_ms(timestamp)
    except Exception as error:  # TimestampError, or what a type of the user's raises
        added.failed.append((place, error))
        return None
