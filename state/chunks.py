"""Chunks: rows of one state of a task as bytes, and back.

    chunk = section, then three columns: keys, their values, keys that were removed

1. A key or value that cannot be packed is an UnsavableError with component, task, key and type. So is a key that
   contains NaN: it is not equal to itself, and a restored state would not find it.
2. A slice is what is packed while the event loop waits, about SLICE_S: its rows follow from how long the last one took.
"""

from __future__ import annotations

import datetime as dt
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from decimal import Decimal
from itertools import chain
from types import NoneType
from typing import Any, Final, NamedTuple, Protocol, cast
from uuid import UUID

from ..transport.codec import (
    UnreadableError,
    UnsendableError,
    pack_column,
    pack_plain_column,
    unpack_column,
    unpack_plain_column,
)
from .errors import DamagedError, ForeignError, UnsavableError

SLICE_S: Final = 0.002
"""How long the event loop waits for a slice."""

FIRST_ROWS: Final = 256
MOST_ROWS: Final = 65_536
CHUNK_BYTES: Final = 4 * 1024 * 1024
"""A chunk with several rows is not larger; a chunk of one row has the size of its value."""

ATOMS: Final = frozenset(
    {NoneType, bool, int, float, complex, str, bytes, dt.datetime, dt.date, dt.time, dt.timedelta, Decimal, UUID}
)
"""Types whose values cannot change in place. (A tuple may contain a list.)"""

_EQUAL_TO_THEMSELVES: Final = ATOMS - {float, complex, Decimal}

_HEAD: Final = struct.Struct(">BIIBIBIBI")
"""Section; rows; removed keys; form and bytes of each column: keys, values, removed keys."""

_PLAIN: Final = 0
_GENERAL: Final = 1
_TUPLES: Final = 2
_LISTS: Final = 3
"""Python tuples, or lists, of one length with plain values: for each place, its size and a plain column."""

_SIZE: Final = struct.Struct(">I")


class _Removed:
    """The type of REMOVED, which no other value has: the types of a column say whether it contains REMOVED."""


REMOVED: Final = _Removed()
"""The value of a key that was removed."""


class PackedChunk(NamedTuple):
    """Packed rows of one state. `rows`: keys with values, and removed keys."""

    data: bytes
    rows: int


class Captured(Protocol):
    """What is saved in one section of a task, as it was at one moment."""

    @property
    def full(self) -> bool:
        """Whether it is all of it, or what has changed since the last snapshot that counts."""
        ...

    @property
    def size(self) -> int:
        """How many keys the section has, whether they have changed or not."""
        ...

    @property
    def section(self) -> int:
        """Which section of the task it is."""
        ...

    def slices(self, stopwatch: Callable[[], float]) -> Iterator[PackedChunk]:
        """The chunks. Other code may run between two of them. UnsavableError; it is over then."""
        ...

    def give_back(self) -> None:
        """The snapshot was not saved: the next one contains these changes, too."""
        ...


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


class RowPacker:
    """Packs rows of one section of a task. `component` and `task` are for errors."""

    __slots__ = ("_component", "_section", "_task")

    def __init__(self, component: str, task: int, section: int) -> None:
        self._component = component
        self._task = task
        self._section = section

    def chunks(self, keys: list[Any], values: list[Any], kinds: Set[type] | None = None) -> list[PackedChunk]:
        """The keys with their values; REMOVED: the key was removed. UnsavableError.

        `kinds`: the types of the values, if known; there may be others in it.
        """
        if not keys:
            return []
        removed: list[Any] = []
        if kinds is None:
            kinds = set(map(type, values))
        if _Removed in kinds:
            kinds = kinds - {_Removed}
            removed = [key for key, value in zip(keys, values, strict=True) if value is REMOVED]
            keys = [key for key, value in zip(keys, values, strict=True) if value is not REMOVED]
            values = [value for value in values if value is not REMOVED]
        return self._split(keys, values, kinds, removed)

    def _split(self, keys: list[Any], values: list[Any], kinds: Set[type], removed: list[Any]) -> list[PackedChunk]:
        columns = (self._keys(keys), self._column(values, kinds, keys), self._keys(removed))
        rows = len(keys) + len(removed)
        n_bytes = sum(len(packed) for _, packed in columns)
        if n_bytes > CHUNK_BYTES and rows > 1:
            half, removed_half = (len(keys) + 1) // 2, len(removed) // 2
            return [
                *self._split(keys[:half], values[:half], set(map(type, values[:half])), removed[:removed_half]),
                *self._split(keys[half:], values[half:], set(map(type, values[half:])), removed[removed_half:]),
            ]
        sizes = [part for form, packed in columns for part in (form, len(packed))]
        head = _HEAD.pack(self._section, len(keys), len(removed), *sizes)
        return [PackedChunk(b"".join([head, *(packed for _, packed in columns)]), rows)]

    def _keys(self, keys: list[Any]) -> tuple[int, bytes]:
        kinds = set(map(type, keys))
        self._check_keys(keys, kinds)
        return self._column(keys, kinds, keys)

    def _column(self, values: list[Any], kinds: Set[type], keys: list[Any]) -> tuple[int, bytes]:
        if not values:
            return _PLAIN, b""
        try:
            if (packed := pack_plain_column(values, kinds)) is not None:
                return _PLAIN, packed
            if (packed := _packed_rows(values)) is not None:
                return (_TUPLES if type(values[0]) is tuple else _LISTS), packed
            return _GENERAL, pack_column(values)
        except UnsendableError as error:
            at = error.offset or 0
            reason = f"at {error.path}: {error.reason}" if error.path else error.reason
            raise UnsavableError(self._component, self._task, keys[at], values[at], reason) from error

    def _check_keys(self, keys: list[Any], kinds: Set[type]) -> None:
        if kinds <= _EQUAL_TO_THEMSELVES:
            return
        if kinds == {tuple} and _EQUAL_TO_THEMSELVES.issuperset(map(type, chain.from_iterable(keys))):
            return
        for key in keys:
            if not _equals_itself(key):
                reason = "it contains NaN, which is not equal to itself: a restored state would not find the key"
                raise UnsavableError(self._component, self._task, key, key, reason)


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


def next_rows(rows: int, took_s: float, largest_bytes: int) -> int:
    """How many rows the next slice has, after one of so many rows. `largest_bytes`: of its largest chunk."""
    wanted = rows * SLICE_S / took_s if took_s > 0 else 2.0 * rows
    if largest_bytes > CHUNK_BYTES // 4:
        wanted = min(wanted, rows * CHUNK_BYTES / 2 / largest_bytes)
    return max(1, min(int(wanted), 2 * rows, MOST_ROWS))


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
