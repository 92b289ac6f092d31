"""Stable hash: values that are equal in Python have equal hashes, in every process and on every machine.

Python's own `hash` of a string differs between processes, so it cannot decide which task owns a key. Here a value
becomes a 61-bit number in a few operations on Python's integers. Each of them is one call of C, and NumPy can do it for
a whole column at once (column_keys.py): change both files together. The hashes also decide where state is stored.

1. Equal values have equal hashes: a grouping remembers keys in a dict, where `1`, `True` and `1.0` are one key.
2. The hash depends only on the value: not on the process, the hash seed, the platform or the time zone of the machine.
3. A value without such a hash is refused: a list, dict, set or plain object as a key is an error.
4. Different values nearly always have different hashes. Where they do not (marked ≈), they only share a task.

| value | hashed as |
|---|---|
| None | itself |
| int, bool, float, Decimal, Fraction, complex | the number: 1 = True = 1.0 = Decimal("1.00") = 1+0j; -0.0 = 0 |
| … beyond 60 bits or not whole | its residue modulo 2^61 - 1, as Python's numeric hash has it; -1 = 2^61 - 2 then ≈ |
| NaN of any type | one key; infinities by sign |
| str; bytes | UTF-8; the bytes. "a" and b"a" are two keys |
| datetime with a zone | the instant: 12:00+00:00 = 14:00+02:00 (as Python compares, `fold` is left out) |
| datetime without a zone, date, time, timedelta | each a kind of its own |
| UUID | its 128 bits |
| tuple, NamedTuple | its items: Point(1, 2) = (1, 2), as in Python |
| frozenset | its items in the order of their hashes |
| Enum that is also a str, int, … | its value |
| other Enum | class name and member name ≈ |
| frozen dataclass | class name and the fields that its `==` compares ≈ |
| numpy scalar | `.item()`; times in microseconds, what is finer is cut off ≈ |
| subclass of the above with an `==` of its own; bytearray, memoryview, list, dict, set, anything else | refused |

    number, microseconds ─▶ + seed of the kind ───────────────────────────────────────────▶ cube modulo 2^61 - 1
    text, bytes ≤ 64     ─▶ as one integer modulo DATA_PRIME ─▶ + key of kind and length ──▶ cube modulo 2^61 - 1
    text, bytes longer   ─▶ BLAKE2b
    several values       ─▶ polynomial of their hashes modulo 2^61 - 1 ───────────────────▶ cube modulo 2^61 - 1

Modulo 2^61 - 1, because Python's `hash` of an integer is that residue, in C and without a division. For text it would
be a bad one: eight bytes further on, a character would weigh eight times as much, so that "0.......1" and "8.......0"
would have the same hash. The residue modulo DATA_PRIME has no such small weights (L. Carter, M. Wegman 1979 for random
primes; the constant says what this one avoids). A residue is linear in the characters and keeps the distances of
sequential numbers. A cube does neither, so `% n` distributes both as if they were random:
tests/topology/test_column_keys.py counts. A square costs one multiplication less and fails there.

Storm: FieldsGrouping uses Arrays.deepHashCode of the values, which silently differs between workers for a class without
hashCode (depart).
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import fractions
import hashlib
import sys
import uuid
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, cast

from .errors import UnhashableKeyError

if TYPE_CHECKING:
    from .values import Row, Value

PRIME: Final = (1 << 61) - 1
DATA_EXCESS: Final = 0x49816FE3
DATA_PRIME: Final = (1 << 61) - DATA_EXCESS
"""A step of 2^61 (a bit of the eighth byte) weighs as much as DATA_EXCESS, a step of 2^64 (the ninth byte) as much as 8
times that. The prime was chosen so that no change of ASCII characters in the first bytes compensates for it: each of
the
first 16 multiples of both has a byte that, read with its sign, is beyond 94."""
MASK: Final = (1 << 64) - 1
LONG_BYTES: Final = 64
"""Longer text and bytes are hashed with BLAKE2b, whose cost hardly grows with the length."""

# Each kind starts with its own number (from BLAKE2b of its name), so that 1 and a date of day 1 differ. It is at least
# 2^61, so that the sum with the residue of a negative number is positive.


def _seed(kind: str) -> int:
    digest = hashlib.blake2b(kind.encode(), digest_size=8).digest()
    return (1 << 61) + (int.from_bytes(digest, "little") >> 3)


NUMBER: Final = _seed("number")
TEXT: Final = _seed("text")
BYTES: Final = _seed("bytes")
NAIVE: Final = _seed("datetime")
INSTANT: Final = _seed("instant")
DATE: Final = _seed("date")
TIME: Final = _seed("time")
ZONED_TIME: Final = _seed("time with a zone")
DURATION: Final = _seed("timedelta")
SEVERAL: Final = _seed("tuple")
_SET = _seed("frozenset")
_ENUM = _seed("enum")
_DATACLASS = _seed("dataclass")
_COMPLEX = _seed("complex")
_UUID = _seed("uuid")

FOLD: Final = 0x1FB21C651E98DF25

_native: Final = sys.hash_info.modulus == PRIME
"""Differs on a 32-bit build: there the same numbers come from slower operations."""


def _modulo(number: int) -> int:
    return number % PRIME


_residue: Callable[[int], int] = hash if _native else _modulo
"""The residue modulo PRIME of an integer that is not negative."""


def mix(number: int) -> int:
    """61 bits from a number with a seed, of which the low 64 bits count (in two's complement)."""
    number &= MASK
    return _residue(number * number * number)


NONE: Final = mix(_seed("none"))
NAN: Final = mix(_seed("nan"))
INFINITY: Final = mix(_seed("infinity"))
MINUS_INFINITY: Final = mix(_seed("minus infinity"))

_EPOCH = dt.datetime(1970, 1, 1)
_EPOCH_DAY = _EPOCH.toordinal()
_MICROSECOND = dt.timedelta(microseconds=1)


def data_keys(seed: int) -> list[int]:
    """The number that is added for each length: without it, "a" and "a\\0" would be one integer."""
    return [mix(seed + length) for length in range(LONG_BYTES + 1)]


_TEXT_KEYS = data_keys(TEXT)
_BYTES_KEYS = data_keys(BYTES)
_UUID_KEYS = data_keys(_UUID)


def stable_hash(values: Row) -> int:
    """61 bits from a row of values; one value hashes as itself. UnhashableKeyError if a value has no stable hash."""
    if len(values) == 1:
        return value_hash(values[0])
    state = SEVERAL + len(values)
    for value in values:  # `fold`, without its list
        state = _residue(state * FOLD + value_hash(value))
    return _residue(state * state * state)


def value_hash(value: Value) -> int:
    """61 bits from one value; UnhashableKeyError if it has no stable hash."""
    try:
        hasher = _HASHERS[type(value)]
    except KeyError:
        hasher = _hasher_for(value)
    return hasher(value)


def fold(seed: int, hashes: list[int]) -> int:
    """61 bits from several, in their order."""
    state = seed + len(hashes)
    for word in hashes:
        state = _residue(state * FOLD + word)
    return _residue(state * state * state)


def value_hashes(values: Sequence[Value]) -> list[int]:
    """`value_hash` of each value; one loop without calls of ours if all values are text, or all integers."""
    types = set(map(type, values))
    if types == {int} and _native:
        residue, codes = _residue, map(hash, values)
        return [
            residue((state := (code if code != -2 or number != -1 else -1) + NUMBER) * state * state)
            for code, number in zip(codes, values, strict=True)
        ]
    if types == {str}:
        try:
            residue, integer, keys = _residue, _integer, _TEXT_KEYS
            return [
                residue((state := integer(data, "little") % DATA_PRIME + keys[len(data)]) * state * state)
                for data in map(_encoded, values)
            ]
        except (UnicodeEncodeError, IndexError):
            pass  # a long text, or one with a lone surrogate: hash each value by itself
    return list(map(value_hash, values))


def size_bytes(value: Value) -> int:
    """The approximate size of a key. Only parts that can be large are counted."""
    if isinstance(value, str | bytes):
        return len(value)
    if isinstance(value, int):
        return value.bit_length() >> 3
    if isinstance(value, tuple | frozenset):
        return sum(map(size_bytes, cast("Iterable[Value]", value)))
    if dataclasses.is_dataclass(value):
        return sum(size_bytes(getattr(value, field.name)) for field in dataclasses.fields(value))
    return 0


_encoded = str.encode
_integer = int.from_bytes


def _text(value: str) -> int:
    # Every new key of a word count is hashed here: one call for each step, and rare cases cost nothing until they
    # occur.
    try:
        data = _encoded(value)
    except UnicodeEncodeError:  # a lone surrogate, as in names of files
        return _data(TEXT, _TEXT_KEYS, _encoded(value, "utf-8", "surrogatepass"))
    try:
        state = _integer(data, "little") % DATA_PRIME + _TEXT_KEYS[len(data)]
    except IndexError:
        return _long(TEXT, data)
    return _residue(state * state * state)


def _data(seed: int, keys: list[int], data: bytes) -> int:
    if len(data) > LONG_BYTES:
        return _long(seed, data)
    state = _integer(data, "little") % DATA_PRIME + keys[len(data)]
    return _residue(state * state * state)


def _long(seed: int, data: bytes) -> int:
    key = seed.to_bytes(8, "little")
    return _integer(hashlib.blake2b(data, digest_size=8, key=key).digest(), "little") % PRIME


# Numbers. Python's numeric hash is the same for equal numbers of all types, fast, and the same in every process: a
# residue modulo a prime, with the number's sign. On a 32-bit build the prime is another; there it is computed here.


def _numeric(number: float | decimal.Decimal | fractions.Fraction) -> int:
    """What `hash` returns if its modulus is 2^61 - 1 (but -1 for -1, where Python returns -2)."""
    if isinstance(number, decimal.Decimal):
        _, digits, exponent = number.as_tuple()
        coefficient = 0
        for digit in digits:
            coefficient = (coefficient * 10 + digit) % PRIME
        code = coefficient * pow(10, int(exponent), PRIME) % PRIME
    else:
        numerator, denominator = number.as_integer_ratio()
        inverse = pow(denominator, PRIME - 2, PRIME)
        code = abs(numerator) % PRIME * inverse % PRIME if inverse else 314159
    return -code if number < 0 else code


_hash_of: Callable[[Value], int] = hash if _native else _numeric


def _number(number: Value, hash_of: Callable[[Value], int] = _hash_of) -> int:
    code = hash_of(number)
    if code == -2 and number == -1:  # Python reserves -1 for "error"; -1 and -2 are two keys here
        code = -1
    code += NUMBER
    return _residue(code * code * code)


def _float(number: float, hash_of: Callable[[Value], int] = _hash_of) -> int:
    if number - number == 0:  # finite
        return _number(number, hash_of)
    if number != number:
        return NAN
    return INFINITY if number > 0 else MINUS_INFINITY


def _decimal(number: decimal.Decimal, hash_of: Callable[[Value], int] = _hash_of) -> int:
    if number.is_snan():
        raise UnhashableKeyError(number)  # Python cannot hash it either
    if number.is_nan():
        return NAN
    if number.is_infinite():
        return MINUS_INFINITY if number.is_signed() else INFINITY
    return _number(number, hash_of)


def _complex(number: complex) -> int:
    if number != number:
        return NAN
    if number.imag == 0:
        return _float(number.real)
    return fold(_COMPLEX, [_float(number.real), _float(number.imag)])


def _microseconds(delta: dt.timedelta) -> int:
    return delta // _MICROSECOND


def _datetime(value: dt.datetime) -> int:
    plain = value.replace(tzinfo=None, fold=0)
    # Python hashes and (within one zone) compares without fold, so both 02:30 of an autumn night are one key.
    offset = value.replace(fold=0).utcoffset()
    if offset is None:
        return mix(NAIVE + _microseconds(plain - _EPOCH))
    return mix(INSTANT + _microseconds(plain - _EPOCH) - _microseconds(offset))


def _time(value: dt.time) -> int:
    of_day = ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond
    offset = value.replace(fold=0).utcoffset()
    if offset is None:
        return mix(TIME + of_day)
    return mix(ZONED_TIME + of_day - _microseconds(offset))


def _enum(member: enum.Enum) -> int:
    name = cast("str | None", member.name)  # None for some combined flags
    name = name if name is not None else repr(member.value)
    return fold(_ENUM, [_text(type(member).__qualname__), _text(name)])


def _dataclass(value: Value) -> int:
    # Without the module: the same class is `__main__.Key` in one process and `app.Key` in another.
    compared: Iterable[Value] = (getattr(value, field.name) for field in dataclasses.fields(value) if field.compare)
    return fold(_DATACLASS, [_text(type(value).__qualname__), *map(value_hash, compared)])


_HASHERS: dict[type, Callable[[Value], int]] = {
    type(None): lambda _: NONE,
    bool: _number,
    int: _number,
    float: _float,
    complex: _complex,
    decimal.Decimal: _decimal,
    fractions.Fraction: _number,
    str: _text,
    bytes: lambda value: _data(BYTES, _BYTES_KEYS, value),
    tuple: lambda value: fold(SEVERAL, [value_hash(item) for item in value]),
    frozenset: lambda value: fold(_SET, sorted(map(value_hash, value))),
    dt.datetime: _datetime,
    dt.date: lambda value: mix(DATE + value.toordinal() - _EPOCH_DAY),
    dt.time: _time,
    dt.timedelta: lambda value: mix(DURATION + _microseconds(value)),
    uuid.UUID: lambda value: _data(_UUID, _UUID_KEYS, value.bytes),
}


def _hasher_for(value: object) -> Callable[[Value], int]:
    """The hash function for a value whose type is not in the table."""
    kind = type(value)
    for base in kind.__mro__[1:]:
        if base.__name__ == "generic" and base.__module__ == "numpy":
            return _numpy
    equals: object = kind.__eq__
    for base in kind.__mro__[1:]:
        hasher = _HASHERS.get(base)
        if hasher is not None:
            # A subclass with its own comparison may treat values with different hashes as equal.
            if equals is not base.__eq__:
                raise UnhashableKeyError(value)
            if hasher in (_number, _float, _decimal) and _native:
                # Not the subclass's own `__hash__`: an Enum's is of its name.
                native: Callable[..., int] = base.__hash__
                hashes_as: Callable[..., int] = hasher
                return partial(hashes_as, hash_of=native)
            return hasher
    if isinstance(value, enum.Enum) and equals is object.__eq__:
        return _enum
    if dataclasses.is_dataclass(kind) and _compares_by_fields(kind):
        return _dataclass
    raise UnhashableKeyError(value)


def _compares_by_fields(kind: type[object]) -> bool:
    """Is it a frozen dataclass with the generated `==`? The generated code comes from no file."""
    code = getattr(kind.__eq__, "__code__", None)
    frozen = bool(kind.__dataclass_params__.frozen)  # type: ignore[attr-defined] # typeshed does not know it
    return frozen and code is not None and code.co_filename == "<string>"


def _numpy(value: Value) -> int:
    if value.dtype.kind == "M":  # datetime64: nanoseconds would become an int, coarser units a datetime
        value = value.astype("datetime64[us]")
    elif value.dtype.kind == "m":
        value = value.astype("timedelta64[us]")
    plain = value.item()
    if type(plain).__module__ == "numpy":  # longdouble has no Python counterpart; the nearest float shares its task
        if plain.dtype.kind == "f":
            plain = float(plain)
        elif plain.dtype.kind == "c":
            plain = complex(plain)
        else:
            raise UnhashableKeyError(value)
    return value_hash(plain)
