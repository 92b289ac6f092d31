"""Fields, key ranges and partial key: the target follows the key."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiostorm.topology import (
    EmitError,
    FieldsGrouping,
    KeyRangeGrouping,
    KeyRanges,
    PartialKeyGrouping,
    Row,
    UnhashableKeyError,
    stable_hash,
)

from ..strategies import keys, prepare, targets

KEYED = [FieldsGrouping, KeyRangeGrouping, PartialKeyGrouping]


@given(st.lists(keys, max_size=40), targets)
def test_the_target_is_a_function_of_the_named_values_only(drawn: list[Any], targets: list[int]) -> None:
    rows = [(key, i) for i, key in enumerate(drawn)]
    places = sorted(targets)
    expected = {row[1]: places[stable_hash((row[0],)) % len(places)] for row in rows}
    for seed in (1, 2):
        grouping = prepare(FieldsGrouping(["word"]), targets, seed=seed)
        for _ in range(2):  # computed, then remembered
            went = {row[1]: target for target, given, _ in grouping.split(rows, None) for row in given}
            assert went == expected


@given(st.lists(st.tuples(keys, keys, st.integers()), max_size=30), targets)
def test_several_fields_in_any_place_make_the_key(rows: list[Row], targets: list[int]) -> None:
    from aiostorm.topology import Fields

    grouping = prepare(FieldsGrouping(["c", "a"]), targets, fields=Fields("a", "b", "c"))
    places = sorted(targets)
    for row in rows:
        assert list(grouping.choose(row)) == [places[stable_hash((row[2], row[0])) % len(places)]]


@pytest.mark.parametrize("kind", KEYED)
def test_equal_values_of_different_types_are_one_key(kind: Any) -> None:
    for first in (1, True, 1.0, Fraction(1)):
        grouping = prepare(kind(["word"]), range(50))
        chosen = {grouping.choose((value, 0))[0] for value in (first, 1, True, 1.0, Fraction(1))}
        assert len(chosen) <= (2 if kind is PartialKeyGrouping else 1)


@pytest.mark.parametrize("kind", KEYED)
def test_forgetting_changes_nothing_but_speed(kind: Any) -> None:
    rows = [(f"w{i % 23}", i) for i in range(300)]
    small, large = prepare(kind(["word"]), range(7), cache_keys=3), prepare(kind(["word"]), range(7))
    for size in (1, 2, 60, 200):
        assert small.split(rows[:size], None) == large.split(rows[:size], None)
    assert len(small._memory) <= 3
    assert len(large._memory) == 23


def test_the_memory_is_bounded_in_bytes_too() -> None:
    grouping = prepare(FieldsGrouping(["word"]), range(4))
    grouping.split([("x" * 5000 + str(i), i) for i in range(20)], None)
    assert len(grouping._memory) == 0


@pytest.mark.parametrize("kind", KEYED)
@pytest.mark.parametrize("tasks", [1, 4])
@pytest.mark.parametrize("value", [[1], {"a": 1}, ("a", [1]), object(), float, (1, {2})])
def test_a_key_without_hash_names_component_stream_field_and_type(kind: Any, tasks: int, value: Any) -> None:
    grouping = prepare(kind(["n", "word"]), range(tasks))
    rows: list[Row] = [("a", 1), ("b", 2), (value, 3), (value, 4)]
    for call in (lambda: grouping.split(rows, None), lambda: grouping.split(rows[2:3], [1])):
        with pytest.raises(UnhashableKeyError, match=r"field 'word' of stream 'default' of 'lines'.*'count'") as caught:
            call()
        assert isinstance(caught.value, EmitError)
        assert type(caught.value.culprit).__name__ in str(caught.value)
    assert caught.value.row == 0
    with pytest.raises(UnhashableKeyError) as caught:
        grouping.split(rows, None)
    assert caught.value.row == 2
    with pytest.raises(UnhashableKeyError):
        grouping.choose(rows[2])


class Unhashed(str):
    __hash__ = None  # type: ignore[assignment]


def test_text_that_cannot_be_hashed_is_named_too() -> None:
    with pytest.raises(UnhashableKeyError, match="holds a Unhashed"):
        prepare(FieldsGrouping(["word"]), range(4)).choose((Unhashed("a"), 1))


class Sour:
    """Raises unexpectedly."""

    def __hash__(self) -> int:
        return hash("w")

    def __eq__(self, other: object) -> bool:
        raise TypeError("sour")


def test_an_error_of_the_key_itself_is_not_hidden() -> None:
    grouping = prepare(FieldsGrouping(["word"]), range(4))
    with pytest.raises(UnhashableKeyError, match="Sour"):
        grouping.choose((Sour(), 1))
    grouping.choose(("w", 1))
    with pytest.raises((TypeError, UnhashableKeyError)):
        grouping.choose((Sour(), 1))


class Broken(PartialKeyGrouping):
    """Cannot compute a target."""

    def _compute(self, hashed: int) -> tuple[int, int]:
        raise TypeError("no target")


def test_an_error_that_is_not_of_a_key_is_not_taken_for_one() -> None:
    grouping = prepare(Broken(["word"]), range(4))
    for rows in ([("w", 1)], [("w", 1), ("v", 2)]):
        with pytest.raises(TypeError, match="no target"):
            grouping.split(rows, None)


# -- key ranges --------------------------------------------------------------------------------------------------------


@given(st.integers(1, 2000))
def test_ranges_are_dealt_evenly_in_contiguous_runs(n_tasks: int) -> None:
    ranges = KeyRanges.for_tasks(n_tasks)
    assert ranges.n_ranges % 256 == 0
    assert n_tasks <= ranges.n_ranges < n_tasks + 256 or ranges.n_ranges == 256
    owners = [ranges.task_of(key_range) for key_range in range(ranges.n_ranges)]
    assert owners == sorted(owners)
    sizes = [len(ranges.ranges_of(task)) for task in range(n_tasks)]
    assert max(sizes) - min(sizes) <= 1
    assert min(sizes) >= 1
    assert [task for task in range(n_tasks) for _ in ranges.ranges_of(task)] == owners
    assert [at for task in range(n_tasks) for at in ranges.ranges_of(task)] == list(range(ranges.n_ranges))


def test_there_are_as_many_ranges_as_needed_in_steps_of_256() -> None:
    assert [KeyRanges.for_tasks(n).n_ranges for n in (1, 255, 256, 257, 512, 513)] == [256, 256, 256, 512, 512, 768]
    ranges = KeyRanges.for_tasks(3)
    assert [ranges.ranges_of(task) for task in range(3)] == [range(86), range(86, 171), range(171, 256)]
    assert [ranges.task_of(key_range) for key_range in (0, 85, 86, 170, 171, 255)] == [0, 0, 1, 1, 2, 2]


@given(keys, st.integers(1, 256), st.integers(1, 256))
def test_a_key_keeps_its_range_when_the_number_of_tasks_changes(key: Any, before: int, after: int) -> None:
    assert KeyRanges.for_tasks(before).range_of((key,)) == KeyRanges.for_tasks(after).range_of((key,))


@given(st.lists(keys, max_size=20), targets)
def test_the_grouping_follows_the_ranges(drawn: list[Any], targets: list[int]) -> None:
    grouping = prepare(KeyRangeGrouping(["word"]), targets)
    ranges, places = KeyRanges.for_tasks(len(targets)), sorted(targets)
    for key in drawn:
        assert list(grouping.choose((key, 0))) == [places[ranges.task_of(ranges.range_of((key,)))]]


@pytest.mark.parametrize(("n_ranges", "n_tasks"), [(256, 0), (4, 5), (256, -1)])
def test_impossible_ranges_are_refused(n_ranges: int, n_tasks: int) -> None:
    with pytest.raises(ValueError, match="cannot share"):
        KeyRanges(n_ranges, n_tasks)


# -- partial key -------------------------------------------------------------------------------------------------------


@given(st.lists(st.lists(st.integers(0, 12), max_size=30), max_size=8), targets)
def test_at_most_two_targets_a_key_and_always_the_less_used(batches: list[list[int]], targets: list[int]) -> None:
    grouping = prepare(PartialKeyGrouping(["word"]), targets)
    used = dict.fromkeys(targets, 0)
    places = sorted(targets)
    went: defaultdict[int, set[int]] = defaultdict(set)
    number = 0
    for batch in batches:
        rows = [(key, number + i) for i, key in enumerate(batch)]
        number += len(rows)
        chosen = {row: target for target, given, _ in grouping.split(rows, None) for row in given}
        for row in rows:
            hashed = stable_hash((row[0],))
            first = hashed % len(places)
            second = first
            if len(places) > 1:
                second = (hashed // len(places)) % (len(places) - 1)
                second += second >= first
                assert first != second
            expected = places[first] if used[places[first]] <= used[places[second]] else places[second]
            assert chosen[row] == expected
            used[expected] += 1
            went[row[0]].add(expected)
    assert all(len(tasks) <= 2 for tasks in went.values())


def test_a_single_hot_key_is_shared_by_exactly_two_tasks() -> None:
    grouping = prepare(PartialKeyGrouping(["word"]), range(8))
    shares = grouping.split([("hot", i) for i in range(100)], None)
    assert sorted(len(rows) for _, rows, _ in shares) == [50, 50]


def test_keys_spread_over_the_tasks() -> None:
    grouping = prepare(FieldsGrouping(["word"]), range(4))
    shares = grouping.split([(f"w{i}", i) for i in range(10_000)], None)
    assert all(2300 < len(rows) < 2700 for _, rows, _ in shares)
    assert len(shares) == 4
