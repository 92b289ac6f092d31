"""NoReports: what is reported of a topology whose start has not reached its tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...backpressure import Backpressure
from ...metrics import TopologyMetrics, Trace

if TYPE_CHECKING:
    from ...runtime import Profile, Stall
    from ...tasks import ErrorReport
    from ...topology import MessageId
    from ..runtimes import WorkerStatus


class NoReports:
    """There are no tasks yet. They are RuntimeReports."""

    degraded = ""

    def metrics(self) -> TopologyMetrics:
        return TopologyMetrics(())

    def errors(self) -> list[ErrorReport]:
        return []

    def stalls(self) -> list[Stall]:
        return []

    def pending(self) -> dict[str, list[MessageId]]:
        return {}

    def backpressure(self) -> Backpressure:
        return Backpressure()

    def profiles(self) -> list[Profile]:
        return []

    def traces(self) -> list[Trace]:
        return []

    def workers(self) -> list[WorkerStatus]:
        return []
