"""Hashes of columns: `stable_hash` of every row of Arrow columns, without a Python loop over rows.

    integers, booleans, floats ─▶ residues modulo 2^61 - 1 ─┐
    dates, times, timestamps, durations ─▶ microseconds ────┼▶ seed, mix (NumPy, wrapping at 64 bit)
    text, bytes ─▶ fold the k-th 8 bytes of all rows ───────┘
    decimals, UUIDs, the rest ─▶ `value_hash` of each distinct value, and back by its place

1. `hash_rows(columns)[i] == stable_hash(row i)`, where row i holds what the columns' `to_pylist` gives. keys.py and
   this file are two spellings of one function; test_column_keys.py draws columns of every type and compares.
2. A loop here is over columns, words of the longest key, or distinct values.
3. A null is None. A finer time than a microsecond is cut off (≈, as for NumPy's scalars): it shares a task.
4. A column of lists or structs is refused by its type: UnhashableKeyError, as for a list or a dict in a row.

Needs pyarrow and NumPy (`pip install "aiostorm[arrow]"`): nothing imports this file until a batch is emitted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as _pyarrow  # noqa: ICN001 - see below

from . import keys
from .errors import UnhashableKeyError

# pyarrow has no types of its own: what comes from it is Any, on purpose and in these lines only.
pa: Any = _pyarrow
Hashes = np.ndarray[Any, np.dtype[np.uint64]]

_U64 = np.uint64
_PRIME = _U64(keys.PRIME)
_DAY_MS = 86_400_000


def hash_rows(columns: Sequence[Any]) -> Hashes:
    """The `stable_hash` of each row of these columns (Arrow arrays of one length), as uint64."""
    if len(columns) == 1:
        return hash_column(columns[0])
    state = np.full(len(columns[0]), (keys.SEVERAL + len(columns)) & keys.MASK, _U64)
    for column in columns:
        state = _fold(state, hash_column(column))
    return _mix(state)


def hash_column(column: Any) -> Hashes:
    """The `value_hash` of each value of an Arrow array. UnhashableKeyError for a type that holds lists or the like."""
    kind = column.type
    if pa.types.is_null(kind):
        return np.full(len(column), keys.NONE, _U64)
    if pa.types.is_dictionary(kind):
        return _dictionary(column)
    hasher = _hasher_of(kind)
    hashes = hasher(column)
    if column.null_count:
        hashes[_nulls(column)] = _U64(keys.NONE)
    return hashes


def _hasher_of(kind: Any) -> Callable[[Any], Hashes]:
    types = pa.types
    if types.is_boolean(kind) or types.is_integer(kind):
        return _integers
    if types.is_floating(kind):
        return _floats
    if types.is_string(kind) or types.is_large_string(kind):
        return lambda column: _words(column, keys.TEXT)
    if types.is_binary(kind) or types.is_large_binary(kind):
        return lambda column: _words(column, keys.BYTES)
    if types.is_fixed_size_binary(kind):
        return lambda column: _words(column.cast(pa.binary()), keys.BYTES)
    if types.is_temporal(kind) and not types.is_interval(kind):
        return _times
    if types.is_nested(kind):
        raise UnhashableKeyError({} if types.is_struct(kind) else [])
    return _by_distinct_value


def _nulls(column: Any) -> np.ndarray[Any, np.dtype[np.bool_]]:
    nulls: np.ndarray[Any, np.dtype[np.bool_]] = column.is_null().to_numpy(zero_copy_only=False)
    return nulls


def _filled(column: Any, kind: Any) -> np.ndarray[Any, Any]:
    """The values as NumPy has them, nulls as zeros."""
    if column.type != kind:
        column = column.view(kind) if pa.types.is_temporal(column.type) else column.cast(kind)
    if column.null_count:
        column = column.fill_null(0)
    values: np.ndarray[Any, Any] = column.to_numpy(zero_copy_only=False)
    return values


# -- steps, as in keys.py ----------------------------------------------------------------------------------------------


def _mix(state: Hashes) -> Hashes:
    state = (state ^ (state >> _U64(30))) * _U64(keys.MIX_1)
    state = (state ^ (state >> _U64(27))) * _U64(keys.MIX_2)
    return state ^ (state >> _U64(31))


def _fold(state: Hashes, word: Hashes) -> Hashes:
    state = (state ^ word) * _U64(keys.FOLD)
    return state ^ (state >> _U64(32))


def _signed(residue: Hashes, negative: np.ndarray[Any, np.dtype[np.bool_]]) -> Hashes:
    """Numbers from residues and signs: Python's numeric hash, seeded and mixed."""
    code = np.where(negative, ~residue + _U64(1), residue)
    return _mix(code + _U64(keys.NUMBER))


def _integers(column: Any) -> Hashes:
    if pa.types.is_unsigned_integer(column.type) or pa.types.is_boolean(column.type):
        size = _filled(column, pa.uint64()).astype(_U64)
        negative = np.zeros(len(size), np.bool_)
    else:
        values = _filled(column, column.type).astype(np.int64)
        negative = values < 0
        size = np.abs(values).view(_U64)  # the least int64 has no positive twin, but its bits are right as unsigned
    size = (size & _PRIME) + (size >> _U64(61))
    size[size >= _PRIME] -= _PRIME
    return _signed(size, negative)


def _floats(column: Any) -> Hashes:
    half = pa.types.is_float16(column.type)  # older Arrows cannot fill its nulls
    values = _filled(column, pa.float32() if half else column.type).astype(np.float64)
    finite = np.isfinite(values)
    mantissa, exponent = np.frexp(np.where(finite, np.abs(values), 0.0))
    # |x| = m · 2^e with 53 bits of m; modulo 2^61 - 1 a power of two turns the 61 bits round.
    bits = (mantissa * 2.0**53).astype(_U64)
    turn = ((exponent.astype(np.int64) - 53) % 61).astype(_U64)
    residue = ((bits << turn) & _PRIME) | (bits >> (_U64(61) - turn))
    hashes = _signed(residue, values < 0)
    if not finite.all():
        hashes[np.isnan(values)] = _U64(keys.NAN)
        hashes[values == np.inf] = _U64(keys.INFINITY)
        hashes[values == -np.inf] = _U64(keys.MINUS_INFINITY)
    return hashes


_SCALE = {"s": 1_000_000, "ms": 1000, "us": 1}


def _times(column: Any) -> Hashes:
    kind, types = column.type, pa.types
    if types.is_date(kind):
        days = _filled(column, pa.int32() if types.is_date32(kind) else pa.int64()).astype(np.int64)
        if types.is_date64(kind):
            days //= _DAY_MS
        return _mix(days.view(_U64) + _U64(keys.DATE))
    ticks = _filled(column, pa.int32() if types.is_time32(kind) else pa.int64()).astype(np.int64)
    micros = ticks // 1000 if kind.unit == "ns" else ticks * _SCALE[kind.unit]
    if types.is_timestamp(kind):
        seed = keys.NAIVE if kind.tz is None else keys.INSTANT
    else:
        seed = keys.TIME if types.is_time(kind) else keys.DURATION
    return _mix(micros.view(_U64) + _U64(seed))


# -- text and bytes ----------------------------------------------------------------------------------------------------

_LOW_BYTES = np.array([(1 << 8 * count) - 1 for count in range(9)], _U64)


def _words(column: Any, seed: int) -> Hashes:
    """All values together, a word at a time; those of more than LONG_BYTES once for each distinct one."""
    if not len(column):
        return np.empty(0, _U64)
    large = pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type)
    _, offsets, data = column.buffers()
    width: Any = np.int64 if large else np.int32
    ends = np.frombuffer(offsets, width, len(column) + 1, column.offset * np.dtype(width).itemsize).astype(np.int64)
    first, last = int(ends[0]), int(ends[-1])
    # Eight more bytes, so that a word may be read at the last one.
    text = np.zeros(last - first + 8, np.uint8)
    if last > first:
        text[:-8] = np.frombuffer(data, np.uint8, last - first, first)
    at_every_byte: Any = np.ndarray((last - first + 1,), "<u8", text, strides=(1,))
    starts, lengths = ends[:-1] - first, np.diff(ends)
    if column.null_count:
        lengths[_nulls(column)] = 0  # what lies under a null is nobody's
    state = lengths.view(_U64) + _U64(seed)
    long = lengths > keys.LONG_BYTES
    longest = int(lengths.max()) if not long.any() else keys.LONG_BYTES
    for position in range(0, longest, 8):
        rest = lengths - position
        rows = np.flatnonzero((rest > 0) & ~long)
        word = at_every_byte[starts[rows] + position] & _LOW_BYTES[np.minimum(rest[rows], 8)]
        state[rows] = _fold(state[rows], word)
    hashes = _mix(state)
    if long.any():
        rows = np.flatnonzero(long)
        hashes[rows] = _by_distinct_value(column.take(pa.array(rows)))
    return hashes


# -- the rest ----------------------------------------------------------------------------------------------------------


def _dictionary(column: Any) -> Hashes:
    """A column that is encoded already: its dictionary may be larger than the column, and hold nulls and doubles."""
    if len(column.dictionary) > len(column):
        return hash_column(column.dictionary_decode())
    return _by_place(column, hash_column(column.dictionary))


def _by_distinct_value(column: Any) -> Hashes:
    """`value_hash` of what Python makes of each distinct value."""
    if isinstance(column.type, pa.BaseExtensionType):
        encoded = column.storage.dictionary_encode()
        distinct = pa.ExtensionArray.from_storage(column.type, encoded.dictionary)
    else:
        try:
            encoded = column.dictionary_encode()
        except pa.ArrowNotImplementedError:  # string views, say: Python's own dictionary then
            values = column.to_pylist()
            known = {value: keys.value_hash(value) for value in values}
            return np.array([known[value] for value in values], _U64)
        distinct = encoded.dictionary
    return _by_place(encoded, np.array([keys.value_hash(value) for value in distinct.to_pylist()], _U64))


def _by_place(encoded: Any, hashes: Hashes) -> Hashes:
    """The hash of each row of a dictionary-encoded column, from those of its dictionary."""
    indices = encoded.indices
    with_none = np.append(hashes, _U64(keys.NONE))
    places = indices.cast(pa.int64()).fill_null(len(hashes)).to_numpy(zero_copy_only=False)
    found: Hashes = with_none[places]
    return found
