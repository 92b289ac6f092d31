"""Sizes: what is too large to be sent is found before it is copied. A gigabyte would hold the loop, again and again.

1. Looked at are texts, bytes, arrays and Arrow's batches, one by one, and the length of containers: all that can be
   large in one piece. Many small ones are counted when they are packed (see values, and scan).
2. A frame holds none that is larger than a frame. What goes in pieces (results) may be larger.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence, Set, Sized
from contextvars import ContextVar
from typing import Any, Final

from ..errors import UnsendableError
from ..net.network import MAX_FRAME_BYTES
from .scan import MAX_ITEMS

PIECEWISE_BYTES: Final = 1024 * 1024 * 1024
"""Of what goes in pieces."""

_SMALL: Final = frozenset({type(None), bool, int, float})

_SIZED: Final = frozenset({str, bytes, bytearray})

_KNOWN: Final = _SMALL | _SIZED

_UNFIT: Final = (ValueError, TypeError, NotImplementedError)
"""What Arrow raises of types that it cannot measure. They are not sent either."""


_most: ContextVar[tuple[int, int]] = ContextVar("_most", default=(MAX_ITEMS, MAX_FRAME_BYTES))
"""Values in a container, bytes in a value: of what is packed now. Each thread has its own."""


def allow_for(max_items: int, max_bytes: int = MAX_FRAME_BYTES) -> tuple[int, int]:
    """What may have more values than a frame may is for pieces. What held before: give it back to `allow`."""
    before = _most.get()
    if max_items != MAX_ITEMS or max_bytes != MAX_FRAME_BYTES:
        allow((max_items, max_bytes if max_items == MAX_ITEMS else PIECEWISE_BYTES))
    return before


def allow(most: tuple[int, int]) -> None:
    """From now on, in this thread."""
    _most.set(most)


def check_length(container: Sized) -> None:
    """UnsendableError if it holds more than a receiver takes."""
    most_items, _ = _most.get()
    if len(container) > most_items:
        raise UnsendableError(
            f"a value of more than {most_items} values: send it in parts, or as a NumPy array or a RecordBatch"
        )


def check_sizes(values: Sequence[Any], kinds: Set[type] | None = None) -> None:
    """UnsendableError, with its `offset`, if one of them is larger than a frame. `kinds`: their types, if known."""
    if kinds is None:
        kinds = set(map(type, values))
    if kinds <= _SMALL:
        return
    if kinds <= _SIZED:
        largest = max(map(len, values))
    elif kinds <= _KNOWN:
        largest = max([len(value) for value in values if type(value) in _SIZED])
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


def check_size(value: Any) -> None:
    """The same of one."""
    if size_of(value) > _most.get()[1]:
        check_sizes((value,))


def size_of(value: Any) -> int:
    """Of what is one piece of memory, or a batch of columns; of all else 0. A str has at least as many bytes."""
    kind = type(value)
    if kind in _SIZED:
        return len(value)
    if kind not in _columnar():
        return 0
    return int(value.nbytes) if kind.__module__ == "numpy" else batch_bytes(value)


def batch_bytes(batch: Any) -> int:
    """What a RecordBatch takes when it is packed, at least. Nothing is copied.

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


def largest_column(batch: Any) -> tuple[str, int]:
    """The name of the column that takes most, and what that is in bytes. ("", 0): there is none."""
    sizes = zip(batch.schema.names, map(_column_bytes, batch.columns), strict=True)
    return max(sizes, key=lambda found: found[1], default=("", 0))


def _columnar() -> tuple[type | None, ...]:
    """NumPy's arrays and Arrow's batches. A value of theirs exists only once its module is imported."""
    # Another thread may be importing the module: it is in sys.modules then, and has no such name yet.
    return (
        getattr(sys.modules.get("numpy"), "ndarray", None),
        getattr(sys.modules.get("pyarrow"), "RecordBatch", None),
    )


def _column_bytes(column: Any) -> int:
    try:
        return int(column.nbytes)
    except _UNFIT:
        return int(column.get_total_buffer_size())
