"""Builds: how often the tasks of a topology are built on its workers: once, or with exactly once, again and again.

    start ─► build 1 ─ all ready ─► … a worker or a task is lost ─► on_worker_lost ─► rebuild(setup) ─► build 2 ─► …
               │  ▲                                                                                        │  ▲
               ╰──╯ a worker with tasks of the build ends before all are ready: once more, the same setup ─╯──╯

1. A build begins when no living worker has tasks any more: each has answered Rebuild. So tasks of two builds never run
   at the same time, but in workers that were given up, and these are fenced off (see Exchange).
2. A worker that ends before it has tasks of the build is waited for: its next process takes part in the same build.
3. When all are ready, the end of a worker or of a task breaks the build. It is reported once. A restarted worker then
   waits for another build.
4. A task that fails for good before all are ready breaks the build, too: who waits for it returns.
5. A worker that can never run makes every later build fail.
6. The numbers of builds go on from one that differs for each parent: a worker that outlives its parent may have tasks
   of an earlier one.

From: Flink's restart of a pipelined region, which has all tasks in it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .start_order import StartOrder

if TYPE_CHECKING:
    from ..changes import Changes
    from ..snapshots.messages import SnapshotReport, SnapshotSetup


@dataclass(frozen=True, slots=True)
class ExactlyOnce:
    """What a DistributedRuntime needs for exactly once. `setup`: how the first tasks begin.

    `on_report`: gets what tasks report about snapshots. `on_worker_lost(reason)`: tasks are lost: call `rebuild`.
    `first_build`: the number of the first build (see `first_build_of`).
    """

    setup: SnapshotSetup
    on_report: Callable[[SnapshotReport], None]
    on_worker_lost: Callable[[str], None]
    first_build: int = 1


def first_build_of(incarnation: int) -> int:
    """The number of the first build of a parent, whose incarnation has at most 48 bits and differs for each process.

    No other parent has the 16,384 numbers from there. (A CREDIT has twice the number, in 64 bits.)
    """
    return (incarnation << 14) + 1


class Builds:
    """The builds of one topology. `exactly_once`: None for at least once, with one build."""

    def __init__(self, workers: Sequence[str], changes: Changes, exactly_once: ExactlyOnce | None) -> None:
        self.exactly_once = exactly_once
        self.failure: Exception | None = None
        """Why a worker can never run."""
        self._workers = workers
        self._changes = changes
        self._awaited = 0
        self._started = False
        if exactly_once is None:
            self.current = StartOrder(workers, changes)
        else:
            self.current = StartOrder(workers, changes, exactly_once.first_build, exactly_once.setup)

    @property
    def are_whole(self) -> bool:
        """Have all workers the tasks of the newest build, and has none been lost?"""
        return self.current.all_ready and not self.current.is_broken

    def begin(self, setup: SnapshotSetup) -> None:
        """Begin another build. ValueError if its incarnation is not greater than the one before."""
        before = self.current.setup
        if before is not None and setup.incarnation <= before.incarnation:
            raise ValueError(f"incarnation {setup.incarnation} comes after {before.incarnation}")
        self._begin(setup)

    async def wait_complete(self, ended: asyncio.Future[None], check: Callable[[], None] = lambda: None) -> None:
        """Wait until all workers are ready in the newest build, or a task of it has failed for good, or `ended`.

        Raises the failure of a worker that can never run, and what `check` raises.
        """
        self._awaited += 1
        try:
            while not (ended.done() or self.current.all_ready or self.current.is_broken):
                if self.failure is not None:
                    raise self.failure
                check()
                await self._changes.wait(ended)
        finally:
            self._awaited -= 1
        if self.failure is not None and not ended.done():
            raise self.failure
        self._started = True

    async def wait_for_another(self, order: StartOrder) -> None:
        """Wait until another build has begun."""
        while self.current is order:
            await self._changes.wait()

    # -- events --------------------------------------------------------------------------------------------------------

    def process_ended(self, worker: str) -> None:
        """Exactly once: the process of a worker has ended."""
        order = self.current
        if not order.process_ended(worker) or order.is_broken:
            return
        if order.all_ready:
            self._break(f"{worker} has ended")
        elif order.setup is not None:
            self._begin(order.setup)

    def task_gave_up(self) -> None:
        """Exactly once: a task of this build has failed for good. (The caller reports it.)"""
        self.current.is_broken = True
        self._changes.notify()

    def worker_failed(self, error: Exception) -> bool:
        """A worker can never run. Is it reported here?"""
        if self.failure is None:
            self.failure = error
        self._changes.notify()
        if self._awaited or not self._started:
            return True
        if self.exactly_once is None:
            return False
        if not self.current.is_broken:
            self._break(str(error))
        return True

    # -- inside --------------------------------------------------------------------------------------------------------

    def _begin(self, setup: SnapshotSetup) -> None:
        self.current = StartOrder(self._workers, self._changes, self.current.build + 1, setup)
        self._changes.notify()

    def _break(self, reason: str) -> None:
        self.current.is_broken = True
        self._changes.notify()
        if self.exactly_once is not None:
            self.exactly_once.on_worker_lost(reason)
