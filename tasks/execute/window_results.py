"""Window results: converts what user code returned, or a machine made, to rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...topology import EmitError, Row


def rows_of(returned: Any, arity: int, name: str) -> Iterable[Row]:
    """None is no row, a tuple is a row, any other iterable is rows; with one field, any other value is a row of one."""
    if returned is None:
        return ()
    if type(returned) is tuple:
        return (returned,)
    if isinstance(returned, str | bytes | dict) or not isinstance(returned, Iterable):
        if arity == 1:
            return ((returned,),)
        raise EmitError(
            f"{name} returned {returned!r:.100}, which is no row: return a tuple of {arity} values, several in a list, "
            "or None"
        )
    return (row if isinstance(row, tuple) else _one(row, arity, name) for row in returned)


def _one(row: Any, arity: int, name: str) -> Row:
    if isinstance(row, list) and arity != 1:
        return tuple(row)
    if arity == 1:
        return (row,)
    raise EmitError(f"{name} returned {row!r:.100} among its rows: a row is a tuple of {arity} values")
