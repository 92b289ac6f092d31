"""SnapshotStatus: the snapshots of a running topology, for people who watch it."""

from __future__ import annotations

from dataclasses import dataclass

from ...metrics import SnapshotMetrics


@dataclass(frozen=True, slots=True)
class SnapshotStatus:
    """The snapshots of a topology with exactly once, since it was submitted.

    `number`: of the newest that counts, or of the one that it began with; None: there is none. `taken`: how many count
    since the start. The newest of these was complete `age_s` seconds ago, `took_s` seconds after its begin; it needs
    `size_bytes` in the store. `failed`: how many have failed since, the last because of `problem`. `rolled_back`: how
    often all tasks went back to a snapshot, the last time because of `reason`.
    """

    number: int | None = None
    taken: int = 0
    age_s: float = 0.0
    took_s: float = 0.0
    size_bytes: int = 0
    failed: int = 0
    problem: str = ""
    rolled_back: int = 0
    reason: str = ""

    def metrics(self) -> SnapshotMetrics:
        """What of it is a number."""
        counts = self.number, self.taken, self.failed, self.rolled_back
        return SnapshotMetrics(*counts, duration_s=self.took_s, size_bytes=self.size_bytes, age_s=self.age_s)
