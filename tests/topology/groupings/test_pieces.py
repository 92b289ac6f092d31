"""Pieces: a shuffle deals about a millisecond of work at a time, evenly, and never beyond the free capacity."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiostorm.topology import LocalFirstGrouping, ShuffleGrouping
from aiostorm.topology.groupings.pieces import piece_size
from aiostorm.topology.groupings.shares import share_slices

from ..strategies import batch_sizes, check_shares, numbered, prepare, targets

ENDLESS = 1 << 40


def measured(grouping: Any, row_s: float) -> Any:
    """The grouping, whose targets work so long for a row."""
    grouping.context.row_s = lambda _: row_s
    return grouping


@pytest.mark.parametrize(
    ("row_s", "size"),
    [(0.0, 1), (1e-9, 1), (1e-8, 1), (1.1e-8, 256), (5e-6, 200), (1e-7, 256), (0.0004, 2), (0.001, 1), (0.5, 1)],
)
def test_a_piece_is_a_millisecond_of_work_and_one_row_where_none_is_known(row_s: float, size: int) -> None:
    assert piece_size((1, 2, 3), lambda _: row_s) == size


def test_one_slow_target_does_not_decide_for_all_of_them() -> None:
    times_s = {1: 1e-5, 2: 3.0, 3: 1e-5, 4: 0.0, 5: 1e-5}
    assert piece_size((1, 2, 3, 4, 5), times_s.__getitem__) == 100
    times_s = {1: 1.0, 2: 0.9e-4, 3: 0.9e-5, 4: 0.9e-6}
    found = [piece_size(range(4 - count + 1, 5), times_s.__getitem__) for count in (1, 2, 3, 4)]
    assert found == [256, 111, 111, 11], "of two in the middle the slower one"


@given(targets.filter(lambda found: len(found) > 1), st.integers(2, 30), batch_sizes, st.integers(0, 99))
def test_pieces_are_dealt_evenly_for_any_sizes_of_batches(
    targets: list[int], size: int, sizes: list[int], seed: int
) -> None:
    grouping = measured(prepare(ShuffleGrouping(), targets, seed=seed), 0.001 / (size + 0.5))
    order: list[int] = []

    def deal(count: int) -> None:
        rows = numbered(count)
        shares, rest = grouping.deal(rows, range(count), lambda _: ENDLESS)
        assert rest is None
        went = check_shares(shares, rows, range(count))
        order.extend(went[row][0] for row in rows)

    for count in sizes:
        deal(count)
    whole = size * len(targets)
    deal(-len(order) % whole)
    pieces = [order[at : at + size] for at in range(0, len(order), size)]
    assert all(len(set(piece)) == 1 for piece in pieces)
    for at in range(0, len(pieces), len(targets)):
        assert sorted(piece[0] for piece in pieces[at : at + len(targets)]) == sorted(targets)


@given(
    targets.filter(lambda found: len(found) > 1),
    st.sampled_from([1, 2, 7, 200]),
    st.lists(st.tuples(st.integers(1, 60), st.lists(st.integers(0, 40), min_size=9, max_size=9)), max_size=8),
)
def test_no_target_gets_more_than_its_free_capacity_and_only_rows_that_fit_nowhere_wait(
    targets: list[int], size: int, batches: list[tuple[int, list[int]]]
) -> None:
    grouping = measured(prepare(ShuffleGrouping(), targets), 0.001 / (size + 0.5))
    for count, given_capacities in batches:
        capacities = dict(zip(targets, given_capacities, strict=False))
        rows, anchors = numbered(count), list(range(count))
        shares, rest = grouping.deal(rows, anchors, capacities.__getitem__)
        dealt = Counter({target: len(share) for target, share, _ in shares})
        assert all([row[1] for row in share] == list(given) for _, share, given in shares)
        assert all(0 < dealt[target] <= capacities[target] for target in dealt)
        assert dealt.total() == min(count, sum(capacities.values()))
        assert (rest is None) == (dealt.total() == count)
        assert ([] if rest is None else list(rest.rows)) == rows[dealt.total() :]
        assert rest is None or list(rest.anchors) == anchors[dealt.total() :]
        untracked = grouping.deal(rows, None, lambda _: 0)[1]
        assert (untracked.rows, untracked.anchors) == (rows, None)


def test_a_round_that_was_begun_by_rows_ends_by_rows() -> None:
    grouping = prepare(ShuffleGrouping(), [1, 2, 3, 4])
    first = grouping.deal(numbered(1), None, lambda _: ENDLESS)[0]
    measured(grouping, 1e-5)
    rows = numbered(103)
    shares = grouping.deal(rows, None, lambda _: ENDLESS)[0]
    went = check_shares(shares, rows, None)
    order = [went[row][0] for row in rows]
    assert sorted([first[0][0], *order[:3]]) == [1, 2, 3, 4]
    assert len(set(order[3:])) == 1


@pytest.mark.parametrize("kind", [ShuffleGrouping, LocalFirstGrouping])
def test_batches_of_columns_are_dealt_one_by_one(kind: Any) -> None:
    grouping = prepare(kind(), [1, 2, 3], local=[1, 2, 3], same_node=[1, 2, 3])
    measured(grouping, 1e-6)
    for _ in range(4):
        assert sorted(grouping.place(lambda _: 1) for _ in range(3)) == [1, 2, 3]
    assert grouping.place(lambda _: 0) is None


def test_parts_are_joined_in_order_with_their_anchors() -> None:
    shares = share_slices({1: [slice(0, 2), slice(4, 6)], 2: [slice(2, 4)]}, "abcdef", range(6))
    assert shares == [(1, ["a", "b", "e", "f"], [0, 1, 4, 5]), (2, "cd", range(2, 4))]


def test_pieces_change_their_size_between_rounds_only() -> None:
    grouping = measured(prepare(ShuffleGrouping(), [1, 2]), 0.001 / 10.5)
    rows = numbered(40)
    first = grouping.deal(rows[:5], None, lambda _: ENDLESS)[0]
    measured(grouping, 0.001 / 3.5)
    went = check_shares(grouping.deal(rows[5:], None, lambda _: ENDLESS)[0], rows[5:], None)
    order = [first[0][0]] * 5 + [target for [target] in went.values()]
    assert len(set(order[:10])) == len(set(order[10:20])) == 1, "a round of tens"
    assert all(len(set(order[at : at + 3])) == 1 for at in range(20, 38, 3)), "then rounds of threes"
    assert all(order[at] != order[at + 3] for at in range(20, 36, 6))
    assert order[0] != order[10]


def test_a_piece_goes_to_another_target_if_its_own_is_full() -> None:
    grouping = measured(prepare(ShuffleGrouping(), [1, 2, 3]), 0.001 / 10.5)
    shares, rest = grouping.deal(numbered(60), None, {1: 4, 2: 0, 3: 100}.__getitem__)
    assert rest is None
    assert {target: len(share) for target, share, _ in shares} == {1: 4, 3: 56}


def test_single_rows_continue_a_piece_of_two() -> None:
    grouping = measured(prepare(ShuffleGrouping(), [1, 2, 3]), 0.001 / 2.5)
    order = [grouping.deal([("a", n)], None, lambda _: ENDLESS)[0][0][0] for n in range(12)]
    assert order[::2] == order[1::2]
    assert sorted(order[:6:2]) == sorted(order[6::2]) == [1, 2, 3]
