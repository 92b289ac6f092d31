"""Guarded: a watermark generator of the user's own that can do no harm to the task that asks it.

1. What it raises is told, and is as if it had said nothing: its rows are in their windows already.
2. What it says is a timestamp (a datetime is one) or None; anything else is told as an error.
3. After an error of its `tick`, or a `tick` that stays due, it is left alone for INTERVAL_MS: no alarm goes round
   and round.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .assigners import whole
from .generators import INTERVAL_MS, Generator
from .timestamps import to_ms


class SafeGenerator(Generator):
    """Asks `generator`; `failed` hears of its errors."""

    def __init__(self, generator: Generator, failed: Callable[[Exception], None]) -> None:
        self._generator = generator
        self._failed = failed
        self._paused_until_ms: int | None = None  # it is not asked again before that
        self._due_ms = self._next()

    def observe(self, timestamps: Sequence[int], rows: Sequence[Any]) -> int | None:
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

    def _next(self) -> int | None:
        try:
            due_ms = self._generator.next_tick_ms
            return None if due_ms is None else whole(due_ms, "next_tick_ms", None)
        except Exception as error:
            self._failed(error)
            return None
