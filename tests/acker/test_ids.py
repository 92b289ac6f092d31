"""Ids: never zero, distinct, from whatever source of bytes they are given, in bulk."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiostorm.acker import IdSource, is_single_root, shared_root, single_root
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


roots = st.integers(1, 2**64 - 1)


@given(root=roots, like=roots, ackers=st.integers(1, 9))
def test_a_single_root_says_so_and_has_the_acker_of_the_root_it_is_like(root: int, like: int, ackers: int) -> None:
    made = single_root(root, like, ackers)
    assert is_single_root(made)
    assert made < 2**64
    assert ackers == 1 or made % ackers == like % ackers
    assert ackers > 1 or made == root | 2**63  # all other bits stay random
    assert abs(made - (root | 2**63)) < ackers


@pytest.mark.parametrize("like", range(5))
def test_a_single_root_never_has_more_than_64_bits(like: int) -> None:
    for root in range(2**64 - 6, 2**64):
        made = single_root(root, like, 5)
        assert 2**63 < made < 2**64
        assert made % 5 == like


@given(root=roots)
def test_a_single_root_belongs_to_the_first_acker_by_default(root: int) -> None:
    assert single_root(root, ackers=4) % 4 == 0


@given(root=roots)
def test_a_shared_root_says_so_and_is_never_zero(root: int) -> None:
    made = shared_root(root)
    assert not is_single_root(made)
    assert made == (root % 2**63 or 1)
    assert shared_root(2**63) == 1
    assert is_single_root(2**63)
    assert not is_single_root(2**63 - 1)


@pytest.mark.parametrize(("zeros", "fails"), [(7, False), (8, True)])
def test_a_source_may_give_zeros_seven_times(zeros: int, fails: bool) -> None:
    calls = iter([bytes(8 * BULK)] * zeros)

    def token_bytes(size_bytes: int) -> bytes:
        return next(calls, b"\1" * size_bytes)

    source = IdSource(token_bytes)
    if fails:
        with pytest.raises(RuntimeError, match=f"returned {8 * BULK} zero bytes {zeros} times"):
            source.take()
    else:
        assert source.take()
