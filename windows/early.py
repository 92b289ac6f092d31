"""Early results: the result of a window so far, before the window ends, for uses that cannot wait (alerts).

    rows ─► machine ─► at its end: Fired, final
               └─► each n rows of a window and key, or every so many milliseconds if rows have come: Fired, not final

1. An early result changes nothing: the state stays, and is emitted again later, at last as the final result.
2. `Each(n)` emits a result with the n-th row of a window, the 2n-th, …, however rows are divided into batches. When two
   sessions become one, the rows of both count: a result is emitted if a multiple of n is passed.
3. `Every(ms)` emits results of windows with new rows since the last time. Without new rows no timer is set.
4. The number of rows of a window is kept by an aggregate beside the user's own, and is merged with it.

From: Flink, ContinuousEventTimeTrigger and CountTrigger; Beam, early firings of a watermark trigger.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .aggregate_runner import AggregateRunner
from .aggregates import Aggregate
from .assigners import duration, whole
from .ready_made import Count
from .values import Result, RowKey, State, Value
from .window import AddResult, EarlyWindow, Fired, Window

if TYPE_CHECKING:
    from .plain_windows import PlainWindows
    from .rows import ReadRows
    from .session_windows import SessionWindows

Open = tuple[Window, list[State]]
"""An open window of a key, and its states."""


@dataclass(frozen=True, slots=True)
class Every:
    """Early results every `ms` milliseconds of processing time, of windows with new rows."""

    ms: int

    def __post_init__(self) -> None:
        duration(self.ms, "early=Every(ms)")


@dataclass(frozen=True, slots=True)
class Each:
    """Early results with every `rows`-th row of a window and key."""

    rows: int

    def __post_init__(self) -> None:
        whole(self.rows, "early=Each(rows)")


class Counted(Aggregate):
    """An aggregate, and after its parts the number of rows; the result is the aggregate's."""

    def __init__(self, aggregate: Aggregate) -> None:
        self._aggregate = aggregate
        self._parts = (*aggregate.parts, Count())

    @property
    def title(self) -> str:
        """The aggregate's title."""
        return self._aggregate.title

    @property
    def merges(self) -> bool:
        return self._aggregate.merges

    @property
    def parts(self) -> tuple[Aggregate, ...]:
        return self._parts

    def together(self, results: Sequence[Result]) -> Result:
        return self._aggregate.together(results[:-1])

    def together_batch(self, results: Sequence[Sequence[Result]]) -> Sequence[Result]:
        return self._aggregate.together_batch(results[:-1])


class EarlyWindows:
    """Windows by time with early results. `machine` has a `Counted` aggregate; the other methods are the machine's."""

    def __init__(self, machine: PlainWindows | SessionWindows, aggregate: Counted, early: Every | Each) -> None:
        self.machine = machine
        self.ready: list[Fired] = []  # by Each: the early results at the time of their rows
        self._runner = AggregateRunner(aggregate)
        self._each = early.rows if isinstance(early, Each) else None
        self._every_ms = early.ms if isinstance(early, Every) else None
        self._changed_keys: dict[RowKey, None] = {}  # keys with new rows
        self._next_ms: int | None = None
        self._shown: dict[RowKey, dict[int, int]] = {}  # key → start of a window → rows at its last result

    @property
    def states(self) -> int:
        """The number of states."""
        return self.machine.states

    @property
    def watermark(self) -> int | None:
        """The watermark of the machine."""
        return self.machine.watermark

    @property
    def next_fire_ms(self) -> int | None:
        return self.machine.next_fire_ms

    def windows_of(self, timestamp: object) -> list[Window]:
        return self.machine.windows_of(timestamp)

    @property
    def early(self) -> EarlyWindows:
        return self

    def work(self) -> bool:
        return self.machine.work()

    def fire(self) -> Iterator[Fired]:
        return self._without_shown(self.machine.fire())

    def add_rows(self, rows: ReadRows, emit: Callable[[list[Fired]], None]) -> AddResult:
        """Add what a RowReader has read. By Each, results are due after a row."""
        together = AddResult()
        for added in self.add(rows.keys, rows.timestamps, rows.values):
            together.late += added.late
            together.failed += added.failed
            if self.ready:
                ready, self.ready = self.ready, []
                emit(ready)
        return together

    def add(self, keys: Sequence[RowKey], timestamps: Sequence[object], values: Sequence[Value]) -> Iterator[AddResult]:
        """Add rows, in as many steps as they cause early results: the caller empties `ready` after each step.

        The places in an AddResult are places in the whole batch.
        """
        if self._each is not None:
            for place, row in enumerate(zip(keys, timestamps, values, strict=True)):
                yield self._add_one(place, *row)
            return
        added = self.machine.add(keys, timestamps, values)
        failed = {place for place, _ in added.failed}
        kept = keys if not failed else [key for place, key in enumerate(keys) if place not in failed]
        self._changed_keys.update(dict.fromkeys(kept))
        yield added

    def advance(self, watermark_ms: int) -> Iterator[Fired]:
        return self._without_shown(self.machine.advance(watermark_ms))

    @property
    def needs_timer(self) -> bool:
        """Whether there are new rows, and `next_ms` has not been called since."""
        return self._every_ms is not None and self._next_ms is None and bool(self._changed_keys)

    def next_ms(self, now_ms: int) -> int | None:
        """When `show` has results to emit; None: there are no new rows."""
        if self._every_ms is None or not self._changed_keys:
            return None
        if self._next_ms is None:
            self._next_ms = now_ms + self._every_ms
        return self._next_ms

    def show(self, now_ms: int) -> Iterator[Fired] | None:
        """The early results that are due; None: it is too early. No row may be added while they are iterated."""
        if self._next_ms is None or now_ms < self._next_ms:
            return None
        changed, self._changed_keys, self._next_ms = self._changed_keys, {}, None
        return self._early_results(changed)

    def _without_shown(self, due: Iterator[Fired]) -> Iterator[Fired]:
        for fired in due:
            shown = self._shown.get(fired.key)
            if shown is not None:
                for start in [start for start in shown if fired.window.start <= start < fired.window.end]:
                    del shown[start]
                if not shown:
                    del self._shown[fired.key]
            yield fired

    def _early_results(self, keys: dict[RowKey, None]) -> Iterator[Fired]:
        for key in keys:
            shown: dict[int, int] = {}
            before = self._shown.get(key, {})
            for window, states in self.machine.open_of(key):
                shown[window.start] = states[-1]
                if before.get(window.start) != states[-1]:
                    yield self._early(window, key, states)
            if shown:
                self._shown[key] = shown
            else:
                self._shown.pop(key, None)

    def _add_one(self, place: int, key: RowKey, timestamp: object, value: Value) -> AddResult:
        try:
            before = list(self.machine.open_of(key, timestamp))
        except Exception:  # no hash, no time: the machine reports which row has failed
            before = []
        added = self.machine.add((key,), (timestamp,), (value,))
        added.late = [place for _ in added.late]
        added.failed = [(place, error) for _, error in added.failed]
        if not (added.late or added.failed):
            assert self._each is not None  # noqa: S101 - for the type checker
            for window, states in self.machine.open_of(key, timestamp):
                inside = [
                    earlier[-1] for part, earlier in before if window.start <= part.start and part.end <= window.end
                ]
                if states[-1] // self._each > max(inside, default=0) // self._each:
                    self.ready.append(self._early(window, key, states))
        return added

    def _early(self, window: Window, key: RowKey, states: list[State]) -> Fired:
        return self._runner.fired_one(EarlyWindow(window.start, window.end), key, states)
