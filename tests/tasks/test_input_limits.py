"""InputLimits: a task that is fast is looked at now and then, one that is slow or held up at each turn."""

from __future__ import annotations

from typing import Any

from aiostorm.actors.lanes import Lanes
from aiostorm.backpressure import Settings
from aiostorm.tasks.emit.outbox import Outbox
from aiostorm.tasks.turn_limits import MEASURE_S, InputLimits, Portions
from aiostorm.topology import Config


class Rig:
    """A bolt task with a mailbox of 1,024, whose turns are as long as one says."""

    def __init__(self, target_s: float = 0.2) -> None:
        self.now_s = 0.0
        self.looks = 0
        self.box: Any = Lanes(1024)
        self.outbox = Outbox(lambda: None, lambda *_: None, lambda: 1, lambda *_: [], lambda _: self.box)
        config = Config()
        portions = Portions(self.outbox, lambda: self.now_s, config.turn_max_tuples, target_s)
        self.limits = InputLimits(self.box, portions, config, target_s)
        self.limits.use_batches(batches=False)

    def turn(self, row_s: float) -> int:
        """As BoltTask does it. How many rows were in it."""
        limits = self.limits
        rows = limits.known or limits.rows()
        limits.executed += rows
        limits.work_s += rows * row_s
        if limits.work_s >= limits.due_s:
            self.looks += 1
            limits.measure()
        if self.outbox.blocked or rows >= limits.notable:
            limits.turn_sent(rows)
        return rows


def test_a_fast_task_has_its_whole_mailbox_and_is_looked_at_now_and_then() -> None:
    rig = Rig()
    assert [rig.turn(1e-6) for _ in range(8)] == [16, 32, 64, 128, 256, 256, 256, 256]
    assert rig.box.gate.limit == 1024
    assert rig.limits.known == 256
    rig.looks = 0
    for _ in range(100):
        rig.turn(1e-6)
    assert rig.looks == int(100 * 256e-6 / MEASURE_S)
    assert 0.9e-6 < rig.box.reader.row_s < 1.1e-6


def test_a_task_that_becomes_slow_is_seen_in_the_turn_in_which_it_does() -> None:
    rig = Rig()
    for _ in range(8):
        rig.turn(1e-6)
    rig.turn(0.01)
    rig.turn(0.01)
    assert rig.box.gate.limit < 100
    assert rig.limits.known == 0
    assert rig.limits.rows() < 16


def test_a_task_that_begins_to_wait_for_capacity_gets_small_portions_at_once() -> None:
    rig = Rig()
    for _ in range(80):
        rig.turn(1e-6)
    rig.outbox.blocks()
    rig.turn(1e-6)
    assert rig.box.gate.limit == 16
    assert rig.limits.known == 0


def slow(target_s: float = 0.2) -> Rig:
    """A task that takes 1/128 s for a row."""
    rig = Rig(target_s)
    for _ in range(30):
        rig.turn(1 / 128)
    return rig


def test_another_target_changes_the_limit_at_once() -> None:
    rig = slow()
    assert rig.box.gate.limit == 25
    rig.limits.update(Settings(target_s=0.4))
    assert rig.box.gate.limit == 51
    rig.limits.update(Settings(target_s=0.0))
    assert rig.box.gate.limit == 1024
    assert rig.limits.known == 0
    assert rig.limits.rows() == 256, "without a target a turn is as large as it may be"


def test_a_turn_has_as_many_rows_as_fit_into_its_time_and_at_least_one() -> None:
    rig = Rig()
    for row_s, rows in ((0.0025, 4), (0.005, 2), (0.01, 1), (5.0, 1)):
        rig.box.reader.row_s = row_s
        assert rig.limits.rows() == rows
    rig.box.reader.row_s = 0.01 / 16
    assert rig.limits.rows() == 16, "just as long as a turn may be"


def test_a_bolt_that_takes_batches_gets_the_largest() -> None:
    rig = slow()
    assert rig.limits.rows() == 1
    rig.limits.use_batches(batches=True)
    assert rig.limits.known == 0
    assert rig.limits.rows() == 256
    rig.limits.use_batches(batches=False)
    assert rig.limits.rows() == 1


def test_a_measurement_takes_in_the_turns_since_the_one_before() -> None:
    rig = Rig()
    limits = rig.limits
    limits.measure()
    assert rig.box.reader.row_s == 0.0, "nothing was executed"
    limits.executed, limits.work_s = 10, 0.02
    limits.measure()
    assert (limits.executed, limits.work_s, rig.box.reader.row_s) == (0, 0.0, 0.002)
    limits.measure()
    assert rig.box.reader.row_s == 0.002


def test_the_time_that_it_was_held_up_counts_for_its_mailbox() -> None:
    rig = Rig()
    for _ in range(12):
        rig.limits.rows()
        rig.limits.executed, rig.limits.work_s = 10, 0.0
        rig.outbox.blocks()
        rig.limits.turn_sent(10)
        rig.now_s += 0.08
        rig.outbox.released()
        rig.limits.unblocked()
        rig.limits.rows()
        assert rig.limits.due_s == 0.0, "it is measured at the next turn"
        rig.limits.measure()
    assert rig.box.gate.limit == 25, "0.2 s at 0.008 s a row"
    assert rig.box.reader.row_s < 1e-6, "senders see the work alone"


def test_a_task_that_is_held_up_for_longer_than_the_target_accepts_no_more_rows() -> None:
    rig = Rig()
    for _ in range(8):
        rig.turn(1e-6)
    rig.outbox.blocks()
    rig.limits.turn_sent(1)
    assert rig.box.gate.limit == 16
    rig.limits.update(Settings(target_s=0.5))
    assert rig.box.gate.limit == 1024
    rig.now_s = 0.5
    rig.limits.check()
    assert rig.box.gate.limit == 1024, "not longer"
    rig.now_s = 0.6
    rig.limits.check()
    assert rig.box.gate.limit == 16
    rig.limits.update(Settings(target_s=0.0))
    rig.limits.check()
    assert rig.box.gate.limit == 1024


def test_when_the_next_measurement_is_due() -> None:
    rig = Rig()
    assert rig.limits.due_s == 0.0, "the mailbox has its first limit"
    for _ in range(8):
        rig.turn(1e-6)
    assert rig.limits.due_s == MEASURE_S
    assert slow().limits.due_s == 0.0
