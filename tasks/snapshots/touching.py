"""Touching: the keys of rows are touched in the state before a bolt executes the rows (see state.State).

Not where the next snapshot is full anyway; except those of the first rows, which are checked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING

from ...topology import ColumnRows, Origin, Segment
from .task_saver import FIRST_ROWS

if TYPE_CHECKING:
    from ...state import State
    from ...topology import Item, Key

_KeysOf = Callable[[Sequence["Item"]], Sequence["Key"]]


class KeyToucher:
    """Touches the keys of the rows of one task. `check`: is called once, when the first rows were executed."""

    __slots__ = ("_check", "_fields", "_keys_of", "_rows", "_state")

    def __init__(self, state: State[Key, object], fields: Sequence[str], check: Callable[[], None]) -> None:
        self._state = state
        self._fields = fields
        self._check: Callable[[], None] | None = check
        self._keys_of: dict[Origin, _KeysOf] = {}
        self._rows = 0

    def touch_rows(self, segment: Segment, start: int, stop: int) -> None:
        """Rows [start, stop) are going to be executed."""
        state = self._state
        state.rows += stop - start
        if self._check is not None:
            self._count(self._check, stop - start)
        if state.everything and state.watcher is None and self._check is None:
            return  # the next snapshot is full, and none is packed now
        origin, items = segment.origin, segment.items
        keys_of = self._keys_of.get(origin)
        if keys_of is None:
            keys_of = self._keys_of[origin] = _keys_of(origin, self._fields)
        # `isinstance` would ask an abstract class: 1 µs for each segment.
        rows: Sequence[Item] = items.items if type(items) is ColumnRows else items
        state.touch_keys(keys_of(rows if stop - start == len(rows) else rows[start:stop]))

    def _count(self, check: Callable[[], None], rows: int) -> None:
        if self._rows >= FIRST_ROWS:
            self._check = None
            check()
        self._rows += rows


def _keys_of(origin: Origin, fields: Sequence[str]) -> _KeysOf:
    if origin.bare:
        return lambda items: items
    take = itemgetter(*(origin.positions[name] for name in fields))
    return lambda items: list(map(take, items))
