"""Columns: an Arrow RecordBatch as what travels. This file knows how such a batch looks from outside; no pyarrow here.

    emit_arrow(batch) ─▶ ColumnRows ─▶ split by the grouping ─▶ ColumnRows, one per target ─▶ execute_arrow: the batch
                                                                                        └──▶ execute: rows, made once

1. `ColumnRows` stands where a segment's list of rows stands. Its rows are made when somebody asks for one, all at once.
2. All rows of an emitted batch are one message: one mark (`RepeatedMark`) for all of them.
3. pyarrow and NumPy are imported by the first call of a function here, never by importing this file: who emits no batch
   needs neither.

Storm has no such thing (depart).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from itertools import repeat
from typing import TYPE_CHECKING, Any, Protocol, overload

from .errors import ColumnsError
from .identity import metadata_of, with_identity_of

if TYPE_CHECKING:
    from .groupings.base import Grouping
    from .tuples import Origin


def is_batch(value: object) -> bool:
    """Is it a pyarrow.RecordBatch? Imports nothing."""
    # Another thread may be importing pyarrow: it is in sys.modules then, and has no such name yet.
    return isinstance(value, getattr(sys.modules.get("pyarrow"), "RecordBatch", ()))


def has_batches(values: Iterable[object]) -> bool:
    """Is one of them a pyarrow.RecordBatch? The types are gathered in C: this is asked of every chunk of a spout."""
    return getattr(sys.modules.get("pyarrow"), "RecordBatch", None) in set(map(type, values))


class ColumnRows(Sequence[Any]):
    """The items of a segment that travels as a RecordBatch: rows, or bare values with one field.

    ColumnsError when rows are asked for and Python has no value for what a column holds.
    """

    __slots__ = ("_count", "_items", "_metadata", "bare", "batch")

    def __init__(self, batch: Any, bare: bool) -> None:
        self.batch = batch
        self.bare = bare
        self._count: int = batch.num_rows
        self._items: list[Any] | None = None
        self._metadata: Mapping[str, str] | None = None

    @property
    def items(self) -> list[Any]:
        """The rows (or bare values), made the first time."""
        if self._items is not None:
            return self._items
        made: list[Any] = _arrow().rows_of(self.batch, self.bare)
        self._items = made
        return made

    @property
    def metadata(self) -> Mapping[str, str]:
        """What its source says of the batch (identity.py)."""
        if self._metadata is None:
            self._metadata = metadata_of(self.batch)
        return self._metadata

    def with_identity_of(self, given: Any | None, *steps: object) -> ColumnRows:
        """The same rows with the identity of what a bolt executes while it emits them (identity.py)."""
        named = with_identity_of(self.batch, given, *steps)
        return self if named is self.batch else ColumnRows(named, self.bare)

    def readable(self) -> Sequence[Any]:
        """The rows for those who only look (hooks, reports); the batch itself if it cannot be made rows."""
        try:
            return self.items
        except ColumnsError:
            return [self.batch if self.bare else (self.batch,)]

    @overload
    def __getitem__(self, at: int) -> Any: ...
    @overload
    def __getitem__(self, at: slice) -> list[Any]: ...
    def __getitem__(self, at: int | slice) -> Any:
        return self.items[at]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.items)

    def __len__(self) -> int:
        return self._count


class RepeatedMark(Sequence[Any]):
    """One mark for so many rows."""

    __slots__ = ("_count", "mark")

    def __init__(self, mark: Any, count: int) -> None:
        self.mark = mark
        self._count = count

    @overload
    def __getitem__(self, at: int) -> Any: ...
    @overload
    def __getitem__(self, at: slice) -> RepeatedMark: ...
    def __getitem__(self, at: int | slice) -> Any:
        if isinstance(at, slice):
            return RepeatedMark(self.mark, len(range(*at.indices(self._count))))
        if not -self._count <= at < self._count:
            raise IndexError(at)
        return self.mark

    def __iter__(self) -> Iterator[Any]:
        return repeat(self.mark, self._count)

    def __len__(self) -> int:
        return self._count


def column_rows(batch: Any, origin: Origin, emitter: str) -> ColumnRows:
    """An emitted batch, its columns in the order of the stream's fields. EmitError that says what to do."""
    return ColumnRows(_arrow().fitted(batch, origin, emitter), origin.bare)


def split_columns(grouping: Grouping, rows: ColumnRows) -> list[tuple[int, ColumnRows]]:
    """One share for each target that gets rows."""
    return [(to, rows if part is rows.batch else ColumnRows(part, rows.bare)) for to, part in _split(grouping, rows)]


def _split(grouping: Grouping, rows: ColumnRows) -> list[tuple[int, Any]]:
    found: list[tuple[int, Any]] = _arrow().split(grouping, rows.batch)
    return found


class ColumnChoices(Protocol):
    """Rows of a batch that wait, each for any of some targets. `rows`: all of them."""

    rows: ColumnRows

    def __len__(self) -> int:
        """How many are left."""
        ...

    def targets(self) -> set[int]:
        """All that may take of what is left."""
        ...

    def take(self, target: int) -> ColumnRows | None:
        """The next rows for a target, in order; None: there are none for it."""
        ...

    def lost(self, gone: set[int]) -> ColumnRows | None:
        """The rows of which all targets are gone."""
        ...


def deal_columns(
    grouping: Grouping, rows: ColumnRows, room: Callable[[int], int]
) -> tuple[list[tuple[int, ColumnRows]], ColumnChoices | None]:
    """The same by a partial key grouping, for the targets that have room (see groupings.Spreading), and the rest."""
    shares, rest = _arrow().deal(grouping, rows.batch, room, rows.bare)
    return [(to, rows if part is rows.batch else ColumnRows(part, rows.bare)) for to, part in shares], rest


def batch_of(items: Sequence[Any], origin: Origin) -> Any:
    """The RecordBatch of a segment's items. ColumnsError, naming component and field, for what Arrow cannot type."""
    return items.batch if isinstance(items, ColumnRows) else _arrow().batch_from_rows(items, origin)


def greatest_of(batch: Any, field: str) -> Any:
    """The greatest value of a column, None if there is none; what is not there, and NaN, is passed over.

    ColumnsError for what Python has no value for.
    """
    return _arrow().greatest(batch, field)


def _arrow() -> Any:
    """The half of this file that needs pyarrow and NumPy."""
    try:
        return import_module(".column_split", __package__)
    except ImportError as error:
        raise ColumnsError(
            f'columns need pyarrow and NumPy ({error}): install them with pip install "aiostorm[arrow]"'
        ) from error
