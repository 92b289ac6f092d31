"""UpsertSink: one row in a table for each key, with the last values: those of the last correction, too.

    word, start, n, revision     ("the", 0, 7, 0)     a result
                                 ("the", 0, 8, 1)     its correction, because of a late row

1. A row replaces the row of its key. With `revision`, one with a smaller revision than that in the table changes
   nothing.
2. Values that are `added` are summed up by corrections: a correction brings the difference, and not the whole.
3. Rows of a key must come in their order: group them by the key, or use one task. Anything else is refused.

From: Flink's upsert tables; the ON CONFLICT clause of SQLite and PostgreSQL.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from .sink import SinkError
from .write_ahead import WriteAheadSink

if TYPE_CHECKING:
    from ...topology import BasicCollector, Tuple


class UpsertSink(WriteAheadSink):
    """Writes rows to `table` of SQLite or PostgreSQL: the last for each key, each once (see WriteAheadSink).

    `key`, `values` and `added`: fields of the rows, and columns of the table with the same names. The table exists, and
    `key` is its primary key or is unique (for windows: the key and the start). `revision`: a field and column, the
    `revision` of a window; required for `added`. SinkError if that makes no sense.
    """

    def __init__(
        self,
        connect: Callable[[], Any],
        table: str,
        *,
        key: str | Sequence[str],
        values: str | Sequence[str] = (),
        added: str | Sequence[str] = (),
        revision: str | None = None,
        placeholder: str = "?",
    ) -> None:
        keys, replaced, summed = _names(key), _names(values), _names(added)
        columns = [*keys, *replaced, *summed, *_names(revision or ())]
        if not keys or len(set(columns)) < len(columns):
            raise SinkError(f"an upsert into {table!r} needs a key, and names each column once: {', '.join(columns)}")
        if summed and revision is None:
            raise SinkError(
                f"an upsert into {table!r} adds {', '.join(summed)}: name the field `revision`, which says which rows "
                "are corrections"
            )
        super().__init__(connect, upsert(table, keys, replaced, summed, revision, placeholder), placeholder=placeholder)
        self._columns = columns
        self.keyed_output = tuple(keys)

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        """Keep the row until the next snapshot."""
        self.keep([tup[name] for name in self._columns])


def upsert(
    table: str,
    keys: Sequence[str],
    replaced: Sequence[str],
    summed: Sequence[str],
    revision: str | None,
    placeholder: str,
) -> str:
    """The statement; its parameters are the columns in this order."""
    columns = [*keys, *replaced, *summed, *_names(revision or ())]
    name, number = _quoted(table), _quoted(revision or "")
    sets = [f"{_quoted(column)} = excluded.{_quoted(column)}" for column in (*replaced, *_names(revision or ()))]
    for column in map(_quoted, summed):
        whole = f"CASE WHEN excluded.{number} > 0 THEN {name}.{column} + excluded.{column} ELSE excluded.{column} END"
        sets.append(f"{column} = {whole}")
    update = f"UPDATE SET {', '.join(sets)}" if sets else "NOTHING"
    if revision is not None:
        update += f" WHERE excluded.{number} >= {name}.{number}"
    names, parameters = ", ".join(map(_quoted, columns)), ", ".join([placeholder] * len(columns))
    conflict = f"ON CONFLICT ({', '.join(map(_quoted, keys))}) DO {update}"
    return f"INSERT INTO {name} ({names}) VALUES ({parameters}) {conflict}"  # noqa: S608 - names are quoted


def _names(given: str | Sequence[str]) -> list[str]:
    return [given] if isinstance(given, str) else list(given)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
