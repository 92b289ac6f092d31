"""Progress in the world of windows: while one task can work, something is done within STILL_S.

1. A bolt task that has rows, executes none and is not blocked, begins one; what was parked for a task of the
   same worker that has none is taken (stalls.py). Of each worker that is not frozen, slowed down or starting.
2. A spout that has a row that is due, may have more messages open and waits for no capacity, emits it.
3. A row that is open and that no window holds is on its way: while there is one, something comes, fires, is let go, or
   is acked. Asked for while nothing is wrong with the world: in seeds without faults always, else once all is healed,
   and what a death leaves is known; not if messages may be open that wait for their timeout.
4. What an input has said of time is known: a watermark that is behind what all inputs have said, less the lag, moves.

So what may stand still is a row that a window holds, and a spout that may have no more open, for as long as event time
does. Whether it has to go on is the ledger's and the reference's business, and that of the bound once all is healed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from aiostorm.windows import END_MS, WatermarkPolicy

from ..progress import STILL_S
from ..stalls import Stall, StallWatch, bolts_with_rows, name_of, parked_for_nothing
from .ledger import Ledger, WatchedTracker
from .sources import LogSpout
from .watched import WatchedBuffer

if TYPE_CHECKING:
    from .world import Worker

ASKS_S = 0.3
"""A spout asks its source so often at least (spout_wait_max_ms)."""


class WindowsProgress:
    """Of one run. `unharmed`: is nothing wrong with the world?"""

    def __init__(self, ledger: Ledger, unharmed: Callable[[], bool]) -> None:
        self.ledger = ledger
        self.world = ledger.world
        self.unharmed = unharmed
        self.looks = 0
        """So often it was looked whether all goes on."""
        self._stalls = StallWatch(ledger.world)

    def look(self, workers: Iterable[Worker]) -> None:
        """Of workers that can work, does one stand?"""
        found: list[Stall] = []
        workers = list(workers)
        for worker in workers:
            tasks = {bolt.task.task_id: bolt for bolt in worker.task_set.tasks.bolts}
            of = [
                *bolts_with_rows(tasks.values()),
                *parked_for_nothing((*worker.task_set.tasks.spouts, *tasks.values()), tasks),
                *self._spouts(worker),
                *self._marks(worker),
            ]
            found += [
                ((*worker.incarnation, key), progress, most_s, f"on {worker.name}: {text}")
                for key, progress, most_s, text in of
            ]
        if self.unharmed():
            self.looks += 1
            found += self._rows(workers)
        self._stalls.look(found)

    def _spouts(self, worker: Worker) -> Iterator[Stall]:
        for spout in worker.task_set.tasks.spouts:
            log: Any = spout.user.component
            if not isinstance(log, LogSpout) or spout.emit_loop.running is None or not spout.emit_loop.may_emit():
                continue
            if log.queue and log.queue[0][0] < self.world.now_s:
                text = f"{name_of(spout)} has row {log.queue[0][1]} to emit"
                yield ("spout", spout.task.task_id), len(log.queue), STILL_S + ASKS_S, text

    def _marks(self, worker: Worker) -> Iterator[Stall]:
        for task in worker.timed:
            keeper = task.time.keeper
            if (
                not isinstance(keeper, WatchedTracker)
                or task.outbox.blocked
                or (task.time.driver is not None and task.time.driver.firing)
            ):
                continue
            due, now = due_of(keeper), keeper.watermark
            if due is not None and (now is None or now < due):
                text = f"the watermark of {name_of(task)} is {now}, and all inputs have said {due}"
                yield ("watermark", task.task.task_id), now, STILL_S, text

    def _rows(self, workers: list[Worker]) -> Iterator[Stall]:
        held = set[Any]()
        for machine in self.ledger.machines:
            if isinstance(machine, WatchedBuffer) and machine.alive:
                held |= machine.holds
        spouts = [spout.user.component for worker in workers for spout in worker.task_set.tasks.spouts]
        rows = {row for spout in spouts if isinstance(spout, LogSpout) for row in spout.open_rows}
        if moving := rows - held:
            ledger = self.ledger
            done = ledger.came.total() + ledger.fired.total() + ledger.received.total() + len(ledger.let_go)
            text = f"rows {sorted(moving)[:3]} are open, and no window holds them"
            yield "rows", (done, ledger.acks, ledger.failures, len(rows)), STILL_S, text


def due_of(keeper: WatchedTracker) -> int | None:
    """What the watermark has to be, by what all inputs have said that have not ended. None: that cannot be said."""
    settings = keeper._settings
    if settings.policy is not WatermarkPolicy.TASK_MAX_GLOBAL_MIN_TIMESTAMP or settings.max_advance_ms:
        return None
    said = [keeper._said.get(task) for task in keeper.by_input() if task not in keeper._over]
    if not said:
        return END_MS
    known = [at_ms for at_ms in said if at_ms is not None]
    return min(known) - settings.lag_ms if len(known) == len(said) else None
