"""SafeGenerator: runs a user's watermark generator so that its errors do not harm the task.

1. An exception is reported, and the call counts as None: the rows are in their windows already.
2. It must return a timestamp (a datetime is one) or None; anything else is reported as an error.
3. After an error of its `tick`, or if `tick` stays due, it is not called for INTERVAL_MS: no busy loop of timers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from .assigners import whole
from .dumps import ms_after, ms_before, time_or_none
from .errors import WindowStateError
from .generators import INTERVAL_MS, Generator
from .timestamps import to_ms

if TYPE_CHECKING:
    from .values import Row, Value


class SafeGenerator(Generator):
    """Calls `generator`; `failed` gets its errors."""

    def __init__(self, generator: Generator, failed: Callable[[Exception], None]) -> None:
        self._generator = generator
        self._failed = failed
        self._paused_until_ms: int | None = None  # it is not called before that time
        self._due_ms = self._next()

    def observe(self, timestamps: Sequence[int], rows: Sequence[Row]) -> int | None:
        try:
            watermark = self._generator.observe(timestamps, rows)
            return None if watermark is None else to_ms(watermark)
        except Exception as error:
            self._failed(error)
            return None
        finally:
            self._due_ms = self._next()

    def tick(self, now_ms: int) -> int | None:
        if self._paused_until_ms is not None and now_ms < self._paused_until_ms:
            return None
        self._paused_until_ms = None
        try:
            watermark = self._generator.tick(now_ms)
            return None if watermark is None else to_ms(watermark)
        except Exception as error:
            self._paused_until_ms = now_ms + INTERVAL_MS
            self._failed(error)
            return None
        finally:
            self._due_ms = self._next()
            if self._due_ms is not None and self._due_ms <= now_ms:
                self._paused_until_ms = now_ms + INTERVAL_MS

    @property
    def next_tick_ms(self) -> int | None:
        if self._due_ms is None or self._paused_until_ms is None:
            return self._due_ms
        return max(self._due_ms, self._paused_until_ms)

    def dump(self, now_ms: int) -> Value:
        """What the user's generator gives, and the pause. WindowStateError if it raises."""
        try:
            return self._generator.dump(now_ms), ms_before(self._paused_until_ms, now_ms)
        except Exception as error:
            raise self._state_error("dump", error) from error

    def load(self, state: Value, now_ms: int) -> None:
        known, paused_ms = state
        self._paused_until_ms = ms_after(time_or_none(paused_ms, "the pause of a generator"), now_ms)
        try:
            if known is not None:
                self._generator.load(known, now_ms)
        except Exception as error:
            raise self._state_error("load", error) from error
        self._due_ms = self._next()

    def _state_error(self, method: str, error: Exception) -> WindowStateError:
        name = type(self._generator).__name__
        return WindowStateError(f"{name}.{method} raised {type(error).__name__}: {error}")

    def _next(self) -> int | None:
        try:
            due_ms = self._generator.next_tick_ms
            return None if due_ms is None else whole(due_ms, "next_tick_ms", None)
        except Exception as error:
            self._failed(error)
            return None
