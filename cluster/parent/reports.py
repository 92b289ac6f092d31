"""What the workers of a topology have reported: of one worker over all its processes, and of all together."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ...backpressure import Backpressure, PressureEvent
from ...metrics import ComponentMetrics, TaskMetrics, TopologyMetrics, Trace, joined_traces, unpack_task
from ...runtime import ProcessMetrics
from ...topology import ACKER_COMPONENT
from ..messages import Finish, GetStatus, StatusReport
from ..profiles import Profiles
from ..snapshots.messages import Rebuild
from .worker_spans import WorkerSpans

if TYPE_CHECKING:  # a worker handle has reports
    from ...runtime import Profile, Stall
    from ...tasks import ErrorReport
    from ...topology import MessageId
    from ..runtimes import WorkerStatus
    from .assignment import Deployment
    from .worker_handle import WorkerHandle

KEPT: Final = 200


class WorkerReports:
    """The reports of one worker. Totals never decrease: the counters of ended tasks are kept. Pure.

    The counts of errors, stalls and events say which of them this side has received: a report has only new ones.
    """

    def __init__(self) -> None:
        self.metrics: dict[int, TaskMetrics] = {}
        self.pending: dict[str, tuple[MessageId, ...]] = {}
        self.process = ProcessMetrics()
        self.spans = WorkerSpans()
        self.times_ended = 0
        """How often its tasks have ended, or its process."""
        self._base: dict[int, TaskMetrics] = {}
        self._errors = self._stalls = self._events = 0

    def status_command(self, *, pending: bool, mode: str = "") -> GetStatus:
        """Ask for what is new; with pending message ids if wanted. `mode`: of the spouts; empty: unchanged."""
        return GetStatus(self._errors, self._stalls, self._events, pending=pending, mode=mode, spans=self.spans.count)

    def rebuild_command(self) -> Rebuild:
        """End the tasks, to build them again, and report what is new."""
        return Rebuild(self._errors, self._stalls, self._events)

    def finish_command(self, *, at_once: bool, stay: bool = False) -> Finish:
        """End the tasks, and report what is new."""
        return Finish(at_once, stay, self._errors, self._stalls, self._events, self.spans.count)

    def take(self, report: StatusReport) -> bool:
        """Take a report. True if it has errors, stalls or backpressure that are new."""
        tasks = [unpack_task(row) for row in report.tasks]
        for task in tasks:
            base = self._base.get(task.task_id)
            self.metrics[task.task_id] = task if base is None else task.after(base)
        self.process = report.process
        if report.spans:
            self.spans.take(report.spans, report.span_count)
        if report.pending or not any(task.pending for task in tasks):
            self.pending = dict(report.pending)
        news = report.error_count > self._errors or report.stall_count > self._stalls or report.pressure is not None
        self._errors, self._stalls, self._events = report.error_count, report.stall_count, report.event_count
        return news

    def process_ended(self) -> int:
        """Keep what the process has counted. Returns how many open windows were lost with it, as last reported."""
        times = [task.time for task in self.metrics.values() if task.time is not None]
        lost = sum(time.live for time in times if not time.buffered)  # buffered tuples are replayed
        self._begin_again({task: metrics.ended() for task, metrics in self.metrics.items()})
        return lost

    def tasks_ended(self) -> int:
        """As `process_ended`, for tasks that are restored from a snapshot: no window is lost. Returns 0."""
        base: dict[int, TaskMetrics] = {}
        for task, metrics in self.metrics.items():
            time = None if metrics.time is None else replace(metrics.time, live=0)
            base[task] = replace(metrics, time=time).ended()
        self._begin_again(base)
        return 0

    def _begin_again(self, base: dict[int, TaskMetrics]) -> None:
        self.times_ended += 1
        self._base = base
        self._errors = self._stalls = self._events = 0
        self.spans.begin_again()
        self.metrics.update(base)


class DistributedReports:
    """The reports of all workers of a topology. A RuntimeReports."""

    def __init__(self, deployment: Deployment, worker_handles: Mapping[str, WorkerHandle]) -> None:
        self._deployment = deployment
        self._worker_handles = worker_handles
        self._errors: deque[ErrorReport] = deque(maxlen=KEPT)
        self._stalls: deque[Stall] = deque(maxlen=KEPT)
        self._events: deque[PressureEvent] = deque(maxlen=KEPT)
        self._profiles = Profiles()
        self._pressure = Backpressure(deployment.config.backpressure_enable)

    def take(self, status: StatusReport) -> None:
        """Take the news of one worker."""
        self._errors.extend(status.errors)
        self._stalls.extend(status.stalls)
        if status.pressure is not None:
            self._events.extend(status.pressure.events)
            self._pressure = status.pressure

    def metrics(self) -> TopologyMetrics:
        deployment = self._deployment
        by_task: dict[int, TaskMetrics] = {}
        for worker_handle in self._worker_handles.values():
            by_task.update(worker_handle.reports.metrics)
        found = []
        for component, tasks in deployment.plan.tasks_of.items():
            kind = "acker" if component == ACKER_COMPONENT else deployment.topology.components[component].kind
            if tasks:
                metrics = tuple(by_task.get(task) or TaskMetrics(task) for task in tasks)
                found.append(ComponentMetrics(component, kind, metrics))
        handles = self._worker_handles.items()
        return TopologyMetrics(found, {name: worker.reports.process for name, worker in handles})

    def errors(self) -> list[ErrorReport]:
        return list(self._errors)

    def stalls(self) -> list[Stall]:
        return list(self._stalls)

    def pending(self) -> dict[str, list[MessageId]]:
        """At most 1000 ids of each worker; an id that cannot be sent is shown as text."""
        found: dict[str, list[MessageId]] = {spout.id: [] for spout in self._deployment.topology.spouts}
        for worker_handle in self._worker_handles.values():
            for component, ids in worker_handle.reports.pending.items():
                found.setdefault(component, []).extend(ids)
        return found

    def backpressure(self) -> Backpressure:
        """The last report of the worker with the topology master, with the events of all its processes."""
        return replace(self._pressure, events=tuple(self._events))

    def keep_profile(self, worker: str, profile: Profile) -> None:
        """A worker has sent a profile."""
        self._profiles.keep(worker, profile)

    def profiles(self) -> list[Profile]:
        return self._profiles.last()

    def traces(self) -> list[Trace]:
        spans = {name: worker.reports.spans for name, worker in self._worker_handles.items()}
        return joined_traces(
            (row for name, each in spans.items() for row in each.placed(name)),
            {task.task_id: task.component for task in self._deployment.plan.tasks},
            [(at_s, name) for name, each in spans.items() for at_s in each.ends],
        )

    def workers(self) -> list[WorkerStatus]:
        return [worker_handle.status for worker_handle in self._worker_handles.values()]

    @property
    def degraded(self) -> str:
        return "; ".join(
            f"{n}: {w.lifecycle.degraded}" for n, w in self._worker_handles.items() if w.lifecycle.degraded
        )
