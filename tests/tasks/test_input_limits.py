"""InputLimits: a task that is fast is looked at now and then, one that is slow or held up at each turn."""

from __future__ import annotations

from typing import Any

from aiostorm.actors.lanes import Lanes
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
