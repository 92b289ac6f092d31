"""Stream clock: how far the time of a stream is, as one emitting task sees it, for one component with windows.

    rows as they are emitted ─► row row row ┊ row row row ┊
                                            │             └ a mark behind those of a turn, if a window may have ended
                                            └ a mark before a row that is behind, if a window may have ended

1. The clock is the greatest timestamp of all rows that the task has emitted on the streams that the component reads,
   whichever of its tasks they go to, as far as it is believed (HowFar). It never goes back.
2. A row is late, or not, by the rows that were emitted before it: where that could depend on a mark that is not sent
   yet, the mark goes before the row. A row at or beyond `clock - lag - allowed lateness` is in windows that end later
   and needs none: a session that ends where the row is takes it, though the watermark is there as well.
3. Of windows that are aligned, marks between two ends change nothing: `level` tells them apart. None is sent for those,
   but for one each `interval_ms` while there are rows: it says how far it is, and that the task is not silent.
4. What is told is the clock itself. The component takes its lag off, and has its policy, as with every watermark.

From: Flink, where sources tell watermarks for all that is behind them; JStorm looks at the rows of each task (depart:
then windows wait for a row of their own task, and what fires depends on how many tasks there are).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain
from typing import Final

from .assigners import Session, Sliding
from .generators import MaxTimestamp
from .settings import TimeSettings

WatermarkBefore = tuple[int, int]
"""Before the row at this place: a mark."""

_NONE: Final[tuple[WatermarkBefore, ...]] = ()


class StreamClock:
    """Of one emitting task and one component behind it. `told_ms` is what was told last; None: nothing."""

    __slots__ = (
        "_has_rows",
        "_interval_ms",
        "_level",
        "_max_timestamp",
        "_origin_ms",
        "_sent_at_ms",
        "_slack_ms",
        "_step_ms",
        "sent_ms",
    )

    def __init__(self, settings: TimeSettings, windows: Sliding | Session | None, *, exact: bool = False) -> None:
        """`exact`: every step counts, since what the component tells those behind it goes by it."""
        self.sent_ms: int | None = None
        self._max_timestamp = MaxTimestamp(settings.max_advance_ms)
        self._slack_ms = settings.lag_ms + settings.allowed_lateness_ms
        self._interval_ms = settings.interval_ms
        aligned = isinstance(windows, Sliding) and not exact
        self._step_ms = windows.slide_ms if isinstance(windows, Sliding) and aligned else 1
        self._origin_ms = windows.offset_ms + windows.size_ms if isinstance(windows, Sliding) and aligned else 0
        self._level: int | None = None  # that of what was told
        self._sent_at_ms: int | None = None
        self._has_rows = False  # have there been rows since?

    @property
    def ms(self) -> int | None:
        """How far it is; None: not known yet."""
        return self._max_timestamp.ms

    @property
    def due(self) -> bool:
        """May a window have ended since the last mark?"""
        ms = self._max_timestamp.ms
        return ms is not None and ms != self.sent_ms and self._level_of(ms) != self._level

    def observe_max(self, greatest: int) -> bool:
        """Rows were emitted, of which only the greatest timestamp is known. False: it takes all of them (`see`)."""
        far, self._has_rows = self._max_timestamp, True
        if not far.is_order_free(greatest):
            return False
        ahead = far.ms is None or greatest > far.ms
        if self._level is None or self._level_of(greatest if ahead else far.ms) != self._level:
            return False
        far.observe((greatest,))
        return True

    def observe(self, timestamps: Sequence[int]) -> Sequence[WatermarkBefore]:
        """Rows are being emitted. Where among them marks go; they count as told."""
        if not timestamps:
            return _NONE
        far, before, self._has_rows = self._max_timestamp, self._max_timestamp.ms, True
        prefixes: Iterable[int | None]
        if far.is_order_free(max(timestamps)):
            far.observe(timestamps)
            steps = accumulate(timestamps, max) if before is None else accumulate(timestamps, max, initial=before)
            prefixes = chain((None,), steps) if before is None else steps
        else:
            prefixes = list(self._one_by_one(timestamps))
        if not self.due or min(timestamps) + self._slack_ms >= (far.ms or 0):
            return _NONE
        return list(self._watermarks_between(timestamps, prefixes))

    def observe_unordered(self, timestamps: Sequence[int]) -> None:
        """The same for rows whose order is not known: none of them is behind another."""
        self._max_timestamp.observe(timestamps)
        self._has_rows = True

    def due_watermark(self, now_ms: int) -> int | None:
        """The rows of a turn are out: the mark that goes behind them, which counts as told. None: there is none."""
        ms, sent_at_ms = self._max_timestamp.ms, self._sent_at_ms
        if ms is None or not self._has_rows:
            return None
        if not self.due and sent_at_ms is not None and now_ms - sent_at_ms < self._interval_ms:
            return None
        self._sent_at_ms, self._has_rows = now_ms, False
        self._mark_sent(ms)
        return ms

    def _mark_sent(self, ms: int) -> None:
        self.sent_ms, self._level = ms, self._level_of(ms)

    def _level_of(self, ms: int | None) -> int | None:
        return None if ms is None else (ms - self._slack_ms - self._origin_ms) // self._step_ms

    def _one_by_one(self, timestamps: Sequence[int]) -> Iterator[int | None]:
        for timestamp in timestamps:
            yield self._max_timestamp.ms
            self._max_timestamp.observe((timestamp,))

    def _watermarks_between(
        self, timestamps: Sequence[int], prefixes: Iterable[int | None]
    ) -> Iterator[WatermarkBefore]:
        slack_ms = self._slack_ms
        for place, (timestamp, far) in enumerate(zip(timestamps, prefixes, strict=False)):
            if far is not None and timestamp + slack_ms < far and self._level_of(far) != self._level:
                self._mark_sent(far)
                yield place, far
