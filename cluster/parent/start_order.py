"""StartOrder: the steps in which the workers of a topology start its tasks: one build. No worker overtakes.

    imported (all) ─► connected, one after the other ─► prepared (all) ─► ready

1. A worker is `imported` when it has the topology, and no tasks.
2. At least once, there is one build. A restarted worker passes steps that all others have reached already: it waits for
   none of them.
3. Exactly once, each worker passes the steps once. Builds contains what happens when one ends.
4. A worker that an earlier parent has started (see adoption.py) has reached all steps when it is adopted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ..changes import Changes
    from ..snapshots.messages import SnapshotSetup

STEPS: Final = ("imported", "connected", "prepared", "ready")


class StartOrder:
    """`workers`: in the order in which they connect; of two, the later one dials. `build`: its number.

    `setup`: how the tasks begin (exactly once). `is_broken`: a worker or a task of it has ended or failed: no further
    worker takes part.
    """

    def __init__(
        self, workers: Sequence[str], changes: Changes, build: int = 0, setup: SnapshotSetup | None = None
    ) -> None:
        self.build = build
        self.setup = setup
        self.is_broken = False
        self._workers = tuple(workers)
        self._changes = changes
        self._reached: dict[str, set[str]] = {step: set() for step in STEPS}
        self._in_turn: set[str] = set()
        self._notifying: Counter[str] = Counter()

    @property
    def all_ready(self) -> bool:
        """Has each worker been ready once?"""
        return len(self._reached["ready"]) == len(self._workers)

    def step(self, worker: str, step: str) -> None:
        """The worker has reached a step."""
        self._reached[step].add(worker)
        self._changes.notify()

    def adopted(self, worker: str) -> None:
        """An earlier parent has started the tasks of this worker."""
        for step in STEPS:
            self._reached[step].add(worker)
        self._changes.notify()

    async def wait_for_all(self, worker: str, step: str) -> None:
        """The worker has reached a step; returns when all workers have."""
        self.step(worker, step)
        while len(self._reached[step]) < len(self._workers):
            await self._changes.wait()

    async def wait_for_turn(self, worker: str) -> None:
        """Wait until the peers that the worker dials listen, and all know of the end of its previous process."""
        earlier = set(self._workers[: self._workers.index(worker)])
        while self.is_notifying(worker) or not earlier <= self._reached["connected"]:
            await self._changes.wait()
        self._in_turn.add(worker)

    def process_ended(self, worker: str) -> bool:
        """The process of the worker has ended. Had it tasks of this build? If not, its next process takes its place."""
        if worker in self._in_turn:
            return True
        self._reached["imported"].discard(worker)
        return False

    def begin_notifying(self, worker: str) -> None:
        """The other workers are being notified of the end of a process of this worker."""
        self._notifying[worker] += 1

    def is_notifying(self, worker: str) -> bool:
        """Are others still being notified of the end of a process of this worker?"""
        return self._notifying[worker] > 0

    def end_notifying(self, worker: str) -> None:
        """They have been notified."""
        self._notifying[worker] -= 1
        self._changes.notify()

    def is_dialled(self, peer: str, worker: str) -> bool:
        """Of these two, does `worker` dial the peer?"""
        return self._workers.index(peer) < self._workers.index(worker)
