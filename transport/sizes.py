"""Sizes: what is too large to be sent is found before it is copied. A gigabyte would hold the loop, again and again.

1. Looked at are texts, bytes and arrays, one by one, and the length of containers: all that can be large in one piece.
   Many small ones are counted when they are packed (see values, and scan).
2. A frame holds none that is larger than a frame. What goes in pieces (results) may be larger.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence, Sized
from typing import Any, Final

from .errors import UnsendableError
from .network import MAX_FRAME_BYTES
from .scan import MAX_ITEMS

PIECEWISE_BYTES: Final = 1024 * 1024 * 1024
"""Of what goes in pieces."""

_SIZED: Final = frozenset({str, bytes, bytearray})

_most: tuple[int, int] = (MAX_ITEMS, MAX_FRAME_BYTES)
"""Values in a container, bytes in a value: of what is packed now. Nothing waits meanwhile."""


def allow_for(max_items: int) -> tuple[int, int]:
    """What may have more values than a frame may is for pieces. What held before: give it back to `allow`."""
    before = _most
    if max_items != MAX_ITEMS:
        allow((max_items, PIECEWISE_BYTES))
    return before


def allow(most: tuple[int, int]) -> None:
    """From now on."""
    global _most
    _most = most


def check_length(container: Sized) -> None:
    """UnsendableError if it holds more than a receiver takes."""
    if len(container) > _most[0]:
        raise UnsendableError(
            f"a value of more than {_most[0]} values: send it in parts, or as a NumPy array or a RecordBatch"
        )


def check_sizes(values: Sequence[Any]) -> None:
    """UnsendableError, with its `offset`, if one of them is larger than a frame."""
    most = _most[1]
    try:
        largest = max(map(len, values), default=0)  # all of them text or bytes: one call
    except TypeError:
        largest = max(map(_size_of, values))
    if largest <= most:
        return
    for at, value in enumerate(values):
        size_bytes = _size_of(value)
        if size_bytes > most:
            raise UnsendableError(
                f"a value of {size_bytes:,} bytes is too large to be sent to another process, which takes {most:,} at "
                "once; send it in parts, or where it can be read",
                offset=at,
            )


def check_size(value: Any) -> None:
    """The same of one."""
    if _size_of(value) > _most[1]:
        check_sizes((value,))


def _size_of(value: Any) -> int:
    """Of what is one piece of memory; of all else 0. A str has as many bytes as characters, or more."""
    kind = type(value)
    if kind in _SIZED:
        return len(value)
    numpy = sys.modules.get("numpy")
    return int(value.nbytes) if numpy is not None and kind is numpy.ndarray else 0
