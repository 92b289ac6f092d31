"""Shuffle and its relatives: exactly even, skipping full targets, near before far."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from aiostorm.topology import (
    Fields,
    GroupingContext,
    LocalFirstGrouping,
    LocalOrShuffleGrouping,
    NoneGrouping,
    PartialKeyGrouping,
    ShuffleGrouping,
    StreamId,
)

from ..strategies import batch_sizes, check_shares, numbered, prepare, split_all, targets


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


def plenty(target: int) -> int:
    return 10_000


@given(st.integers(1, 80), st.lists(st.integers(1, 100), min_size=1, max_size=12), st.integers(0, 99))
@example(count=80, sizes=[1, 40, 40], seed=0)  # less than the old round has left; then its end, and no whole round
@example(count=40, sizes=[32, 8, 40, 79, 1], seed=0)
def test_small_batches_for_many_targets_are_even_and_lose_nothing(count: int, sizes: list[int], seed: int) -> None:
    grouping = prepare(ShuffleGrouping(), range(1, count + 1), seed=seed)
    order: list[int] = []
    for size in sizes:
        rows, anchors = numbered(size), list(range(size))
        shares, rest = grouping.deal(rows, anchors, plenty)
        assert rest is None
        went = check_shares([share for share in shares if share[1]], rows, anchors)
        order += [target for [target] in went.values()]
        most = size // count + 2
        assert all(len(given) <= most for _, given, _ in shares)
    dealt = Counter(order)
    assert dealt.total() == sum(sizes)
    assert set(dealt.values()) <= {sum(sizes) // count, sum(sizes) // count + 1}
    for start in range(0, len(order) - count + 1, count):
        assert len(set(order[start : start + count])) == count


@given(st.integers(2, 80), st.lists(st.integers(1, 100), min_size=1, max_size=12), st.data())
def test_all_others_get_the_same_while_one_target_is_full(count: int, sizes: list[int], data: st.DataObject) -> None:
    full = data.draw(st.integers(1, count))
    grouping = prepare(ShuffleGrouping(), range(1, count + 1))
    counts: Counter[int] = Counter()
    for size in sizes:
        shares, rest = grouping.deal(numbered(size), None, lambda target: 0 if target == full else 10_000)
        assert rest is None
        for target, rows, _ in shares:
            counts[target] += len(rows)
        each = [counts[target] for target in range(1, count + 1) if target != full]
        assert counts[full] == 0
        assert max(each) - min(each) <= 1
    assert counts.total() == sum(sizes)


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
@example(high={1, 2, 3, 4, 5, 6}, sizes=[1, 1, 16])  # a turn was lost though no other target was better
def test_a_full_target_is_skipped_while_another_has_capacity(high: set[int], sizes: list[int]) -> None:
    targets = [1, 2, 3, 4, 5, 6]
    grouping = prepare(ShuffleGrouping(), targets, is_high=lambda task: task in high)
    counts = split_all(grouping, sizes)
    open_targets = set(targets) - high or set(targets)
    assert set(counts) <= open_targets
    assert max(counts[t] for t in open_targets) - min(counts[t] for t in open_targets) <= 1


def test_a_target_with_capacity_again_takes_part_again() -> None:
    full = {2}
    grouping = prepare(ShuffleGrouping(), [1, 2, 3], is_high=lambda task: task in full)
    assert grouping.choose(("a", 1))[0] in (1, 3)
    assert 2 not in split_all(grouping, [1] * 10 + [100])
    full.clear()
    counts = split_all(grouping, [1] * 30)
    assert min(counts[task] for task in (1, 2, 3)) >= 9


KINDS = [ShuffleGrouping, NoneGrouping, LocalOrShuffleGrouping, LocalFirstGrouping, PartialKeyGrouping]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("values", [False, True])
@given(
    capacities=st.lists(st.integers(0, 40), min_size=2, max_size=6),
    sizes=st.lists(st.integers(1, 80), min_size=1, max_size=6),
    tracked=st.booleans(),
)
def test_a_deal_gives_no_target_more_than_its_free_capacity_and_the_rest_keeps_its_order(
    kind: Any, values: bool, capacities: list[int], sizes: list[int], tracked: bool
) -> None:
    """Nothing is lost or doubled, each target gets its rows in order, and what is left fits nowhere."""
    left = dict(enumerate(capacities, 1))
    make = (lambda: kind(["word"])) if kind is PartialKeyGrouping else kind
    fields = Fields("word") if values else None
    grouping = prepare(make(), left, local=[1, 2], same_node=[1, 2, 3], fields=fields)
    for size in sizes:
        rows = numbered(size)
        items = [row[0] for row in rows] if values else rows
        anchors = list(range(size)) if tracked else None
        deal = grouping.deal_values if values else grouping.deal
        shares, rest = deal(items, anchors, left.__getitem__)
        places: dict[Any, int] = {item: place for place, item in enumerate(items)}
        found = [places[item] for _, share, _ in shares for item in share]
        assert len({target for target, _, _ in shares}) == len(shares)
        for target, share, share_anchors in shares:
            assert 0 < len(share) <= left[target]
            left[target] -= len(share)
            order = [places[item] for item in share]
            assert order == sorted(order)
            assert share_anchors is None if anchors is None else list(share_anchors or ()) == order
        if rest is not None:
            assert len(rest.rows) > 0
            order = [places[item] for item in rest.rows]
            found += order
            assert order == sorted(order)
            assert rest.anchors is None if anchors is None else list(rest.anchors or ()) == order
            if rest.choices is None:
                assert order == list(range(size - len(order), size))
                assert kind is LocalFirstGrouping or not any(left[target] for target in grouping.targets)
            else:
                assert not any(left[target] for choice in rest.choices for target in choice)
        assert sorted(found) == list(range(size))


def test_a_shuffle_fills_targets_with_capacity_completely() -> None:
    grouping = prepare(ShuffleGrouping(), [1, 2, 3])
    capacities = {1: 5, 2: 0, 3: 100}
    shares, rest = grouping.deal(numbered(60), None, capacities.__getitem__)
    assert {target: len(rows) for target, rows, _ in shares} == {1: 5, 3: 55}
    assert rest is None
    shares, rest = grouping.deal(numbered(200), None, capacities.__getitem__)
    assert {target: len(rows) for target, rows, _ in shares} == {1: 5, 3: 100}
    assert rest.rows == numbered(200)[105:]


def test_local_first_takes_the_nearest_ring_and_then_the_next() -> None:
    grouping = prepare(LocalFirstGrouping(), range(1, 7), local=[1, 2], same_node=[1, 2, 3, 4])
    capacities = dict.fromkeys(range(1, 7), 10)
    found = []
    rest: Any = numbered(50)
    while rest:
        shares, left = grouping.deal(rest, None, capacities.__getitem__)
        found.append({target for target, _, _ in shares})
        for target, share, _ in shares:
            capacities[target] -= len(share)
        rest = None if left is None else left.rows
    assert found == [{1, 2}, {3, 4}, {5, 6}]


def test_partial_key_takes_the_other_candidate_when_the_less_used_is_full() -> None:
    grouping = prepare(PartialKeyGrouping(["word"]), [1, 2, 3])
    first, second = (grouping.choose(("a", 1))[0], grouping.choose(("a", 1))[0])
    assert first != second
    shares, rest = grouping.deal([("a", n) for n in range(9)], None, lambda task: 7 if task == second else 0)
    assert [(target, len(rows)) for target, rows, _ in shares] == [(second, 7)]
    assert [n for _, n in rest.rows] == [7, 8]
    assert {frozenset(choice) for choice in rest.choices} == {frozenset((first, second))}
    grouping.on_taken(first, 2)
    assert (grouping.used[first], grouping.used[second]) == (3, 8)


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
    full |= {5, 6}  # all targets are full: none is skipped
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


def test_many_emitters_to_many_targets_share_one_table_of_orders_and_draw_for_themselves() -> None:
    shared: dict[Any, Any] = {}
    groupings = []
    for seed in range(20):
        grouping = ShuffleGrouping()
        context = GroupingContext("c", seed, "b", Fields("n"), random.Random(seed), shared=shared)
        grouping.prepare(context, StreamId("c", "default"), range(200))
        groupings.append(grouping)
    assert len(shared) == 2, "memory and start grow with the targets, not with the pairs"  # the table, and the targets
    assert len({id(grouping.targets) for grouping in groupings}) == 1
    rounds = [tuple(grouping.choose((number,))[0] for number in range(200)) for grouping in groupings]
    assert all(sorted(once) == list(range(200)) for once in rounds)
    assert len(set(rounds)) > 10


def test_only_a_shuffle_over_one_target_knows_the_target_of_all_rows() -> None:
    assert prepare(ShuffleGrouping(), [7]).only_target() == 7
    assert prepare(ShuffleGrouping(), [7, 8]).only_target() is None
    assert prepare(NoneGrouping(), [7]).only_target() is None


@pytest.mark.parametrize("kind", [ShuffleGrouping, NoneGrouping, LocalFirstGrouping])
def test_one_target_takes_what_fits_and_the_rest_waits(kind: Any) -> None:
    grouping = prepare(kind(), [7])
    rows, anchors = numbered(5), list("abcde")
    assert grouping.deal([], [], plenty) == ([], None)
    for capacity in range(7):
        shares, rest = grouping.deal(rows, anchors, lambda _, most=capacity: most)
        took = min(capacity, 5)
        assert [(target, list(share), list(given)) for target, share, given in shares] == (
            [(7, rows[:took], anchors[:took])] if took else []
        )
        assert (rest is None) == (took == 5)
        assert rest is None or (list(rest.rows), list(rest.anchors)) == (rows[took:], anchors[took:])
    assert grouping.place(plenty) == 7
    assert grouping.place(lambda _: 0) is None
    if kind is NoneGrouping:
        assert grouping.deal(rows, None, lambda _: 5)[0][0][1] is rows, "nothing is copied"


def test_none_draws_each_target_equally_often_though_some_fill_up() -> None:
    grouping = prepare(NoneGrouping(), [1, 2, 3])
    capacities = {1: 10, 2: 2000, 3: 2000}
    shares, rest = grouping.deal(numbered(2000), None, capacities.__getitem__)
    counts = {target: len(share) for target, share, _ in shares}
    assert rest is None
    assert counts[1] == 10
    assert counts[2] == pytest.approx(995, abs=100)


def test_partial_key_gives_each_key_its_two_candidates_when_all_are_nearly_full() -> None:
    """Row by row against the rule: the less used candidate with free capacity, a tie to the first."""
    for capacity in range(6):
        grouping = prepare(PartialKeyGrouping(["word"]), range(1, 6))
        rows = numbered(20)
        left, used = dict.fromkeys(range(1, 6), capacity), dict.fromkeys(range(1, 6), 0)
        expected: dict[Any, int] = {}
        waiting = []
        for row, (first, second) in zip(rows, grouping._lookup(rows), strict=True):
            in_turn = sorted((first, second), key=lambda target: used[target])
            target = next((target for target in in_turn if left[target]), None)
            if target is None:
                waiting.append((row, (first, second)))
            else:
                expected[row] = target
                left[target] -= 1
                used[target] += 1
        shares, rest = grouping.deal(rows, list(range(20)), lambda _, most=capacity: most)
        assert {row: target for target, share, _ in shares for row in share} == expected
        assert all([row[1] for row in share] == list(given) for _, share, given in shares)
        assert grouping.used == used
        assert waiting == [] if rest is None else list(zip(rest.rows, rest.choices, strict=True)) == waiting
        assert rest is None or list(rest.anchors) == [row[1] for row, _ in waiting]


def test_partial_key_over_one_target_waits_for_it() -> None:
    grouping = prepare(PartialKeyGrouping(["word"]), [7])
    rows = numbered(5)
    assert grouping.deal(rows, None, lambda _: 5) == ([(7, rows, None)], None)
    shares, rest = grouping.deal(rows, None, lambda _: 2)
    assert shares == [(7, rows[:2], None)]
    assert (rest.rows, rest.choices) == (rows[2:], [(7, 7)] * 3)
    assert grouping.deal([], None, plenty) == ([], None)


def test_local_first_counts_a_place_for_a_single_row_as_free() -> None:
    grouping = prepare(LocalFirstGrouping(), range(1, 7), local=[1, 2], same_node=[1, 2, 3, 4])
    free = {1: 0, 2: 1, 3: 1, 4: 0, 5: 9, 6: 9}
    places = []
    for _ in range(3):
        place = grouping.place(free.__getitem__)
        shares, _ = grouping.deal([("a", 1)], None, free.__getitem__)
        assert [target for target, _, _ in shares] == [place] or place > 4
        free[place] -= 1
        places.append(place)
    assert places[:2] == [2, 3]
    assert places[2] in (5, 6)
    assert grouping.place(lambda _: 0) is None
