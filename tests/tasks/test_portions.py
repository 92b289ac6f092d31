"""Portions: a task is held up until nothing waits any more, whatever ends before."""

from __future__ import annotations

from typing import Any

from aiostorm.actors.lanes import Lanes
from aiostorm.tasks.emit.outbox import Outbox
from aiostorm.tasks.turn_limits import Portions
from aiostorm.topology import Fields, Origin, Segment

ORIGIN = Origin("spout", 1, "default", Fields("n"))


class Box(Lanes):
    """A mailbox in this worker."""

    pack: Any = None


class Rig:
    """A task that sends to two others, of which neither has free capacity after one segment."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.lost: list[Any] = []
        self.unblocks = 0
        self.boxes = [Box(4), Box(4)]
        outbox = Outbox(
            self.on_unblock,
            lambda segment, error: self.lost.append(segment),
            lambda: 1,
            lambda *_: [],
            self.boxes.__getitem__,
        )
        self.portions = Portions(outbox, lambda: self.now_s, 256, 1.0)
        for target in range(2):
            for _ in range(2):
                outbox.outlets[target].send(Segment(ORIGIN, [0] * 4))
        self.outbox = outbox

    def on_unblock(self) -> None:
        self.unblocks += 1
        self.portions.unblocked()


def test_a_target_that_ends_frees_no_task_that_waits_for_another() -> None:
    rig = Rig()
    assert rig.portions.sent(16)
    rig.now_s = 1.0
    rig.boxes[0].close()
    assert (len(rig.lost), rig.outbox.blocked, rig.unblocks) == (1, 1, 1)
    assert rig.portions.held_s == 1.0
    rig.now_s = 3.0
    rig.boxes[1].take_batch(100)
    assert (rig.outbox.blocked, rig.portions.held_s) == (0, 0.0)
    assert rig.portions.next()[1] == 3.0


def test_the_last_that_ends_frees_it_and_says_so_once() -> None:
    rig = Rig()
    rig.portions.sent(16)
    rig.now_s = 2.0
    rig.boxes[0].close()
    rig.boxes[1].close()
    assert (len(rig.lost), rig.outbox.blocked, rig.unblocks) == (2, 0, 2)
    assert rig.portions.next()[1] == 2.0


def test_portions_are_known_after_turns_reach_their_largest_size() -> None:
    rig = Rig()
    for box in rig.boxes:
        while box.has_data:
            box.take_batch(100)
    asked = []
    while rig.portions.known != 256 and len(asked) < 10:
        rows, held_s = rig.portions.next()
        asked.append(rows)
        assert held_s == 0.0
        if rows >= rig.portions.notable:
            assert not rig.portions.sent(rows)
    assert asked == [16, 32, 64, 128, 256]
    assert rig.portions.known == 256
    rig.outbox.blocks()
    assert rig.portions.sent(256)  # held up: from here on it is worked out again
    assert rig.portions.known == 0
    rig.portions.aim(1.0)
    rig.now_s = 10.0
    rig.outbox.released()
    rig.outbox.notify_unblocked()
    assert rig.portions.next() == (6, 10.0)
    assert rig.portions.known == 0


def test_a_turn_that_is_too_small_to_change_anything_need_not_be_reported() -> None:
    rig, reported = Rig(), Rig()
    for one in (rig, reported):
        for box in one.boxes:
            while box.has_data:
                box.take_batch(100)
    for rows in (1, 7, 8, 1, 15, 16, 40, 3, 64):
        most = rig.portions.known or rig.portions.next()[0]
        assert most == reported.portions.next()[0]
        reported.portions.sent(min(rows, most))
        if min(rows, most) >= rig.portions.notable:
            rig.portions.sent(min(rows, most))
    assert rig.portions.next() == reported.portions.next() == (256, 0.0)


def free() -> Rig:
    """Of which nothing waits."""
    rig = Rig()
    for box in rig.boxes:
        while box.has_data:
            box.take_batch(100)
    return rig


def held(rig: Rig, rows: int, for_s: float) -> tuple[int, float]:
    """After a turn of so many rows that was held up for so long."""
    rig.outbox.blocks()
    rig.portions.sent(rows)
    rig.now_s += for_s
    rig.outbox.released()
    rig.outbox.notify_unblocked()
    return rig.portions.next()


def test_it_is_held_up_since_the_first_turn_that_was() -> None:
    rig = free()
    assert (rig.portions.held_s, rig.portions.blocked_s) == (0.0, 0.0)
    rig.outbox.blocks()
    assert rig.portions.sent(1)
    rig.now_s = 0.5
    assert not rig.portions.sent(1), "it is already"
    rig.now_s = 2.0
    assert (rig.portions.held_s, rig.portions.blocked_s) == (2.0, 2.0)
    rig.outbox.released()
    rig.outbox.notify_unblocked()
    rig.now_s = 3.0
    assert (rig.portions.held_s, rig.portions.blocked_s) == (0.0, 2.0)
    rig.portions.unblocked()
    assert rig.portions.blocked_s == 2.0, "twice is once"
    rig.outbox.blocks()
    rig.portions.sent(1)
    rig.now_s = 4.5
    assert (rig.portions.held_s, rig.portions.blocked_s) == (1.5, 3.5)


def test_a_turn_is_judged_once_and_by_all_its_rows() -> None:
    rig = free()
    rig.outbox.blocks()
    rig.portions.sent(10)
    rig.portions.sent(6)
    rig.now_s = 0.5
    rig.outbox.released()
    rig.outbox.notify_unblocked()
    assert rig.portions.next() == (8, 0.5), "16 rows in half a second; a quarter of one is wanted"
    assert rig.portions.next() == (8, 0.0)
    assert rig.portions.known == 8


def test_without_rows_nothing_is_known_of_the_delay_of_rows() -> None:
    rig = free()
    assert held(rig, 0, 5.0) == (16, 5.0)


def test_another_target_counts_for_the_next_turn() -> None:
    rig = free()
    rig.portions.next()
    rig.portions.aim(4.0)
    assert (rig.portions.known, rig.portions.notable) == (0, 0)
    assert held(rig, 16, 1.0) == (16, 1.0), "a quarter of the target"
    assert held(rig, 16, 2.0) == (8, 2.0)
    rig.portions.aim(0.0)
    assert rig.portions.next() == (256, 0.0)
    assert held(rig, 256, 100.0) == (256, 100.0), "without a target any delay is right"
