"""Frozen: what windows contained at one moment, read in parts while they go on.

    machine ─ freeze ─► Frozen ─┬─ dump: all at once
                                ╰─ watch ─► take(rows) ─► take(rows) ─► …
                                      ▲ keep(table, keys): they are going to change, so they are read now

1. `freeze` copies no states, and looks up no keys. After `watch`, what is going to change is read before it does
   (changes.py), and is copied. Before `watch`, and for a dump: read everything before the machine gets another row.
2. Rows come in the order of the tables and of their keys, whatever was read early.
3. What fails while it is read early fails the reading, and not the row that is added then.
4. A table that the machine has dropped stays as it was: it is only referred to.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from .changes import Changed, Changes, TableName
    from .values import RowKey, Value

Column = dict["RowKey", "Value"]
Columns = list[Column]
Dump = dict[str, "Value"]
States = tuple["Value", ...]
"""The values of a key in all columns of a table."""


SMALL: Final = 256
"""A table with more rows is large."""

Copied = Callable[["TableName", "RowKey", States], States]
"""Makes a copy of the values of a key in a table."""


class Table(NamedTuple):
    """A table of a machine. `keys`: as they are now. `read` those of these keys that it has, in their order; or all."""

    keys: Collection[RowKey]
    read: Callable[[Iterable[RowKey] | None], Columns]


class TableRows(NamedTuple):
    """Rows of a table. None: of a delta, the key was removed."""

    table: TableName
    keys: Sequence[RowKey]
    rows: Sequence[States | None]


class _Left(NamedTuple):
    """What is still to be read of a table: the keys from `at` on. `only`: of a delta, its changed keys."""

    keys: Sequence[RowKey]
    only: Collection[RowKey] | None
    read: Callable[[Iterable[RowKey] | None], Columns]
    at: int = 0


class Frozen:
    """The content of windows when they were frozen. `head` and `dropped` are those of a dump (dumps.py).

    `size`: how many rows the tables have; a row is the values of one key in one table.
    """

    def __init__(
        self,
        head: dict[str, Value],
        tables: Mapping[TableName, Table],
        changed: Changed | None,
        changes: Changes | None,
    ) -> None:
        self.head = head
        self.size = sum(len(table.keys) for table in tables.values())
        self.dropped: list[TableName] = [] if changed is None else list(changed.dropped)
        self._tables = tables
        self._full = changed is None
        self._left: dict[TableName, _Left] = {}
        self._kept: dict[TableName, dict[RowKey, States | None]] = {}
        self._copied: Copied = _same
        self._failed: Exception | None = None
        self._changes = [] if changes is None else [changes]
        if changed is not None:
            for name, table in tables.items():
                if touched := changed.touched.get(name):
                    self._left[name] = _Left(list(touched), touched, table.read)

    @property
    def rows(self) -> int:
        """How many rows `take` gives, after `watch`."""
        return sum(len(left.keys) for left in self._left.values())

    def dump(self) -> Dump:
        """All at once; the values are those of the machine."""
        if self._full:
            return {"head": self.head, "tables": {name: table.read(None) for name, table in self._tables.items()}}
        found = {name: left.read(left.keys) for name, left in self._left.items()}
        lacking = {name: [key for key in self._left[name].keys if key not in found[name][0]] for name in found}
        return {
            "head": self.head,
            "tables": {name: columns for name, columns in found.items() if columns[0]},
            "removed": {name: keys for name, keys in lacking.items() if keys},
            "dropped": self.dropped,
        }

    def with_inner(self, inner: Frozen) -> None:
        """Add the content of the machine inside of this one, which was frozen at the same time."""
        self.head["machine"] = inner.head
        self.size += inner.size
        self.dropped.extend(inner.dropped)
        self._tables = {**self._tables, **inner._tables}
        self._left.update(inner._left)
        self._changes += inner._changes

    def watch(self, copied: Copied) -> None:
        """From now on the machine may change. `copied` makes a copy of values that are going to change."""
        if any(changes.watcher is not None for changes in self._changes):
            raise ValueError("what these windows contained before is still being read")
        if self._full:
            self._left = {
                name: _Left(list(table.keys), None, table.read) for name, table in self._tables.items() if table.keys
            }
        self._copied = copied
        for changes in self._changes:
            changes.watcher = self

    def take(self, most: int) -> list[TableRows]:
        """The next rows, at most so many; none are left: []. Raises what `copied` or a `pack_state` has raised.

        It stops at the end of a table if a large one follows, whose rows may take longer.
        """
        if self._failed is not None:
            raise self._failed
        parts: list[TableRows] = []
        while most > 0 and self._left:
            name, left = next(iter(self._left.items()))
            some = left.keys[left.at : left.at + most]
            parts.append(TableRows(name, some, self._rows(name, some, left)))
            most -= len(some)
            if left.at + len(some) == len(left.keys):
                del self._left[name]
                self._kept.pop(name, None)
                following = next(iter(self._left.values()), None)
                if following is not None and len(following.keys) > SMALL:
                    break
            else:
                self._left[name] = left._replace(at=left.at + len(some))
        return parts

    def sample(self, most: int) -> list[TableRows]:
        """Some rows, instead of all: before the machine changes."""
        found: list[TableRows] = []
        for name, table in self._tables.items():
            keys = list(islice(table.keys, most))
            if keys:
                found.append(TableRows(name, keys, _in_rows(table.read(keys))))
                most -= len(keys)
        return found

    def keep(self, table: TableName, keys: Collection[RowKey]) -> None:
        left = self._left.get(table)
        if left is None:
            return
        kept = self._kept.setdefault(table, {})
        wanted = [key for key in keys if key not in kept and (left.only is None or key in left.only)]
        try:
            columns: Columns = left.read(wanted) if wanted else [{}]
            for key in wanted:
                there = key in columns[0]
                kept[key] = self._copied(table, key, tuple(column[key] for column in columns)) if there else None
        except Exception as error:
            self.end()
            self._failed = error

    def end(self) -> None:
        """Nothing more is read."""
        for changes in self._changes:
            if changes.watcher is self:
                changes.watcher = None
        self._left, self._kept, self._tables = {}, {}, {}

    def _rows(self, name: TableName, keys: Sequence[RowKey], left: _Left) -> Sequence[States | None]:
        kept = self._kept.get(name, {})
        columns = left.read(keys if kept.keys().isdisjoint(keys) else [key for key in keys if key not in kept])
        rows = _in_rows(columns)
        if len(rows) == len(keys):
            return rows
        found = dict(zip(columns[0], rows, strict=True))
        return [kept[key] if key in kept else found.get(key) for key in keys]


def _same(_: TableName, __: RowKey, states: States) -> States:
    return states


def _in_rows(columns: Columns) -> list[States]:
    return list(zip(*(column.values() for column in columns), strict=True))
