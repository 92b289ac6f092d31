"""Stream clock: the event time of a stream, as observed by one emitting task, for one component with windows.

    rows as they are emitted ─► row row row ┊ row row row ┊
                                            │             └ a watermark after the rows of a turn, if a window may end
                                            └ a watermark before a row that is behind, if a window may have ended

1. The clock is the greatest timestamp of all rows that the task has emitted on the streams that the component reads,
   whichever of its tasks receives them, bounded as in MaxTimestamp. It never goes back.
2. Whether a row is late depends on the rows that were emitted before it: where an unsent watermark could matter, it is
   sent before the row. A row at or after `clock - lag - allowed lateness` is in windows that end later and needs none:
   a session that ends at the row still accepts it, though the watermark is there as well.
3. For aligned windows, watermarks between two ends change nothing: `level` tells them apart. They are not sent, except
   one every `interval_ms` while there are rows: it shows the progress, and that the task is not silent.
4. The watermark that is sent is the clock itself. The component subtracts its lag and applies its policy, as with every
   watermark.

From: Flink, where sources send watermarks to all operators behind them; JStorm uses the rows of each receiving task
(depart: there windows wait for a row of their own task, and what fires depends on the number of tasks).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Final

from .assigners import Session, Sliding
from .dumps import VERSION, WRONG, check_identity, damaged, ms_after, ms_before, time_or_none
from .generators import MaxTimestamp

if TYPE_CHECKING:
    from .settings import TimeSettings
    from .values import Value

WatermarkBefore = tuple[int, int]
"""(place, watermark): the watermark is sent before the row at this place."""

_NONE: Final[tuple[WatermarkBefore, ...]] = ()


class StreamClock:
    """The clock of one emitting task for one receiving component. `sent_ms`: the last watermark sent; None: none."""

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
        """`exact`: every step counts, since the component derives its own watermarks from it."""
        self.sent_ms: int | None = None
        self._max_timestamp = MaxTimestamp(settings.max_advance_ms)
        self._slack_ms = settings.lag_ms + settings.allowed_lateness_ms
        self._interval_ms = settings.interval_ms
        aligned = isinstance(windows, Sliding) and not exact
        self._step_ms = windows.slide_ms if isinstance(windows, Sliding) and aligned else 1
        self._origin_ms = windows.offset_ms + windows.size_ms if isinstance(windows, Sliding) and aligned else 0
        self._level: int | None = None  # of the last watermark sent
        self._sent_at_ms: int | None = None
        self._has_rows = False  # whether there were rows since

    @property
    def ms(self) -> int | None:
        """The time of the clock; None: not known yet."""
        return self._max_timestamp.ms

    @property
    def due(self) -> bool:
        """Whether a window may have ended since the last watermark."""
        ms = self._max_timestamp.ms
        return ms is not None and ms != self.sent_ms and self._level_of(ms) != self._level

    def observe_max(self, greatest: int) -> bool:
        """Add rows by their greatest timestamp. False: all timestamps are needed, call `observe`."""
        far, self._has_rows = self._max_timestamp, True
        if not far.is_order_free(greatest):
            return False
        ahead = far.ms is None or greatest > far.ms
        if self._level is None or self._level_of(greatest if ahead else far.ms) != self._level:
            return False
        far.observe((greatest,))
        return True

    def observe(self, timestamps: Sequence[int]) -> Sequence[WatermarkBefore]:
        """Add rows that are being emitted. Returns the watermarks to send between them; they count as sent."""
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
        """Add rows whose order is not known: none of them counts as behind another."""
        self._max_timestamp.observe(timestamps)
        self._has_rows = True

    def due_watermark(self, now_ms: int) -> int | None:
        """The watermark to send after the rows of a turn, which counts as sent; None: none is due."""
        ms, sent_at_ms = self._max_timestamp.ms, self._sent_at_ms
        if ms is None or not self._has_rows:
            return None
        if not self.due and sent_at_ms is not None and now_ms - sent_at_ms < self._interval_ms:
            return None
        self._sent_at_ms, self._has_rows = now_ms, False
        self._mark_sent(ms)
        return ms

    def dump(self, now_ms: int) -> dict[str, Value]:
        """What it knows, as plain values. `now_ms`: this task's clock."""
        sent_at_ms = ms_before(self._sent_at_ms, now_ms)
        state = (self._max_timestamp.dump(), self.sent_ms, self._level, sent_at_ms, self._has_rows)
        return {**self._identity(), "state": state}

    def load(self, dump: dict[str, Value], now_ms: int) -> None:
        """Load a dump into this clock, which is new. WindowStateError if its windows are others, or it is damaged."""
        try:
            check_identity(dump, self._identity())
            known, sent_ms, level, sent_at_ms, has_rows = dump["state"]
            self._max_timestamp.load(known)
            self.sent_ms = time_or_none(sent_ms, "the last watermark")
            self._level = time_or_none(level, "the level of the last watermark")
            self._sent_at_ms = ms_after(time_or_none(sent_at_ms, "the time of the last watermark"), now_ms)
            self._has_rows = bool(has_rows)
        except WRONG as error:
            raise damaged(f"{type(error).__name__}: {error}") from error

    @staticmethod
    def least(dumps: Sequence[dict[str, Value]]) -> dict[str, Value]:
        """The dump of the clock that is furthest behind, of several tasks of a component. It has sent nothing yet."""
        try:
            (known, *_), ahead = dumps[0]["state"], dumps[1:]
            for dump in ahead:
                check_identity(dump, dumps[0])
                if known[0] is not None and (dump["state"][0][0] is None or dump["state"][0][0] < known[0]):
                    known = dump["state"][0]
        except WRONG as error:
            raise damaged(f"{type(error).__name__}: {error}") from error
        return {**dumps[0], "state": (known, None, None, None, False)}

    def _identity(self) -> dict[str, Value]:
        settings = {"slack_ms": self._slack_ms, "step_ms": self._step_ms, "origin_ms": self._origin_ms}
        return {"version": VERSION, "kind": type(self).__name__, "settings": settings}

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
