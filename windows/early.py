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

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from .aggregate_runner import AggregateRunner
from .aggregates import Aggregate
from .assigners import duration, whole
from .dumps import WRONG, Dumped, check, damaged, table_of
from .ready_made import Count
from .values import Result, RowKey, State, Value
from .window import AddResult, EarlyWindow, Fired, Window

if TYPE_CHECKING:
    from .changes import TableName
    from .frozen import Columns, Dump, Frozen, Table
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


SHOWN: Final = "shown"
"""The table of a dump that has the early results: key → start of a window → its rows then."""

CHANGED: Final = "changed"
"""The table of a dump that has the keys with new rows."""

DUE: Final = "due"
"""The table of a dump that has the keys whose early results are due."""


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

    @property
    def gives_states(self) -> bool:
        return self._aggregate.gives_states

    def together(self, results: Sequence[Result]) -> Result:
        return self._aggregate.together(results[:-1])

    def together_batch(self, results: Sequence[Sequence[Result]]) -> Sequence[Result]:
        return self._aggregate.together_batch(results[:-1])


class EarlyWindows(Dumped):
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
        self._due_keys: deque[RowKey] = deque()  # keys whose results were not all taken
        self._overdue = False  # some of these keys were loaded

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
        left_out = {*added.late, *(place for place, _ in added.failed)}
        kept = keys if not left_out else [key for place, key in enumerate(keys) if place not in left_out]
        if self._changes is not None:
            self._changes.changed_all(CHANGED, [key for key in kept if key not in self._changed_keys])
        self._changed_keys.update(dict.fromkeys(kept))
        yield added

    def advance(self, watermark_ms: int) -> Iterator[Fired]:
        return self._without_shown(self.machine.advance(watermark_ms))

    @property
    def needs_timer(self) -> bool:
        """Whether there are new rows, and `next_ms` has not been called since."""
        return self._overdue or (self._every_ms is not None and self._next_ms is None and bool(self._changed_keys))

    def next_ms(self, now_ms: int) -> int | None:
        """When `show` has results to emit; None: there are no new rows."""
        if self._overdue:
            return now_ms
        if self._every_ms is None or not self._changed_keys:
            return None
        if self._next_ms is None:
            self._next_ms = now_ms + self._every_ms
        return self._next_ms

    def show(self, now_ms: int) -> Iterator[Fired] | None:
        """The early results that are due; None: it is too early. No row may be added while they are iterated."""
        if self._overdue:
            self._overdue = False
            return self._early_results()
        if self._next_ms is None or now_ms < self._next_ms:
            return None
        self._due_keys.extend(self._changed_keys)
        self._changed_keys, self._next_ms = {}, None
        if self._changes is not None:
            self._changes.drop(CHANGED)
            self._changes.drop(DUE)
            self._changes.changed_all(DUE, self._due_keys)
        return self._early_results()

    def freeze(self, number: int | None = None, since: int | None = None) -> Frozen:
        frozen = super().freeze(number, since)
        frozen.with_inner(self.machine.freeze(number, since))
        return frozen

    @property
    def saved_rows(self) -> int:
        return super().saved_rows + self.machine.saved_rows

    def changed_since(self, number: int) -> int | None:
        own, inner = super().changed_since(number), self.machine.changed_since(number)
        return None if own is None or inner is None else own + inner

    def committed(self, number: int) -> None:
        super().committed(number)
        self.machine.committed(number)

    def aborted(self, number: int) -> None:
        super().aborted(number)
        self.machine.aborted(number)

    def load(self, dump: Dump) -> None:
        try:
            tables = dict(dump["tables"])
            own = {name: tables.pop(name) for name in (SHOWN, CHANGED, DUE) if name in tables}
            super().load({**dump, "tables": own})
            head = {**dump["head"]["machine"], "since": None}
        except WRONG as error:
            raise damaged(f"{type(error).__name__}: {error}") from error
        self.machine.load({"head": head, "tables": tables})

    @property
    def _settings(self) -> dict[str, Value]:
        return {"each": self._each, "every_ms": self._every_ms}

    def _state(self) -> dict[str, Value]:
        return {"ready": list(map(self._runner.codec().pack_fired, self.ready))}

    def _load_state(self, state: dict[str, Value]) -> None:
        self.ready.extend(map(self._runner.codec().unpack_fired, state["ready"]))

    def _tables(self) -> Iterable[TableName]:
        return (SHOWN, CHANGED, DUE)

    def _table(self, name: TableName) -> Table:
        if name == SHOWN:
            return table_of(self._shown, lambda _, shown: dict(shown))
        return table_of(self._changed_keys if name == CHANGED else dict.fromkeys(self._due_keys))

    def _load_table(self, name: TableName, columns: Columns) -> None:
        (column,) = columns
        if name == CHANGED:
            self._changed_keys.update(dict.fromkeys(column))
        elif name == DUE:
            self._due_keys.extend(column)
            self._overdue = bool(column)
        else:
            for key, shown in column.items():
                check(isinstance(shown, dict), f"the early results of key {key!r:.100}")
                self._shown[key] = shown

    def _without_shown(self, due: Iterator[Fired]) -> Iterator[Fired]:
        for fired in due:
            shown = self._shown.get(fired.key)
            if shown is not None:
                self._will_show(fired.key)
                for start in [start for start in shown if fired.window.start <= start < fired.window.end]:
                    del shown[start]
                if not shown:
                    del self._shown[fired.key]
            yield fired

    def _early_results(self) -> Iterator[Fired]:
        while self._due_keys:
            key = self._due_keys[0]
            self._will_show(key)
            shown = self._shown.setdefault(key, {})
            found = list(self.machine.open_of(key))
            for start in shown.keys() - {window.start for window, _ in found}:
                del shown[start]
            for window, states in found:
                if shown.get(window.start) != states[-1]:
                    self._will_show(key)
                    shown[window.start] = states[-1]  # before it is taken: a dump in between does not repeat it
                    yield self._early(window, key, states)
            self._will_show(key)
            if self._changes is not None:
                self._changes.changed(DUE, key)
            if not shown:
                del self._shown[key]
            self._due_keys.popleft()

    def _will_show(self, key: RowKey) -> None:
        if self._changes is not None:
            self._changes.changed(SHOWN, key)

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
