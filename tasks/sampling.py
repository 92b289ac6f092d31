"""Sampling: what the backpressure monitor of the process reads of one bolt task, at each check interval."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..backpressure import BoltReading, Sample, Sampler, Settings

if TYPE_CHECKING:
    from .bolt_task import BoltTask


class BoltSampling:
    """The samples of one bolt task. `dry`: the task has run out of work since the last sample."""

    __slots__ = ("_closings", "_task", "dry", "sampler")

    def __init__(self, task: BoltTask, settings: Settings) -> None:
        self.sampler = Sampler(settings)
        self.dry = False
        self._closings = 0  # of its mailbox's gate, until the last sample
        self._task = task

    def update(self, settings: Settings) -> None:
        """Apply other backpressure settings."""
        self.sampler.update(settings)
        self._task.limits.update(settings)

    def sample(self, now_s: float) -> BoltReading:
        """Sample the mailbox for the topology master. Rows that were taken and not executed count as still in it."""
        task, sampler = self._task, self.sampler
        task.limits.check()
        task.long_call.check()
        box, gate, turns, counters = task.box, task.box.gate, task.turns, task.counters
        # Of the current rows, those that are probably done count as executed: a batch may take longer than an interval.
        spent_s, running = turns.spent_s, turns.running if turns.working else 0
        done = int(min(running, spent_s * counters.executed / counters.execute_s)) if counters.execute_s else 0
        seen = Sample(
            fill=gate.fill + task.taken.rows + running - done,
            capacity=gate.limit,
            closed=not (gate.is_open or box.closed) or (gate.closings != self._closings and not self.dry),
            executed=counters.executed + done,
            execute_s=counters.execute_s + spent_s,
            dry=self.dry,
            instance=counters.restarts,
            stuck=bool(task.outbox.blocked),
        )
        self.dry = not (turns.working or seen.fill)
        self._closings = gate.closings
        sampler.sample(seen, now_s)
        judged = (sampler.flagged, sampler.verdict, sampler.step, sampler.busy)
        since = (sampler.load, sampler.starved, sampler.blocks)
        return BoltReading(task.task.task_id, seen.fill, seen.capacity, seen.executed, *judged, *since)
