"""Progress in the world of pressure: while one task can work, something is done within STILL_S, faults or not.

It looks at tasks as they are. No tuple and no ack is ever lost there, and what a death fails is offered again; so there
is no time at which nothing is asked for. What may stand still is said of each task:

1. A bolt task that has rows, executes none and does not wait for capacity, begins one.
2. A task that waits for capacity waits for a task that has rows: what was parked for one without rows is taken.
3. A spout that has something to emit, may have more messages open, is not blocked and is not paced, emits. If it is
   paced, it does so within its wait; if its `next_tuple` sleeps, that is not longer than until a tuple is due.
4. If something is open and no task executes a row, something is done: no circle of tasks waits for each other, and what
   was executed is acked.

So a bolt that hangs may keep its own rows, those that wait for it, and a spout whose messages they are; nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator

from aiostorm.tasks import BoltTask, SpoutTask

from ..progress import STILL_S
from ..stalls import Stall, StallWatch, bolts_with_rows, name_of, parked_for_nothing
from .scene import Scene


class PressureProgress:
    """Of one running topology."""

    def __init__(self, scene: Scene, spouts: list[SpoutTask], bolts: list[BoltTask], interval_s: float) -> None:
        self.scene, self.spouts, self.bolts, self.interval_s = scene, spouts, bolts, interval_s
        self._stalls = StallWatch(scene.world)
        self._task_of = {bolt.task.task_id: bolt for bolt in bolts}

    def look(self) -> None:
        """Does one stand that could work?"""
        parked = parked_for_nothing((*self.spouts, *self.bolts), self._task_of)
        self._stalls.look([*bolts_with_rows(self.bolts), *parked, *self._spouts(), *self._all()])

    def _spouts(self) -> Iterator[Stall]:
        for spout in self.spouts:
            demand = self.scene.demands[spout.task.component]
            if demand.waiting and spout.emit_loop.running is not None and spout.emit_loop.may_emit():
                most_s = STILL_S + spout.pace.pacer.wait_s + 1.0 / demand.rate + self.interval_s
                text = f"{name_of(spout)} has {demand.waiting} tuples to emit"
                yield ("spout", spout.task.task_id), demand.emitted, most_s, text

    def _all(self) -> Iterator[Stall]:
        demands = self.scene.demands.values()
        is_open = sum(len(demand.open) for demand in demands)
        if is_open and not any(bolt.execution.working for bolt in self.bolts):
            done = sum(task.counters.restarts for task in (*self.spouts, *self.bolts)) + self.scene.executed
            progress = done, sum(demand.emitted for demand in demands), is_open
            yield "all", progress, STILL_S, f"{is_open} messages are open, and no task works"
