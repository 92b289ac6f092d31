"""Lineage: the root and the anchor of a row, whatever its anchors are, and which rows are done."""

from __future__ import annotations

from typing import Any

import pytest

from aiostorm.tasks.emit.lineage import MANY, UNTRACKED, joined, lineage_of, mark_done, settle_all
from aiostorm.topology import EmitError, Fields, Lineage, Origin, Segment, TupleBatch

ORIGIN = Origin("spout", 1, "default", Fields("n"))


def rows(count: int, **given: Any) -> Segment:
    return Segment(ORIGIN, list(range(count)), **given)


def tracked(root: int, *indices: int) -> Segment:
    return rows(len(indices), root=root, edge=1, indices=list(indices))


def test_what_stands_for_a_root_is_none() -> None:
    assert (UNTRACKED, MANY) == (0, -1), "roots are above 0"


def test_a_row_is_settled_once() -> None:
    segment = tracked(7, 0, 1, 2)
    assert [mark_done(segment, 1), mark_done(segment, 1), mark_done(segment, 2)] == [True, False, True]
    assert (segment.done, segment.open) == (bytearray([0, 1, 1]), 1)


def test_all_rows_are_settled_at_once() -> None:
    segment = tracked(7, 0, 1, 2)
    assert settle_all(segment) == 3
    assert (segment.done, segment.open) == (bytearray([1, 1, 1]), 0)
    assert not any(mark_done(segment, offset) for offset in range(3))


def test_a_row_has_the_messages_of_its_anchors_each_once() -> None:
    one, other, untracked = tracked(7, 4, 5, 4), tracked(8, 4), rows(1)
    many = rows(2, lineage=Lineage({7: 1, 8: 2}, [((7, 4), (8, 4)), ((8, 4),)]))
    for anchors, expected in (
        (None, (UNTRACKED, None)),
        ((), (UNTRACKED, None)),
        (untracked.tuple_at(0), (UNTRACKED, None)),
        ([untracked.tuple_at(0)], (UNTRACKED, None)),
        (one.tuple_at(1), (7, 5)),
        ([one.tuple_at(0), one.tuple_at(2), untracked.tuple_at(0)], (7, 4)),
        ([one.tuple_at(0), other.tuple_at(0)], (MANY, ((7, 4), (8, 4)))),
        ((other.tuple_at(0), one.tuple_at(1)), (MANY, ((8, 4), (7, 5)))),
        (many.tuple_at(0), (MANY, ((7, 4), (8, 4)))),
        (many.tuple_at(1), (8, 4)),
        ([many.tuple_at(0), other.tuple_at(0)], (MANY, ((7, 4), (8, 4)))),
    ):
        assert lineage_of(anchors) == expected


def test_the_tuples_of_a_turn_are_anchors_together() -> None:
    one, other, untracked = tracked(7, 4, 5, 4), tracked(8, 4), rows(1)
    assert lineage_of(TupleBatch([one, untracked, other])) == (MANY, ((7, 4), (7, 5), (8, 4)))
    assert lineage_of(TupleBatch([untracked])) == (UNTRACKED, None)
    assert lineage_of(TupleBatch([other, untracked])) == (8, 4)


def test_an_anchor_is_a_tuple() -> None:
    wrong: Any = [tracked(7, 4).tuple_at(0), (1,)]
    with pytest.raises(EmitError, match=r"an anchor is a Tuple \(or a list of them\), not \(1,\)"):
        lineage_of(wrong)


def test_pairs_are_joined_in_their_order() -> None:
    assert joined([]) == (UNTRACKED, None)
    assert joined([(7, 1), (7, 1)]) == (7, 1)
    assert joined(iter([(8, 1), (7, 1), (8, 1)])) == (MANY, ((8, 1), (7, 1)))
