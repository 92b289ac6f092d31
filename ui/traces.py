"""Traces: the routes of tuple trees that were sampled, or that a user wants to see."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from aiohttp import web

from ..cluster import RemoteTopology, TraceError
from ..cluster.access import Role
from ..metrics import Trace
from .commands import body_of
from .routes import VERSION, RefusedError, Route, document, watched_of

if TYPE_CHECKING:
    from .reading import Shown

SHOWN: Final = 50

MOST_WAIT_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class TraceRow:
    """A tree in the list. `seconds`: None: it is open."""

    id: str
    component: str
    emitted_at_s: float
    messages: int
    attempt: int
    outcome: str
    seconds: float | None
    spans: int


@dataclass(frozen=True, slots=True)
class Traces:
    """The trees that are known, the last one first. `untraced`: why there can be none. `one_in`: one of so many is."""

    untraced: str
    one_in: int
    traces: tuple[TraceRow, ...]


@dataclass(frozen=True, slots=True)
class TraceOrder:
    """The body of `trace`: wait at most `timeout_s` for a tree that passes the component; None: any."""

    component: str | None = None
    timeout_s: float = 10.0


async def traces(request: web.Request) -> web.StreamResponse:
    """The trees that are known."""
    running = watched_of(request).running
    if isinstance(running, RemoteTopology):
        await running.refresh_traces()
    rows = tuple(
        TraceRow(
            each.id,
            each.component,
            each.emitted_at_s,
            each.messages,
            each.attempt,
            each.outcome,
            each.complete_s,
            len(each.spans),
        )
        for each in running.traces()[:SHOWN]
    )
    return document(Traces, Traces(running.untraced, running.config.trace_one_in, rows))


async def one_trace(request: web.Request) -> web.StreamResponse:
    """One tree with its spans."""
    wanted, running = request.match_info["trace"], watched_of(request).running
    found = _known(running, wanted)
    if isinstance(running, RemoteTopology) and (found is None or found.complete_s is None):
        await running.refresh_traces()
        found = _known(running, wanted)
    if found is None:
        raise RefusedError(404, "this tree is not known (any more): each process keeps the last 1000 rows of all trees")
    return document(Trace, found)


def _known(running: Shown, wanted: str) -> Trace | None:
    return next((each for each in running.traces() if each.id == wanted), None)


async def trace(request: web.Request) -> web.StreamResponse:
    """Trace the next tree."""
    order = await body_of(request, TraceOrder, TraceOrder())
    if not 0 < order.timeout_s <= MOST_WAIT_S:
        raise RefusedError(422, f"timeout_s is more than 0 and at most {MOST_WAIT_S:g} seconds")
    try:
        return document(Trace, await watched_of(request).running.trace(order.component, order.timeout_s))
    except TraceError as error:
        raise RefusedError(409, str(error)) from error


_ONE: Final = f"/api/{VERSION}/topologies/{{name:[^/]+}}"

TRACING: Final = (
    Route("GET", f"{_ONE}/traces", Role.VIEWER, traces, "The tuple trees that were sampled.", Traces),
    Route("GET", f"{_ONE}/traces/{{trace:[0-9a-f]+}}", Role.VIEWER, one_trace, "One of them, with its spans.", Trace),
    Route("POST", f"{_ONE}/trace", Role.OPERATOR, trace, "Traces the next tuple tree.", Trace, TraceOrder),
)
