"""Columns: an Arrow RecordBatch that is sent as one unit. This file treats it as an opaque object, without pyarrow.

    emit_arrow(batch) ─▶ ColumnRows ─▶ split by the grouping ─▶ ColumnRows, one per target ─▶ execute_arrow: the batch
                                                                                          └──▶ execute: rows, made once

1. `ColumnRows` takes the place of a segment's list of rows. Its rows are made when one is first used, all at once.
2. All rows of an emitted batch are one message: they share one anchor (`RepeatedAnchor`).
3. pyarrow and NumPy are imported by the first call of a function here, never by importing this file: a program without
   batches needs neither.

Storm has no such thing (depart).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from itertools import repeat
from types import ModuleType
from typing import TYPE_CHECKING, Protocol, overload

from ..errors import ColumnsError
from ..values import Anchor, Item, RecordBatch, Value
from .identity import metadata_of, with_identity_of

if TYPE_CHECKING:
    from ..groupings import Grouping, Spreading
    from .tuples import Origin


def is_batch(value: object) -> bool:
    """Is it a pyarrow.RecordBatch? Imports nothing."""
    # Another thread may be importing pyarrow: then it is in sys.modules, but does not have this name yet.
    return isinstance(value, getattr(sys.modules.get("pyarrow"), "RecordBatch", ()))


def has_batches(values: Sequence[object]) -> bool:
    """Is one of them a pyarrow.RecordBatch? This runs for every chunk of a spout."""
    pyarrow = sys.modules.get("pyarrow")
    if pyarrow is None or not values:  # no value is looked at: a look at each costs W3 a tenth of its rate
        return False
    types = list(map(type, values))
    if types.count(types[0]) < len(types):  # mixed types are rare, and a set of types is slower than this count
        return getattr(pyarrow, "RecordBatch", None) in set(types)
    return types[0] is getattr(pyarrow, "RecordBatch", None)


class ColumnRows(Sequence[Item]):
    """The items of a segment that is sent as a RecordBatch: rows, or bare values if there is one field.

    ColumnsError if rows are used and a column has a value that Python cannot represent.
    """

    __slots__ = ("_count", "_items", "_metadata", "bare", "batch")

    def __init__(self, batch: RecordBatch, bare: bool) -> None:
        self.batch = batch
        self.bare = bare
        self._count: int = batch.num_rows
        self._items: list[Item] | None = None
        self._metadata: Mapping[str, str] | None = None

    @property
    def items(self) -> list[Item]:
        """The rows (or bare values), made at the first call."""
        if self._items is not None:
            return self._items
        made: list[Item] = _arrow().rows_of(self.batch, self.bare)
        self._items = made
        return made

    @property
    def metadata(self) -> Mapping[str, str]:
        """The source's metadata of the batch (identity.py)."""
        if self._metadata is None:
            self._metadata = metadata_of(self.batch)
        return self._metadata

    def with_identity_of(self, given: RecordBatch | None, *steps: object) -> ColumnRows:
        """The same rows, with an identity derived from the batch that a bolt executes (identity.py)."""
        named = with_identity_of(self.batch, given, *steps)
        return self if named is self.batch else ColumnRows(named, self.bare)

    def readable(self) -> Sequence[Item]:
        """The rows for code that only reads them (hooks, reports); the batch itself if it cannot be made rows."""
        try:
            return self.items
        except ColumnsError:
            return [self.batch if self.bare else (self.batch,)]

    @overload
    def __getitem__(self, at: int) -> Item: ...
    @overload
    def __getitem__(self, at: slice) -> list[Item]: ...
    def __getitem__(self, at: int | slice) -> Item | list[Item]:
        return self.items[at]

    def __iter__(self) -> Iterator[Item]:
        return iter(self.items)

    def __len__(self) -> int:
        return self._count


class RepeatedAnchor(Sequence[Anchor]):
    """One anchor for several rows."""

    __slots__ = ("_count", "anchor")

    def __init__(self, anchor: Anchor, count: int) -> None:
        self.anchor = anchor
        self._count = count

    @overload
    def __getitem__(self, at: int) -> Anchor: ...
    @overload
    def __getitem__(self, at: slice) -> RepeatedAnchor: ...
    def __getitem__(self, at: int | slice) -> Anchor | RepeatedAnchor:
        if isinstance(at, slice):
            return RepeatedAnchor(self.anchor, len(range(*at.indices(self._count))))
        if not -self._count <= at < self._count:
            raise IndexError(at)
        return self.anchor

    def __iter__(self) -> Iterator[Anchor]:
        return repeat(self.anchor, self._count)

    def __len__(self) -> int:
        return self._count


def column_rows(batch: RecordBatch, origin: Origin, emitter: str) -> ColumnRows:
    """An emitted batch, with its columns in the order of the stream's fields. EmitError if they do not fit."""
    return ColumnRows(_arrow().fitted(batch, origin, emitter), origin.bare)


def split_columns(grouping: Grouping, rows: ColumnRows) -> list[tuple[int, ColumnRows]]:
    """One share for each target that gets rows."""
    return _shares(grouping.split_columns(rows.batch), rows) if len(rows) else []


def _shares(parts: list[tuple[int, RecordBatch]], rows: ColumnRows) -> list[tuple[int, ColumnRows]]:
    return [(to, rows if part is rows.batch else ColumnRows(part, rows.bare)) for to, part in parts]


class ColumnChoices(Protocol):
    """Waiting rows of a batch, each for any one of some targets. `rows`: all of them."""

    rows: ColumnRows

    def __len__(self) -> int:
        """The number of remaining rows."""
        ...

    def targets(self) -> set[int]:
        """All targets of the remaining rows."""
        ...

    def take(self, target: int) -> ColumnRows | None:
        """The next rows for a target, in order; None if there are none for it."""
        ...

    def lost(self, lost: set[int]) -> ColumnRows | None:
        """The rows all of whose targets are lost."""
        ...


def deal_columns(
    grouping: Spreading, rows: ColumnRows, free: Callable[[int], int]
) -> tuple[list[tuple[int, ColumnRows]], ColumnChoices | None] | None:
    """Shares for the targets with free capacity, and the rest. None: the grouping does not split a batch of columns."""
    if not len(rows):
        return [], None
    found = grouping.deal_columns(rows, free)
    return None if found is None else (_shares(found[0], rows), found[1])


def batch_of(items: Sequence[Item], origin: Origin) -> RecordBatch:
    """The RecordBatch of a segment's items. ColumnsError, with component and field, if Arrow has no type for them."""
    return items.batch if isinstance(items, ColumnRows) else _arrow().batch_from_rows(items, origin)


def greatest_of(batch: RecordBatch, field: str) -> Value:
    """The greatest value of a column, ignoring nulls and NaN; None if there is none.

    ColumnsError for a value that Python cannot represent.
    """
    return _arrow().greatest(batch, field)


def _arrow() -> ModuleType:
    """The part of the implementation that needs pyarrow and NumPy."""
    try:
        return import_module("..column_split", __package__)
    except ImportError as error:
        raise ColumnsError(
            f'columns need pyarrow and NumPy ({error}): install them with pip install "aiostorm[arrow]"'
        ) from error
