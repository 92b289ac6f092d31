"""Record batches: split them, make them from rows and make rows from them. The part of columns.py that needs pyarrow.

The grouping decides about a batch (`Grouping.split_columns`), and uses these functions:

| grouping | a batch is |
|---|---|
| fields, key range | split by the hash of its columns: each row goes to the same target as alone |
| partial key | split by key: rows of a pair of candidates go to the less used one, until both are equal |
| shuffle, local or shuffle, local first, none | not split: whole batches are dealt in turn (depart: even by batches) |
| all, global | not split |
| custom | split by its own code for columns; without it, made rows, which are split |

1. A share's rows keep their order; no row is lost or doubled (all: one copy a target).
2. By partial key (`deal_columns`), rows that do not fit into the less used candidate go to the other, or wait for
   either.
3. A batch that is not split is returned unchanged; the shares of a split one are slices of one sorted copy.
4. Python rows are made only for a user's grouping or a row bolt.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as _pyarrow  # noqa: ICN001 - see below  # pyright: ignore[reportMissingTypeStubs]
from numpy.typing import NDArray

from .errors import ColumnsError, EmitError
from .tuples import ColumnRows, part_of
from .values import Column, Item, PyArrow, RecordBatch, Row, Value

if TYPE_CHECKING:
    from .groupings.shares import Share as RowShare
    from .tuples import Origin

# pyarrow has no type hints.
pa: PyArrow = _pyarrow
Share = tuple[int, RecordBatch]
Places = NDArray[np.int64]


def split_by_row(split: Callable[[list[Row], range], list[RowShare]], batch: RecordBatch) -> list[Share]:
    """A batch split by a grouping's code for rows. Its errors are raised."""
    # The number of each row is its anchor, so that the shares come back as numbers of rows.
    shares = split(rows_of(batch, False), range(batch.num_rows))
    count = len(shares)
    return [
        (target, part_of(batch.take(pa.array(list(places or ()), pa.int64())), at, count))
        for at, (target, _, places) in enumerate(shares)
    ]


def dealt(batch: RecordBatch, rows: Places | None, places: Places, targets: Sequence[int]) -> list[Share]:
    """Slices of these rows (None: all), sorted by target: `places` has the index in `targets` for each row."""
    # A small integer type makes the sort linear.
    counts = np.bincount(places, minlength=len(targets))
    filled = np.flatnonzero(counts)
    if len(filled) == 1 and rows is None:
        return [(targets[int(filled[0])], part_of(batch, int(filled[0]), len(targets)))]
    kind = np.uint8 if len(targets) <= 256 else np.uint16 if len(targets) <= 65_536 else np.int64
    order = np.argsort(places.astype(kind), kind="stable")
    in_order = rows_at(batch, order if rows is None else rows[order])
    begins = np.concatenate(([0], np.cumsum(counts)))
    return [
        (targets[at], part_of(in_order.slice(int(begins[at]), int(counts[at])), at, len(targets)))
        for at in filled.tolist()
    ]


def rows_at(batch: RecordBatch, places: Places) -> RecordBatch:
    """The rows of a batch at these places, in this order."""
    places = places.astype(np.int64)
    # Without a copy, and without pa.array, which looks for pandas each time.
    return batch.take(pa.Array.from_buffers(pa.int64(), len(places), [None, pa.py_buffer(places)]))


class WaitingRows:
    """Rows of a batch, each for the first of its two candidates with free capacity (a ColumnChoices)."""

    def __init__(self, rows: ColumnRows, firsts: Places, seconds: Places, targets: Sequence[int]) -> None:
        self.rows = rows
        self._firsts = firsts  # of the remaining rows, with their indices in `rows`
        self._seconds = seconds
        self._left: Places = np.arange(len(rows))
        self._place = {target: place for place, target in enumerate(targets)}
        # An even share: a target that takes everything would leave nothing for one with free capacity just after.
        self._most = -(-len(rows) // len(targets))
        self._pieces = 0

    def __len__(self) -> int:
        return len(self._left)

    def targets(self) -> set[int]:
        """All targets of the remaining rows."""
        places = {*self._firsts.tolist(), *self._seconds.tolist()}
        return {target for target, place in self._place.items() if place in places}

    def take(self, target: int) -> ColumnRows | None:
        """The next rows for a target, in order; None if there are none for it."""
        place = self._place[target]
        return self._take(np.flatnonzero((self._firsts == place) | (self._seconds == place))[: self._most])

    def lost(self, lost: set[int]) -> ColumnRows | None:
        """The rows all of whose targets are lost."""
        places = [self._place[target] for target in lost]
        return self._take(np.flatnonzero(np.isin(self._firsts, places) & np.isin(self._seconds, places)))

    def _take(self, found: Places) -> ColumnRows | None:
        if not len(found):
            return None
        self._pieces += 1
        batch = self.rows.batch if len(found) == len(self.rows) else rows_at(self.rows.batch, self._left[found])
        self._firsts, self._seconds, self._left = (
            np.delete(of, found) for of in (self._firsts, self._seconds, self._left)
        )
        return ColumnRows(part_of(batch, "waited", self._pieces), self.rows.bare)


# -- rows and batches --------------------------------------------------------------------------------------------------


def fitted(batch: RecordBatch, origin: Origin, emitter: str) -> RecordBatch:
    """The batch with the stream's fields as its columns, in their order. EmitError with advice."""
    if not isinstance(batch, pa.RecordBatch):
        hint = "emit each of table.to_batches()" if isinstance(batch, pa.Table) else "for rows use emit"
        raise EmitError(
            f"{emitter} emits {type(batch).__qualname__} as columns: emit_arrow takes a RecordBatch; {hint}"
        )
    fields = list(origin.fields)
    names = batch.schema.names
    if names == fields:
        return batch
    for field in fields:
        if names.count(field) != 1:
            times = "no column" if field not in names else f"{names.count(field)} columns"
            raise EmitError(
                f"{emitter} emits a batch with {times} {field!r} on stream {origin.stream!r}, whose fields are "
                f"{', '.join(fields)} (its columns: {', '.join(names) or 'none'}): name the columns as the fields "
                f"(batch.rename_columns), or declare other outputs"
            )
    return batch.select(fields)


def rows_of(batch: RecordBatch, bare: bool) -> list[Item]:
    """The rows of a batch, or bare values of its only column. ColumnsError for a value that Python cannot represent."""
    columns = [_values(name, column) for name, column in zip(batch.schema.names, batch.columns, strict=True)]
    if bare:
        return columns[0]
    return list(zip(*columns, strict=True)) if columns else [()] * batch.num_rows


def _values(name: str, column: Column) -> list[Value]:
    kind, types = column.type, pa.types
    try:
        if types.is_temporal(kind) and getattr(kind, "unit", "") == "ns":
            # pyarrow's values depend on whether pandas is installed: our rows do not.
            micros = pa.timestamp("us", kind.tz) if types.is_timestamp(kind) else None
            column = column.cast(micros or (pa.duration("us") if types.is_duration(kind) else pa.time64("us")))
        values: list[Value] = column.to_pylist()
    except (pa.ArrowException, ValueError, OverflowError) as error:
        raise ColumnsError(
            f"field {name!r} ({kind}) cannot be made rows: {error}; cast the column before it is emitted (to "
            "microseconds, say: column.cast(…, safe=False)), or read it with execute_arrow"
        ) from error
    return values


def greatest(batch: RecordBatch, field: str) -> Value:
    """The greatest value of a column; None if there is none, or they have no order."""
    compute: PyArrow = import_module("pyarrow.compute")  # slow to import: only when needed
    column = batch.column(field)
    try:
        found = compute.min_max(column)["max"]
    except pa.ArrowException:
        return None
    return _values(field, pa.array([found], column.type))[0]


def batch_from_rows(items: Sequence[Item], origin: Origin) -> RecordBatch:
    """A batch from rows (or bare values); Arrow infers the types from the values of this batch."""
    columns = [items] if origin.bare else list(zip(*items, strict=True))
    arrays: list[Column] = []
    for name, values in zip(origin.fields, columns, strict=True):
        try:
            arrays.append(pa.array(list(values)))
        except (pa.ArrowException, OverflowError, ValueError, TypeError) as error:
            raise ColumnsError(
                f"field {name!r} of stream {origin.stream!r} of {origin.component!r} cannot be made a column for "
                f"execute_arrow: {error}; emit values of one type, or emit_arrow a batch with a schema"
            ) from error
    return pa.RecordBatch.from_arrays(arrays, names=list(origin.fields))
