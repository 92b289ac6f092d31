"""Changes: which keys of windows have changed since a dump, so that the next dump contains only these."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from .errors import WindowStateError

if TYPE_CHECKING:
    from .values import RowKey

TableName = int | str
_Keys = dict["RowKey", None]


class Changed(NamedTuple):
    """What has changed since a dump: the keys of tables, the last changed at the end; and the tables dropped."""

    number: int
    touched: dict[TableName, _Keys]
    dropped: dict[TableName, None]


class Changes:
    """Records what changes between dumps."""

    __slots__ = ("_rounds", "_touched")

    def __init__(self) -> None:
        self._touched: dict[TableName, _Keys] = {}  # since the last dump
        self._rounds: list[Changed] = []

    def begin(self, number: int) -> None:
        """A dump of this number is made: what changes from now on is not in it."""
        self._touched = {}
        self._rounds.append(Changed(number, self._touched, {}))

    def changed(self, table: TableName, key: RowKey) -> None:
        """A key has changed, or was removed."""
        keys = self._touched.setdefault(table, {})
        keys.pop(key, None)
        keys[key] = None

    def changed_all(self, table: TableName, keys: Iterable[RowKey]) -> None:
        """Some keys of a table have changed."""
        self._touched.setdefault(table, {}).update(dict.fromkeys(keys))

    def drop(self, table: TableName) -> None:
        """A table no longer exists, or has no keys any more."""
        self._touched.pop(table, None)
        self._rounds[-1].dropped[table] = None

    def since(self, number: int) -> Changed:
        """What has changed since this dump. Earlier dumps are forgotten. WindowStateError if it is not known."""
        known = [changed.number for changed in self._rounds]
        if number not in known:
            raise WindowStateError(
                f"no changes since dump {number} were recorded (but since {known}): make a full dump"
            )
        del self._rounds[: known.index(number)]
        if len(self._rounds) == 1:
            return self._rounds[0]
        touched: dict[TableName, _Keys] = {}
        dropped: dict[TableName, None] = {}
        for changed in self._rounds:
            for name in changed.dropped:
                touched.pop(name, None)
            dropped.update(changed.dropped)
            for name, keys in changed.touched.items():
                all_keys = touched.setdefault(name, {})
                for key in keys:
                    all_keys.pop(key, None)
                    all_keys[key] = None
        return Changed(number, touched, dropped)

    def forget(self) -> None:
        """A full dump is made: no delta is needed any more that builds on an earlier one."""
        self._rounds.clear()
