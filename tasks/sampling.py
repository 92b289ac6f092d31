"""Sampling: what the backpressure monitor of the process reads of one bolt task, at each check interval; and its
occupation, which is read with the metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..backpressure import BoltReading, Sample, Sampler, Settings

if TYPE_CHECKING:
    from .occupation import Occupation
    from .task import TaskActor
    from .turns import BoltTurns


class BoltSampling:
    """The samples of one bolt task."""

    __slots__ = ("_closings", "_occupation", "_task", "_turns", "sampler")

    def __init__(self, task: TaskActor, turns: BoltTurns, settings: Settings, occupation: Occupation) -> None:
        self._occupation = occupation
        self.sampler = Sampler(settings)
        self._closings = 0  # of its mailbox's gate, until the last sample
        self._task = task
        self._turns = turns

    def update(self, settings: Settings) -> None:
        """Apply other backpressure settings."""
        self.sampler.update(settings)
        self._turns.limits.update(settings)

    def occupied(self) -> dict[str, float]:
        """For how long the task was busy, blocked and idle until now."""
        counters = self._task.counters
        return self._occupation.read(counters.execute_s + counters.busy_s + self._turns.execution.spent_s)

    def sample(self, now_s: float) -> BoltReading:
        """Sample the mailbox for the topology master. Rows that were taken and not executed count as still in it."""
        task, turns, sampler = self._task, self._turns, self.sampler
        turns.limits.check()
        turns.long_call.check()
        taken, execution, counters = turns.taken, turns.execution, task.counters
        box, gate = taken.box, taken.box.gate
        # Of the current rows, those that are probably done count as executed: a batch may take longer than an interval.
        spent_s, running = execution.spent_s, execution.running if execution.working else 0
        done = int(min(running, spent_s * counters.executed / counters.execute_s)) if counters.execute_s else 0
        seen = Sample(
            fill=gate.fill + taken.rows + running - done,
            capacity=gate.limit,
            closed=not (gate.is_open or box.closed) or (gate.closings != self._closings and not taken.dry),
            executed=counters.executed + done,
            execute_s=counters.execute_s + spent_s,
            dry=taken.dry,
            instance=counters.restarts,
            stuck=bool(task.outbox.blocked),
        )
        taken.dry = not (execution.working or seen.fill)
        self._closings = gate.closings
        sampler.sample(seen, now_s)
        judged = (sampler.flagged, sampler.verdict, sampler.step, sampler.busy)
        since = (sampler.load, sampler.starved, sampler.blocks)
        return BoltReading(task.task.task_id, seen.fill, seen.capacity, seen.executed, *judged, *since)
