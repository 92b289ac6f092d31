"""Hostile bytes: whatever comes is a value or an UnreadableError, and costs no more than it should."""

from __future__ import annotations

import struct
import tracemalloc
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiostorm.topology import Fields, Origin
from aiostorm.transport import UnreadableError, unpack_segments, unpack_value
from aiostorm.transport.codec.extensions import COSTS, KNOWN
from aiostorm.transport.codec.scan import MAX_ITEMS, scan

MIB = 1024 * 1024
DAY = bytes.fromhex("07ea01010000000000000000")


def extension(code: int, data: bytes) -> bytes:
    packed: bytes = msgpack.packb(msgpack.ExtType(code, data))
    return packed


def array(*items: bytes) -> bytes:
    return b"\xdd" + struct.pack("!I", len(items)) + b"".join(items)


def filled(item: bytes) -> bytes:
    return array(*[item] * ((MIB - 5) // len(item)))


def within(item: bytes, cost: int) -> bytes:
    """A fifth of as many of it as a value may have: memory is traced slowly."""
    return array(*[item] * (MAX_ITEMS // 5 // cost))


# -- bombs: small in bytes, large in memory ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("frame", "refused"),
    [
        (filled(b"\x90"), "more than 250000 values"),
        (filled(b"\x80"), "more than 250000 values"),
        (filled(b"\x81\xa0\x00"), "more than 250000 values"),
        (filled(extension(3, b"\x91\x01")), "more than 250000 values"),
        (array(*[array(*[b"\x90"] * 10_000)] * 30), "more than 250000 values"),
        (b"\x91" * MIB, "more than 32 deep"),
        ((b"\xdd" + struct.pack("!I", 900_000)) * (MIB // 5), "more than 250000 values"),
        ((b"\xdd" + struct.pack("!I", 240_000)) * (MIB // 5), "more than 250000 values"),
        (b"\xdd\xff\xff\xff\xff", "a container of 4294967295 values in the last 0 bytes"),
        (b"\xdf\xff\xff\xff\xff", "a container of 8589934590 values"),
        (b"\xc6\xff\xff\xff\xff", "cut short"),
        (b"\xc9\xff\xff\xff\xff\x07", "cut short"),
        (within(b"\x90", 1), ""),
        (within(b"\x80", 2), ""),
        (within(extension(3, b"\x90"), 5), ""),
        (within(b"\xca\x00\x00\x00\x01", 6), ""),
        (extension(14, b"9" * (MIB - 10)), ""),
        (extension(7, b"\x7f" * (MIB - 10)), ""),
        (extension(17, b"\x03<f8\x02" + struct.pack("!2Q", 2**60, 2**60)), "an array of shape"),
        (extension(17, b"\x03<f8\x02" + struct.pack("!2Q", 0, 2**62)), "an array of shape"),
        (extension(17, b"\x09<U9999999\x01" + struct.pack("!Q", 9)), "an array of shape"),
    ],
    ids=lambda value: len(value) if isinstance(value, bytes) else value,
)
def test_a_bomb_does_not_go_off(frame: bytes, refused: str) -> None:
    tracemalloc.start()
    try:
        if refused:
            with pytest.raises(UnreadableError, match=refused):
                unpack_value(frame)
        else:
            unpack_value(frame)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 16 * MIB


def test_many_columns_cost_no_more_than_one() -> None:
    origin = Origin("c", 1, "s", Fields("a"))
    column = array(*[extension(3, b"\x90")] * 8000)
    segment = [1, "s", 0, 0, None, 8000, [[column]]]
    assert len(unpack_segments(msgpack.packb([segment] * 6), lambda task, stream: origin)) == 6
    with pytest.raises(UnreadableError, match="more than"):
        unpack_segments(msgpack.packb([segment] * 7), lambda task, stream: origin)


def test_arrays_in_a_plain_column_cost_what_the_column_may() -> None:
    origin = Origin("c", 1, "s", Fields("a"))
    column = b"\xdc\x20\x00" * 500 + b"\x01"
    body = msgpack.packb([[1, "s", 0, 0, None, 8192, [column]]])
    tracemalloc.start()
    try:
        with pytest.raises(UnreadableError):
            unpack_segments(body, lambda task, stream: origin)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 64 * MIB


def signs(count: int, bits: int) -> bytes:
    """A tuple of -1 and -2, which have the same hash in Python: 2**count tuples have one."""
    return bytes((0x90 | count, *(0xFF - (bits >> at & 1) for at in range(count))))


def test_members_with_the_same_hash_are_refused() -> None:
    with pytest.raises(UnreadableError, match="same hash"):
        unpack_value(extension(3, array(*[signs(12, bits) for bits in range(4096)])))
    with pytest.raises(UnreadableError, match="same hash"):
        unpack_value(extension(2, array(*[part for bits in range(4096) for part in (signs(12, bits), b"\x00")])))
    assert len(unpack_value(extension(3, array(*[signs(7, bits) for bits in range(128)])))) == 128


# -- what is not quite right -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\xc1",
        *(b"\x01\x02", b"\xa2a", b"\x92\x01", b"\xa1\xff", b"\xd9", b"\xcf\x00", b"\xc4\x05abc"),
        *(b"\x81\x01\x02", b"\x81\xc4\x01a\x01", b"\x82\xa1a\x01\xa1a\x02", b"\x81\x90\x01"),
        b"\xd6\xff\x00\x00\x00\x01",  # msgpack's timestamp: not of the table
        *(extension(code, b"\x90") for code in (0, 21, 99, 127)),
        *(extension(code, held) for code in (1, 2, 3, 4, 5) for held in (b"", b"\x01", b"\x80", b"\x91", b"\x90\x90")),
        extension(1, extension(1, b"\x90")),
        extension(1, b"\x92\x01") + b"\x01",
        *(extension(2, b"\x91\x01"), extension(2, b"\x92\xa1a\x01"), extension(2, b"\x94\x01\x01\x01\x02")),
        *(extension(3, b"\x92\x01\x01"), extension(4, b"\x91" + extension(1, b"\x90"))),
        *(extension(7, data) for data in (b"", b"\x01", bytes(9), b"\xff" * 9, bytes(2) + b"\x7f" * 9)),
        *(extension(8, data) for data in (b"", b"abc", b"\xff", b"\xc3")),
        *(extension(10, data) for data in (b"", bytes(11), bytes(12), bytes.fromhex("07ea0d01000000000000 0000"))),
        *(extension(10, DAY[:-1] + tail) for tail in (b"\x02", b"\0\3", b"\0\1", b"\0\0")),
        *(extension(11, data) for data in (b"\x07\xea\x00\x01", b"\x07\xea\x02\x1e", b"\x07\xea\x01\x01\x00")),
        *(extension(12, data) for data in (bytes(7), b"\x18" + bytes(7), bytes(7) + b"\x02")),
        *(extension(13, struct.pack("!iII", *data)) for data in ((2**31 - 1, 0, 0), (0, 86_400, 0), (0, 0, 10**6))),
        *(extension(14, data) for data in (b"", b"x", b" 1", b"1_0", b"1e5", b"+1", b"\xd9\xa1", b"1E+" + b"9" * 19)),
        *(extension(15, bytes(15)), extension(15, bytes(17)), extension(16, bytes(15))),
        extension(3, b"\x91" + extension(14, b"sNaN")),  # has no hash
    ],
    ids=bytes.hex,
)  # fmt: skip
def test_almost_valid_bytes_are_refused(frame: bytes) -> None:
    with pytest.raises(UnreadableError):
        unpack_value(frame)


@pytest.mark.parametrize(
    "zone",
    [
        *("../../../etc/passwd", "/etc/passwd", "Europe/../../etc/passwd", "Europe//Vienna", "Europe/", "Europe", ""),
        *(
            "Europe/Nowhere",
            "\0",
            "Europe/Vienna\0",
            "a" * 33,
            "a/a/a/a/a",
            ".",
            "tzdata.zi",
            "zone.tab",
            "leapseconds",
        ),
    ],
)
def test_the_name_of_a_zone_reaches_no_other_file(zone: str) -> None:
    with pytest.raises(UnreadableError):
        unpack_value(extension(10, DAY + b"\2" + zone.encode()))


@pytest.mark.parametrize("offset", [86_400_000_000, -86_400_000_000, 2**63 - 1])
def test_an_offset_is_less_than_a_day(offset: int) -> None:
    with pytest.raises(UnreadableError):
        unpack_value(extension(10, DAY + b"\1" + struct.pack("!q", offset)))


@given(data=st.binary(max_size=64))
def test_noise_is_a_value_or_unreadable(data: bytes) -> None:
    for read in (unpack_value, scan, lambda data: unpack_segments(data, _no_origin)):
        try:
            read(data)
        except UnreadableError:
            continue


def _no_origin(task: int, stream: str) -> Any:
    raise KeyError(task)


def test_every_extension_has_its_cost() -> None:
    assert len(COSTS) == max(KNOWN) + 1
    for code in KNOWN:
        assert scan(extension(code, b"\x90")) == 1 + COSTS[code]


def test_a_ref_is_for_messages_only() -> None:
    with pytest.raises(UnreadableError, match="not for this place"):
        unpack_value(extension(20, b"\x91\x01"))


def test_a_scan_counts_what_there_is() -> None:
    assert scan(msgpack.packb([1, [2, 3], {"a": b"x"}])) == 9
    assert scan(memoryview(b"\xc0")) == 1
