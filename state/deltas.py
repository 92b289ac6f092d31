"""Deltas: the state of a task at one moment as chunks of bytes, in full or what was touched; and back.

    freeze ─► Capture ── slices ─► chunk ─► chunk ─► …            apply(chunks of the full snapshot, then of each delta)
               ▲ keep(keys): their values are packed now, because they are going to change

    chunk = section, then three columns: keys, their values, keys that were removed

1. A capture contains the state as it was at the freeze, whatever happens while it is packed. The values are copied to a
   list (not those of a large delta: that takes too long). A value that is not copied, or that can change in place, is
   packed before a batch changes it. It may then be packed twice, with the same content.
2. A delta has the keys that were touched since the last freeze. A touched key that is no longer there was removed.
3. Packing is done in slices of about SLICE_S: the rows of a slice follow from how long the last one took. `keep` packs
   only keys that are going to change.
4. A key or value that cannot be packed is an UnsavableError with component, task, key and type. So is a key that
   contains NaN: it is not equal to itself, and a restored state would not find it.
5. The order of keys is not kept.

From: Flink's copy-on-write state table (CopyOnWriteStateMap) and changelog; only the touched keys are known here.
"""

from __future__ import annotations

import datetime as dt
import struct
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from decimal import Decimal
from itertools import chain
from types import NoneType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast
from uuid import UUID

from ..transport import UnreadableError
from ..transport.codec import (
    UnsendableError,
    pack_column,
    pack_plain_column,
    unpack_column,
    unpack_plain_column,
)
from .errors import DamagedError, ForeignError, UnsavableError

if TYPE_CHECKING:
    from .keyed import State

SLICE_S: Final = 0.002
"""How long the event loop waits for a slice."""

COPIED_KEYS: Final = 10_000
"""The values of a delta are copied at the freeze up to so many keys: that takes less than 10 ms."""

FIRST_ROWS: Final = 256
MOST_ROWS: Final = 65_536
CHUNK_BYTES: Final = 4 * 1024 * 1024
"""A chunk with several rows is not larger; a chunk of one row has the size of its value."""

_ATOMS: Final = frozenset(
    {NoneType, bool, int, float, complex, str, bytes, dt.datetime, dt.date, dt.time, dt.timedelta, Decimal, UUID}
)
"""Types whose values cannot change in place. (A tuple may contain a list.)"""

_EQUAL_TO_THEMSELVES: Final = _ATOMS - {float, complex, Decimal}

_HEAD: Final = struct.Struct(">BIIBIBIBI")
"""Section; rows; removed keys; form and bytes of each column: keys, values, removed keys."""

_PLAIN: Final = 0
_GENERAL: Final = 1
_TUPLES: Final = 2
_LISTS: Final = 3
"""Python tuples, or lists, of one length with plain values: for each place, its size and a plain column."""

_SIZE: Final = struct.Struct(">I")

_REMOVED: Final = object()
"""The value of a key that was removed."""


class PackedChunk(NamedTuple):
    """Packed rows of one state. `rows`: keys with values, and removed keys."""

    data: bytes
    rows: int


class Chunk(NamedTuple):
    """Rows of one state. `section`: which state of the task; 0 is the user's."""

    section: int
    keys: Sequence[Any]
    values: Sequence[Any]
    removed: Sequence[Any]

    def apply_to(self, state: dict[Any, Any]) -> None:
        """Set the values, and remove the removed keys."""
        state.update(zip(self.keys, self.values, strict=True))
        for key in self.removed:
            state.pop(key, None)


class Capture:
    """The content of a state at the time of this call, to be packed in slices. At most one of a state at a time.

    `full`: the whole state; else what was touched since the last capture (the whole state after `mark_all`).
    `component` and `task` are for errors.
    """

    def __init__(self, state: State[Any, Any], component: str, task: int, *, full: bool, section: int = 0) -> None:
        if state.watcher is not None:
            raise ValueError(f"{component}, task {task}: a capture of this state is being packed")
        self._everything = state.everything
        self.full = full or self._everything
        """Whether it contains the whole state."""
        self.size = len(state)
        """How many keys the state has."""
        self.section = section
        """Which state of the task it is."""
        self._state = state
        self._packing = _Packing(component, task, section)
        self._touched = state.take_touched()
        self._keys = list(state if self.full else self._touched)
        self._values = self._copied()
        self._kept: set[Any] = set()
        self._early: list[PackedChunk] = []
        self._failed: UnsavableError | None = None
        state.watcher = self

    @property
    def rows(self) -> int:
        """How many keys it contains, those that were removed included."""
        return len(self._keys)

    def slices(self, stopwatch: Callable[[], float]) -> Iterator[PackedChunk]:
        """The chunks. Other code may run between two of them. UnsavableError; the capture is over then."""
        at, rows = 0, FIRST_ROWS
        try:
            while at < len(self._keys):
                began_s = stopwatch()
                made = self._packed(at, rows)
                took_s = stopwatch() - began_s
                at += rows
                yield from made
                yield from self._taken_early()
                largest = max((len(chunk.data) for chunk in made), default=0)
                rows = _rows_of_next(rows, took_s, largest)
        finally:
            self._end()
        yield from self._taken_early()

    def give_back(self) -> None:
        """The snapshot was not saved: the next delta contains these keys, too."""
        self._end()
        self._state.give_back(self._touched, self._everything)

    def keep(self, keys: Collection[Any]) -> None:
        state = self._state
        fresh = set(keys).difference(state.touched_keys)  # their values are those of the freeze
        if not self.full:
            fresh &= self._touched
        if self._values is None:
            self._pack_early(fresh)
        else:
            self._pack_early({key for key in fresh if key in state and type(state[key]) not in _ATOMS})

    def keep_all(self) -> None:
        self.keep(self._keys)
        self._end()

    def _copied(self) -> list[Any] | None:
        """The values of the keys; None if that takes too long: then they are packed before they change."""
        state = self._state
        if self.full:
            return list(state.values())
        if len(self._keys) > COPIED_KEYS:
            return None
        return [state.get(key, _REMOVED) for key in self._keys]

    def _packed(self, at: int, rows: int) -> list[PackedChunk]:
        if self._failed is not None:
            raise self._failed
        keys = self._keys[at : at + rows]
        if self._values is None:
            state = self._state
            values = [state.get(key, _REMOVED) for key in keys]
        else:
            values = self._values[at : at + rows]
        if not self._kept.isdisjoint(keys):
            left = [place for place, key in enumerate(keys) if key not in self._kept]
            keys, values = [keys[place] for place in left], [values[place] for place in left]
        return self._packing.chunks(keys, values)

    def _pack_early(self, keys: set[Any]) -> None:
        if not keys:
            return
        self._kept |= keys
        in_order, state = list(keys), self._state
        try:
            self._early += self._packing.chunks(in_order, [state.get(key, _REMOVED) for key in in_order])
        except UnsavableError as error:  # the snapshot fails, and not the rows that are executed now
            self._failed = error
            self._end()

    def _taken_early(self) -> list[PackedChunk]:
        if self._failed is not None:
            raise self._failed
        early, self._early = self._early, []
        return early

    def _end(self) -> None:
        if self._state.watcher is self:
            self._state.watcher = None


def check_savable(state: State[Any, Any], component: str, task: int) -> None:
    """UnsavableError if a touched key cannot be saved: for the first rows, long before the first snapshot."""
    keys = [key for key in state.touched_keys if key in state]
    _Packing(component, task, 0).chunks(keys, [state[key] for key in keys])


def pack_single(value: object, component: str, task: int, section: int) -> PackedChunk:
    """A section that is one value, under the key None: packed now, since the value may change. UnsavableError."""
    (chunk,) = _Packing(component, task, section).chunks([None], [value])
    return chunk


def unpack_chunks(body: bytes | memoryview, name: str) -> Iterator[Chunk]:
    """The chunks of a blob whose checksum is right. DamagedError; ForeignError if a value cannot be made here."""
    body = memoryview(body)
    at = 0
    while at < len(body):
        if len(body) - at < _HEAD.size:
            raise DamagedError(name, f"a chunk is cut short at byte {at}")
        section, rows, n_removed, *columns = _HEAD.unpack_from(body, at)
        at += _HEAD.size
        made: list[Sequence[Any]] = []
        for count, form, n_bytes in zip((rows, rows, n_removed), columns[::2], columns[1::2], strict=True):
            if n_bytes > len(body) - at or count > n_bytes:
                raise DamagedError(name, f"a column of {count} values in {n_bytes} bytes at byte {at}")
            made.append(_unpacked(form, body[at : at + n_bytes], count, name))
            at += n_bytes
        yield Chunk(section, *made)


class _Packing:
    """Packs rows of one task."""

    __slots__ = ("_component", "_section", "_task")

    def __init__(self, component: str, task: int, section: int) -> None:
        self._component = component
        self._task = task
        self._section = section

    def chunks(self, keys: list[Any], values: list[Any]) -> list[PackedChunk]:
        """The keys with their values; _REMOVED: the key was removed."""
        if not keys:
            return []
        removed: list[Any] = []
        if any(value is _REMOVED for value in values):
            removed = [key for key, value in zip(keys, values, strict=True) if value is _REMOVED]
            keys = [key for key, value in zip(keys, values, strict=True) if value is not _REMOVED]
            values = [value for value in values if value is not _REMOVED]
        return self._split(keys, values, removed)

    def _split(self, keys: list[Any], values: list[Any], removed: list[Any]) -> list[PackedChunk]:
        columns = (self._column(keys, keys), self._column(values, keys), self._column(removed, removed))
        rows = len(keys) + len(removed)
        n_bytes = sum(len(packed) for _, packed in columns)
        if n_bytes > CHUNK_BYTES and rows > 1:
            half, removed_half = (len(keys) + 1) // 2, len(removed) // 2
            return [
                *self._split(keys[:half], values[:half], removed[:removed_half]),
                *self._split(keys[half:], values[half:], removed[removed_half:]),
            ]
        sizes = [part for form, packed in columns for part in (form, len(packed))]
        head = _HEAD.pack(self._section, len(keys), len(removed), *sizes)
        return [PackedChunk(b"".join([head, *(packed for _, packed in columns)]), rows)]

    def _column(self, values: list[Any], keys: list[Any]) -> tuple[int, bytes]:
        if not values:
            return _PLAIN, b""
        if values is keys:
            self._check_keys(keys)
        try:
            if (packed := pack_plain_column(values)) is not None:
                return _PLAIN, packed
            if (packed := _packed_rows(values)) is not None:
                return (_TUPLES if type(values[0]) is tuple else _LISTS), packed
            return _GENERAL, pack_column(values)
        except UnsendableError as error:
            at = error.offset or 0
            reason = f"at {error.path}: {error.reason}" if error.path else error.reason
            raise UnsavableError(self._component, self._task, keys[at], values[at], reason) from error

    def _check_keys(self, keys: list[Any]) -> None:
        kinds = set(map(type, keys))
        if kinds <= _EQUAL_TO_THEMSELVES:
            return
        if kinds == {tuple} and _EQUAL_TO_THEMSELVES.issuperset(map(type, chain.from_iterable(keys))):
            return
        for key in keys:
            if not _equals_itself(key):
                reason = "it contains NaN, which is not equal to itself: a restored state would not find the key"
                raise UnsavableError(self._component, self._task, key, key, reason)


def _equals_itself(key: Any) -> bool:
    if isinstance(key, tuple | frozenset):
        return all(map(_equals_itself, cast("Iterable[Any]", key)))
    return bool(key == key)


def _packed_rows(values: list[Any]) -> bytes | None:
    kinds = set(map(type, values))
    if (kinds != {tuple} and kinds != {list}) or len(set(map(len, values))) != 1 or not values[0]:
        return None
    parts: list[bytes] = []
    for column in zip(*values, strict=True):
        packed = pack_plain_column(column)
        if packed is None:
            return None
        parts += (_SIZE.pack(len(packed)), packed)
    return b"".join(parts)


def _unpacked_rows(data: memoryview, count: int, name: str) -> list[tuple[Any, ...]]:
    columns: list[list[Any]] = []
    at = 0
    while at < len(data):
        n_bytes = _SIZE.unpack_from(data, at)[0] if len(data) - at >= _SIZE.size else len(data)
        at += _SIZE.size
        if n_bytes > len(data) - at or count > n_bytes:
            raise DamagedError(name, f"a column of {count} rows is cut short")
        columns.append(unpack_plain_column(bytes(data[at : at + n_bytes]), count))
        at += n_bytes
    return list(zip(*columns, strict=True))


def _rows_of_next(rows: int, took_s: float, largest_bytes: int) -> int:
    wanted = rows * SLICE_S / took_s if took_s > 0 else 2.0 * rows
    if largest_bytes > CHUNK_BYTES // 4:
        wanted = min(wanted, rows * CHUNK_BYTES / 2 / largest_bytes)
    return max(1, min(int(wanted), 2 * rows, MOST_ROWS))


def _unpacked(form: int, data: memoryview, count: int, name: str) -> Sequence[Any]:
    if not count:
        if len(data):
            raise DamagedError(name, f"an empty column of {len(data)} bytes")
        return ()
    try:
        if form == _PLAIN:
            return unpack_plain_column(bytes(data), count)
        if form == _TUPLES:
            return _unpacked_rows(data, count, name)
        if form == _LISTS:
            return list(map(list, _unpacked_rows(data, count, name)))
        if form == _GENERAL:
            # What was packed can be read: values are limited one by one, and their sum by the bytes.
            values, _ = unpack_column(data, 4 * len(data))
            if len(values) == count:
                return values
    except UnreadableError as error:
        raise ForeignError(
            f"{name}: a value cannot be read: {error}. Register the records of the state in this process; if a class "
            "has changed, increase the version of the state"
        ) from error
    raise DamagedError(name, f"a column of form {form} is not {count} values")
