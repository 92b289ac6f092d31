"""Changes: which keys of windows have changed since a dump, so that the next dump contains only these.

1. A change is recorded *before* it happens: a watcher can then read what is going to change.
2. What has changed since a dump is known until a later dump is committed, so that a dump that was never stored can be
   repeated. A dump that is aborted is forgotten: what has changed since belongs to the dump before.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, NamedTuple, Protocol

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

    def join(self, later: Changed) -> None:
        """Add what has changed after it."""
        for name in later.dropped:
            self.touched.pop(name, None)
        self.dropped.update(later.dropped)
        for name, keys in later.touched.items():
            all_keys = self.touched.setdefault(name, {})
            for key in keys:
                all_keys.pop(key, None)
                all_keys[key] = None


class Watcher(Protocol):
    """Is notified of what is going to change."""

    def keep(self, table: TableName, keys: Collection[RowKey]) -> None:
        """These keys of a table are going to change, for the first time since the last dump."""
        ...


class Changes:
    """Records what changes between dumps."""

    __slots__ = ("_rounds", "_touched", "watcher")

    def __init__(self) -> None:
        self.watcher: Watcher | None = None
        self._touched: dict[TableName, _Keys] = {}  # since the last dump
        self._rounds: list[Changed] = []

    def begin(self, number: int) -> None:
        """A dump of this number is made: what changes from now on is not in it."""
        self._touched = {}
        self._rounds.append(Changed(number, self._touched, {}))

    def changed(self, table: TableName, key: RowKey) -> None:
        """A key is going to change, or to be removed."""
        keys = self._touched.setdefault(table, {})
        if self.watcher is not None and key not in keys:
            self.watcher.keep(table, (key,))
        keys.pop(key, None)
        keys[key] = None

    def changed_all(self, table: TableName, keys: Iterable[RowKey]) -> None:
        """Some keys of a table are going to change."""
        known, new = self._touched.setdefault(table, {}), dict.fromkeys(keys)
        if self.watcher is not None:
            self.watcher.keep(table, new.keys() - known.keys())
        known.update(new)

    def leaving(self, table: TableName, keys: Collection[RowKey]) -> None:
        """The states of these keys are given to the user, who may change them. Their table is dropped."""
        if self.watcher is not None:
            self.watcher.keep(table, keys)

    def drop(self, table: TableName) -> None:
        """A table no longer exists, or has no keys any more. What was in it stays as it is."""
        self._touched.pop(table, None)
        if self._rounds:
            self._rounds[-1].dropped[table] = None

    def since(self, number: int) -> Changed:
        """What has changed since this dump. Earlier dumps are forgotten. WindowStateError if it is not known."""
        if not self.knows(number):
            known = [changed.number for changed in self._rounds]
            raise WindowStateError(
                f"no changes since dump {number} were recorded (but since {known}): make a full dump"
            )
        self.committed(number)
        if len(self._rounds) == 1:
            return self._rounds[0]
        joined = Changed(number, {}, {})
        for changed in self._rounds:
            joined.join(changed)
        return joined

    def knows(self, number: int) -> bool:
        """Whether a dump can contain only what has changed since this one."""
        return any(changed.number == number for changed in self._rounds)

    def count(self, number: int) -> int:
        """About how many keys have changed since this dump."""
        return sum(
            len(keys) for changed in self._rounds if changed.number >= number for keys in changed.touched.values()
        )

    def committed(self, number: int) -> None:
        """This dump is stored: no dump builds on an earlier one any more."""
        self._rounds = [changed for changed in self._rounds if changed.number >= number]

    def aborted(self, number: int) -> None:
        """This dump was not stored, and nothing builds on it."""
        at = next((at for at, changed in enumerate(self._rounds) if changed.number == number), None)
        if at is None:
            return
        lost = self._rounds.pop(at)
        if at:
            before = self._rounds[at - 1]
            before.join(lost)
            if self._touched is lost.touched:
                self._touched = before.touched
