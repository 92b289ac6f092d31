"""Rows: keys, timestamps and values of the rows of a segment, as columns.

    segment ─► RowReader ─► keys, timestamps, values, and the places of rows that cannot be read

1. A field is read by its name in the row's stream; streams may have it at different positions.
2. A user's function gets the Tuple. If it raises, only its row fails.
3. Values are Tuples for bolts with their own methods, and plain rows for aggregates: the value itself on a stream of
   one field, else a tuple of values. If the streams have different fields, rows have those that the aggregate uses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter

from ..topology import ColumnRows, Fields, Segment, TimedItems, Tuple, WindowKey
from .values import Row, RowKey, Value, is_tuple

Key = str | tuple[str, ...] | Callable[[Tuple], object] | None
"""The key of rows: a field, several fields, or a function of a Tuple; None: no key."""

Timestamp = str | Callable[[Tuple], object] | None
"""The event time of a row: a field, or a function of a Tuple."""

Column = Callable[[Sequence[Row]], Sequence[Value]]


class ReadRows:
    """The rows of one segment. `places`: their positions in it; `failed`: position and error of unreadable rows."""

    __slots__ = ("failed", "keys", "places", "timestamps", "values")

    def __init__(
        self, places: Sequence[int], keys: Sequence[RowKey], timestamps: Sequence[object], values: Sequence[Value]
    ) -> None:
        self.places = places
        self.keys = keys
        self.timestamps = timestamps
        self.values = values
        self.failed: list[tuple[int, Exception]] = []


class RowReader:
    """Reads rows for one bolt. `layout`: the fields to convert values to; None: no conversion, or Tuples."""

    def __init__(self, key: Key, timestamp: Timestamp, *, tuples: bool, layout: Fields | None) -> None:
        self._key = key
        self._timestamp = timestamp
        self._tuples = tuples
        self._layout = layout
        self._columns: dict[Fields, tuple[Column | None, Column | None, Column | None]] = {}
        self._has_functions = callable(key) or callable(timestamp)

    def read(self, segment: Segment, start: int, stop: int, at_ms: int | None) -> ReadRows:
        """Read rows [start, stop). `at_ms`: the time of all of them; None: it is read from the rows."""
        items: Sequence[Row] = segment.items
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
        tuples: Sequence[Tuple] = ()
        if self._tuples or self._has_functions:
            tuples = [segment.tuple_at(place) for place in places]
        keys: Sequence[RowKey] = [None] * count if key is None else key(items)
        times: Sequence[object] = [at_ms] * count if timestamp is None else timestamp(items)
        values: Sequence[Value] = tuples if self._tuples else (items if value is None else value(items))
        rows = ReadRows(places, keys, times, values)
        if self._has_functions:
            self._call_functions(rows, tuples, at_ms, items.times if type(items) is TimedItems else None)
        return rows

    def _of(self, fields: Fields) -> tuple[Column | None, Column | None, Column | None]:
        key = None if self._key is None or callable(self._key) else column(fields, self._key)
        timestamp = column(fields, self._timestamp) if isinstance(self._timestamp, str) else None
        layout = self._layout
        value: Column | None = None
        if layout is not None and layout != fields:  # of one field, the value itself is a row
            value = column(fields, layout.names if len(layout) > 1 else layout.names[0])
        return key, timestamp, value

    def _call_functions(
        self, rows: ReadRows, tuples: Sequence[Tuple], at_ms: int | None, stamped: Sequence[object] | None
    ) -> None:
        """Call the user's functions for keys and timestamps. `stamped`: times that the emitter has computed already."""
        kept: list[int] = []
        keys, times = list(rows.keys), list(rows.timestamps)
        for n, tup in enumerate(tuples):
            try:
                if callable(self._key):
                    keys[n] = self._key(tup)
                if callable(self._timestamp) and at_ms is None:
                    time = times[n] = self._timestamp(tup) if stamped is None else stamped[n]
                    if isinstance(time, Exception):
                        raise time
            except Exception as error:  # only this row fails
                rows.failed.append((rows.places[n], error))
            else:
                kept.append(n)
        whole = len(kept) == len(tuples)
        rows.keys = keys if whole else [keys[n] for n in kept]
        rows.timestamps = times if whole else [times[n] for n in kept]
        if not whole:
            rows.values = [rows.values[n] for n in kept]
            rows.places = [rows.places[n] for n in kept]


def shared_by(key: Key) -> WindowKey:
    """Which rows share windows with this key; it is not checked yet."""
    if key is None:
        return WindowKey(problem="its windows have no key: each task has windows of all its rows together")
    if isinstance(key, str):
        return WindowKey((key,), single=True)
    if is_tuple(key) and all(isinstance(name, str) for name in key):
        return WindowKey(key)
    return WindowKey(problem="the key of its windows is a function: it does not say which task has the rows of a key")


def column(fields: Fields, names: str | Sequence[str]) -> Column:
    """A function that extracts a field, or a tuple of those in a sequence, from items."""
    several = [names] if isinstance(names, str) else list(names)
    places = [fields.position(name) for name in several]
    as_tuple = not isinstance(names, str)
    if len(fields) == 1:
        if not as_tuple:
            return _unchanged
        return lambda items: [(item,) * len(places) for item in items]
    take: Callable[[Row], Value]
    if len(places) == 1:
        take = itemgetter(places[0])
        if as_tuple:
            return lambda items: [(take(item),) for item in items]
    else:
        take = itemgetter(*places)
    return lambda items: list(map(take, items))


def _unchanged(items: Sequence[Row]) -> Sequence[Value]:
    return items
