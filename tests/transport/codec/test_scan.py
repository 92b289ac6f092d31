"""The scan accepts exactly one sound value, and counts what it consists of: every first byte, every limit."""

from __future__ import annotations

import struct
from typing import Any

import msgpack
import pytest

from aiostorm.transport import UnreadableError
from aiostorm.transport.codec.extensions import COSTS, KNOWN, NESTED
from aiostorm.transport.codec.scan import CHECKED_BYTES, MAX_DEPTH, MAX_ITEMS, scan

EMPTY_ARRAY = b"\x90"
BIG = ">I"
SHORT = ">H"


def sized(head: int, form: str, data: bytes) -> bytes:
    return bytes((head,)) + struct.pack(form, len(data)) + data


def plain() -> dict[int, list[tuple[bytes, int]]]:
    """First byte → values that begin with it, each with what it counts."""
    found: dict[int, list[tuple[bytes, int]]] = {}
    for head in (*range(0x80), *range(0xE0, 0x100), 0xC0, 0xC2, 0xC3):
        found[head] = [(bytes((head,)), 1)]
    for head in range(0x80, 0x90):
        count = head & 15
        found[head] = [(bytes((head,)) + b"\xa1k\x07" * count, 2 + 2 * count)]
    for head in range(0x90, 0xA0):
        found[head] = [(bytes((head,)) + b"\x07" * (head & 15), 1 + (head & 15))]
    for head in range(0xA0, 0xC0):
        found[head] = [(bytes((head,)) + b"a" * (head & 31), 1)]
    for head, size in ((0xCA, 4), (0xCB, 8), (0xCC, 1), (0xCD, 2), (0xCE, 4), (0xCF, 8)):
        found[head] = [(bytes((head,)) + b"\x01" * size, 1)]
    for head, size in ((0xD0, 1), (0xD1, 2), (0xD2, 4), (0xD3, 8)):
        found[head] = [(bytes((head,)) + b"\x01" * size, 1)]
    for head, form, most in ((0xC4, ">B", 255), (0xC5, SHORT, 700), (0xC6, BIG, 70_000)):
        found[head] = [(sized(head, form, b"a" * size), 1) for size in (0, 1, most)]
    for head, form, most in ((0xD9, ">B", 255), (0xDA, SHORT, 700), (0xDB, BIG, 70_000)):
        found[head] = [(sized(head, form, b"a" * size), 1) for size in (0, 1, most)]
    for head, form in ((0xDC, SHORT), (0xDD, BIG)):
        found[head] = [(bytes((head,)) + struct.pack(form, n) + b"\x07" * n, 1 + n) for n in (0, 1, 300)]
    for head, form in ((0xDE, SHORT), (0xDF, BIG)):
        found[head] = [(bytes((head,)) + struct.pack(form, n) + b"\xa1k\x07" * n, 2 + 2 * n) for n in (0, 1, 300)]
    return found


def extensions() -> dict[int, list[tuple[bytes, int]]]:
    """The same for extensions, of a type that contains bytes, and of one whose array is not counted itself."""
    found: dict[int, list[tuple[bytes, int]]] = {}
    for head in range(0xD4, 0xD9):
        size = 1 << (head - 0xD4)
        items = b"\x90" if size == 1 else bytes((0x90 | size - 1,)) + b"\x07" * (size - 1) if size < 16 else b""
        found[head] = [(bytes((head, 14)) + b"9" * size, 1 + COSTS[14])]
        if items:
            found[head].append((bytes((head, 3)) + items, COSTS[3] + size))
    for head, form in ((0xC7, ">B"), (0xC8, SHORT), (0xC9, BIG)):
        found[head] = []
        for code, data, items in (
            (14, b"9", 0),
            (14, b"9" * 30, 0),
            (3, b"\x93\x01\x02\x03", 3),
            (3, b"\xdc\x00\x02\x01\x02", 2),
            (3, b"\xdd\x00\x00\x00\x02\x01\x02", 2),
        ):
            body = bytes((head,)) + struct.pack(form, len(data)) + bytes((code,)) + data
            found[head].append((body, 1 + COSTS[code] + items))
    return found


VALUES = plain() | extensions()


def ext(code: int, data: bytes) -> bytes:
    packed: bytes = msgpack.packb(msgpack.ExtType(code, data))
    return packed


def test_each_first_byte_begins_a_value_but_one() -> None:
    assert set(range(256)) - VALUES.keys() == {0xC1}
    with pytest.raises(UnreadableError, match="byte 0xc1 begins no value"):
        scan(b"\xc1")


@pytest.mark.parametrize("first", [*range(0, 256, 16)])
def test_a_value_is_counted_wherever_it_stands(first: int) -> None:
    for head in range(first, first + 16):
        for value, items in VALUES.get(head, ()):
            msgpack.unpackb(value, strict_map_key=False, max_ext_len=1 << 20)  # the table above is right
            assert scan(value) == items
            assert scan(b"\x93\x07" + value + b"\x07") == 3 + items
            assert scan(ext(1, b"\x92" + value + b"\x07")) == 1 + COSTS[1] + items + 1
            assert scan(memoryview(value)) == items


@pytest.mark.parametrize("first", [*range(0, 256, 16)])
def test_one_byte_less_or_more_is_refused(first: int) -> None:
    for head in range(first, first + 16):
        for value, _ in VALUES.get(head, ()):
            with pytest.raises(UnreadableError, match=r"cut short|in the last|more or less"):
                scan(value[:-1])
            with pytest.raises(UnreadableError, match=rf"{len(value) + 1} bytes ends after {len(value)}$"):
                scan(value + b"\x07")


def nested(kind: str, depth: int) -> bytes:
    value = b"\x07"
    for _ in range(depth):
        value = {"array": b"\x91" + value, "map": b"\x81\x07" + value, "long": b"\xdd\x00\x00\x00\x01" + value}[kind]
    return value


@pytest.mark.parametrize("kind", ["array", "map", "long"])
def test_the_depth_has_a_limit(kind: str) -> None:
    assert scan(nested(kind, MAX_DEPTH)) > MAX_DEPTH
    with pytest.raises(UnreadableError, match="more than 32 deep"):
        scan(nested(kind, MAX_DEPTH + 1))
    assert scan(nested(kind, 2), max_depth=2) > 0
    with pytest.raises(UnreadableError, match="more than 2 deep"):
        scan(nested(kind, 3), max_depth=2)


def test_what_is_beside_each_other_is_not_deeper() -> None:
    flat = b"\x94" + b"\x91\x07" * 2 + ext(3, b"\x91\x07") * 2
    assert scan(flat, max_depth=2) == 1 + 4 + 2 + 2 * (COSTS[3] + 1)


@pytest.mark.parametrize(
    "value", [b"\x93\x01\x02\x03", b"\xdc\x00\x03\x01\x02\x03", b"\x81\x01\x02", ext(14, b"9"), ext(3, b"\x90")]
)
def test_the_values_have_a_limit(value: bytes) -> None:
    items = scan(value)
    assert scan(value, max_items=items) == items
    with pytest.raises(UnreadableError, match=f"of more than {items - 1} values"):
        scan(value, max_items=items - 1)


def test_the_usual_limits() -> None:
    assert (MAX_DEPTH, MAX_ITEMS, CHECKED_BYTES) == (32, 250_000, 83_333)
    within = b"\xdd" + struct.pack(BIG, MAX_ITEMS - 1) + b"\x07" * (MAX_ITEMS - 1)
    assert scan(within) == MAX_ITEMS
    with pytest.raises(UnreadableError, match="more than 250000 values"):
        scan(b"\xdd" + struct.pack(BIG, MAX_ITEMS) + b"\x07" * MAX_ITEMS)


def test_short_bytes_cannot_exceed_the_limit() -> None:
    """Those of at most CHECKED_BYTES are decoded without a scan where only the number of values counts."""
    costliest = max((1 + COSTS[code]) / 3 for code in KNOWN if code in NESTED)
    assert costliest <= MAX_ITEMS / CHECKED_BYTES


@pytest.mark.parametrize("code", range(-128, 128))
def test_only_types_of_the_table_are_known(code: int) -> None:
    body = b"\xc7\x01" + struct.pack("b", code) + b"\x90"
    if code in KNOWN:
        assert scan(body) == 1 + COSTS[code]
    else:
        with pytest.raises(UnreadableError, match=f"extension type {code} is not of the table"):
            scan(body)


@pytest.mark.parametrize("code", sorted(NESTED))
def test_what_nests_holds_one_array_and_no_more(code: int) -> None:
    for head in sorted(VALUES):
        for value, items in VALUES[head][:1]:
            if 0x90 <= head <= 0x9F or head in (0xDC, 0xDD):
                assert scan(ext(code, value)) == COSTS[code] + items
                for wrong in (b"\x91" + ext(code, value + b"\x07"), ext(code, value)[:1] + b"\x00"):
                    with pytest.raises(UnreadableError):
                        scan(wrong)
            else:
                with pytest.raises(UnreadableError, match=f"extension type {code} holds no array"):
                    scan(ext(code, value))


def test_the_array_of_an_extension_ends_where_the_extension_ends() -> None:
    for size in (1, 3):  # its array has two bytes
        inner: Any = b"\xc7" + bytes((size, 3)) + b"\x91\x07"
        with pytest.raises(UnreadableError, match="an extension holds more or less than one value"):
            scan(b"\x92" + inner + b"\x07")
