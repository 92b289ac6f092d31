"""Key memory: what it finds is a function of the key; how much it holds and computes is bounded."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiostorm.topology import UnhashableKeyError, stable_hash
from aiostorm.topology.groupings.key_memory import LONG_KEY_BYTES, MEMORY_BYTES, ROUNDS_WITHOUT, KeyMemory
from aiostorm.topology.keys import value_hash, value_hashes

from ..strategies import keys


class Computed:
    """The place of a hash among seven, and how many were computed."""

    def __init__(self) -> None:
        self.count = 0
        self.calls: list[int] = []

    def __call__(self, hashes: list[int]) -> list[int]:
        self.count += len(hashes)
        self.calls.append(len(hashes))
        return [hashed % 7 for hashed in hashes]


def memory(limit: int) -> tuple[KeyMemory, Computed]:
    computed = Computed()
    return KeyMemory(computed, limit, single=True), computed


@given(st.lists(st.lists(keys, max_size=20), max_size=20), st.integers(1, 12))
def test_the_found_value_depends_on_the_key_only(batches: list[list[Any]], limit: int) -> None:
    found, _ = memory(limit)
    for batch in batches:
        assert found.find(batch) == [value_hash(key) % 7 for key in batch]
        assert len(found) <= max(2, limit)
    for key in (key for batch in batches for key in batch):
        assert found.find_one(key) == value_hash(key) % 7


@given(st.lists(keys, max_size=8), st.lists(keys, max_size=8))
def test_rows_of_several_fields_are_found_by_all_of_them(firsts: list[Any], seconds: list[Any]) -> None:
    found = KeyMemory(Computed(), 100, single=False)
    rows = list(zip(firsts, seconds, strict=False))
    assert found.find(rows) == [stable_hash(row) % 7 for row in rows]


def test_a_key_is_computed_once_while_the_memory_is_not_full() -> None:
    found, computed = memory(1000)
    for _ in range(50):
        found.find([f"k{i}" for i in range(500)])
    assert computed.count == 500


def test_keys_that_are_used_often_survive_keys_that_are_used_once() -> None:
    found, computed = memory(200)
    often = [f"often{i}" for i in range(50)]
    for number in range(2000):
        found.find([*often, f"once{number}"])
    # Each rare key is computed once, and a frequent one never again after the first time.
    assert computed.count == len(often) + 2000


def test_keys_that_do_not_come_back_are_soon_not_remembered_and_tried_again_later() -> None:
    found, _ = memory(100)
    number = 0

    def fresh(count: int) -> list[str]:
        nonlocal number
        number += count
        return [f"k{i}" for i in range(number - count, number)]

    found.find(fresh(50))
    found.find(fresh(50))
    assert len(found) == 50
    found.find(fresh(ROUNDS_WITHOUT * 100))
    assert len(found) == 50, "of the generation that showed it only the last keys are left"
    found.find(fresh(20))
    assert len(found) == 70, "it tries again"


def test_recurring_keys_are_remembered_after_many_keys_that_did_not_recur() -> None:
    found, computed = memory(100)
    for number in range(5000):
        found.find([f"once{number}"])
    for _ in range(ROUNDS_WITHOUT * 100):
        found.find(["a", "b"])
    before = computed.count
    found.find(["a", "b"])
    assert computed.count == before


def test_long_keys_are_not_remembered_and_many_of_some_length_turn_it_over() -> None:
    found, _ = memory(10**6)
    found.find(["a" * (LONG_KEY_BYTES + 1), b"b" * (LONG_KEY_BYTES + 1), 2 ** (9 * LONG_KEY_BYTES), "short"])
    assert len(found) == 1
    hot = "hot"
    for number in range(20_000):
        found.find([hot, f"{number:01000d}"])
        if number % 1000 == 0:
            assert len(found) * 1000 <= MEMORY_BYTES


@pytest.mark.parametrize("bad", [[1], {"a"}, object()])
def test_a_key_without_a_hash_is_refused_remembered_or_not(bad: Any) -> None:
    found, _ = memory(2)
    for batch in (["a", bad], ["b", "c", "d", bad], ["e", bad]):
        with pytest.raises((TypeError, UnhashableKeyError)):
            found.find(batch)
        found.find([f"{batch}{i}" for i in range(10)])
    with pytest.raises((TypeError, UnhashableKeyError)):
        found.find_one(bad)


@given(st.lists(keys) | st.lists(st.text(max_size=70)) | st.lists(st.integers() | st.integers(-3, 3)))
def test_many_hashes_are_those_of_each(drawn: list[Any]) -> None:
    assert value_hashes(drawn) == [value_hash(value) for value in drawn]


def test_many_hashes_of_text_that_is_long_or_has_a_lone_surrogate() -> None:
    for odd in ("x" * 65, "\udc80"):
        assert value_hashes(["a", odd, "b"]) == [value_hash(value) for value in ("a", odd, "b")]


@pytest.mark.parametrize("bulk", [True, False])
def test_a_key_of_the_largest_size_is_remembered(bulk: bool) -> None:
    for key in ("a" * LONG_KEY_BYTES, b"a" * LONG_KEY_BYTES):
        found, computed = memory(100)
        for _ in range(3):
            assert (found.find([key]) if bulk else [found.find_one(key)]) == [value_hash(key) % 7]
        assert (len(found), computed.count) == (1, 1)
        longer = key + key[:1]
        for count in (2, 3):
            assert (found.find([longer]) if bulk else [found.find_one(longer)]) == [value_hash(longer) % 7]
            assert (len(found), computed.count) == (1, count)


def test_a_generation_is_full_at_half_the_limit_and_the_next_one_keeps_what_is_used() -> None:
    found, computed = memory(10)
    for _ in range(4):
        for key in "abcde":
            found.find_one(key)
    assert (len(found), computed.count) == (5, 5)
    found.find_one("f")
    assert (len(found), computed.count) == (5, 6), "there was no space: the next generation begins"
    for key in "aabf":
        found.find_one(key)
    assert (len(found), computed.count) == (6, 7), "a and b are young again, f was computed again"
    for key in "fffffggggghhhhhi":
        found.find_one(key)
    assert (len(found), computed.count) == (5, 10), "g and h fill the generation, and i begins the third"
    for key in "abfi":
        found.find_one(key)
    assert (len(found), computed.count) == (6, 11), "i was computed again"
    found.find_one("c")
    assert computed.count == 12, "it was not used in a whole generation"


def test_after_a_batch_with_many_unknown_keys_those_of_the_next_one_are_computed_at_once() -> None:
    found, computed = memory(1000)
    known = [f"k{i}" for i in range(40)]
    new = iter(range(1000))

    def calls(n_known: int, n_new: int) -> list[int]:
        computed.calls = []
        found.find([*known[:n_known], *(f"new{next(new)}" for _ in range(n_new))])
        return computed.calls

    assert calls(40, 0) == [40], "at first all keys are unknown"
    assert calls(40, 0) == []
    assert calls(30, 2) == [1, 1]
    assert calls(30, 2) == [1, 1], "a sixteenth was unknown: one by one"
    assert calls(29, 2) == [1, 1]
    assert calls(30, 2) == [2], "more than a sixteenth was: at once"
    assert calls(29, 2) == [1, 1]
    assert calls(29, 2) == [2]
    assert calls(30, 2) == [2]
    assert calls(30, 2) == [1, 1]
