"""Detached rows: a segment leaves its tree, in pure machines; then in a world of them, in any order, with losses."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from aiostorm.acker import Acks, IdSource, is_single_root, shared_root, single_root
from aiostorm.actors import Mailbox
from aiostorm.metrics import TaskCounters
from aiostorm.tasks.emit.ack_batch import AckBatch
from aiostorm.tasks.emit.detached import MAX_DETACHED, Detached, can_detach, detach_rows
from aiostorm.tasks.emit.lineage import lineage_of, mark_done
from aiostorm.topology import Fields, Lineage, Origin, RepeatedAnchor, Segment

from ..tries import examples
from .detached_world import World
from .parts import tracer

ORIGIN = Origin("spout", 1, "default", Fields("n"))
ALONE = single_root(77)


def ids(seed: int = 1) -> IdSource:
    return IdSource(random.Random(seed).randbytes)


def settled(books: AckBatch, segment: Segment, offset: int) -> None:
    assert mark_done(segment, offset)
    books.settled(segment, offset)


@settings(max_examples=examples(600), deadline=None)
@given(seed=st.integers(0, 2**32), steps=st.integers(10, 400))
def test_without_losses_every_message_is_settled_once_and_by_no_timeout(seed: int, steps: int) -> None:
    World(seed, harm=False).run(steps)


@settings(max_examples=examples(900), deadline=None)
@given(seed=st.integers(0, 2**32), steps=st.integers(10, 400))
def test_lost_repeated_and_late_messages_make_no_false_ack(seed: int, steps: int) -> None:
    World(seed, harm=True).run(steps)


@given(root=st.integers(1, 2**64 - 1), drawn=st.integers(1, 2**64 - 1), ackers=st.integers(1, 9))
def test_a_root_says_whether_its_tree_is_of_one_message_and_has_the_acker_of_another(
    root: int, drawn: int, ackers: int
) -> None:
    assert is_single_root(single_root(root))
    assert not is_single_root(shared_root(root))
    made = single_root(drawn, root, ackers)
    assert is_single_root(made)
    assert made < 2**64
    assert made % ackers == root % ackers or ackers == 1


def test_the_held_rows_of_a_segment_go_on_in_sub_trees() -> None:
    segment = Segment(ORIGIN, [1, 2, 3, 4], root=7, edge=100, indices=[0, 1, 1, 2])
    mark_done(segment, 0)
    detached = detach_rows(segment, ids(), 3)
    assert detached.done == {7: 100}
    assert [(root, index, sub % 3) for root, index, sub, _ in detached.sub_trees] == [(7, 1, 1), (7, 2, 1)]
    one, two = [sub for _, _, sub, _ in detached.sub_trees]
    assert [segment.pairs_of(offset) for offset in range(4)] == [(), ((one, 1),), ((one, 1),), ((two, 2),)]
    assert segment.lineage is not None
    assert segment.lineage.edges == {sub: edge for _, _, sub, edge in detached.sub_trees}
    assert lineage_of(segment.tuple_at(3)) == (two, 2)
    assert lineage_of(segment.tuple_at(0))[0] == 0, "a child of an acked row is untracked"
    assert not can_detach(segment), "sub-trees are not split again"
    untouched = Segment(ORIGIN, [1, 2], root=7, edge=100, indices=[0, 1])
    detach_rows(untouched, ids(), 3)
    assert untouched.done == bytearray(2), "from here on each row is settled by itself"


def test_a_tree_of_one_message_is_never_split() -> None:
    segment = Segment(ORIGIN, [1], root=ALONE, edge=100, indices=[0])
    assert not can_detach(segment)
    assert not can_detach(Segment(ORIGIN, [1])), "untracked"
    both = Segment(ORIGIN, [1, 2], lineage=Lineage({7: 1, ALONE: 2}, [((7, 3), (ALONE, 0)), ((7, 4),)]))
    assert can_detach(both)
    detached = detach_rows(both, ids(), 1)
    assert detached.done == {7: 1}
    assert [(root, index) for root, index, _, _ in detached.sub_trees] == [(7, 3), (7, 4)]
    lineage = both.lineage
    assert isinstance(lineage, Detached)
    assert lineage.edges[ALONE] == 2
    assert lineage.left[ALONE] == 1


async def test_trees_of_one_message_do_not_wait_for_each_others_rows() -> None:
    """What a bolt made of rows that were detached: each row has its own tree already."""
    books, box = ack_batch()
    one, two, three = (single_root(number) for number in (1, 2, 3))
    segment = Segment(
        ORIGIN, "abc", lineage=Lineage({one: 1, two: 2, three: 4}, [((one, 0),), ((two, 1),), ((three, 2),)])
    )
    books.withhold(segment)
    settled(books, segment, 0)
    books.post()
    assert sent_to(box) == [], "rows 1 and 2 are held"
    assert books.detach(segment, ids())
    books.post()
    assert sent_to(box) == [({one: 1}, [])]
    assert not can_detach(segment)
    settled(books, segment, 2)
    books.post()
    assert sent_to(box) == [({three: 4}, [])], "row 1 is still held, or forgotten"


def test_what_cannot_wait_for_another_row_stays() -> None:
    one, two = single_root(1), single_root(2)
    assert not can_detach(Segment(ORIGIN, [1, 2], lineage=Lineage({one: 1}, [((one, 0),), ((one, 0),)])))
    columns = RepeatedAnchor(((one, 0), (two, 0)), 2)
    assert not can_detach(Segment(ORIGIN, [1, 2], lineage=Lineage({one: 1, two: 2}, columns)))


def test_a_batch_of_columns_is_one_message() -> None:
    segment = Segment(ORIGIN, [1, 2, 3], root=7, edge=100, indices=RepeatedAnchor(5, 3))
    detached = detach_rows(segment, ids(), 1)
    [(root, index, sub, edge)] = detached.sub_trees
    assert (root, index) == (7, 5)
    assert segment.messages == ((sub, 5),)
    lineage = segment.lineage
    assert isinstance(lineage, Detached)
    assert [lineage.settle_row(offset) for offset in range(3)] == [[], [], [(sub, edge)]]


def ack_batch() -> tuple[AckBatch, Mailbox]:
    box = Mailbox(10)
    return AckBatch([box], TaskCounters(), tracer()), box


def sent_to(box: Mailbox) -> list[Any]:
    found = []
    while box.has_control:
        acks = box.take_control()
        assert isinstance(acks, Acks)
        found.append((dict(acks.items), [row[:2] for row in acks.detached or ()]))
    return found


async def test_the_edge_and_the_sub_trees_are_sent_in_one_message() -> None:
    books, box = ack_batch()
    segment = Segment(ORIGIN, [1, 2], root=7, edge=100, indices=[0, 1])
    books.withhold(segment)
    books.xors[7] = 0b1  # made of a row of it
    settled(books, segment, 0)
    books.post()
    assert sent_to(box) == []
    assert books.detach(segment, ids())
    books.post()
    assert sent_to(box) == [({7: 101}, [(7, 1)])]
    assert segment.lineage is not None
    [(sub, edge)] = segment.lineage.edges.items()
    books.xors[sub] = 0b10  # made of the row that is held
    books.post()
    assert sent_to(box) == [], "the edge of the sub-tree is open"
    settled(books, segment, 1)
    books.post()
    assert sent_to(box) == [({sub: edge ^ 0b10}, [])]
    books.withhold(segment)
    assert not books._open
    assert not books._held


async def test_a_detached_row_waits_for_other_open_segments_of_its_root() -> None:
    books, box = ack_batch()
    first = Segment(ORIGIN, [1], root=7, edge=1, indices=[0])
    second = Segment(ORIGIN, [1], root=7, edge=2, indices=[1])
    books.withhold(first)
    books.withhold(second)
    books.detach(first, ids())
    books.post()
    assert sent_to(box) == []
    books.detach(second, ids(2))
    books.post()
    assert sent_to(box) == [({7: 3}, [(7, 0), (7, 1)])]


async def test_more_than_a_message_holds_stays() -> None:
    books, box = ack_batch()
    count = MAX_DETACHED // 2 + 1
    first, second = [Segment(ORIGIN, [0] * count, root=n, edge=n, indices=range(count)) for n in (7, 8)]
    assert books.detach(first, ids())
    assert not books.detach(second, ids())
    books.post()
    assert len(sent_to(box)[0][1]) == count
    assert books.detach(second, ids())
