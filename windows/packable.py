"""Packable: which value of a dump of windows cannot be packed? The caller asks when packing the dump has failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .errors import WindowStateError

if TYPE_CHECKING:
    from collections.abc import Callable

    from .changes import TableName
    from .frozen import Dump
    from .values import RowKey, Value


def check_packable(dump: Dump, pack: Callable[[Value], object]) -> None:
    """WindowStateError for the first value that `pack` refuses: it names the windows, the window, the key, the reason.

    What a user can do: `pack_state` of the aggregate or the bolt, `register_record`, or another kind of state.
    """
    head = dump["head"]
    titles = head["settings"].get("aggregates", ())
    for name, columns in dump["tables"].items():
        for place, column in enumerate(columns):
            title = titles[place] if isinstance(name, int) and titles else None
            for key, value in column.items():
                _check(pack, (key, value), _where(head["kind"], name, key, title))
    for result in head["state"].get("ready", ()):
        _check(pack, result, f"{head['kind']}, a result that is due, of key {result[-3]!r:.100}")


def _check(pack: Callable[[Value], object], value: Value, where: str) -> None:
    try:
        pack(value)
    except Exception as error:
        raise WindowStateError(f"{where}: {error}") from error


def _where(kind: str, name: TableName, key: RowKey, title: str | None) -> str:
    table = f"the window or slice from {name}" if isinstance(name, int) else f"its {name}"
    return f"{kind}, {table}, key {key!r:.100}" + (f", the state of {title}" if title else "")
