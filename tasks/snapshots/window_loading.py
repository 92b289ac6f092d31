"""WindowLoader: the content of windows from the chunks of a full snapshot and of the deltas after it.

1. What is loaded is what was captured, or a DamagedError: each delta fits on the snapshot before it, has as many rows
   as its head says, and is of the same windows.
2. Keys are in the order in which the machine had them: what has changed last is the last.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from ...state import ForeignError
from ...windows import WindowStateError

if TYPE_CHECKING:
    from ...state import Chunk
    from ...windows import Dump, Machine

_SAME: Final = ("version", "kind", "settings")
"""What no delta changes."""

WRONG: Final = (WindowStateError, AttributeError, LookupError, TypeError, ValueError)
"""The errors of reading something else than what was saved."""

_Columns = list[dict[Any, Any]]


class WindowLoader:
    """Makes one full dump (windows.dumps) of chunks (window_capture.py)."""

    def __init__(self) -> None:
        self._head: dict[str, Any] | None = None
        self._missing = 0  # rows that must follow the head
        self._tables: dict[Any, _Columns] = {}

    def apply(self, chunk: Chunk) -> None:
        """Apply the next chunk. ValueError if it does not fit the chunks before it."""
        if len(chunk.keys) == 1 and chunk.keys[0] is None:
            self._begin(chunk.values[0])
            return
        if self._head is None:
            raise ValueError("windows have no head")
        self._missing -= len(chunk.keys) + len(chunk.removed)
        for table, key in map(_pair, chunk.removed):
            for column in self._tables.get(table, ()):
                column.pop(key, None)
        name, columns = object(), _Columns()
        for (table, key), values in zip(map(_pair, chunk.keys), chunk.values, strict=True):
            if table != name:
                name, columns = table, self._columns_of(table, len(values))
            if type(values) is not tuple:
                raise ValueError(f"the values of key {key!r:.100} are no tuple")
            for column, value in zip(columns, values, strict=True):
                column.pop(key, None)
                column[key] = value  # at the end: the last changed is the last

    def finish(self) -> tuple[Dump, int]:
        """A full dump, and how many rows it has, with its head. ValueError if chunks are missing."""
        self._check_complete()
        if self._head is None:
            return {}, 0
        tables = {name: columns for name, columns in self._tables.items() if columns[0]}
        return {"head": {**self._head, "since": None}, "tables": tables}, 1 + sum(
            len(columns[0]) for columns in tables.values()
        )

    def _begin(self, content: Any) -> None:
        self._check_complete()
        if type(content) is not tuple or len(content) != 3:
            raise ValueError("the head of windows is no head")
        head, self._missing, dropped = content
        if type(head) is not dict or type(self._missing) is not int or type(dropped) is not list:
            raise ValueError("the head of windows is no head")
        before, since = self._head, head.get("since")
        if since is None:
            self._tables = {}
        elif before is None or before["number"] != since:
            raise ValueError(f"changes of windows since snapshot {since}, after {before and before['number']}")
        elif any(before[field] != head.get(field) for field in _SAME):
            raise ValueError("changes of other windows than before")
        if "number" not in head or any(field not in head for field in _SAME):
            raise ValueError("the head of windows has gaps")
        self._head = head
        for table in dropped:
            self._tables.pop(table, None)

    def _check_complete(self) -> None:
        if self._missing:
            raise ValueError(f"windows lack {self._missing} rows")

    def _columns_of(self, table: Any, width: int) -> _Columns:
        columns = self._tables.get(table)
        if columns is None:
            columns = self._tables[table] = [{} for _ in range(width)]
        return columns


def load_windows(machine: Machine[Any], content: Mapping[str, Any], component: str, task: int) -> None:
    """Load what the windows of a task contained into its new machine. ForeignError if they are other windows now."""
    if not content:
        return
    try:
        machine.load(dict(content))
    except WindowStateError as error:
        raise ForeignError(
            f"component {component!r}, task {task}: its windows cannot be restored: {error}. Restore the snapshot with "
            "the windows that it was taken with, or begin with an empty folder"
        ) from error


def _pair(key: Any) -> tuple[Any, Any]:
    if type(key) is not tuple or len(key) != 2:
        raise ValueError(f"a row of windows has the key {key!r:.100}")
    return key
