"""Windows by time: rows in, batch by batch; fired windows out. Base class of windows with and without shared slices.

    add(keys, timestamps, values) ─► slices ─► states ─ advance(watermark) ─► Fired, Fired, …
                                       └─► late, failed: reported, not counted

1. A window fires once: when the watermark is at its end plus `allowed_lateness_ms`, or after. Then its state is
   dropped.
2. A row is late if all its windows have fired. A row that is not late is counted in those of its windows that have not
   fired. A row at the watermark is on time.
3. Windows fire in the order of their ends, then of their keys. A window without rows does not exist: a gap fires
   nothing.
4. The watermark does not go back.
5. A row that fails leaves all states unchanged (as far as the user's `execute` does), and does not affect other rows.
6. There are never more than `max_states` states, one for a key and window (or slice). A row that needs one more fails.
7. Rows are counted in the order of arrival; where windows share slices, in the order of slices first.

From: JStorm, WindowedBoltExecutor. There a window is late by its tuple's time alone, and fires in another thread.
Flink fires a window again for each tuple within the allowed lateness; here the window waits for them: one result is
simpler to use than several of which only the last is valid.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from itertools import chain, repeat
from operator import itemgetter
from typing import TYPE_CHECKING, ClassVar, Final, cast

from .aggregate_runner import AggregateRunner, Columns, next_state
from .assigners import Sliding, whole
from .dumps import time_or_none
from .errors import WindowLimitError
from .firing import Firing, readable_row
from .timestamps import bounds_ms, to_ms
from .window import AddResult, Fired, Window, has_hash, is_nan, new_key

if TYPE_CHECKING:
    from .aggregates import Aggregate
    from .values import RowKey, Value

MAX_STATES: Final = 1_000_000
"""The default limit of states of an instance."""

FEW: Final = 8
"""If fewer than one row in this many is in another slice, those rows are removed from the lists, else copied."""

REMEMBERED: Final = 64
"""The number of slice objects that are reused between batches."""

_PLAIN_KEYS: Final = frozenset({str, int, bytes, bool, type(None)})


class Rows:
    """Rows of a batch that are in one slice. `places`: their positions in the batch."""

    __slots__ = ("keys", "places", "values")

    def __init__(self, places: Sequence[int], keys: Sequence[RowKey], values: Sequence[Value]) -> None:
        self.places = places
        self.keys = keys
        self.values = values

    def at(self, ats: Sequence[int]) -> Rows:
        """The rows at these indexes."""
        places, keys, values = self.places, self.keys, self.values
        return Rows([places[at] for at in ats], [keys[at] for at in ats], [values[at] for at in ats])

    def without(self, ats: Sequence[int]) -> Rows:
        """All rows but those at these (few, ascending) indexes."""
        places, keys, values = list(self.places), list(self.keys), list(self.values)
        for at in reversed(ats):
            del places[at], keys[at], values[at]
        return Rows(places, keys, values)


class TimeWindows(Firing[Fired]):
    """The windows of one task. Keys are hashable; without a key they are None.

    `states`: the number of states; `least_start`: windows that start before it are left out, if it is set.
    """

    early = None
    shares: ClassVar[bool] = False
    """Whether windows are built from shared states."""

    def __init__(
        self, assigner: Sliding, aggregate: Aggregate, *, allowed_lateness_ms: int = 0, max_states: int = MAX_STATES
    ) -> None:
        super().__init__(allowed_lateness_ms)
        self.states: int = 0
        self.least_start: int | None = None
        self._assigner = assigner
        self._runner = AggregateRunner(aggregate, shared=self.shares)
        self._max_states = whole(max_states, "max_states")
        self._all_fired = False
        # Whether `execute_batch` cannot fail on any state.
        self._plain = all(part.batches for part in self._runner.parts)
        self._known_slices: dict[int, Window] = {}
        self._usual = Window(0, 1)  # the slice of most rows of the last batch,
        self._usual_end: int | None = None  # and the end of its last window

    @property
    @abstractmethod
    def next_fire_ms(self) -> int | None:
        """The watermark at which the next window fires; None: no window is open."""

    @abstractmethod
    def _targets(self, slice_: Window) -> list[tuple[Window, Columns]]:
        """The windows or the slice that count the rows of a slice, without those that have fired."""

    @abstractmethod
    def _keep(self, slice_: Window, targets: list[tuple[Window, Columns]]) -> None:
        """Keep the targets that have rows now; targets whose rows all failed are dropped."""

    @abstractmethod
    def _close_first(self) -> Iterator[list[Fired]] | None:
        """Close the first window that is due, and give its results in steps; None: none is due."""

    def add(self, keys: Sequence[RowKey], timestamps: Sequence[object], values: Sequence[Value]) -> AddResult:
        """Add rows: key, time (milliseconds since 1970) and value of each. Returns which were late or failed."""
        added = AddResult()
        if not timestamps:
            return added
        while not self._all_fired:  # windows that are due are closed first
            self._fire_next()
        places: Sequence[int] = range(len(timestamps))
        bounds = bounds_ms(timestamps)
        added.plain = bounds is not None
        if bounds is None:
            places, times = _readable(timestamps, added)
            if not places:
                return added
            keys, values = [keys[place] for place in places], [values[place] for place in places]
            bounds = min(times), max(times)
        else:
            times = cast("Sequence[int]", timestamps)
        rows = Rows(places, keys, values)
        if self._floors is not None:
            times, rows = self._on_time(times, rows, added)
            if not times:
                added.late.sort()
                return added
            bounds = min(times), max(times)
        usual = self._usual
        if bounds[0] < usual.start or bounds[1] >= usual.end or self._usual_end is None:
            for number, at_ms, some in self._by_slice(times, rows, *bounds, added):
                self._put(self._slice(number, at_ms), some, added)
        elif self.watermark is not None and self._usual_end + self._lateness_ms <= self.watermark:  # (inlined)
            added.late.extend(rows.places)
        else:
            self._put(usual, rows, added)
        added.late.sort()
        added.failed.sort(key=itemgetter(0))
        return added

    def add_one(self, key: RowKey, timestamp: object, value: Value) -> AddResult:
        """Add a single row."""
        return self.add((key,), (timestamp,), (value,))

    def advance(self, watermark_ms: int) -> Iterator[Fired]:
        if self.watermark is None or watermark_ms > self.watermark:
            self._all_fired = False
        return super().advance(watermark_ms)

    def windows_of(self, timestamp: object) -> list[Window]:
        """The windows of a row, whether they have fired or not."""
        return self._assigner.windows_of(to_ms(timestamp))

    @property
    def _settings(self) -> dict[str, Value]:
        return {
            "windows": repr(self._assigner),
            "allowed_lateness_ms": self._lateness_ms,
            "aggregates": self._runner.codec().titles,
        }

    def _state(self) -> dict[str, Value]:
        return {**super()._state(), "plain": self._plain, "least_start": self.least_start}

    def _load_state(self, state: dict[str, Value]) -> None:
        super()._load_state(state)
        self._plain = self._plain and bool(state["plain"])
        self.least_start = time_or_none(state["least_start"], "the start of the first window")

    def _pack_result(self, result: Fired) -> Value:
        return self._runner.codec().pack_fired(result)

    def _unpack_result(self, packed: Value) -> Fired:
        return self._runner.codec().unpack_fired(packed)

    def limit(self, max_states: int) -> None:
        """Change the limit of states; existing states stay."""
        self._max_states = max_states

    def _close_next(self) -> Iterator[list[Fired]] | None:
        closed = None if self._all_fired else self._close_first()
        self._all_fired = closed is None
        return closed

    def _on_time(self, times: Sequence[int], rows: Rows, added: AddResult) -> tuple[Sequence[int], Rows]:
        """The rows of which some window has not fired in the task that they come from. The others are late."""
        ends = map(self._assigner.last_end, self._assigner.numbers_of(times))
        late = {at for at, (end, key) in enumerate(zip(ends, rows.keys, strict=True)) if self._had_fired(end, key)}
        if not late:
            return times, rows
        added.late.extend([rows.places[at] for at in late])
        kept = [at for at in range(len(times)) if at not in late]
        return [times[at] for at in kept], rows.at(kept)

    def _not_fired(self, keys: list[RowKey], window: Window) -> list[RowKey]:
        """The keys for which a window had not fired in the task that they come from."""
        return keys if self._floors is None else [key for key in keys if not self._had_fired(window.end, key)]

    def _slice(self, number: int, at_ms: int) -> Window:
        slice_ = self._known_slices.get(number)
        if slice_ is None:
            if len(self._known_slices) >= REMEMBERED:
                self._known_slices.clear()
            slice_ = self._known_slices[number] = self._assigner.slice_of(at_ms)
        return slice_

    def _by_slice(
        self, timestamps: Sequence[int], rows: Rows, least_ms: int, greatest_ms: int, added: AddResult
    ) -> Iterator[tuple[int, int, Rows]]:
        """Group the rows that are not late by slice: its number, a time in it, its rows. Usually one or two slices."""
        assigner = self._assigner
        first, last = assigner.numbers_of((least_ms, greatest_ms))
        numbers = [first] if first == last else assigner.numbers_of(timestamps)
        usual, at_ms = numbers[len(numbers) // 2], timestamps[len(timestamps) // 2]
        others = [] if first == last else [at for at, number in enumerate(numbers) if number != usual]
        if others:
            if len(others) * FEW <= len(numbers):
                most_rows = rows.without(others)
            else:
                most_rows = rows.at([at for at, number in enumerate(numbers) if number == usual])
        else:
            most_rows = rows
        self._usual, self._usual_end = self._slice(usual, at_ms), assigner.last_end(usual)
        if self._has_passed(self._usual_end):
            added.late.extend(most_rows.places)
        else:
            yield usual, at_ms, most_rows
        apart: dict[int, list[int]] = {}
        for at in others:
            apart.setdefault(numbers[at], []).append(at)
        for number, ats in apart.items():
            if self._has_passed(assigner.last_end(number)):
                added.late.extend([rows.places[at] for at in ats])
            else:
                yield number, timestamps[ats[0]], rows.at(ats)

    def _put(self, slice_: Window, rows: Rows, added: AddResult) -> None:
        targets = self._targets(slice_)
        batch = self._as_columns(rows, targets)
        if self._changes is not None:
            keys = rows.keys if batch is not None else list(filter(has_hash, rows.keys))
            for window, _ in targets:
                self._changes.changed_all(window.start, keys)
        if batch is not None:
            for _, columns in targets:
                before = len(columns[0])
                for part, values, states in zip(self._runner.parts, batch, columns, strict=True):
                    part.execute_batch(rows.keys, values, states)
                self.states += len(columns[0]) - before
        elif len(targets) == len(self._runner.parts) == 1 and not self._plain:
            self._put_one_aggregate(*targets[0], rows, added)
        else:
            self._put_each(targets, rows, added)
        self._keep(slice_, targets)

    def _as_columns(self, rows: Rows, targets: list[tuple[Window, Columns]]) -> list[Sequence[Value]] | None:
        """The column of each part; None: a row could fail, so rows are added one by one."""
        if not self._plain:
            return None
        batch: list[Sequence[Value]] = []
        try:
            free = self._max_states - self.states
            if len(rows.keys) * len(targets) > free or not _PLAIN_KEYS.issuperset(map(type, rows.keys)):
                keys = set(rows.keys)  # hashing and comparing keys may raise: here
                new = [keys.difference(columns[0]) for _, columns in targets]
                if sum(map(len, new)) > free or any(map(is_nan, chain.from_iterable(new))):
                    return None
            for part in self._runner.parts:
                column = part.column(rows.values)
                if not part.takes(column):
                    return None
                batch.append(column)
        except Exception:  # no hash, or an error of a user's function: adding one by one finds the row
            return None
        return batch

    def _counted(self, value: Value) -> None:
        """After a row was added by itself: check whether batches are still possible."""
        if self._plain:
            try:
                self._plain = all(part.takes(part.column((value,))) for part in self._runner.parts)
            except Exception:  # a user's function that raises the second time: the row has been counted
                self._plain = False

    def _put_each(self, targets: list[tuple[Window, Columns]], rows: Rows, added: AddResult) -> None:
        for place, key, value in zip(rows.places, rows.keys, rows.values, strict=True):
            try:
                self._put_row(targets, key, value)
                self._counted(value)
            except Exception as error:  # only this row fails; the caller fails its tuple
                added.failed.append((place, error))

    def _put_one_aggregate(self, window: Window, columns: Columns, rows: Rows, added: AddResult) -> None:
        """`_put_each` for one window (or slice) and one aggregate, the user's own: without what only several need."""
        states, part = columns[0], self._runner.parts[0]
        init_state, execute = part.init_state, part.execute
        for place, key, value in zip(rows.places, rows.keys, rows.values, strict=True):
            try:
                known = states.get(key)
                if known is None and self.states >= self._max_states:
                    raise state_limit_error(self._max_states)
                if known is None:
                    new_key(key)
                state = init_state(window) if known is None else known
                following = execute(value, state, window)
                states[key] = next_state(part, following, state) if following is None else following
            except Exception as error:  # only this row fails; the caller fails its tuple
                added.failed.append((place, error))
                continue
            self.states += known is None

    def _put_row(self, targets: list[tuple[Window, Columns]], key: RowKey, value: Value) -> None:
        new = sum(key not in columns[0] for _, columns in targets)
        if self.states + new > self._max_states:
            raise state_limit_error(self._max_states)
        if new:
            new_key(key)
        before = [(window, self._runner.states_of(columns, key, window)) for window, columns in targets]
        for (_, columns), after in zip(targets, self._runner.executed(value, before), strict=True):
            for states, state in zip(columns, after, strict=True):
                states[key] = state
        self.states += new


def state_limit_error(max_states: int) -> WindowLimitError:
    """The error for a row beyond the limit."""
    return WindowLimitError(
        f"windows hold {max_states} states (one for a key and window) and may hold no more; use more tasks, shorter "
        "windows or fewer keys, or raise max_states"
    )


def _readable(timestamps: Sequence[object], added: AddResult) -> tuple[Sequence[int], Sequence[int]]:
    read = map(readable_row, timestamps, range(len(timestamps)), repeat(added))
    pairs = [(place, timestamp) for place, timestamp in enumerate(read) if timestamp is not None]
    return [place for place, _ in pairs], [timestamp for _, timestamp in pairs]
