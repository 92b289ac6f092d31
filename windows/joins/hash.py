"""Hash joins: the rows of several inputs in one window, joined from left to right as clauses.py describes.

    input 0 ─┐
             ├─ step 1 ─► places ─┐
    input 1 ─┘                    ├─ step 2 ─► places (2, 0, None), … ─► rows
    input 2 ─── table: key → places ┘

1. A *place* is the index of a row in its input. A joined row has one place for each input; None: no row.
2. Keys are compared with Python's equality: 1, 1.0 and True are one key (as in a fields grouping, and in SQL).
3. None and NaN equal nothing, not even themselves; nor does a tuple that contains one of them.
4. The order is that of nested loops: by the place in input 0, then in input 1, … Rows that only a right or full join
   keeps come last, by their own place.
5. No step gives more than `max_rows` rows; one more is an error. So a window with skewed keys ends early, also within
   a chain of joins. The rows given before the error are correct: callers that need all rows or none make a list first.
6. Memory: a table for each input but the first. Joined rows are made one by one, on demand.

From: Storm, JoinBolt. It leaves out rows without a key in a left join, and has no right or full join (depart).
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Final

from ..assigners import whole
from ..errors import JoinError
from ..values import RowKey, Value, is_mapping, is_tuple

Places = tuple[int | None, ...]
"""For each input, the place of a row, or None."""

MAX_JOINED: Final = 100_000
"""The default limit of joined rows of a window."""

_EQUAL_TO_THEMSELVES: Final = frozenset({int, bool, str, bytes, type(None)})


class JoinKind(enum.Enum):
    """Which rows without a partner are kept: none, those of the left side, of the right side, or of both."""

    INNER = "join"
    LEFT = "left_join"
    RIGHT = "right_join"
    FULL = "full_join"

    @property
    def keeps_left(self) -> bool:
        """Whether rows of the inputs so far are kept without a partner."""
        return self in (JoinKind.LEFT, JoinKind.FULL)

    @property
    def keeps_right(self) -> bool:
        """Whether rows of the new input are kept without a partner."""
        return self in (JoinKind.RIGHT, JoinKind.FULL)


@dataclass(frozen=True, slots=True)
class Column:
    """A field of an input; with a `path`, the value under these keys of the mapping in it. `name` is for errors."""

    input: int
    position: int
    path: tuple[str, ...] = ()
    name: str = ""

    @property
    def of(self) -> Callable[[Sequence[Value]], RowKey]:
        """A function that reads it from a row of its input. JoinError if a value on the path is no mapping."""
        position, path = self.position, self.path
        if not path:
            return itemgetter(position)

        def read(row: Sequence[Value]) -> RowKey:
            value = row[position]
            for key in path:
                if value is None:
                    return None
                if not is_mapping(value):
                    raise JoinError(
                        f"{self.name}: there is no {key!r} in a {type(value).__qualname__}; only mappings have names "
                        "behind a dot"
                    )
                value = value.get(key)
            return value

        return read


Key = tuple[Column, ...]
"""The columns that are compared; all belong to one input."""


@dataclass(frozen=True, slots=True)
class JoinStep:
    """How the next input is joined: its `key` is compared with `prior`, a key of an input before it."""

    kind: JoinKind
    prior: Key
    key: Key


class HashJoin:
    """Joins windows of `len(steps) + 1` inputs; keeps nothing between windows. `columns`: the emitted fields."""

    def __init__(self, steps: Sequence[JoinStep], columns: Sequence[Column], *, max_rows: int = MAX_JOINED) -> None:
        self._steps = tuple(steps)
        self._columns = tuple((column.input, column.of) for column in columns)
        self._max_rows = whole(max_rows, "max_rows of a join")
        keys = {column for step in steps for column in (*step.prior, *step.key)}
        self._key_readers = [
            [(column.of, column) for column in keys if column.input == number] for number in range(len(steps) + 1)
        ]

    def check(self, number: int, row: Sequence[Value]) -> None:
        """Raise JoinError if a row of this input has a key without a hash."""
        for of, column in self._key_readers[number]:
            value = of(row)
            if not hashable(value):
                raise no_hash(value, (column,))

    def places(self, inputs: Sequence[Sequence[Sequence[Value]]]) -> Iterator[Places]:
        """Join the rows of a window, given by input. JoinError: too many rows, or a key without a hash."""
        joined: Iterator[Places] = ((place,) for place in range(len(inputs[0])))
        for number, step in enumerate(self._steps, 1):
            joined = self._limited(self._joined(joined, step, inputs, number), step)
        return joined

    def values(self, inputs: Sequence[Sequence[Sequence[Value]]], places: Places) -> tuple[Value, ...]:
        """The values of one joined row; None for the fields of a missing row."""
        return tuple(
            [None if (place := places[number]) is None else of(inputs[number][place]) for number, of in self._columns]
        )

    def rows(self, inputs: Sequence[Sequence[Sequence[Value]]]) -> Iterator[tuple[Value, ...]]:
        """The joined rows of a window."""
        for places in self.places(inputs):
            yield self.values(inputs, places)

    def _joined(
        self, left: Iterable[Places], step: JoinStep, inputs: Sequence[Sequence[Sequence[Value]]], number: int
    ) -> Iterator[Places]:
        keys = keys_of(step.key, inputs[number])
        table: dict[RowKey, list[int]] = {}
        for place, key in enumerate(keys):
            if key is not None:
                table.setdefault(key, []).append(place)
        prior = step.prior[0].input
        prior_keys = keys_of(step.prior, inputs[prior])
        matched: set[RowKey] = set()
        for places in left:
            place_there = places[prior]
            key = None if place_there is None else prior_keys[place_there]
            found = table.get(key)
            if found is not None:
                matched.add(key)
                for place in found:
                    yield (*places, place)
            elif step.kind.keeps_left:
                yield (*places, None)
        if step.kind.keeps_right:
            nothing = (None,) * number
            for place, key in enumerate(keys):
                if key is None or key not in matched:
                    yield (*nothing, place)

    def _limited(self, joined: Iterator[Places], step: JoinStep) -> Iterator[Places]:
        for given, places in enumerate(joined):
            if given == self._max_rows:
                raise self._too_many(step)
            yield places

    def _too_many(self, step: JoinStep) -> JoinError:
        keys = " and ".join(column.name for column in step.key)
        return JoinError(
            f"the join by {keys} gives more than {self._max_rows} rows in one window; use shorter windows, or a key "
            "that fewer rows share, or raise max_joined"
        )


def keys_of(key: Key, rows: Sequence[Sequence[Value]]) -> list[RowKey]:
    """The key of each row; None: it equals nothing. JoinError for a key without a hash."""
    readers = [column.of for column in key]
    several = len(readers) > 1
    keys = [tuple(of(row) for of in readers) for row in rows] if several else list(map(readers[0], rows))
    if _EQUAL_TO_THEMSELVES.issuperset(map(type, keys)):
        return keys
    try:
        return [one if equals_itself(one) else None for one in keys]
    except TypeError:
        raise no_hash(next(one for one in keys if not hashable(one)), key) from None


def no_hash(value: Value, key: Key) -> JoinError:
    """The error for a key without a hash."""
    names = " and ".join(column.name for column in key)
    return JoinError(
        f"{names}: a {type(value).__qualname__} has no hash; join by None, text, bytes, numbers, dates or tuples of "
        "these"
    )


def equals_itself(key: RowKey) -> bool:
    """Whether the key can have a partner. TypeError if it has no hash."""
    if key is None:
        return False
    if is_tuple(key):
        return all(map(equals_itself, key))
    hash(key)
    return bool(key == key)


def hashable(key: RowKey) -> bool:
    """Whether the key has a hash."""
    try:
        hash(key)
    except TypeError:
        return False
    return True
