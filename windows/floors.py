"""Floors: how far windows have fired for the rows of some keys, where that is further than the watermark of their task.

    former task 0: watermark 100 ─┐                   keys of task 0: a row of window [80, 100) is late, and it does not
                                  ├─► a task at 90:     fire again
    former task 1: watermark 90 ──┘                   keys of task 1: window [80, 100) is open

1. After windows were divided among another number of tasks, a task begins at the least watermark of those that its keys
   come from. Floors keep what the others had promised: a window fires once for a key, and what was late stays late.
2. A floor is of a key range. They are dropped when the watermark of the task has reached the last of them, and all
   windows that were due then have fired.
3. They are part of the dumps: until then, windows may be divided again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from ..runtime import AiostormError
from .dumps import WRONG, check, damaged, whole_number

if TYPE_CHECKING:
    from ..topology import Tuple
    from .values import RowKey, Value

FLOORS: Final = "floors"
"""What has them in the state of a dump."""

Layer = tuple["RowHash", int, Mapping[int, int]]
"""How rows are hashed, the number of key ranges, and the floor of each range that has one."""


class RowHash(Protocol):
    """The hash that decides which task gets a row."""

    def of(self, key: RowKey, row: Tuple | None) -> int:
        """Of a row and its key. UnhashableKeyError."""
        ...

    def dump(self) -> Value:
        """It as plain values."""
        ...


HASHES: Final[dict[str, Callable[..., RowHash]]] = {}
"""How each kind of hash is made again of what `dump` gave after its kind (row_hash.py)."""


class Floors:
    """The floors of one task; at least one. `layers`: one for each way in which rows were hashed."""

    __slots__ = ("_layers", "until_ms")

    def __init__(self, layers: Sequence[Layer]) -> None:
        self._layers = tuple(layers)
        self.until_ms = max(floor_ms for *_, of_range in self._layers for floor_ms in of_range.values())
        """The greatest of them."""

    def of(self, key: RowKey, row: Tuple | None = None) -> int | None:
        """How far windows had fired for this row; None: it is not known, or the row has no hash and will fail."""
        found: int | None = None
        for hashed, n_ranges, of_range in self._layers:
            try:
                floor_ms = of_range.get(hashed.of(key, row) % n_ranges)
            except (AiostormError, TypeError, LookupError):
                continue
            if floor_ms is not None and (found is None or floor_ms > found):
                found = floor_ms
        return found

    def dump(self) -> list[Value]:
        """They as plain values."""
        return [(hashed.dump(), n_ranges, dict(of_range)) for hashed, n_ranges, of_range in self._layers]


def floors_above(watermark_ms: int | None, layers: Iterable[Layer]) -> list[Value]:
    """The dump of those of several tasks that are further than this watermark."""
    merged: dict[str, tuple[Value, int, dict[int, int]]] = {}
    for hashed, n_ranges, of_range in layers:
        dump = hashed.dump()
        _, _, known = merged.setdefault(f"{dump} {n_ranges}", (dump, n_ranges, {}))
        for key_range, floor_ms in of_range.items():
            if watermark_ms is None or floor_ms > watermark_ms:
                known[key_range] = max(floor_ms, known.get(key_range, floor_ms))
    return [layer for layer in merged.values() if layer[-1]]


def load_layers(dump: Value) -> list[Layer]:
    """What `Floors.dump` gave. WindowStateError if it is damaged."""
    layers: list[Layer] = []
    try:
        for hashed, n_ranges, of_range in dump:
            check(whole_number(n_ranges, "a number of key ranges") > 0, "there are no key ranges")
            for key_range, floor_ms in of_range.items():
                whole_number(key_range, "a key range")
                whole_number(floor_ms, "how far windows have fired")
            layers.append((_load_hash(hashed), n_ranges, dict(of_range)))
    except WRONG as error:
        raise damaged(f"how far its windows have fired: {type(error).__name__}: {error}") from error
    return layers


def _load_hash(dump: Value) -> RowHash:
    kind, *rest = dump
    check(kind in HASHES, f"rows are hashed by {kind!r:.100}")
    return HASHES[kind](*rest)
