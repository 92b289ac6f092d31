"""Stable hash: values that are equal in Python hash equally, in every process and on every machine.

Python's own `hash` of a string differs between processes, so it cannot say which task owns a key. Here a value is
written as canonical bytes, and the bytes are hashed with BLAKE2b (64 bit).

1. Equal values have equal bytes: a grouping remembers keys in a dict, where `1`, `True` and `1.0` are one key.
2. The bytes depend on the value only: not on the process, the hash seed, the platform or the time zone of the machine.
3. What has no such bytes is refused, never guessed: a list, dict, set or plain object as a key is an error.
4. Different values nearly always have different bytes. Where they do not (marked ≈), they share a task and no more.

| value | written as |
|---|---|
| None | itself |
| int, bool, float, Decimal, Fraction, complex | the number: 1 = True = 1.0 = Decimal("1.00") = 1+0j; -0.0 = 0 |
| … beyond 64 bit or not whole | its residue modulo 2^61 - 1, as Python's numeric hash has it ≈ |
| NaN of any type | one key; infinities by sign |
| str; bytes | UTF-8; the bytes. "a" and b"a" are two keys |
| datetime with a zone | the instant: 12:00+00:00 = 14:00+02:00 (as Python compares, `fold` is left out) |
| datetime without a zone, date, time, timedelta | each a kind of its own |
| UUID | its 128 bits |
| tuple, NamedTuple | its items: Point(1, 2) = (1, 2), as in Python |
| frozenset | its items in the order of their bytes |
| Enum that is also a str, int, … | its value |
| other Enum | class name and member name ≈ |
| frozen dataclass | class name and the fields that its `==` compares ≈ |
| numpy scalar | `.item()` |
| subclass of the above with an `==` of its own; bytearray, memoryview, list, dict, set, anything else | refused |

Storm: FieldsGrouping uses Arrays.deepHashCode of the values, which for a class without hashCode differs between
workers without a word (depart).
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import fractions
import hashlib
import uuid
from collections.abc import Callable, Iterable
from functools import reduce
from typing import Any

from .errors import UnhashableKeyError

_PRIME = (1 << 61) - 1
_EXACT = 1 << 64
_EPOCH = dt.datetime(1970, 1, 1)
_MICROSECOND = dt.timedelta(microseconds=1)


def stable_hash(values: tuple[Any, ...]) -> int:
    """64 bits from a row of values. UnhashableKeyError for a value that has no stable hash."""
    return hash_bytes(canonical_bytes(values))


def hash_bytes(encoded: bytes) -> int:
    """64 bits from canonical bytes."""
    return int.from_bytes(hashlib.blake2b(encoded, digest_size=8).digest(), "big")


def canonical_bytes(value: Any) -> bytes:
    """The bytes that stand for a value; UnhashableKeyError where there are none."""
    encode = _ENCODERS.get(type(value)) or _encoder_for(value)
    return encode(value)


def _frame(tag: bytes, body: bytes) -> bytes:
    return b"%b%d:%b" % (tag, len(body), body)


def _items(tag: bytes, parts: Iterable[bytes]) -> bytes:
    return _frame(tag, b"".join(parts))


# Numbers. Whole numbers below 64 bit are written exactly. Everything else is written as Python's numeric hash has it,
# with the modulus fixed, since on a 32-bit build Python's own is smaller. Writing the others exactly as well would be
# simpler, but Decimal("1E+1000000") would then be a million digits long.


def _whole(number: int) -> bytes:
    if -_EXACT < number < _EXACT:
        return b"n%d;" % number
    return _residue(number, 1)


def _residue(numerator: int, denominator: int) -> bytes:
    inverse = pow(denominator, _PRIME - 2, _PRIME)
    code = abs(numerator) % _PRIME * inverse % _PRIME if inverse else _PRIME
    return b"m-%d;" % code if numerator < 0 else b"m%d;" % code


def _ratio(number: fractions.Fraction | float) -> bytes:
    numerator, denominator = number.as_integer_ratio()
    return _whole(numerator) if denominator == 1 else _residue(numerator, denominator)


def _float(number: float) -> bytes:
    if number != number:
        return b"nan;"
    if number in (float("inf"), float("-inf")):
        return b"inf;" if number > 0 else b"-inf;"
    return _ratio(number)


def _decimal(number: decimal.Decimal) -> bytes:
    if number.is_snan():
        raise UnhashableKeyError(number)  # Python cannot hash it either
    if number.is_nan():
        return b"nan;"
    if number.is_infinite():
        return b"-inf;" if number.is_signed() else b"inf;"
    if not number:
        return _whole(0)
    sign, digits, exponent = number.as_tuple()
    coefficient = reduce(lambda sofar, digit: sofar * 10 + digit, digits, 0)  # int(str) refuses 4,300 digits
    if not isinstance(exponent, int):  # a letter, for what was handled above
        raise UnhashableKeyError(number)
    if exponent < 0:
        # 1.00 is whole. Digits to strip are at most the digits there are.
        while exponent < 0 and coefficient % 10 == 0:
            coefficient //= 10
            exponent += 1
    if sign:
        coefficient = -coefficient
    if exponent < 0:
        return _residue_of_power(coefficient, exponent)
    if number.adjusted() <= 20:
        return _whole(coefficient * 10**exponent)
    return _residue_of_power(coefficient, exponent)


def _residue_of_power(coefficient: int, exponent: int) -> bytes:
    """The residue of coefficient · 10^exponent, without writing that number out."""
    if exponent >= 0:
        power = pow(10, exponent, _PRIME)
        return _residue(coefficient * power, 1)
    return _residue(coefficient, pow(10, -exponent, _PRIME))


def _complex(number: complex) -> bytes:
    if number != number:
        return b"nan;"
    if number.imag == 0:
        return _float(number.real)
    return _items(b"c", (_float(number.real), _float(number.imag)))


def _text(value: str) -> bytes:
    return _frame(b"s", value.encode("utf-8", "surrogatepass"))


def _microseconds(delta: dt.timedelta) -> int:
    return delta // _MICROSECOND


def _datetime(value: dt.datetime) -> bytes:
    plain = value.replace(tzinfo=None, fold=0)
    # Python hashes and (within one zone) compares without fold, so the two 02:30 of an autumn night are one key.
    offset = value.replace(fold=0).utcoffset()
    if offset is None:
        return b"dn%d;" % _microseconds(plain - _EPOCH)
    return b"da%d;" % (_microseconds(plain - _EPOCH) - _microseconds(offset))


def _time(value: dt.time) -> bytes:
    of_day = ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond
    offset = value.replace(fold=0).utcoffset()
    if offset is None:
        return b"tn%d;" % of_day
    return b"ta%d;" % (of_day - _microseconds(offset))


def _enum(member: enum.Enum) -> bytes:
    name: str | None = member.name  # None for some combined flags
    name = name if name is not None else repr(member.value)
    return _items(b"e", (_text(type(member).__qualname__), _text(name)))


def _dataclass(value: Any) -> bytes:
    # Without the module: the same class is `__main__.Key` in one process and `app.Key` in another.
    compared = (getattr(value, field.name) for field in dataclasses.fields(value) if field.compare)
    return _items(b"k", (_text(type(value).__qualname__), *map(canonical_bytes, compared)))


_ENCODERS: dict[type, Callable[[Any], bytes]] = {
    type(None): lambda _: b"0;",
    bool: lambda value: b"n1;" if value else b"n0;",
    int: _whole,
    float: _float,
    complex: _complex,
    decimal.Decimal: _decimal,
    fractions.Fraction: _ratio,
    str: _text,
    bytes: lambda value: _frame(b"b", value),
    tuple: lambda value: _items(b"(", map(canonical_bytes, value)),
    frozenset: lambda value: _items(b"{", sorted(map(canonical_bytes, value))),
    dt.datetime: _datetime,
    dt.date: lambda value: b"dd%d;" % value.toordinal(),
    dt.time: _time,
    dt.timedelta: lambda value: b"td%d;" % _microseconds(value),
    uuid.UUID: lambda value: _frame(b"u", value.bytes),
}


def _encoder_for(value: Any) -> Callable[[Any], bytes]:
    """The encoder of a value whose type is not in the table itself."""
    kind = type(value)
    for base in kind.__mro__[1:]:
        if base.__name__ == "generic" and base.__module__ == "numpy":
            return _numpy
    equals: Any = kind.__eq__
    for base in kind.__mro__[1:]:
        encode = _ENCODERS.get(base)
        if encode is not None:
            # A subclass that compares in its own way may call values with different bytes equal.
            if equals is not base.__eq__:
                raise UnhashableKeyError(value)
            return encode
    if isinstance(value, enum.Enum) and equals is object.__eq__:
        return _enum
    if dataclasses.is_dataclass(kind) and _compares_by_fields(kind):
        return _dataclass
    raise UnhashableKeyError(value)


def _compares_by_fields(kind: Any) -> bool:
    """True for a frozen dataclass whose `==` is the generated one: its code comes from no file."""
    code = getattr(kind.__eq__, "__code__", None)
    return bool(kind.__dataclass_params__.frozen) and code is not None and code.co_filename == "<string>"


def _numpy(value: Any) -> bytes:
    if value.dtype.kind == "M":  # datetime64: nanoseconds would come out as int, coarser units as datetime
        value = value.astype("datetime64[us]")
    elif value.dtype.kind == "m":
        value = value.astype("timedelta64[us]")
    plain = value.item()
    if type(plain).__module__ == "numpy":  # longdouble has no Python twin; the nearest float shares its task
        if plain.dtype.kind == "f":
            plain = float(plain)
        elif plain.dtype.kind == "c":
            plain = complex(plain)
        else:
            raise UnhashableKeyError(value)
    return canonical_bytes(plain)
