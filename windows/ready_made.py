"""Ready-made aggregates, and those that are made of plain functions.

1. All of them merge, except a Fold without a `merge`: so they work with sessions, and sliding windows share their work.
2. `of` chooses a part of each row. Aggregates of numbers accept batches if all values are int, float or bool.

Approximate counts of distinct values are in distinct.py, which needs a library.
"""

from __future__ import annotations

import copy
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from heapq import nlargest
from operator import itemgetter
from typing import Final

from .aggregates import Aggregate, States
from .assigners import whole
from .errors import WindowError
from .values import Result, Row, RowKey, State, Value, is_tuple
from .window import Window, in_order

Of = Callable[[Row], Value] | str | int | tuple[str, ...] | None
"""The part of a row to use: a field by name or position; several by name; the result of a function; None: all of it.

A row is a tuple of values; of a stream of one field it is the value itself.
"""

PLAIN: Final = frozenset({int, float, bool})
"""Types whose values can be added and compared with each other."""

_INT: Final = {int}

WIDE: Final = 2**256
"""Integers below this one can be added to floats, however many they are."""


class OfRows(Aggregate):
    """Base class of aggregates that use a part of each row."""

    of_numbers = False
    """Whether that part must be a number, so that it cannot be a row of several fields."""

    def __init__(self, of: Of = None) -> None:
        self._of: Callable[[Row], Value] | None
        self._names: tuple[str, ...] = ()
        self._several = isinstance(of, tuple)
        if of is None or callable(of):
            self._of = of
        elif isinstance(of, bool) or not _means_something(of):
            raise WindowError(f"{type(self).__qualname__} of {of!r}: give a field's name or place, or a function")
        elif isinstance(of, int):
            self._of = itemgetter(of)
        else:
            self._names = of if isinstance(of, tuple) else (of,)
            self._of = itemgetter(*self._names)

    @property
    def fields(self) -> tuple[str, ...]:
        return self._names

    @property
    def whole(self) -> bool:
        return not self._names

    @property
    def wants_a_field(self) -> bool:
        return self.of_numbers and self._of is None

    def bound(self, fields: Sequence[str]) -> Aggregate:
        if not self._names:
            return self
        bound = copy.copy(self)
        places = [list(fields).index(name) for name in self._names]
        if len(fields) > 1:
            bound._of = itemgetter(*places)
            if self._several and len(places) == 1:
                bound._of = lambda row: (row[places[0]],)
        else:
            bound._of = (lambda value: (value,)) if self._several else None
        return bound

    def _value(self, row: Row) -> Value:
        return row if self._of is None else self._of(row)

    def column(self, values: Sequence[Value]) -> Sequence[Value]:
        if self._of is None:
            return values
        column = list(map(self._of, values))
        if len(column) < len(values):  # a StopIteration of the user's function looks like the end of the column
            raise RuntimeError(f"{self._of!r} raised StopIteration")
        return column

    def takes(self, values: Sequence[Value]) -> bool:
        kinds = set(map(type, values))
        if kinds == _INT:
            try:
                array("q", values)  # the fastest check that none exceeds 64 bits
            except OverflowError:
                return bool(min(values) > -WIDE and max(values) < WIDE)
            return True
        return kinds <= PLAIN and (int not in kinds or (min(values) > -WIDE and max(values) < WIDE))


def _means_something(of: object) -> bool:
    return isinstance(of, str | int) or (is_tuple(of) and bool(of) and all(isinstance(n, str) for n in of))


class Count(Aggregate):
    """The number of rows."""

    @property
    def whole(self) -> bool:
        return False

    def init_state(self, window: Window) -> int:
        return 0

    def execute(self, value: Value, state: int, window: Window) -> int:
        return state + 1

    def merge(self, first: int, second: int) -> int:
        return first + second

    def takes(self, values: Sequence[Value]) -> bool:
        return True

    def execute_batch(self, keys: Sequence[RowKey], values: Sequence[Value], states: States) -> None:
        states.update(keys)

    def new_states(self) -> States:
        return Counter()


class Sum(OfRows):
    """The sum of the values; 0 for no rows."""

    of_numbers = True

    def init_state(self, window: Window) -> State:
        return 0

    def execute(self, value: Value, state: State, window: Window) -> State:
        return state + self._value(value)

    def merge(self, first: State, second: State) -> State:
        return first + second

    def execute_batch(self, keys: Sequence[RowKey], values: Sequence[Value], states: States) -> None:
        for key, value in zip(keys, values, strict=True):
            states[key] += value

    def new_states(self) -> States:
        return defaultdict(int)


class Mean(OfRows):
    """The arithmetic mean, a float."""

    of_numbers = True

    def init_state(self, window: Window) -> tuple[Value, int]:
        return 0, 0

    def execute(self, value: Value, state: tuple[Value, int], window: Window) -> tuple[Value, int]:
        return state[0] + self._value(value), state[1] + 1

    def merge(self, first: tuple[Value, int], second: tuple[Value, int]) -> tuple[Value, int]:
        return first[0] + second[0], first[1] + second[1]

    def purge(self, state: tuple[Value, int], window: Window) -> Result:
        return state[0] / state[1]

    def execute_batch(self, keys: Sequence[RowKey], values: Sequence[Value], states: States) -> None:
        get = states.get
        for key, value in zip(keys, values, strict=True):
            total, count = get(key, (0, 0))
            states[key] = total + value, count + 1


class _Nothing:
    def __repr__(self) -> str:
        return "NOTHING"


NOTHING: Final = _Nothing()
"""The state before the first value."""


class Reduce(OfRows):
    """Combines the values by `function(a, b)`, which must be associative."""

    def __init__(self, function: Callable[[Value, Value], Value], of: Of = None) -> None:
        super().__init__(of)
        if not callable(function):
            raise WindowError(f"Reduce by {function!r}: give a function of two values")
        self._function = function

    def init_state(self, window: Window) -> State:
        return NOTHING

    def execute(self, value: Value, state: State, window: Window) -> State:
        value = self._value(value)
        return value if state is NOTHING else self._function(state, value)

    def pack_state(self, state: State) -> tuple[Value, ...]:
        return () if state is NOTHING else (state,)

    def unpack_state(self, value: tuple[Value, ...]) -> State:
        return value[0] if value else NOTHING

    def merge(self, first: State, second: State) -> State:
        if first is NOTHING or second is NOTHING:
            return second if first is NOTHING else first
        return self._function(first, second)

    def takes(self, values: Sequence[Value]) -> bool:
        return False  # the function is the user's


class Min(Reduce):
    """The least value, in whatever order values arrive; NaN only if all values are NaN."""

    def __init__(self, of: Of = None) -> None:
        super().__init__(_least, of)

    def takes(self, values: Sequence[Value]) -> bool:
        return PLAIN.issuperset(map(type, values))

    def execute_batch(self, keys: Sequence[RowKey], values: Sequence[Value], states: States) -> None:
        get = states.get
        for key, value in zip(keys, values, strict=True):
            least = get(key)
            if least is None or value < least or least != least:
                states[key] = value


class Max(Reduce):
    """The greatest value, in whatever order values arrive; NaN only if all values are NaN."""

    def __init__(self, of: Of = None) -> None:
        super().__init__(_greatest, of)

    def takes(self, values: Sequence[Value]) -> bool:
        return PLAIN.issuperset(map(type, values))

    def execute_batch(self, keys: Sequence[RowKey], values: Sequence[Value], states: States) -> None:
        get = states.get
        for key, value in zip(keys, values, strict=True):
            greatest = get(key)
            if greatest is None or value > greatest or greatest != greatest:
                states[key] = value


def _least(first: State, second: State) -> State:
    if second != second:  # NaN, which is not to be compared
        return first
    return second if first != first or second < first else first


def _greatest(first: State, second: State) -> State:
    if second != second:
        return first
    return second if first != first or second > first else first


class Fold(OfRows):
    """`function(state, value)` over and over, from what `initial()` makes anew for each window.

    With `merge(first, second)` it can be used for sessions, and sliding windows share their work.
    """

    def __init__(
        self,
        initial: Callable[[], State],
        function: Callable[[State, Value], State],
        merge: Callable[[State, State], State] | None = None,
        result: Callable[[State], Result] | None = None,
        of: Of = None,
    ) -> None:
        super().__init__(of)
        if not callable(initial):
            raise WindowError(f"Fold from {initial!r}: give a function that makes it, such as list or lambda: 0")
        if not callable(function):
            raise WindowError(f"Fold by {function!r}: give a function of a state and a row")
        self._initial = initial
        self._function = function
        self._merge = merge
        self._result = result

    @property
    def merges(self) -> bool:
        return self._merge is not None

    def init_state(self, window: Window) -> State:
        return self._initial()

    def execute(self, value: Value, state: State, window: Window) -> State:
        return self._function(state, self._value(value))

    def merge(self, first: State, second: State) -> State:
        return super().merge(first, second) if self._merge is None else self._merge(first, second)

    def purge(self, state: State, window: Window) -> Result:
        return state if self._result is None else self._result(state)


class Collect(OfRows):
    """All values, as a list. The memory of a window then grows with its rows."""

    def init_state(self, window: Window) -> list[Value]:
        return []

    def execute(self, value: Value, state: list[Value], window: Window) -> None:
        state.append(self._value(value))

    def ready_for(self, value: Value) -> None:
        self._value(value)

    def merge(self, first: list[Value], second: list[Value]) -> list[Value]:
        return first + second

    def purge(self, state: list[Value], window: Window) -> list[Value]:
        return list(state)


class TopK(OfRows):
    """The `k` most frequent values, as (value, count), the most frequent first; ties in the order of the values.

    Counts are exact: a window keeps each different value once.
    """

    def __init__(self, k: int, of: Of = None) -> None:
        super().__init__(of)
        self._k = whole(k, "how many TopK gives (k)")

    def init_state(self, window: Window) -> dict[Value, int]:
        return {}

    def execute(self, value: Value, state: dict[Value, int], window: Window) -> None:
        value = self._value(value)
        state[value] = state.get(value, 0) + 1

    def ready_for(self, value: Value) -> None:
        hash(self._value(value))

    def merge(self, first: dict[Value, int], second: dict[Value, int]) -> dict[Value, int]:
        merged = dict(first)
        for value, count in second.items():
            merged[value] = merged.get(value, 0) + count
        return merged

    def purge(self, state: dict[Value, int], window: Window) -> list[tuple[Value, int]]:
        if len(state) > self._k:  # only candidates are sorted
            least = nlargest(self._k, state.values())[-1]
            state = {value: count for value, count in state.items() if count >= least}
        by_value = in_order(state)
        return sorted(((value, state[value]) for value in by_value), key=lambda pair: -pair[1])[: self._k]
