"""Hashes of columns: `stable_hash` of every row of Arrow columns, without a Python loop over rows.

    integers, booleans, floats ─▶ residues modulo 2^61 - 1 ────────┐
    dates, times, timestamps, durations ─▶ microseconds ───────────┼▶ + seed ─▶ cube modulo 2^61 - 1
    text, bytes ─▶ residues modulo DATA_PRIME: 4-byte words of ────┘
                   many rows, times the weight of each position
    decimals, UUIDs, the rest ─▶ `value_hash` of each distinct value, then looked up for each row

1. `hash_rows(columns)[i] == stable_hash(row i)`, where row i contains the values of the columns' `to_pylist`. keys.py
   and this file implement the same function; test_column_keys.py draws columns of every type and compares the two.
2. Loops here are over columns, blocks of rows, or distinct values.
3. A null is None. Times finer than a microsecond are cut off (≈, as for NumPy's scalars): such values share a task.
4. A column of lists or structs is refused by its type: UnhashableKeyError, as for a list or a dict in a row.

Needs pyarrow and NumPy (`pip install "aiostorm[arrow]"`): nothing imports this file until a batch is emitted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as _pyarrow  # noqa: ICN001 - see below  # pyright: ignore[reportMissingTypeStubs]
from numpy.typing import NDArray

from . import keys
from .errors import UnhashableKeyError

if TYPE_CHECKING:
    from .values import Column, DataType, PyArrow

# pyarrow has no type hints.
pa: PyArrow = _pyarrow
Hashes = NDArray[np.uint64]
Flags = NDArray[np.bool_]
Integers = NDArray[np.int64]

_U64 = np.uint64
_PRIME = _U64(keys.PRIME)
_DAY_MS = 86_400_000


def hash_rows(columns: Sequence[Column]) -> Hashes:
    """The `stable_hash` of each row of these columns (Arrow arrays of one length), as uint64."""
    if len(columns) == 1:
        return hash_column(columns[0])
    state = np.full(len(columns[0]), (keys.SEVERAL + len(columns)) % keys.PRIME, _U64)
    for column in columns:
        state = (_product(state, _FOLD) + hash_column(column)) % _PRIME
    return _cubed(state)


def hash_column(column: Column) -> Hashes:
    """The `value_hash` of each value of an Arrow array. UnhashableKeyError for a type with lists or the like."""
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


def _hasher_of(kind: DataType) -> Callable[[Column], Hashes]:
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


def _nulls(column: Column) -> Flags:
    nulls: Flags = column.is_null().to_numpy(zero_copy_only=False)
    return nulls


def _filled(column: Column, kind: DataType) -> NDArray[np.generic]:
    """The values as a NumPy array, with zeros for nulls."""
    if column.type != kind:
        column = column.view(kind) if pa.types.is_temporal(column.type) else column.cast(kind)
    if column.null_count:
        column = column.fill_null(0)
    values: NDArray[np.generic] = column.to_numpy(zero_copy_only=False)
    return values


# -- steps, as in keys.py ----------------------------------------------------------------------------------------------


_FOLD = _U64(keys.FOLD)
_DATA_PRIME = _U64(keys.DATA_PRIME)
_EXCESS = _U64(keys.DATA_EXCESS)


def _product(left: Hashes, right: Hashes | np.uint64) -> Hashes:
    """The product modulo 2^61 - 1 of two residues."""
    # x = a * 2^31 + b: the product is aa' * 2^62 + (ab' + a'b) * 2^31 + bb', and 2^61 is 1.
    high, low = left >> _U64(31), left & _U64(0x7FFFFFFF)
    right_high, right_low = (high, low) if right is left else (right >> _U64(31), right & _U64(0x7FFFFFFF))
    middle = high * right_low + low * right_high
    outer = (high * right_high << _U64(1)) + low * right_low
    product: Hashes = (outer + (middle >> _U64(30)) + ((middle & _U64(0x3FFFFFFF)) << _U64(31))) % _PRIME
    return product


def _cubed(state: Hashes) -> Hashes:
    """The cube modulo 2^61 - 1 of a number of up to 64 bits."""
    state = state % _PRIME
    return _product(_product(state, state), state)


def _signed(residue: Hashes, negative: Flags) -> Hashes:
    """Numbers from residues and signs: Python's numeric hash, with the seed, cubed."""
    return _cubed(np.where(negative, ~residue + _U64(1), residue) + _U64(keys.NUMBER))


def _integers(column: Column) -> Hashes:
    if pa.types.is_unsigned_integer(column.type) or pa.types.is_boolean(column.type):
        size = _filled(column, pa.uint64()).astype(_U64)
        negative = np.zeros(len(size), np.bool_)
    else:
        values = _filled(column, column.type).astype(np.int64)
        negative = values < 0
        size = np.abs(values).view(
            _U64
        )  # the least int64 has no positive counterpart, but its bits are right as unsigned
    size = (size & _PRIME) + (size >> _U64(61))
    size[size >= _PRIME] -= _PRIME
    return _signed(size, negative)


def _floats(column: Column) -> Hashes:
    half = pa.types.is_float16(column.type)  # older versions of Arrow cannot fill its nulls
    values = _filled(column, pa.float32() if half else column.type).astype(np.float64)
    finite = np.isfinite(values)
    mantissa, exponent = np.frexp(np.where(finite, np.abs(values), 0.0))
    # |x| = m · 2^e with 53 bits of m; modulo 2^61 - 1, a power of two rotates the 61 bits.
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


def _times(column: Column) -> Hashes:
    kind, types = column.type, pa.types
    if types.is_date(kind):
        days = _filled(column, pa.int32() if types.is_date32(kind) else pa.int64()).astype(np.int64)
        if types.is_date64(kind):
            days //= _DAY_MS
        return _cubed(days.view(_U64) + _U64(keys.DATE))
    ticks = _filled(column, pa.int32() if types.is_time32(kind) else pa.int64()).astype(np.int64)
    micros = ticks // 1000 if kind.unit == "ns" else ticks * _SCALE[kind.unit]
    if types.is_timestamp(kind):
        seed = keys.NAIVE if kind.tz is None else keys.INSTANT
    else:
        seed = keys.TIME if types.is_time(kind) else keys.DURATION
    return _cubed(micros.view(_U64) + _U64(seed))


# -- text and bytes ----------------------------------------------------------------------------------------------------

_LOW_BYTES = np.array([(1 << 8 * count) - 1 for count in range(5)], np.uint32)
_LENGTH_KEYS = {seed: np.array(keys.data_keys(seed), _U64) for seed in (keys.TEXT, keys.BYTES)}
_WORDS = np.arange(keys.LONG_BYTES // 4, dtype=np.int64) * 4
# The weights of each 4 bytes modulo DATA_PRIME, in three columns of 21 bits: 16 products of a word and 21 bits add up
# to less than 57 bits.
_WEIGHTS = np.array(
    [[pow(2, 8 * int(at), keys.DATA_PRIME) >> piece & 0x1FFFFF for piece in (0, 21, 42)] for at in _WORDS],
    _U64,
)
_BLOCK_ROWS = 8192
"""Rows processed at a time: the intermediate results stay in the processor's cache."""


def _words(column: Column, seed: int) -> Hashes:
    """The values of a block together; values longer than LONG_BYTES once for each distinct one."""
    count = len(column)
    if not count:
        return np.empty(0, _U64)
    large = pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type)
    _, offsets, data = column.buffers()
    width = np.int64 if large else np.int32
    ends = np.frombuffer(offsets, width, count + 1, column.offset * np.dtype(width).itemsize).astype(np.int64)
    first, last = int(ends[0]), int(ends[-1])
    # Some more bytes, so that words may be read beyond the last one.
    text = np.zeros(last - first + keys.LONG_BYTES + 4, np.uint8)
    if last > first:
        text[: last - first] = np.frombuffer(data, np.uint8, last - first, first)
    at_every_byte: NDArray[np.uint32] = np.ndarray((len(text) - 3,), "<u4", text, strides=(1,))
    starts, lengths = ends[:-1] - first, np.diff(ends)
    if column.null_count:
        lengths[_nulls(column)] = 0  # the bytes under a null do not count
    long = np.flatnonzero(lengths > keys.LONG_BYTES)
    lengths[long] = 0
    hashes = np.empty(count, _U64)
    for begin in range(0, count, _BLOCK_ROWS):
        rows = slice(begin, begin + _BLOCK_ROWS)
        residues = _data_residues(at_every_byte, starts[rows], lengths[rows])
        hashes[rows] = _cubed(residues + _LENGTH_KEYS[seed][lengths[rows]])
    if len(long):
        hashes[long] = _by_distinct_value(column.take(pa.array(long)))
    return hashes


def _data_residues(at_every_byte: NDArray[np.uint32], starts: Integers, lengths: Integers) -> Hashes:
    """Each value, as one integer, modulo DATA_PRIME."""
    n_words = -(-int(lengths.max()) // 4)
    if not n_words:
        return np.zeros(len(lengths), _U64)
    at = _WORDS[:n_words]
    words = at_every_byte[starts[:, None] + at] & _LOW_BYTES[np.clip(lengths[:, None] - at, 0, 4)]
    low, middle, high = (words.astype(_U64) @ _WEIGHTS[:n_words]).T
    residues: Hashes = (_shifted(_shifted(high) + middle) + low) % _DATA_PRIME
    return residues


def _shifted(number: Hashes) -> Hashes:
    """A number below 2^61 times 2^21, modulo DATA_PRIME, where 2^61 is DATA_EXCESS."""
    high, low = number >> _U64(40), number & _U64((1 << 40) - 1)
    shifted: Hashes = (high * _EXCESS + (low << _U64(21))) % _DATA_PRIME
    return shifted


# -- other types -------------------------------------------------------------------------------------------------------


def _dictionary(column: Column) -> Hashes:
    """A column that is already encoded: its dictionary may be larger than the column, with nulls and duplicates."""
    if len(column.dictionary) > len(column):
        return hash_column(column.dictionary_decode())
    return _by_place(column, hash_column(column.dictionary))


def _by_distinct_value(column: Column) -> Hashes:
    """`value_hash` of the Python object for each distinct value."""
    if isinstance(column.type, pa.BaseExtensionType):
        encoded = column.storage.dictionary_encode()
        distinct = pa.ExtensionArray.from_storage(column.type, encoded.dictionary)
    else:
        try:
            encoded = column.dictionary_encode()
        except pa.ArrowNotImplementedError:  # for example string views: use a Python dictionary
            values = column.to_pylist()
            known = {value: keys.value_hash(value) for value in values}
            return np.array([known[value] for value in values], _U64)
        distinct = encoded.dictionary
    return _by_place(encoded, np.array([keys.value_hash(value) for value in distinct.to_pylist()], _U64))


def _by_place(encoded: Column, hashes: Hashes) -> Hashes:
    """The hash of each row of a dictionary-encoded column, from the hashes of its dictionary."""
    indices = encoded.indices
    with_none = np.append(hashes, _U64(keys.NONE))
    places = indices.cast(pa.int64()).fill_null(len(hashes)).to_numpy(zero_copy_only=False)
    found: Hashes = with_none[places]
    return found
