"""Ledger: which chunks a table has already, and how much of them.

    load(key → rows of it in the table) ─▶ missing(chunks) ─▶ appended ─▶ wrote(chunks)     failed ─▶ forget: load again

1. A chunk that the table has is not appended again; one that comes twice at once is appended once.
2. What is not known (never loaded, or an append whose outcome nobody knows) is loaded before anything is appended.
3. A chunk of which the table has some rows is an error: the table's append was cut short, and was not atomic.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..errors import SinkError


class TableLedger:
    """Of one table, whose only writer we are."""

    def __init__(self, table: str, column: str) -> None:
        self._table = table
        self._column = column
        self._rows: dict[str, int] | None = None

    @property
    def known(self) -> bool:
        """Has it been loaded?"""
        return self._rows is not None

    def set_rows(self, rows: Mapping[str, int]) -> None:
        """What the table has."""
        self._rows = dict(rows)

    def forget(self) -> None:
        """An append failed: it may have been done all the same."""
        self._rows = None

    def missing(self, chunks: Iterable[tuple[str, int]]) -> list[bool]:
        """For each (key, rows): is it to be appended? SinkError for one that is there in part."""
        if self._rows is None:
            raise RuntimeError("load it first")
        found, coming = [], set()
        for key, rows in chunks:
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

    def wrote(self, chunks: Iterable[tuple[str, int]]) -> None:
        """They are in the table."""
        if self._rows is not None:
            self._rows.update(chunks)
