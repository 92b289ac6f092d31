"""Numbers and kinds as bytes: the shortest form that fits, and what is no such form."""

from __future__ import annotations

import msgpack
import numpy as np
import pytest

from aiostorm.transport import PayloadKind, ProtocolError, UnreadableError, pack_payload, unpack_all
from aiostorm.transport.codec import extensions as ext
from aiostorm.transport.codec import pack_numbers, pack_value, unpack_numbers, unpack_value
from aiostorm.transport.codec.numbers import pack_small, unpack_small
from aiostorm.transport.codec.payloads import pack_bundle


@pytest.mark.parametrize(
    ("numbers", "width"),
    [([0, 255], 1), ([0, 256], 2), ([1, 65_535], 2), ([1, 65_536], 4), ([2**32 - 1, 0], 4), ([255], 1), ([65_536], 4)],
)
def test_small_numbers_have_the_least_width(numbers: list[int], width: int) -> None:
    packed = pack_small(numbers)
    assert len(packed) == width * len(numbers)
    assert list(unpack_small(packed, len(numbers))) == numbers


@pytest.mark.parametrize(("size", "count"), [(0, 3), (5, 3), (9, 3), (24, 3), (2, 3)])
def test_bytes_of_another_number_of_small_numbers_are_refused(size: int, count: int) -> None:
    with pytest.raises(UnreadableError, match=f"{count} numbers in {size} bytes"):
        unpack_small(bytes(size), count)


def test_large_numbers_have_8_bytes_little_endian() -> None:
    assert pack_numbers([1, 2**64 - 1]) == b"\1" + bytes(7) + b"\xff" * 8
    assert unpack_numbers(b"\1" + bytes(7) + b"\xff" * 8) == [1, 2**64 - 1]
    with pytest.raises(UnreadableError, match="numbers of 8 bytes in 9 bytes"):
        unpack_numbers(bytes(9))


def test_the_kinds_have_these_numbers() -> None:
    assert {kind.name: kind.value for kind in PayloadKind} == {
        "SEGMENTS": 1, "CREDIT": 2, "TASK": 3, "ACTOR": 4, "BUNDLE": 5,
    }  # fmt: skip
    assert [ext.ARRAY, ext.NUMPY_SCALAR, ext.RECORD_BATCH, ext.REF] == [17, 18, 19, 20]
    assert list(ext.COSTS) == [*[4] * 5, 8, *[4] * 11, 24, 16, 256, 4]


def test_a_single_payload_is_no_bundle() -> None:
    first, second = (pack_payload(PayloadKind.TASK, 3, body) for body in (b"a", b"b"))
    assert pack_bundle([first]) == first
    assert [bytes(body) for _, _, body in unpack_all(pack_bundle([first, second]))] == [b"a", b"b"]


def test_each_part_of_a_bundle_is_a_payload_and_none_is_a_bundle() -> None:
    good = pack_payload(PayloadKind.TASK, 3, b"a")
    for parts in ([good, 5], [good, pack_bundle([good, good])], [pack_bundle([good, good])], [good, b"\3"], 5):
        with pytest.raises(ProtocolError):
            list(unpack_all(pack_payload(PayloadKind.BUNDLE, 0, msgpack.packb(parts))))


def test_an_integer_that_fits_into_64_bits_is_not_a_big_one() -> None:
    assert unpack_value(msgpack.packb(msgpack.ExtType(ext.BIG_INT, b"\1" + bytes(8)))) == 2**64
    for data in (b"\1" + bytes(7), b"\0\1" + bytes(8), b""):
        with pytest.raises(UnreadableError):
            unpack_value(msgpack.packb(msgpack.ExtType(ext.BIG_INT, data)))


def test_an_array_without_texts_comes_as_it_was() -> None:
    found = unpack_value(pack_value([np.array([], "<U3")]))[0]
    assert (found.dtype, found.shape) == (np.dtype("<U3"), (0,))


def test_many_members_of_one_hash_are_refused_though_others_differ() -> None:
    same = [number * (2**61 - 1) for number in range(129)]
    ext.check_hashes([*same[:128], 5, 6])
    with pytest.raises(ValueError, match="more than 128"):
        ext.check_hashes([*same, 5])
