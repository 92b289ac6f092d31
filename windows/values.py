"""The names of what users give and get: windows keep and pass on such values, and know nothing of their types.

The functions check what a user gave. A type checker believes the annotations, and users need not have one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias, TypeGuard

RowKey: TypeAlias = Any
"""The key of a row: hashable; None if the bolt has no key."""

Row: TypeAlias = Any
"""A row as a window keeps it: a Tuple, or the item of a segment."""

Value: TypeAlias = Any
"""What an aggregate is given of a row: the row, a tuple of its fields, or one field."""

State: TypeAlias = Any
"""The state of an aggregate for one key and window; never None."""

Result: TypeAlias = Any
"""The result of a window."""

Returned: TypeAlias = Any
"""What a user's method returns: rows to emit, or an awaitable of them."""

Setting: TypeAlias = Any
"""A setting as a class declares it. A function may be declared as a method, and a setting that is wrong is reported
when the topology is built: only then is its type known."""


def is_a(given: object, kind: type) -> bool:
    """Is it what its annotation says?"""
    return isinstance(given, kind)


def is_tuple(given: object) -> TypeGuard[tuple[Value, ...]]:
    """Is it a tuple, of any values?"""
    return isinstance(given, tuple)


def is_mapping(given: object) -> TypeGuard[Mapping[object, Value]]:
    """Is it a mapping, of any values?"""
    return isinstance(given, Mapping)
