"""Tracing: what a task keeps of the trees that are sampled, and which segments, sub-trees and replays are."""

from __future__ import annotations

import random
from itertools import count

import pytest

from aiostorm.acker import IdSource
from aiostorm.metrics import EMITTED, HANDLED, MAX_TEXT_CHARS, SETTLED, SPLIT, SpanRing, mask_of
from aiostorm.tasks.emit.tracing import MAX_FAILED, MAX_STREAM_CHARS, TaskTracer
from aiostorm.topology import Fields, Lineage, Origin, Segment

MASK = mask_of(1024)
SAMPLED, OTHER, PLAIN = 7 | MASK, 8 | MASK, 9
ORIGIN = Origin("spout", 3, "s" * (MAX_STREAM_CHARS + 1), Fields("n"))


def tracer() -> tuple[TaskTracer, SpanRing]:
    """Of task 5. Its stopwatch says 1.0, 2.0, …; the time is 1000."""
    ring, times = SpanRing(), count(1)
    return TaskTracer(ring, MASK, 5, lambda: float(next(times)), lambda: 1000.0), ring


def segment(*roots: int, sent_s: float = 0.0) -> Segment:
    if len(roots) == 1:
        made = Segment(ORIGIN, [1, 2], root=roots[0], edge=50)
    else:
        made = Segment(ORIGIN, [1, 2], lineage=Lineage({root: 50 + i for i, root in enumerate(roots)}, [()]))
    made.sent_s = sent_s
    return made


def test_a_handled_segment_is_kept_once_for_each_sampled_root() -> None:
    found, ring = tracer()
    handled = segment(SAMPLED, PLAIN, OTHER, sent_s=0.25)
    found.begun(handled, 0.5)
    found.begun(handled, 0.75)
    assert found.roots == {SAMPLED: 1, OTHER: 1}
    assert not found.finished
    found.done(handled)
    stream = "s" * MAX_STREAM_CHARS
    assert ring.rows() == [
        (HANDLED, SAMPLED, 50, 5, 3, stream, 0.25, 0.5, 1.0, 2),
        (HANDLED, OTHER, 52, 5, 3, stream, 0.25, 0.5, 1.0, 2),
    ]
    assert found.finished
    assert found.roots == {SAMPLED: 0, OTHER: 0}, "until what was made of them is sent"
    found.sent()
    assert (found.roots, found.finished) == ({}, False)


def test_when_it_was_sent_is_when_it_began_if_that_is_not_known() -> None:
    found, ring = tracer()
    handled = segment(SAMPLED)
    found.begun(handled, 0.5)
    found.done(handled)
    [row] = ring.rows()
    assert row[6:9] == (0.5, 0.5, 1.0)
    found.done(segment(SAMPLED))
    assert len(ring.rows()) == 1, "never begun: it was lost"
    found.begun(segment(0), 0.5)
    assert found.roots == {SAMPLED: 0}, "untracked"


def test_a_tree_is_in_hand_until_the_last_of_its_segments_is_done() -> None:
    found, _ = tracer()
    one, two = segment(SAMPLED), segment(SAMPLED)
    found.begun(one, 0.0)
    found.begun(two, 0.0)
    found.done(one)
    found.sent()
    assert found.roots == {SAMPLED: 1}


@pytest.mark.parametrize(
    ("roots", "traced"), [((SAMPLED,), True), ((OTHER,), False), ((PLAIN, SAMPLED), True), ((PLAIN, OTHER), False)]
)
def test_a_segment_that_is_made_of_a_tree_in_hand_is_sampled(roots: tuple[int, ...], traced: bool) -> None:
    found, _ = tracer()
    found.begun(segment(SAMPLED), 0.0)
    made = segment(*roots)
    made.traced = not traced
    found.mark(made)
    assert made.traced == traced


def test_rows_that_leave_a_sampled_tree_are_of_it() -> None:
    found, ring = tracer()
    handled, sub = segment(SAMPLED, PLAIN), 70 | MASK
    ids = found.marked_ids(IdSource(random.Random(1).randbytes))
    assert all(ids.take() & MASK == MASK for _ in range(20))
    assert len({ids.take() for _ in range(20)}) == 20
    found.begun(handled, 0.5)
    found.detached(handled, [(SAMPLED, 0, sub, 5), (PLAIN, 1, 71, 6)])
    assert ring.rows() == [(SPLIT, SAMPLED, sub)]
    assert found.roots == {SAMPLED: 1, sub: 1}
    found.done(handled)
    assert [row[:3] for row in ring.rows()[1:]] == [(HANDLED, SAMPLED, 50)], "no edge of the sub-tree was handled"
    found.sent()
    assert found.roots == {}
    found.detached(segment(SAMPLED), [(SAMPLED, 0, sub, 5)])
    assert len(ring.rows()) == 3
    assert found.roots == {}, "it was not in hand"


def test_the_next_trees_are_sampled_if_they_are_wanted() -> None:
    found, ring = tracer()
    found.wanted = 2
    assert [found.chosen(root, ["a"], 0) for root in (1, 2, 3)] == [1 | MASK, 2 | MASK, 3]
    assert found.wanted == 0
    found.emitted(1 | MASK, ["a", "b"], 0)
    assert ring.rows() == [(EMITTED, 1 | MASK, 5, 1.0, 1000.0, 2, 0, 0, "")]
    found.sent()
    assert found.roots == {}


def test_a_message_that_failed_is_sampled_again_and_names_the_tree_before() -> None:
    found, ring = tracer()
    found.failed(SAMPLED, "a", "x" * (MAX_TEXT_CHARS + 1))
    assert ring.rows() == [(SETTLED, SAMPLED, 5, 1.0, 1, "failed", "x" * MAX_TEXT_CHARS)]
    assert found.chosen(1, ["b", "a"], 1) == 1, "the message is the first"
    assert found.chosen(1, ["a"], 0) == 1, "another message with the same id"
    assert found.chosen(1, ["a"], 1) == 1 | MASK
    found.emitted(1 | MASK, ["a"], 1)
    found.emitted(2 | MASK, ["a"], 2)
    assert [row[6:] for row in ring.rows()[1:]] == [(1, SAMPLED, ""), (2, 0, "")]
    assert found.chosen(3, ["a"], 3) == 3
    found.settled(2 | MASK, 4, "acked")
    assert ring.rows()[-1] == (SETTLED, 2 | MASK, 5, 4.0, 4, "acked", "")


def test_so_many_failed_messages_are_known_the_last_ones() -> None:
    found, _ = tracer()
    for message in range(MAX_FAILED + 1):
        found.failed(SAMPLED, message, "")
    replayed = [found.chosen(1, [message], 1) == 1 | MASK for message in (0, 1, MAX_FAILED)]
    assert replayed == [False, True, True]


CONTEXT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_a_tree_of_a_sampled_context_is_sampled_and_keeps_it_until_it_is_acked() -> None:
    found, ring = tracer()
    assert found.chosen(1, ["a"], 0, CONTEXT) == 1 | MASK
    assert found.chosen(1, ["a"], 0, CONTEXT[:-1] + "0") == 1
    found.emitted(1 | MASK, ["a"], 0, CONTEXT)
    made = segment(1 | MASK)
    found.mark(made)
    assert (made.traced, ring.rows()[-1][-1]) == (CONTEXT, CONTEXT)
    found.sent()
    found.failed(1 | MASK, "a", "refused")
    found.emitted(2 | MASK, ["a"], 1)
    assert ring.rows()[-1][-2:] == (1 | MASK, CONTEXT)
    found.settled(2 | MASK, 1, "acked")
    found.failed(2 | MASK, "a", "late")
    found.emitted(3 | MASK, ["a"], 2)
    assert ring.rows()[-1][-1] == ""


def test_of_so_many_trees_the_context_is_kept() -> None:
    found, ring = tracer()
    roots = [number | MASK for number in range(MAX_FAILED + 1)]
    for root in roots:
        found.emitted(root, ["a"], 0, CONTEXT)
        found.sent()
    for root, kept in ((roots[0], ""), (roots[1], CONTEXT)):
        found.failed(root, "a", "")
        found.emitted(root, ["a"], 1)
        assert ring.rows()[-1][-1] == kept


def test_rows_of_several_trees_have_the_context_that_all_of_them_have() -> None:
    found, _ = tracer()
    other = CONTEXT.replace("3331", "3332")
    for number, context in enumerate((CONTEXT, CONTEXT, other, "")):
        found.emitted(number | MASK, ["a"], 0, context)

    def marked(*numbers: int) -> bool | str:
        made = Segment(ORIGIN, [1], lineage=Lineage({number | MASK: 7 for number in numbers}, [()]))
        found.mark(made)
        return made.traced

    assert (marked(0, 1), marked(0, 2), marked(0, 3), marked(9)) == (CONTEXT, True, True, False)
