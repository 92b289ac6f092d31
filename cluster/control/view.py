"""View: a running topology at one moment, as another process of its user shows it (`aiostorm ui`, `aiostorm top`).

    ViewRequest(version, known) ─► ViewResponse(version, release, the View as bytes)

1. The envelope never changes: a program of another version is recognized by `version`, before its view is read.
2. A view has an end: of the last errors and stalls so many characters, and it is one frame. Errors are sent again only
   when there are new ones: `known` is the tag of those that the client has.
3. It is data. The graph is an outline; nothing that arrives is imported or run.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import metadata
from typing import TYPE_CHECKING, Final, TypeVar

from ...metrics import ComponentMetrics, SnapshotMetrics, TopologyMetrics, WireRow, pack_task, unpack_task
from ...runtime import LoopClock, ProcessMetrics, Stall
from ...state import ListedComponent, ListedSnapshot
from ...tasks import ErrorReport
from ...topology import graph_document
from ...transport import FrameTooLargeError, UnreadableError, UnsendableError, pack_value, unpack_value
from ..errors import ControlError
from ..runtimes import WorkerStatus

if TYPE_CHECKING:
    from ...backpressure import Backpressure
    from ...metrics import Trace
    from ..running_topology import RunningTopology

VERSION: Final = 1
"""Of the View. A change of its fields is another version."""

MOST_CHARS: Final = 8_000
"""Of each text of an error or stall; of a traceback the end is kept."""

MOST_REPORT_CHARS: Final = 200_000
"""Of all errors, and of all stalls, together; the newest are kept."""

MOST_TRACES: Final = 50

MOST_SPANS: Final = 2_000
"""Of all traces of a response together; the newest are sent."""

_Report = TypeVar("_Report", ErrorReport, Stall)


@dataclass(frozen=True, slots=True)
class ViewRequest:
    """Ask for a view. `known`: the tag of the reports that the client has; empty: none."""

    version: int = VERSION
    known: str = ""


@dataclass(frozen=True, slots=True)
class ViewResponse:
    """The view of a program with this `version` of views, of this `release` of aiostorm."""

    version: int
    release: str
    view: bytes


@dataclass(frozen=True, slots=True)
class TracesRequest:
    """Ask for the tuple trees that were traced last. `known`: ids of complete ones that the client has."""

    known: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TracesResponse:
    """Tuple trees, the last one first."""

    topology: str
    traces: tuple[Trace, ...]


@dataclass(frozen=True, slots=True)
class Reports:
    """The last errors and stalls."""

    errors: tuple[ErrorReport, ...] = ()
    stalls: tuple[Stall, ...] = ()


@dataclass(frozen=True, slots=True)
class View:
    """A topology. `now_s`, `started_s`: since 1970. `config`, `sources`: by field. `tasks`: (component, its task ids).

    `metrics`: (component, kind, a row for each task). `reports`: None if the client has them; `tag`: theirs.
    `untraced`: why no tuple tree can be traced.
    """

    name: str
    pid: int
    state: str
    degraded: str
    now_s: float
    started_s: float
    config: Mapping[str, object]
    sources: Mapping[str, str]
    graph: Mapping[str, object]
    tasks: tuple[tuple[str, tuple[int, ...]], ...]
    metrics: tuple[tuple[str, str, tuple[WireRow, ...]], ...]
    processes: Mapping[str, ProcessMetrics]
    snapshots: SnapshotMetrics | None
    pressure: Backpressure
    workers: tuple[WorkerStatus, ...]
    reports: Reports | None
    tag: str
    untraced: str = ""

    def topology_metrics(self) -> TopologyMetrics:
        """The metrics. ValueError if they are not what a program of this version sends."""
        found = [ComponentMetrics(name, kind, tuple(map(unpack_task, rows))) for name, kind, rows in self.metrics]
        return TopologyMetrics(found, self.processes, self.snapshots)


RECORDS: Final[tuple[type[object], ...]] = (ViewRequest, ViewResponse, TracesRequest, TracesResponse, Reports, View)
SHARED_RECORDS: Final[tuple[type[object], ...]] = (
    ErrorReport,
    Stall,
    ProcessMetrics,
    SnapshotMetrics,
    WorkerStatus,
    ListedSnapshot,
    ListedComponent,
)


def respond(running: RunningTopology, request: ViewRequest) -> ViewResponse:
    """The response to a request. FrameTooLargeError if the topology is too large to be shown like this."""
    if request.version != VERSION:
        return ViewResponse(VERSION, release(), b"")
    try:
        return ViewResponse(VERSION, release(), pack_value(view_of(running, request.known)))
    except (FrameTooLargeError, UnsendableError) as error:
        raise FrameTooLargeError(
            f"it is too large to be shown by another program ({error}): start it with --ui to see it"
        ) from error


def respond_traces(running: RunningTopology, request: TracesRequest) -> TracesResponse:
    """The response to a request for traces."""
    found: list[Trace] = []
    known, spans = set(request.known), 0
    for trace in running.traces()[:MOST_TRACES]:
        if trace.id not in known:
            spans += len(trace.spans)
            if spans > MOST_SPANS:
                break
            found.append(trace)
    return TracesResponse(running.name, tuple(found))


def opened(response: ViewResponse, target: object) -> View:
    """The view in a response. ControlError that names the program if it has another version."""
    if response.version == VERSION:
        try:
            view = unpack_value(response.view)
        except UnreadableError as error:
            raise ControlError(f"{_other(target, response)}: {error}") from error
        if isinstance(view, View):
            return view
    raise ControlError(f"{_other(target, response)}: run both with the same one")


def view_of(running: RunningTopology, known: str = "") -> View:
    """The topology now."""
    metrics, pressure, config = running.metrics(), running.backpressure(), running.config
    errors, stalls = running.errors(), running.stalls()
    tag = f"{sum(c.errors for c in metrics.values())} {len(stalls)} {max((e.time for e in errors), default=0.0)}"
    tag += f" {stalls[-1].blocked_s if stalls else 0.0}"
    fields = {key: getattr(config, key) for key in config.model_fields_set}
    own = {key: value for key, value in config.user.items() if isinstance(value, bool | int | float | str)}
    return View(
        name=running.name,
        pid=os.getpid(),
        state=running.state.value,
        degraded=running.degraded,
        now_s=LoopClock().now(),
        started_s=running.started_s,
        config=fields | own,
        sources={key: config.source_of(key) for key in fields | own},
        graph=graph_document(running.topology),
        tasks=tuple((component, tuple(tasks)) for component, tasks in running.plan.tasks_of.items()),
        metrics=tuple((name, c.kind, tuple(map(pack_task, c.tasks))) for name, c in metrics.items()),
        processes=dict(metrics.processes),
        snapshots=metrics.snapshots,
        pressure=replace(pressure, components=dict(pressure.components)),
        workers=tuple(running.workers()),
        reports=None if tag == known else Reports(_bounded(map(_short_error, errors)), _bounded(map(_short, stalls))),
        tag=tag,
        untraced=running.untraced,
    )


@cache
def release() -> str:
    """The version of aiostorm."""
    return metadata.version("aiostorm")


def _other(target: object, response: ViewResponse) -> str:
    return (
        f"{target} runs aiostorm {response.release} (version {response.version} of what it shows to others), and this "
        f"is aiostorm {release()} (version {VERSION})"
    )


def _short_error(error: ErrorReport) -> ErrorReport:
    on = None if error.tuple is None else error.tuple[:MOST_CHARS]
    return replace(error, error=error.error[:MOST_CHARS], traceback=error.traceback[-MOST_CHARS:], tuple=on)


def _short(stall: Stall) -> Stall:
    return replace(stall, line=stall.line[:MOST_CHARS], stack=stall.stack[-MOST_CHARS:])


def _bounded(reports: Iterable[_Report]) -> tuple[_Report, ...]:
    """The newest that fit, oldest first."""
    kept: list[_Report] = []
    left = MOST_REPORT_CHARS
    for report in reversed(list(reports)):
        left -= _chars(report)
        if left < 0:
            break
        kept.append(report)
    return tuple(reversed(kept))


def _chars(report: ErrorReport | Stall) -> int:
    if isinstance(report, Stall):
        return len(report.line) + len(report.stack)
    return len(report.error) + len(report.traceback) + len(report.tuple or "")
