"""Sizes: values that are too large to be sent are found before they are copied. A gigabyte would block the event loop.

1. Texts, bytes, arrays and Arrow batches are checked one by one, and the lengths of containers: all that can be large
   as a single object. Many small values are counted when they are encoded (see values, and scan).
2. No value in a frame may be larger than a frame. Values that are sent in pieces (results) may be larger.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence, Set, Sized
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

from ..errors import UnsendableError
from ..net.network import MAX_FRAME_BYTES
from .scan import MAX_ITEMS

if TYPE_CHECKING:
    from .names import Column, RecordBatch, Value

PIECEWISE_BYTES: Final = 1024 * 1024 * 1024
"""The limit for values that are sent in pieces."""

_SMALL: Final = frozenset({type(None), bool, int, float})

_SIZED: Final = frozenset({str, bytes, bytearray})

_KNOWN: Final = _SMALL | _SIZED

_UNFIT: Final = (ValueError, TypeError, NotImplementedError)
"""Arrow's errors for types that it cannot measure, which are not sendable either."""


_most: ContextVar[tuple[int, int]] = ContextVar("_most", default=(MAX_ITEMS, MAX_FRAME_BYTES))
"""The limits for the value being packed: values in a container, bytes in a value. Each thread has its own."""


def allow_for(max_items: int, max_bytes: int = MAX_FRAME_BYTES) -> tuple[int, int]:
    """Limits for `max_items`: more values than a frame allows are for pieces. Returns the old ones, for `allow`."""
    before = _most.get()
    if max_items != MAX_ITEMS or max_bytes != MAX_FRAME_BYTES:
        allow((max_items, max_bytes if max_items == MAX_ITEMS else PIECEWISE_BYTES))
    return before


def allow(most: tuple[int, int]) -> None:
    """Set the limits of this thread."""
    _most.set(most)


def check_length(container: Sized) -> None:
    """UnsendableError if a container has more values than a receiver accepts."""
    most_items, _ = _most.get()
    if len(container) > most_items:
        raise UnsendableError(
            f"a value of more than {most_items} values: send it in parts, or as a NumPy array or a RecordBatch"
        )


def check_sizes(values: Sequence[Value], kinds: Set[type] | None = None) -> None:
    """UnsendableError with the `offset` of a value that is larger than a frame. `kinds`: their types, or more."""
    if kinds is None:
        kinds = set(map(type, values))
    if kinds <= _SMALL:
        return
    if kinds <= _SIZED:
        largest = max(map(len, values))
    elif kinds <= _KNOWN:
        largest = max([len(value) for value in values if type(value) in _SIZED], default=0)
    else:
        looked_at = _SIZED.union(_columnar()).intersection(kinds)
        largest = max([size_of(value) for value in values if type(value) in looked_at], default=0)
    _, most_bytes = _most.get()
    if largest <= most_bytes:
        return
    sizes = list(map(size_of, values))
    at = next(at for at, size_bytes in enumerate(sizes) if size_bytes > most_bytes)
    raise UnsendableError(
        f"a value of {sizes[at]:,} bytes is too large to be sent to another process, which takes {most_bytes:,} "
        "at once; send it in parts, or where it can be read",
        offset=at,
    )


def check_size(value: Value) -> None:
    """As `check_sizes`, for one value."""
    if size_of(value) > _most.get()[1]:
        check_sizes((value,))


def size_of(value: Value) -> int:
    """The size of a value in one piece of memory, or of a batch; 0 for others. A str has at least as many bytes."""
    kind = type(value)
    if kind in _SIZED:
        return len(value)
    if kind not in _columnar():
        return 0
    return int(value.nbytes) if kind.__module__ == "numpy" else batch_bytes(value)


def batch_bytes(batch: RecordBatch) -> int:
    """A lower bound of the encoded size of a RecordBatch, without copying it.

    Arrow knows it exactly, but for dictionaries. Of those, and what they stand in, a quarter is sure: what is held may
    have bitmaps that are not packed.
    """
    try:
        rows_bytes = int(sys.modules["pyarrow"].ipc.get_record_batch_size(batch))
    except _UNFIT:
        rows_bytes = 0
    if batch.get_total_buffer_size() <= MAX_FRAME_BYTES:
        return rows_bytes
    return max(rows_bytes, sum(map(_column_bytes, batch.columns)) // 4)


def largest_column(batch: RecordBatch) -> tuple[str, int]:
    """The name and size in bytes of the largest column; ("", 0) if there is none."""
    sizes = zip(batch.schema.names, map(_column_bytes, batch.columns), strict=True)
    return max(sizes, key=lambda found: found[1], default=("", 0))


def _columnar() -> tuple[type | None, ...]:
    """The types of NumPy's arrays and Arrow's batches, if the modules are imported."""
    # Another thread may be importing the module: it is in sys.modules already, but incomplete.
    return (
        getattr(sys.modules.get("numpy"), "ndarray", None),
        getattr(sys.modules.get("pyarrow"), "RecordBatch", None),
    )


def _column_bytes(column: Column) -> int:
    try:
        return int(column.nbytes)
    except _UNFIT:
        return int(column.get_total_buffer_size())
