"""Dumps: the state of windows as plain values: all of it, or what has changed since an earlier dump.

    machine ─ dump(1) ───────────► base  ─┐
    machine ─ dump(2, since=1) ──► delta ─┴─ apply_delta ─► all as of 2 ─ load ─► a new machine

A dump is a dict:

| field | meaning |
|---|---|
| head | version, kind, settings, number, since (None: all), and `state`: the watermark, results not taken yet, … |
| tables | name → columns. A column is a dict: key → value. All columns of a table have the same keys |
| removed | of a delta: name → keys that are no longer in the table |
| dropped | of a delta: the names of tables that no longer exist |

1. A new machine that loads a dump continues as the dumped machine: the same results in the same order.
2. A table with a number as its name is the window or slice that starts there (of rows that are kept: the keys to
   process at that time). A delta has only the changed keys of changed tables: a slice without new rows is in no delta.
3. Changes are recorded from the first dump with a number on, until then nothing is (changes.py).
4. The values are those of the machine, not copies: pack them before the machine gets another row, or freeze it and read
   them in parts while it goes on (frozen.py).
5. Due results that were not taken are in the dump. Timers of the clock are not: after `load` the caller applies the
   time, and what is overdue fires at once.

From: Flink, incremental checkpoints; there the changed files of a store are saved, here the changed keys.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from .changes import Changes, TableName
from .errors import WindowStateError
from .frozen import Columns, Dump, Frozen, Table
from .values import is_mapping

if TYPE_CHECKING:
    from .values import RowKey, Value

VERSION: Final = 1
"""The version of the format."""

WRONG: Final = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""The errors of reading a damaged dump."""


class Dumped(ABC):
    """Base class of what can be dumped and loaded."""

    _changes: Changes | None = None

    def dump(self, number: int | None = None, since: int | None = None) -> Dump:
        """The state: all of it, or with `since` what has changed since the dump of that number.

        With a `number`, later dumps can build on this one. An earlier dump can still be built on until a later one is
        `committed`, so that a delta can be repeated that was never stored. A window that is being fired is computed to
        its end: for many keys let `work` do that first.
        """
        return self.freeze(number, since).dump()

    def freeze(self, number: int | None = None, since: int | None = None) -> Frozen:
        """What `dump` would give, to be read in parts."""
        self._settle()
        changed = None
        if since is not None:
            if self._changes is None:
                raise WindowStateError(f"no changes since dump {since} were recorded: make a full dump, with a number")
            changed = self._changes.since(since)
        head = {**self._identity(), "number": number, "since": since, "state": self._state()}
        tables = {name: self._table(name) for name in self._tables()}
        if number is not None:
            if self._changes is None:
                self._changes = Changes()
            frozen = Frozen(head, tables, changed, self._changes)
            self._changes.begin(number)
            return frozen
        return Frozen(head, tables, changed, None)

    @property
    def saved_rows(self) -> int:
        """How many rows a full dump has: a row is the values of one key in one table."""
        return sum(len(self._table(name).keys) for name in self._tables())

    def changed_since(self, number: int) -> int | None:
        """About how many rows have changed since this dump; None: it is not known, and only a full dump is possible."""
        if self._changes is None or not self._changes.knows(number):
            return None
        return self._changes.count(number)

    def committed(self, number: int) -> None:
        """This dump is stored: no dump builds on an earlier one any more."""
        if self._changes is not None:
            self._changes.committed(number)

    def aborted(self, number: int) -> None:
        """This dump was not stored, and nothing builds on it."""
        if self._changes is not None:
            self._changes.aborted(number)

    def load(self, dump: Dump) -> None:
        """Load a full dump into this machine, which is new. Nothing fires until the caller applies the time.

        WindowStateError if it is a dump of another kind of windows, of other settings, of another version, or damaged;
        this machine is of no use then.
        """
        head, tables = _checked(dump, self._identity())
        try:
            for name, columns in tables.items():
                self._load_table(name, columns)
            self._load_state(head["state"])
        except WRONG as error:
            raise damaged(f"{type(error).__name__}: {error}") from error

    @property
    @abstractmethod
    def _settings(self) -> dict[str, Value]:
        """What must be the same in the machine that loads the dump."""

    def _settle(self) -> None:  # noqa: B027 - most have nothing to finish
        """Finish what has begun and would not fit in a dump."""

    @abstractmethod
    def _state(self) -> dict[str, Value]:
        """What is in no table."""

    @abstractmethod
    def _load_state(self, state: dict[str, Value]) -> None:
        """Load what `_state` gave. All tables are loaded."""

    @abstractmethod
    def _tables(self) -> Iterable[TableName]:
        """The names of all tables."""

    @abstractmethod
    def _table(self, name: TableName) -> Table:
        """A table. Reading it later is right as long as no key has changed that was not recorded before it did."""

    @abstractmethod
    def _load_table(self, name: TableName, columns: Columns) -> None:
        """Load a table."""

    def _identity(self) -> dict[str, Value]:
        return {"version": VERSION, "kind": type(self).__name__, "settings": self._settings}


def apply_delta(base: Dump, delta: Dump) -> Dump:
    """The full dump that was made when the delta was made. WindowStateError if they do not fit. `base` is changed."""
    head, tables = _parts(base)
    try:
        changed, since = delta["head"], delta["head"]["since"]
        if head["since"] is not None or since is None or since != head["number"]:
            raise WindowStateError(
                f"a delta since dump {since} does not fit on dump {head['number']} (since {head['since']})"
            )
        for field in ("version", "kind", "settings"):
            if head[field] != changed[field]:
                raise WindowStateError(f"{field} of the delta is {changed[field]!r}, and of its base {head[field]!r}")
        for name in delta["dropped"]:
            tables.pop(name, None)
        for name, keys in delta["removed"].items():
            for column in tables.get(name, ()):
                for key in keys:
                    column.pop(key, None)
        for name, columns in delta["tables"].items():
            known = tables.setdefault(name, [{} for _ in columns])
            for column, values in zip(known, columns, strict=True):
                for key, value in values.items():
                    column.pop(key, None)
                    column[key] = value  # at the end: the last changed is the last
    except WRONG as error:
        raise damaged(f"{type(error).__name__}: {error}") from error
    return {"head": {**changed, "since": None}, "tables": tables}


def damaged(what: str) -> WindowStateError:
    """The error for a dump that no machine makes."""
    return WindowStateError(f"the dump of windows is damaged: {what}")


def check(sound: bool, what: str) -> None:
    """Raise an error if the dump is not sound."""
    if not sound:
        raise damaged(what)


def whole_number(value: Value, what: str) -> int:
    """The value, which must be an int."""
    if type(value) is not int:
        raise damaged(f"{what} is {value!r:.100}")
    return value


def time_or_none(value: Value, what: str) -> int | None:
    """The value, which must be an int or None."""
    return None if value is None else whole_number(value, what)


def least_known(first: int | None, second: int | None) -> int | None:
    """The earlier of two times. None: nothing is known yet, which is further behind than any time."""
    return None if first is None or second is None else min(first, second)


def ms_before(at_ms: int | None, now_ms: int) -> int | None:
    """How long after now a time of this task's clock is: another task has another clock."""
    return None if at_ms is None else at_ms - now_ms


def ms_after(in_ms: int | None, now_ms: int) -> int | None:
    """The reverse of ms_before."""
    return None if in_ms is None else now_ms + in_ms


def table_of(column: Mapping[RowKey, Any], packed: Callable[[RowKey, Any], Value] | None = None) -> Table:
    """A table of one column. `packed` makes a key's value; None: it is the value itself."""

    def read(keys: Iterable[RowKey] | None) -> Columns:
        items = picked(column, keys)
        return [dict(items) if packed is None else {key: packed(key, value) for key, value in items}]

    return Table(column.keys(), read)


def picked(table: Mapping[RowKey, Value], keys: Iterable[RowKey] | None) -> Iterator[tuple[RowKey, Value]]:
    """The items of a table, or of those of the keys that it has."""
    if keys is None:
        yield from table.items()
        return
    for key in keys:
        if key in table:
            yield key, table[key]


def _parts(dump: Dump) -> tuple[dict[str, Value], dict[TableName, Columns]]:
    try:
        head, tables = dump["head"], dump["tables"]
        for columns in tables.values():
            if not columns or any(column.keys() != columns[0].keys() for column in columns):
                raise damaged("the columns of a table have different keys")
        check(all(name in head for name in ("version", "kind", "settings", "number", "since")), "its head has gaps")
    except WRONG as error:
        raise damaged(f"{type(error).__name__}: {error}") from error
    return head, tables


def _checked(dump: Dump, expected: Mapping[str, Value]) -> tuple[dict[str, Value], dict[TableName, Columns]]:
    head, tables = _parts(dump)
    check_identity(head, expected)
    if head["since"] is not None:
        raise WindowStateError(f"it is a delta since dump {head['since']!r:.100}: apply it to that dump first")
    return head, tables


def check_identity(head: Mapping[str, Value], expected: Mapping[str, Value]) -> None:
    """WindowStateError if `head` has another version, kind or settings than expected."""
    if head["version"] != expected["version"]:
        raise WindowStateError(
            f"the dump has version {head['version']!r:.100} of the format, and this version of aiostorm reads "
            f"{expected['version']}"
        )
    if head["kind"] != expected["kind"]:
        raise WindowStateError(f"it is a dump of {head['kind']!r:.100}, not of {expected['kind']}")
    if head["settings"] != expected["settings"]:
        raise WindowStateError(
            f"it is a dump with other settings: {_differences(head['settings'], expected['settings'])}"
        )


def _differences(found: Value, expected: Mapping[str, Value]) -> str:
    if not is_mapping(found):
        return repr(found)[:200]
    return (
        "; ".join(
            f"{name} was {found.get(name)!r:.200} and is {value!r:.200}"
            for name, value in expected.items()
            if found.get(name) != value
        )
        or repr(found)[:200]
    )
