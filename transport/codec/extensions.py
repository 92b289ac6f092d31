"""Extensions: the closed table of types that msgpack does not have. Each is a code and some bytes.

| code | type | bytes |
|---|---|---|
| 1 | list | msgpack array of the items |
| 2 | dict with keys that are not all str | msgpack array: key, value, key, value, … |
| 3, 4 | set, frozenset | msgpack array of the members |
| 5 | a registered record | msgpack array: name, how many of the pairs were not set, field, value, … (records.py) |
| 6 | a member of a registered Enum | name of the Enum, 0, name of the member (of a Flag: its value, in digits) |
| 7 | int outside of 64 bits | two's complement, big-endian, as short as it can be |
| 8 | str with lone surrogates | UTF-8, surrogates encoded like other code points |
| 9 | bytearray | as it is |
| 10 | datetime | year 2, month, day, hour, minute, second 1 each, microsecond 4, fold 1, zone |
| 11 | date | year 2, month 1, day 1 |
| 12 | time | hour, minute, second 1 each, microsecond 4, fold 1, zone |
| 13 | timedelta | days 4 (signed), seconds 4, microseconds 4 |
| 14 | Decimal | its digits as text: `-1.50`, `1E+5`, `NaN` |
| 15 | UUID | 16 bytes |
| 16 | complex | two doubles |
| 17, 18 | NumPy array, NumPy scalar | arrays.py |
| 19 | Arrow RecordBatch | batches.py |
| 20 | a ref of an actor, in messages between actors | remote/values.py |

Numbers are big-endian. A zone is nothing (naive), or 1 and the offset from UTC in microseconds (8, signed), or 2 and
the key of a time zone (`Europe/Vienna`).

1. Received bytes must be exactly those that this module would write: each value has one encoding.
2. Errors are ValueError, TypeError, ArithmeticError, LookupError or struct.error; values.py turns them into its own.
"""

from __future__ import annotations

import datetime as dt
import re
import struct
from collections import Counter
from collections.abc import Callable, Collection
from decimal import Decimal
from typing import TYPE_CHECKING, Final
from uuid import UUID
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

if TYPE_CHECKING:
    from .names import Value

LIST, DICT, SET, FROZENSET, RECORD, ENUM = 1, 2, 3, 4, 5, 6
BIG_INT, SURROGATES, BYTEARRAY = 7, 8, 9
DATETIME, DATE, TIME, TIMEDELTA, DECIMAL, UUID_CODE, COMPLEX = 10, 11, 12, 13, 14, 15, 16
ARRAY, NUMPY_SCALAR, RECORD_BATCH, REF = 17, 18, 19, 20

KNOWN: Final = frozenset(range(1, 21))
NESTED: Final = frozenset({LIST, DICT, SET, FROZENSET, RECORD})
"""Extensions that contain one msgpack value, perhaps with others inside."""

COSTS: Final = tuple({RECORD: 8, ARRAY: 24, NUMPY_SCALAR: 16, RECORD_BATCH: 256}.get(code, 4) for code in range(21))
"""What an extension costs to decode, in plain values, so that no value takes longer than the limit allows."""

MAX_SAME_HASH: Final = 128
"""How many members of a set, or keys of a dict, may have one hash, since each is compared with all others."""

_DATETIME: Final = struct.Struct("!HBBBBBIB")
_DATE: Final = struct.Struct("!HBB")
_TIME: Final = struct.Struct("!BBBIB")
_TIMEDELTA: Final = struct.Struct("!iII")
_COMPLEX: Final = struct.Struct("!dd")
_OFFSET: Final = struct.Struct("!q")
_ZONE_NAME: Final = re.compile(r"[A-Za-z0-9_+-]{1,32}(/[A-Za-z0-9_+-]{1,32}){0,3}", re.ASCII)
_MICROSECOND: Final = dt.timedelta(microseconds=1)


class UnfitError(ValueError):
    """A value of a known type cannot be encoded: the message says why, and what to send instead."""


def encode_int(value: int) -> bytes:
    """Encode an int outside of 64 bits."""
    return value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True)


def check_hashes(keys: Collection[Value]) -> None:
    """ValueError if too many keys have one hash: building a set of them would take extremely long."""
    if len(keys) > MAX_SAME_HASH and max(Counter(map(hash, keys)).values()) > MAX_SAME_HASH:
        raise ValueError(f"more than {MAX_SAME_HASH} members or keys have the same hash")


# -- to bytes ----------------------------------------------------------------------------------------------------------


def _encode_datetime(value: dt.datetime) -> bytes:
    clock = (value.hour, value.minute, value.second, value.microsecond, value.fold)
    return _DATETIME.pack(value.year, value.month, value.day, *clock) + _encode_zone(value.tzinfo)


def _encode_time(value: dt.time) -> bytes:
    clock = (value.hour, value.minute, value.second, value.microsecond, value.fold)
    return _TIME.pack(*clock) + _encode_zone(value.tzinfo)


def _encode_zone(zone: dt.tzinfo | None) -> bytes:
    if zone is None:
        return b""
    if type(zone) is dt.timezone:
        return b"\1" + _OFFSET.pack(zone.utcoffset(None) // _MICROSECOND)
    if type(zone) is ZoneInfo and _ZONE_NAME.fullmatch(zone.key or ""):
        return b"\2" + zone.key.encode()
    raise UnfitError(
        f"a time zone of type {type(zone).__module__}.{type(zone).__qualname__} cannot be sent: use "
        "zoneinfo.ZoneInfo(key) or datetime.timezone"
    )


def _encode_decimal(value: Decimal) -> bytes:
    return str(value).encode()


ENCODERS: Final[dict[type, tuple[int, Callable[[Value], bytes]]]] = {
    bytearray: (BYTEARRAY, bytes),
    dt.datetime: (DATETIME, _encode_datetime),
    dt.date: (DATE, lambda value: _DATE.pack(value.year, value.month, value.day)),
    dt.time: (TIME, _encode_time),
    dt.timedelta: (TIMEDELTA, lambda value: _TIMEDELTA.pack(value.days, value.seconds, value.microseconds)),
    Decimal: (DECIMAL, _encode_decimal),
    UUID: (UUID_CODE, lambda value: value.bytes),
    complex: (COMPLEX, lambda value: _COMPLEX.pack(value.real, value.imag)),
}

# -- from bytes --------------------------------------------------------------------------------------------------------


def _decode_int(data: bytes) -> int:
    value = int.from_bytes(data, "big", signed=True)
    if len(data) < 9 or len(data) != value.bit_length() // 8 + 1:
        raise ValueError("a big integer that is not as short as it can be")
    return value


def _decode_surrogates(data: bytes) -> str:
    text = data.decode("utf-8", "surrogatepass")
    if not _has_surrogates(text):
        raise ValueError("a str with surrogates that has none")
    return text


def _has_surrogates(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _decode_datetime(data: bytes) -> dt.datetime:
    year, month, day, hour, minute, second, microsecond, fold = _DATETIME.unpack_from(data)
    zone = _decode_zone(data[_DATETIME.size :])
    return dt.datetime(year, month, day, hour, minute, second, microsecond, zone, fold=fold)


def _decode_time(data: bytes) -> dt.time:
    hour, minute, second, microsecond, fold = _TIME.unpack_from(data)
    return dt.time(hour, minute, second, microsecond, _decode_zone(data[_TIME.size :]), fold=fold)


def _decode_zone(data: bytes) -> dt.tzinfo | None:
    if not data:
        return None
    if data[0] == 1:
        return dt.timezone(dt.timedelta(microseconds=_OFFSET.unpack(data[1:])[0]))
    if data[0] != 2:
        raise ValueError(f"a time zone of kind {data[0]}")
    return zone_of(data[1:].decode("ascii"))


def zone_of(key: str) -> ZoneInfo:
    """The time zone with that key. ValueError if there is none, or the key is not valid: it becomes a file name."""
    if not _ZONE_NAME.fullmatch(key):
        raise ValueError(f"{key!r:.80} is no key of a time zone")
    try:
        return ZoneInfo(key)
    except (ZoneInfoNotFoundError, OSError) as error:
        raise ValueError(f"there is no time zone {key!r} here: install tzdata, if its name is right") from error


def _decode_timedelta(data: bytes) -> dt.timedelta:
    days, seconds, microseconds = _TIMEDELTA.unpack(data)
    if seconds >= 86_400 or microseconds >= 1_000_000:
        raise ValueError("a timedelta with more than a day of seconds or a second of microseconds")
    return dt.timedelta(days, seconds, microseconds)


def _decode_decimal(data: bytes) -> Decimal:
    text = data.decode("ascii")
    value = Decimal(text)
    if str(value) != text:
        raise ValueError(f"{text!r:.80} is not how a Decimal is written")
    return value


DECODERS: Final[dict[int, Callable[[bytes], Value]]] = {
    BIG_INT: _decode_int,
    SURROGATES: _decode_surrogates,
    BYTEARRAY: bytearray,
    DATETIME: _decode_datetime,
    DATE: lambda data: dt.date(*_DATE.unpack(data)),
    TIME: _decode_time,
    TIMEDELTA: _decode_timedelta,
    DECIMAL: _decode_decimal,
    UUID_CODE: lambda data: UUID(bytes=data),
    COMPLEX: lambda data: complex(*_COMPLEX.unpack(data)),
}
