"""MapSink: one value for each key in an external store, updated with the rows between two snapshots.

    rows ─ combined by key ─► pre_commit(n): updates ─► commit: read the keys, combine, write them with n as transaction

From: Trident's persistentAggregate with a CombinerAggregator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from .maps import BackingMap, OpaqueMap, TransactionalMap
from .sink import Sink

if TYPE_CHECKING:
    from ...topology import BasicCollector, Tuple


class MapSink(Sink):
    """Keeps the values of an external store (Redis, a table, a dict in tests) right by the number of the snapshot.

    `store`: see BackingMap; one that connects must do so in its first call, since a sink is copied to its tasks. `key`:
    the field or fields; with several tasks, the bolt's inputs must be grouped by them, or by some of them. `value`: the
    field whose values are combined. `combine(a, b)`: associative, such as `operator.add`, `max`. `mode`: see maps.py;
    with "opaque" a value takes twice the space, and may be corrected by a repeated transaction. Methods run in the
    task's own thread.
    """

    blocking: ClassVar[bool] = True

    def __init__(
        self,
        store: BackingMap,
        *,
        key: str | Sequence[str],
        value: str,
        combine: Callable[[Any, Any], Any],
        mode: Literal["transactional", "opaque"] = "transactional",
    ) -> None:
        modes = {"transactional": TransactionalMap, "opaque": OpaqueMap}
        if mode not in modes:
            raise ValueError(f"mode is 'transactional' or 'opaque', not {mode!r:.200}")
        self._map = modes[mode](store)
        self._key = self.keyed_output = (key,) if isinstance(key, str) else tuple(key)
        self._value = value
        self._combine = combine
        self._updates: dict[tuple[Any, ...], Any] = {}
        self._prepared = 0  # keys with a snapshot: its abort brings them back

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        """Combine the row with those of its key."""
        self._add(self._updates, tuple(tup[name] for name in self._key), tup[self._value])

    def pre_commit(self, number: int) -> Mapping[str, Any] | None:
        """The updates by key; None without rows."""
        updates, self._updates = self._updates, {}
        self._prepared = len(updates)
        return {"number": number, "keys": list(updates), "values": list(updates.values())} if updates else None

    def commit(self, handle: Mapping[str, Any]) -> None:
        """Update the store in a transaction with the number of the snapshot. SinkError if the store is ahead."""
        self._map.begin(handle["number"])
        pairs = zip(handle["keys"], handle["values"], strict=True)
        self._map.multi_update({tuple(key): partial(self._combined, value) for key, value in pairs})
        self._prepared = 0

    def abort(self, handle: Mapping[str, Any]) -> None:
        """Keep the updates for the next snapshot."""
        updates = {tuple(key): value for key, value in zip(handle["keys"], handle["values"], strict=True)}
        for key, value in self._updates.items():
            self._add(updates, key, value)
        self._updates = updates
        self._prepared = 0

    def held_rows(self) -> int:
        """One for each key: also of those that wait for the commit of their snapshot."""
        return len(self._updates) + self._prepared

    def _add(self, updates: dict[tuple[Any, ...], Any], key: tuple[Any, ...], value: Any) -> None:
        updates[key] = self._combine(updates[key], value) if key in updates else value

    def _combined(self, value: Any, current: Any) -> Any:
        return value if current is None else self._combine(current, value)
