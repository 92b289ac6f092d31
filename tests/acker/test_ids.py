"""Ids: never zero, distinct, from whatever source of bytes they are given, in bulk."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiostorm.acker import IdSource
from aiostorm.acker.ids import BULK


def test_ids_from_the_operating_system_are_distinct_64_bit_numbers() -> None:
    source = IdSource(os.urandom)
    drawn = [source.take() for _ in range(10 * BULK)]
    assert len(set(drawn)) == len(drawn)
    assert all(0 < n < 2**64 for n in drawn)
    # All bits are used: that each of 64 is set in a quarter to three quarters of 2560 fails once in 10**140.
    assert all(len(drawn) / 4 < sum(n >> bit & 1 for n in drawn) < len(drawn) * 3 / 4 for bit in range(64))


def test_one_call_draws_many() -> None:
    calls: list[int] = []

    def token_bytes(size_bytes: int) -> bytes:
        calls.append(size_bytes)
        return os.urandom(size_bytes)

    source = IdSource(token_bytes)
    for _ in range(BULK):
        source.take()
    assert calls == [8 * BULK]
    source.take()
    assert calls == [8 * BULK] * 2


@given(zeros=st.lists(st.booleans(), min_size=BULK, max_size=BULK))
def test_zero_is_never_given(zeros: list[bool]) -> None:
    def token_bytes(size_bytes: int) -> bytes:
        return b"".join((0 if zero else i + 1).to_bytes(8, "little") for i, zero in enumerate([*zeros[1:], False]))

    source = IdSource(token_bytes)
    assert all(source.take() for _ in range(2 * BULK))


def test_a_source_of_zeros_only_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="it is broken"):
        IdSource(bytes).take()
