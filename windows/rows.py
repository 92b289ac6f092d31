"""Rows: keys, timestamps and values of the rows of a segment, as columns.

    segment ─► RowReader ─► keys, timestamps, values, and the places of rows that cannot be read

1. A field is taken by its name from the stream that the row came on; streams may have it at different places.
2. A function of the user's is given the Tuple. What it raises fails its row; the others go on.
3. Values are Tuples for bolts that execute by themselves, and rows as they travel for aggregates: the value on a stream
   of one field, else a tuple of values. Streams of other fields are brought to those of the first one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

from ..topology import ColumnRows, Fields, Segment, TimedItems, Tuple

Key = str | tuple[str, ...] | Callable[[Tuple], Any] | None
"""What rows are apart by: a field, several fields, what a function makes of a Tuple; None: nothing."""

Timestamp = str | Callable[[Tuple], Any] | None
"""When a row happened: a field, or what a function makes of a Tuple."""

Column = Callable[[Sequence[Any]], Sequence[Any]]


class ReadRows:
    """Of one segment. `places`: where in it they are; `failed`: place and error of those that are left out."""

    __slots__ = ("failed", "keys", "places", "timestamps", "values")

    def __init__(self, places: Sequence[int], keys: Any, timestamps: Any, values: Any) -> None:
        self.places = places
        self.keys = keys
        self.timestamps = timestamps
        self.values = values
        self.failed: list[tuple[int, Exception]] = []


class RowReader:
    """Reads rows for one bolt. `layout`: the fields that values are to have, None: as they come, or Tuples."""

    def __init__(self, key: Key, timestamp: Timestamp, *, tuples: bool, layout: Fields | None) -> None:
        self._key = key
        self._timestamp = timestamp
        self._tuples = tuples
        self._layout = layout
        self._columns: dict[Fields, tuple[Column | None, Column | None, Column | None]] = {}
        self._has_functions = callable(key) or callable(timestamp)

    def read(self, segment: Segment, start: int, stop: int, at_ms: int | None) -> ReadRows:
        """Rows [start, stop). `at_ms`: the time of all of them; None: it is in them."""
        items: Any = segment.items
        if type(items) is ColumnRows:
            items = items.items
        if stop - start != len(items):
            items = items[start:stop]
        fields = segment.origin.fields
        known = self._columns.get(fields)
        if known is None:
            known = self._columns[fields] = self._of(fields)
        key, timestamp, value = known
        count = len(items)
        places = range(start, stop)
        tuples: Any = None
        if self._tuples or self._has_functions:
            tuples = [segment.tuple_at(place) for place in places]
        keys: Any = [None] * count if key is None else key(items)
        times: Any = [at_ms] * count if timestamp is None else timestamp(items)
        values: Any = tuples if self._tuples else (items if value is None else value(items))
        rows = ReadRows(places, keys, times, values)
        if self._has_functions:
            self._call_functions(rows, tuples, at_ms, items.times if type(items) is TimedItems else None)
        return rows

    def _of(self, fields: Fields) -> tuple[Column | None, Column | None, Column | None]:
        key = None if self._key is None or callable(self._key) else column(fields, self._key)
        timestamp = column(fields, self._timestamp) if isinstance(self._timestamp, str) else None
        layout = self._layout
        value = None if layout is None or layout == fields else column(fields, layout.names, always=len(layout) > 1)
        return key, timestamp, value

    def _call_functions(
        self, rows: ReadRows, tuples: Sequence[Tuple], at_ms: int | None, stamped: Sequence[Any] | None
    ) -> None:
        """Keys and timestamps that functions of the user's make. `told`: times that the emitter has asked for."""
        kept: list[int] = []
        keys, times = list(rows.keys), list(rows.timestamps)
        for n, tup in enumerate(tuples):
            try:
                if callable(self._key):
                    keys[n] = self._key(tup)
                if callable(self._timestamp) and at_ms is None:
                    times[n] = self._timestamp(tup) if stamped is None else stamped[n]
                    if isinstance(times[n], Exception):
                        raise times[n]
            except Exception as error:  # the row's: it fails alone
                rows.failed.append((rows.places[n], error))
            else:
                kept.append(n)
        whole = len(kept) == len(tuples)
        rows.keys = keys if whole else [keys[n] for n in kept]
        rows.timestamps = times if whole else [times[n] for n in kept]
        if not whole:
            rows.values = [rows.values[n] for n in kept]
            rows.places = [rows.places[n] for n in kept]


def column(fields: Fields, names: str | Sequence[str], *, always: bool = False) -> Column:
    """What takes a field, or several as a tuple, out of items. `always`: a tuple of one, too."""
    several = [names] if isinstance(names, str) else list(names)
    places = [fields.position(name) for name in several]
    as_tuple = always or not isinstance(names, str)
    if len(fields) == 1:
        if not as_tuple:
            return _unchanged
        return lambda items: [(item,) * len(places) for item in items]
    take: Callable[[Any], Any]
    if len(places) == 1:
        take = itemgetter(places[0])
        if as_tuple:
            return lambda items: [(take(item),) for item in items]
    else:
        take = itemgetter(*places)
    return lambda items: list(map(take, items))


def _unchanged(items: Sequence[Any]) -> Sequence[Any]:
    return items
