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
