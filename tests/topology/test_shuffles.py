"""Shuffle and its relatives: exactly even, skipping who is full, near before far."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from aiostorm.topology import LocalFirstGrouping, LocalOrShuffleGrouping, NoneGrouping, ShuffleGrouping

from .strategies import batch_sizes, numbered, prepare, split_all, targets


@given(targets, batch_sizes, st.integers(0, 99))
def test_every_round_deals_exactly_one_to_each_however_batches_are_cut(
    targets: list[int], sizes: list[int], seed: int
) -> None:
    grouping = prepare(ShuffleGrouping(), targets, seed=seed)
    counts: Counter[int] = Counter()
    total = 0
    for i, size in enumerate(sizes):
        if i % 3 == 2:  # single rows in between, by `choose`
            counts[grouping.choose(("a", 1))[0]] += 1
            total += 1
        counts += split_all(grouping, [size])
        total += size
        each = total // len(targets)
        assert all(counts[target] in (each, each + 1) for target in targets)
        assert sum(counts.values()) == total
    while total % len(targets):
        counts[grouping.choose(("a", 1))[0]] += 1
        total += 1
    assert all(counts[target] == total // len(targets) for target in targets)


@given(targets, st.lists(st.integers(1, 400), min_size=1, max_size=6))
def test_every_single_round_within_a_large_batch_is_even(targets: list[int], sizes: list[int]) -> None:
    grouping = prepare(ShuffleGrouping(), targets)
    order: list[int] = []
    for size in sizes:
        rows = numbered(size)
        went = {row: target for target, given, _ in grouping.split(rows, None) for row in given}
        order += [went[row] for row in rows]
    count = len(targets)
    for start in range(0, len(order) - count + 1, count):
        assert sorted(order[start : start + count]) == sorted(targets)


def test_the_order_is_drawn_anew_each_round() -> None:
    grouping = prepare(ShuffleGrouping(), [1, 2, 3])
    rows = numbered(300)
    went = {row: target for target, given, _ in grouping.split(rows, None) for row in given}
    rounds = Counter(tuple(went[row] for row in rows[start : start + 3]) for start in range(0, 300, 3))
    assert len(rounds) == 6
    assert max(rounds.values()) < 50
    singles = Counter(tuple(grouping.choose(("a", 1))[0] for _ in range(3)) for _ in range(100))
    assert len(singles) == 6


@given(st.sets(st.integers(1, 6), max_size=6), st.lists(st.integers(1, 60), min_size=1, max_size=6))
@example(high={1, 2, 3, 4, 5, 6}, sizes=[1, 1, 16])  # a turn was lost where nobody is better to wait for
def test_a_full_target_is_skipped_while_another_has_room(high: set[int], sizes: list[int]) -> None:
    targets = [1, 2, 3, 4, 5, 6]
    grouping = prepare(ShuffleGrouping(), targets, is_high=lambda task: task in high)
    counts = split_all(grouping, sizes)
    open_targets = set(targets) - high or set(targets)
    assert set(counts) <= open_targets
    assert max(counts[t] for t in open_targets) - min(counts[t] for t in open_targets) <= 1


def test_a_target_that_has_room_again_takes_part_again() -> None:
    full = {2}
    grouping = prepare(ShuffleGrouping(), [1, 2, 3], is_high=lambda task: task in full)
    assert grouping.choose(("a", 1))[0] in (1, 3)
    assert 2 not in split_all(grouping, [1] * 10 + [100])
    full.clear()
    counts = split_all(grouping, [1] * 30)
    assert min(counts[task] for task in (1, 2, 3)) >= 9


def test_when_all_are_full_the_fast_ones_are_waited_for() -> None:
    """Those that had room while others had none; with as much as they take in one go, and the rest is for all."""
    full = {2}
    grouping = prepare(ShuffleGrouping(), [1, 2, 3], is_high=lambda task: task in full, may_wait=lambda task: 20)
    split_all(grouping, [100])
    full.update((1, 3))
    for size in (1, 10, 30, 40):
        counts = split_all(grouping, [size])
        assert set(counts) <= {1, 3}
        assert max(counts.values()) <= 20
    assert split_all(grouping, [60]) == {1: 20, 2: 20, 3: 20}
    assert min(split_all(grouping, [90]).values()) >= 29
    assert grouping.choose(("a", 1))[0] in (1, 3)


@pytest.mark.parametrize("size", [1, 2, 200])
def test_local_or_shuffle_stays_in_the_worker_if_it_can(size: int) -> None:
    near = prepare(LocalOrShuffleGrouping(), [1, 2, 3, 4], local=[2, 4, 9], is_high=lambda task: task in (2, 4))
    assert set(split_all(near, [size] * 8)) == {2, 4}
    far = prepare(LocalOrShuffleGrouping(), [1, 2, 3, 4], local=[9])
    assert set(split_all(far, [size] * 8)) == {1, 2, 3, 4}


@pytest.mark.parametrize("size", [1, 2, 200])
def test_local_first_widens_the_ring_when_the_nearer_one_is_full(size: int) -> None:
    full: set[int] = set()
    grouping = prepare(
        LocalFirstGrouping(), range(1, 7), local=[1, 2], same_node=[1, 2, 3, 4], is_high=lambda task: task in full
    )
    assert set(split_all(grouping, [size] * 8)) == {1, 2}
    full |= {1}
    assert set(split_all(grouping, [size] * 8)) == {2}
    full |= {2}
    assert set(split_all(grouping, [size] * 8)) == {3, 4}
    full |= {3, 4}
    assert set(split_all(grouping, [size] * 8)) == {5, 6}
    full |= {5, 6}  # everybody is full: nobody is skipped
    assert set(split_all(grouping, [size] * 12)) == {1, 2, 3, 4, 5, 6}
    full.clear()
    assert grouping.choose(("a", 1))[0] in (1, 2)


def test_local_first_without_anything_near_is_a_shuffle() -> None:
    grouping = prepare(LocalFirstGrouping(), [1, 2, 3])
    assert split_all(grouping, [30, 30]) == Counter({1: 20, 2: 20, 3: 20})


def test_none_picks_at_random_and_passes_over_the_full() -> None:
    grouping = prepare(NoneGrouping(), [1, 2, 3])
    counts = split_all(grouping, [3000])
    assert all(800 < counts[task] < 1200 for task in (1, 2, 3))
    full = prepare(NoneGrouping(), [1, 2, 3], is_high=lambda task: task != 2)
    assert set(split_all(full, [1, 50])) == {2}
    assert full.choose(("a", 1)) == (2,)
    assert set(split_all(prepare(NoneGrouping(), [1, 2, 3], is_high=lambda task: True), [100])) == {1, 2, 3}
