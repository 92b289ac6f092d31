"""StallWatch: of tasks, as they are, which stand still though they could work. What worlds of a real TaskSet share.

A bolt that hangs, or takes long for a row, works; one that waits for capacity waits for another. So the only exceptions
are those that the world knows: a frozen process, for example.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any

from aiostorm.tasks import BoltTask, SpoutTask
from aiostorm.testing.simulation import World

from .progress import STILL_S

Stall = tuple[Hashable, Any, float, str]
"""What could work, what changes when it does, for how long it may do nothing, and the problem then."""


class StallWatch:
    """For how long each has done nothing. Each look gets those that could work at this moment."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._since: dict[Hashable, tuple[Any, float]] = {}

    def look(self, found: Iterable[Stall]) -> None:
        """Does one stand for too long?"""
        now_s, before, self._since = self.world.now_s, self._since, {}
        for key, progress, most_s, text in found:
            known = before.get(key)
            since_s = known[1] if known is not None and known[0] == progress else now_s
            if now_s - since_s > most_s:
                self.world.problem(f"{text}, and nothing is done for {now_s - since_s:.1f} s")
                since_s = now_s
            self._since[key] = progress, since_s


def bolts_with_rows(bolts: Iterable[BoltTask]) -> Iterator[Stall]:
    """A task that has rows, executes none and does not wait for capacity, begins one."""
    for bolt in bolts:
        if has_rows(bolt) and not (bolt.execution.working or bolt.outbox.blocked):
            progress = (bolt.counters.executed, bolt.counters.fired, bolt.counters.restarts)
            yield ("bolt", bolt.task.task_id), progress, STILL_S, f"{name_of(bolt)} has rows to execute"


def parked_for_nothing(tasks: Iterable[SpoutTask | BoltTask], bolts: Mapping[int, BoltTask]) -> Iterator[Stall]:
    """A task that waits for capacity waits for a task that has rows: what was parked for one without rows is taken."""
    for task in tasks:
        for target, outlet in task.outbox.outlets.items() if task.outbox.blocked else ():
            bolt = bolts.get(target)
            if bolt is not None and outlet.parked and not (has_rows(bolt) or bolt.execution.working):
                text = f"{name_of(task)} waits for {name_of(bolt)}, which has no rows"
                yield ("parked", task.task.task_id, target), bolt.counters.executed, STILL_S, text


def has_rows(bolt: BoltTask) -> bool:
    """In its hand or its mailbox?"""
    return bool(bolt.taken.segments or bolt.box.has_data)


def name_of(task: SpoutTask | BoltTask) -> str:
    """Component and task."""
    return f"{task.task.component}[{task.task.task_id}]"
