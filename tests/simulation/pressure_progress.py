"""Progress in the world of pressure: while one task can work, something is done within STILL_S, faults or not.

It looks at tasks as they are. No tuple and no ack is ever lost there, and what a death fails is offered again; so there
is no time at which nothing is asked for. What may stand still is said of each task:

1. A bolt task that has rows, executes none and does not wait for room, begins one.
2. Who waits for room, waits for a task that has rows: what was parked for one that has none is taken.
3. A spout that has something to emit, may have more messages open, waits for no room and is not paced, emits. If it is
   paced, it does so within its wait; if its `next_tuple` sleeps, that is not longer than until a tuple is due.
4. If something is open and no task executes a row, something is done: no circle of tasks waits for each other, and what
   was executed is acked.

So a bolt that hangs may keep its own rows, those that wait for it, and a spout whose messages they are; nothing else.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any

from aiostorm.tasks import BoltTask, SpoutTask

from .pressure_scene import Scene
from .progress import STILL_S

Standing = tuple[Hashable, Any, float, str]
"""Who could work, what changes when it does, for how long it may do nothing, and what is wrong then."""


class PressureProgress:
    """Of one running topology."""

    def __init__(self, scene: Scene, spouts: list[SpoutTask], bolts: list[BoltTask], interval_s: float) -> None:
        self.scene, self.spouts, self.bolts, self.interval_s = scene, spouts, bolts, interval_s
        self.world = scene.world
        self._task_of = {bolt.task.task_id: bolt for bolt in bolts}
        self._since: dict[Hashable, tuple[Any, float]] = {}

    def look(self) -> None:
        """Does one stand that could work?"""
        now_s, before, self._since = self.world.now_s, self._since, {}
        for who, mark, most_s, text in (*self._bolts(), *self._parked(), *self._spouts(), *self._all()):
            known = before.get(who)
            since_s = known[1] if known is not None and known[0] == mark else now_s
            if now_s - since_s > most_s:
                self.world.problem(f"{text}, and nothing is done for {now_s - since_s:.1f} s")
                since_s = now_s
            self._since[who] = mark, since_s

    def _bolts(self) -> Iterator[Standing]:
        for bolt in self.bolts:
            if _has_rows(bolt) and not (bolt._working or bolt.outbox.blocked):
                mark = (bolt.counters.executed, bolt.counters.restarts)
                yield ("bolt", bolt.task.task_id), mark, STILL_S, f"{_name(bolt)} has rows to execute"

    def _parked(self) -> Iterator[Standing]:
        for task in (*self.spouts, *self.bolts):
            if not task.outbox.blocked:
                continue
            for target, outlet in task.outbox.outlets.items():
                bolt = self._task_of.get(target)
                if bolt is not None and outlet._parked and not (_has_rows(bolt) or bolt._working):
                    text = f"{_name(task)} waits for {_name(bolt)}, which has no rows"
                    yield ("parked", task.task.task_id, target), bolt.counters.executed, STILL_S, text

    def _spouts(self) -> Iterator[Standing]:
        for spout in self.spouts:
            demand = self.scene.demands[spout.task.component]
            if not (demand.waiting and spout._mouth is not None and spout._may_emit()):
                continue
            most_s = STILL_S + spout.pace.pacer.wait_s + 1.0 / demand.rate + self.interval_s
            text = f"{_name(spout)} has {demand.waiting} tuples to emit"
            yield ("spout", spout.task.task_id), demand.emitted, most_s, text

    def _all(self) -> Iterator[Standing]:
        demands = self.scene.demands.values()
        is_open = sum(len(demand.open) for demand in demands)
        if is_open and not any(bolt._working for bolt in self.bolts):
            done = sum(task.counters.restarts for task in (*self.spouts, *self.bolts)) + self.scene.executed
            mark = done, sum(demand.emitted for demand in demands), is_open
            yield "all", mark, STILL_S, f"{is_open} messages are open, and no task works"


def _has_rows(bolt: BoltTask) -> bool:
    return bool(bolt._inbox or bolt._box.has_data)


def _name(task: SpoutTask | BoltTask) -> str:
    return f"{task.task.component}[{task.task.task_id}]"
