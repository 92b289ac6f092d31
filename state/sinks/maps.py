"""Maps by transaction: values in a store of keys and values, each updated once for each transaction. Pure.

    transactional   key → (txid, value)              a repeated txid changes nothing: it must bring the same updates
    opaque          key → (txid, previous, current)  a repeated txid begins from `previous`: its updates may differ

1. Transaction ids only grow. If the store has a greater one, another writer was there: SinkError.
2. Inside a transaction, values are read once: the second update of a key begins from the first one.
3. A key has one writer: partition by key (fields grouping).

From: Trident's TransactionalMap and OpaqueMap over CachedBatchReadsMap. There, a map does not check the order of
transactions if it is transactional (depart).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from .sink import SinkError

Update = Callable[[Any], Any]
"""Takes the current value (None: there is none) and returns the new one."""


class BackingMap(Protocol):
    """A store of keys and values. Values are lists of sendable values; keys are Python tuples. Blocking."""

    def multi_get(self, keys: Sequence[tuple[Any, ...]]) -> Sequence[Sequence[Any] | None]:
        """The values of the keys, in their order; None for a key that is missing."""
        ...

    def multi_put(self, values: Mapping[tuple[Any, ...], list[Any]]) -> None:
        """Set these values. It may be interrupted after some of them."""
        ...


class TransactionalMap:
    """Values with the transaction that wrote them. A repeated transaction must bring the same updates."""

    width = 2  # of a stored value

    def __init__(self, store: BackingMap) -> None:
        self._store = store
        self._txid = 0
        self._entries: dict[tuple[Any, ...], list[Any] | None] = {}  # read or written in this transaction
        self._written: set[tuple[Any, ...]] = set()

    def begin(self, txid: int) -> None:
        """Begin a transaction. One that was interrupted is begun again, with the same id."""
        self._txid = txid
        self._entries = {}
        self._written = set()

    def multi_get(self, keys: Iterable[tuple[Any, ...]]) -> list[Any]:
        """The current values of the keys, in their order; None for a key that is missing."""
        return [None if entry is None else entry[-1] for entry in self._read(keys)]

    def multi_update(self, updates: Mapping[tuple[Any, ...], Update]) -> list[Any]:
        """Update these keys. Returns their new values. Update a key once in a transaction, or an interrupted
        transaction that is repeated may not contain the second update."""
        entries = self._read(updates)
        changed: dict[tuple[Any, ...], list[Any]] = {}
        for (key, update), entry in zip(updates.items(), entries, strict=True):
            made = self._updated(entry, update, key in self._written)
            if made is not None:
                changed[key] = made
        if changed:
            self._store.multi_put(changed)
            self._written |= changed.keys()
            self._entries |= changed
        return self.multi_get(updates)

    def _updated(self, entry: list[Any] | None, update: Update, written: bool) -> list[Any] | None:
        """What to store; None: the transaction has updated it before it was interrupted."""
        if entry is None:
            return [self._txid, update(None)]
        if entry[0] == self._txid and not written:
            return None
        return [self._txid, update(entry[1])]

    def _read(self, keys: Iterable[tuple[Any, ...]]) -> list[list[Any] | None]:
        wanted = list(keys)
        missing = [key for key in dict.fromkeys(wanted) if key not in self._entries]
        if missing:
            found = self._store.multi_get(missing)
            self._entries |= {key: self._checked(key, entry) for key, entry in zip(missing, found, strict=True)}
        return [self._entries[key] for key in wanted]

    def _checked(self, key: tuple[Any, ...], found: Sequence[Any] | None) -> list[Any] | None:
        if found is None:
            return None
        if len(found) != self.width or type(found[0]) is not int:
            raise SinkError(f"key {key!r:.200}: the stored value was not written in this mode: {found!r:.200}")
        if found[0] > self._txid:
            raise SinkError(
                f"key {key!r:.200} has transaction {found[0]}, and this is transaction {self._txid}: the store is "
                "ahead of the snapshots. Restore the snapshot that belongs to the store, or restore the store"
            )
        return list(found)


class OpaqueMap(TransactionalMap):
    """Values with the transaction that wrote them, and the value before. A repeated transaction may bring others."""

    width = 3

    def _updated(self, entry: list[Any] | None, update: Update, written: bool) -> list[Any] | None:
        if entry is None:
            return [self._txid, None, update(None)]
        txid, previous, current = entry
        if txid < self._txid:
            return [self._txid, current, update(current)]
        return [self._txid, previous, update(current if written else previous)]
