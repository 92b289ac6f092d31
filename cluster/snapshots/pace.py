"""SnapshotPace: when snapshots may begin, what they cost, how they went, and who waits for one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from ...metrics import SnapshotMetrics
from ...state import Governor, SnapshotSettings
from .held import HeldSinks

if TYPE_CHECKING:
    from ...state import Keeper, Manifest
    from ...topology import Config
    from .messages import TasksSaved


class SnapshotPace:
    """The pace of one topology's snapshots. `delay_s`: before the next rollback. `held`: by sinks, until a snapshot."""

    def __init__(self, config: Config) -> None:
        interval_s = config.snapshot_interval_ms / 1000
        self.settings = SnapshotSettings(interval_s, config.snapshot_timeout_ms / 1000, config.snapshot_failures_max)
        self.delay_s = 0.0
        self.held = HeldSinks()
        self._governor = Governor(interval_s, config.snapshot_max_share)
        self._began_s = 0.0
        self._loop_s = 0.0
        self._requests: set[asyncio.Future[int]] = set()
        self._metrics = SnapshotMetrics()
        self._complete_s = 0.0  # when the newest snapshot was

    def metrics(self, now_s: float) -> SnapshotMetrics:
        """How they went."""
        found = replace(self._metrics, waiting=self.held.text())
        return replace(found, age_s=round(now_s - self._complete_s, 4)) if found.taken else found

    def restored(self, number: int | None) -> None:
        """The first tasks begin with this snapshot."""
        self._metrics = replace(self._metrics, number=number)

    def failed(self, reason: str) -> None:
        """A snapshot has failed."""
        found = self._metrics
        self._metrics = replace(found, failed=found.failed + 1, failing=found.failing + 1, problem=reason)

    def rolled_back(self, number: int | None, reason: str) -> None:
        """All tasks go back to this snapshot."""
        self.held.clear()
        found = self._metrics
        self._metrics = replace(found, number=number, rolled_back=found.rolled_back + 1, reason=reason)

    def triggered(self, now_s: float) -> None:
        """A snapshot begins."""
        self._began_s, self._loop_s = now_s, 0.0

    def saved(self, report: TasksSaved) -> None:
        """The tasks of one process have saved their state: they share its event loop."""
        self._loop_s = max(self._loop_s, sum(done.loop_ms for done in report.parts) / 1000)

    def finished(self, manifest: Manifest, now_s: float) -> float:
        """The snapshot is durable. When the next one may begin."""
        self._complete_s = now_s
        self._metrics = replace(
            self._metrics,
            number=manifest.number,
            taken=self._metrics.taken + 1,
            failing=0,
            problem="",
            duration_s=round(now_s - self._began_s, 4),
            size_bytes=sum(blob.size_bytes for task in manifest.tasks for blob in task.blobs),
        )
        self._governor.finished(self._began_s, self._loop_s)
        return self._governor.due_s(now_s)

    def stored(self, keeper: Keeper) -> None:
        """What all kept snapshots have together may have changed, or their quota."""
        self._metrics = replace(self._metrics, stored_bytes=keeper.stored_bytes, quota_bytes=keeper.quota_bytes or 0)

    def new_request(self) -> asyncio.Future[int]:
        """A caller waits for a snapshot: its number."""
        request: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._requests.add(request)
        request.add_done_callback(self._requests.discard)
        return request

    def answer(self, requests: Iterable[asyncio.Future[int]], number: int) -> None:
        """The snapshot that these callers wait for is committed."""
        for request in requests:
            if not request.done():
                request.set_result(number)

    def end_requests(self, error: Exception) -> None:
        """No snapshot is taken any more."""
        for request in list(self._requests):
            if not request.done():
                request.set_exception(error)
