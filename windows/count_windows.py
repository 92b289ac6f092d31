"""Count windows: the rows of a key are numbered from 0, and its windows are windows over these numbers.

1. A window fires with its last row, in that row's place in the batch. Only full ones do: the first after `size` rows.
2. A row that fails has no number.
3. A key is known until `forget`: the rows of a window that is not full wait for more. They count for `max_states`.
4. Of a key without an open window only the number is known. Of more than `max_states` such keys the one that was so
   longest is forgotten: it begins at 0 again.

A row is counted in each window that it is in. If those are many and their states merge, the machine is that of time
windows, a row's number being its time, and the number after it the watermark.

From: JStorm, SlidingCountWindows and CountTrigger.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, Final

from .aggregate_runner import AggregateRunner
from .aggregates import Aggregate
from .assigners import Counts, Sliding, whole
from .plain_windows import refuse_too_many
from .shared_windows import SharedWindows
from .time_windows import MAX_STATES, state_limit_error
from .window import AddResult, Fired, Window, new_key

MANY: Final = 8
"""More windows than this share what they have in common. That costs more than counting a row so many times."""

_Open = list[tuple[Window, list[Any]]]
"""The windows of a key that are open and their states, the oldest first."""


class CountWindows:
    """The count windows of one task. Keys are any values that can be hashed; per task, all are None."""

    def __init__(self, assigner: Counts, aggregate: Aggregate, *, max_states: int = MAX_STATES) -> None:
        self.states = 0
        self._size = assigner.size
        self._slide = assigner.slide
        self._aggregate = aggregate
        self._runner = AggregateRunner(aggregate)
        self._max_states = whole(max_states, "max_states")
        self._shares = aggregate.merges and assigner.size > min(MANY, self._max_states) * assigner.slide
        if not self._shares:
            refuse_too_many(assigner.size, assigner.slide, aggregate, max_states)
        self._open: dict[Any, tuple[int, _Open]] = {}
        self._idle: dict[Any, int] = {}  # by how long they have been so
        self._sharing: dict[Any, tuple[int, SharedWindows]] = {}
        self._ready: deque[Fired] = deque()

    def add(self, keys: Sequence[Any], values: Sequence[Any]) -> AddResult:
        """Rows: key and value of each. What failed; nothing is late."""
        added = AddResult()
        put = self._put_shared if self._shares else self._put
        for place, (key, value) in enumerate(zip(keys, values, strict=True)):
            try:
                put(key, value)
            except Exception as error:  # the row's, not the task's: whoever gave the batch fails it
                added.failed.append((place, error))
        return added

    def fire(self) -> Iterator[Fired]:
        """What has fired."""
        while self._ready:
            yield self._ready.popleft()

    def forget(self, key: Any) -> None:
        """The key will not come again: its windows do not fire."""
        self._idle.pop(key, None)
        if key in self._open:
            self.states -= len(self._open.pop(key)[1])
        elif key in self._sharing:
            self.states -= self._sharing.pop(key)[1].states

    def _put(self, key: Any, value: Any) -> None:
        number, windows = self._open.get(key) or (self._idle.get(key, 0), [])
        if not number % self._slide:
            if self.states >= self._max_states:
                raise state_limit_error(self._max_states)
            if not number:
                new_key(key)
            window = Window(number, number + self._size)
            windows = [*windows, (window, self._runner.init(window))]
        states = self._runner.executed(value, windows)
        number += 1
        following = [(window, after) for (window, _), after in zip(windows, states, strict=True)]
        self.states += (number - 1) % self._slide == 0
        if following[0][0].end == number:
            window, after = following.pop(0)
            self._ready.append(self._runner.fired_one(window, key, after))
            self.states -= 1
        if following:
            self._open[key] = number, following
            self._idle.pop(key, None)
        else:
            self._rest(key, number)

    def _rest(self, key: Any, number: int) -> None:
        self._open.pop(key, None)
        self._idle.pop(key, None)
        self._idle[key] = number
        if len(self._idle) > self._max_states:
            del self._idle[next(iter(self._idle))]

    def _put_shared(self, key: Any, value: Any) -> None:
        number, windows = self._sharing.get(key) or (0, self._new_shared())
        before = windows.states
        windows.limit(before + self._max_states - self.states)
        failed = windows.add_one(key, number, value).failed
        if failed:
            raise failed[0][1]
        self._ready.extend(windows.advance(number + 1))
        self.states += windows.states - before
        self._sharing[key] = number + 1, windows

    def _new_shared(self) -> SharedWindows:
        windows = SharedWindows(Sliding(self._size, self._slide), self._aggregate)
        windows.least_start = 0
        return windows
