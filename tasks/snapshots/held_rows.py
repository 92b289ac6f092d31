"""HeldRows: how many rows a sink holds that no snapshot has committed, and whether it may take more. Pure.

    rows ─► held ─ pre_commit ─► with the snapshot ─ commit ─► no longer held
                      ▲                   ╰─ abort ─► held, for the next one
    held < half of the limit: CALM      < the limit: a snapshot is wanted SOON      from the limit on: FULL

1. Rows are counted as they come, and their bytes are estimated: one of SAMPLED rows is measured, for all of them.
2. A sink that keeps fewer rows than have come says how many (Commits.held_rows): one with a value for each key, or one
   that writes rows aside.
3. Nothing is refused here. The sink takes what is on the way to it, barriers included; spouts have to wait.
"""

from __future__ import annotations

import enum
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from ...topology import ColumnRows

if TYPE_CHECKING:
    from collections.abc import Collection

    from ...topology import Config, Segment

SAMPLED: Final = 13
"""A prime: rows that alternate in some way are measured as often as they are there."""

_MOST_PARTS: Final = (100, 25, 6, *[1] * 17)
"""So many values of a list or a dict are measured, by its depth; the others are taken to be like them. So a row takes a
limited time, whatever it contains, also if it contains itself."""

_ROW_BYTES: Final = 8
"""Of a value that has no length, and of each object besides its content."""


SOON_SHARE: Final = 0.5
"""Of the limit: from here on a snapshot is wanted soon."""


class HeldLevel(enum.IntEnum):
    """How full a sink is."""

    CALM = 0
    SOON = 1
    FULL = 2


class HeldRows:
    """The held rows of one task of a sink. `rows`, `size_bytes`: as of the last call of `changed`."""

    __slots__ = (
        "_again",
        "_bytes",
        "_config",
        "_prepared",
        "_reported",
        "_rows",
        "_until_sample",
        "rows",
        "size_bytes",
    )

    def __init__(self, config: Config) -> None:
        self._config = config
        self._rows = 0  # since the last commit
        self._bytes = 0.0
        self._prepared = (0, 0.0)  # so many of them, and their bytes, are with a snapshot
        self._until_sample = 0  # so many rows are passed over before one is measured
        self._reported = HeldLevel.CALM
        self._again = False  # is a level above CALM to be reported once more? There has been a snapshot
        self.rows = 0
        self.size_bytes = 0

    def received(self, segment: Segment, start: int, stop: int) -> None:
        """Rows [start, stop) are going to be executed."""
        count, items = stop - start, segment.items
        self._rows += count
        if type(items) is ColumnRows:
            self._bytes += items.batch.nbytes * count / max(1, len(items))
            return
        at = start + self._until_sample
        while at < stop:
            self._bytes += SAMPLED * _bytes_of(items[at])
            at += SAMPLED
        self._until_sample = at - stop

    def prepared(self) -> None:
        """The sink has prepared its commit: all rows so far are with the snapshot."""
        self._prepared = self._rows, self._bytes

    def committed(self) -> None:
        """What was prepared is committed."""
        rows, size_bytes = self._prepared
        self._rows -= rows
        self._bytes -= size_bytes
        self._prepared = 0, 0.0
        self._again = True

    def changed(self, kept: int | None) -> HeldLevel | None:
        """The level, if it is another one than before. `kept`: how many rows the sink has, if it says so."""
        self.rows, size_bytes = self._rows, self._bytes
        if kept is not None:
            size_bytes *= kept / max(1, self._rows)
            self.rows = kept
        self.size_bytes = int(size_bytes)
        config = self._config
        share = max(self.rows / config.sink_held_max_rows, size_bytes / config.sink_held_max_bytes)
        level = HeldLevel.FULL if share >= 1 else HeldLevel.SOON if share >= SOON_SHARE else HeldLevel.CALM
        again, self._again = self._again and level is not HeldLevel.CALM, False
        if level is self._reported and not again:
            return None
        self._reported = level
        return level


def _bytes_of(value: Any, depth: int = 0) -> float:
    """About how many bytes a value has, without reading all of it. `depth`: so many others contain it."""
    if isinstance(value, str | bytes | bytearray):
        return _ROW_BYTES + len(value)
    if isinstance(value, dict):
        return _ROW_BYTES + _of_parts(value, depth) + _of_parts(value.values(), depth)
    if isinstance(value, list | tuple | set | frozenset):
        return _ROW_BYTES + _of_parts(value, depth)
    size = getattr(value, "nbytes", 0)  # an array, or a batch
    return _ROW_BYTES + (size if type(size) is int else 0)


def _of_parts(parts: Collection[Any], depth: int) -> float:
    most = _MOST_PARTS[depth] if depth < len(_MOST_PARTS) else 0
    sizes = [_bytes_of(part, depth + 1) for part in islice(parts, most)]
    return sum(sizes) * len(parts) / len(sizes) if sizes else float(_ROW_BYTES * len(parts))
