"""Ledger: which chunks a table already has, and how many of their rows.

    set_rows(key → rows in the table) ─▶ missing(chunks) ─▶ appended ─▶ wrote(chunks)     failed ─▶ forget: read again

1. A chunk that the table has is not appended again; a chunk that arrives twice at once is appended once.
2. If the contents are not known (never read, or an append with unknown outcome) they are read before anything is
   appended.
3. A chunk of which the table has only some rows is an error: an append was interrupted, and was not atomic.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..errors import SinkError


class TableLedger:
    """The ledger of one table. Its bolt is the only writer."""

    def __init__(self, table: str, column: str) -> None:
        self._table = table
        self._column = column
        self._rows: dict[str, int] | None = None

    @property
    def known(self) -> bool:
        return self._rows is not None

    def set_rows(self, rows: Mapping[str, int]) -> None:
        """Set the contents of the table: key → rows."""
        self._rows = dict(rows)

    def forget(self) -> None:
        """An append failed, but may have been done: the contents are not known."""
        self._rows = None

    def missing(self, chunks: Iterable[tuple[str | None, int]]) -> list[bool]:
        """For each (key, rows), whether to append it; always without a key. SinkError if the table has only some of
        the rows."""
        if self._rows is None:
            raise RuntimeError("the contents of the table are not known: call set_rows first")
        found: list[bool] = []
        coming: set[str] = set()
        for key, rows in chunks:
            if key is None:
                found.append(True)
                continue
            there = self._rows.get(key)
            if there is not None and there != rows:
                raise SinkError(
                    f"table {self._table} has {there:,} of the {rows:,} rows of chunk {key}: an append to it was cut "
                    f"short. Delete the rows with {self._column} = '{key}', and use a table whose appends are atomic "
                    "(Iceberg, Delta, or Parquet without partitions)"
                )
            found.append(there is None and key not in coming)
            coming.add(key)
        return found

    def has_prefix(self, text: str) -> bool:
        """Whether a key begins with this text."""
        return any(key.startswith(text) for key in self._rows or ())

    def wrote(self, chunks: Iterable[tuple[str | None, int]]) -> None:
        """Record chunks that are in the table now."""
        if self._rows is not None:
            self._rows.update({key: rows for key, rows in chunks if key is not None})
