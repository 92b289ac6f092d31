"""Routes: what the server answers: the table of all routes, each with its role, and the handlers that read.

commands.py has the handlers that change something, app.py the server.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from functools import cache, partial
from importlib import metadata
from typing import Any, Final

from aiohttp import web
from pydantic import TypeAdapter

from ..backpressure import Backpressure
from ..cluster import RemoteTopology, RunningTopology, State, loggers
from ..cluster.access import Role
from ..metrics import content_type, render
from ..runtime import AiostormError, in_thread
from .assets import assets
from .error_groups import grouped
from .logs import levels
from .model import (
    ComponentDetail,
    Errors,
    Graph,
    Logs,
    Problem,
    Series,
    Settings,
    SnapshotRow,
    Snapshots,
    StallRow,
    Tick,
    TopologyList,
    Workers,
)
from .pages import Pages, Watched
from .reading import detail_of, summary_of, workers_of
from .settings import settings_of
from .text import text_of

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

PAGES: Final = web.AppKey("aiostorm_pages", Pages)

WRITE_S: Final = 20.0
"""How long a page may take to receive one event of the stream."""

VERSION: Final = "v1"


@dataclass(frozen=True, slots=True)
class Route:
    """One route. `path` below the page's address. `gives`: the type of a JSON response; `takes`: of a JSON body."""

    method: str
    path: str
    role: Role
    handler: Handler
    help: str
    gives: Any = None
    takes: Any = None
    query: tuple[str, ...] = ()


class RefusedError(AiostormError):
    """A request that cannot be done: the status, and why."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


def watched_of(request: web.Request) -> Watched:
    """The topology that the path names. RefusedError if there is none."""
    name = request.match_info["name"]
    found = request.app[PAGES].watched(name)
    if found is None:
        raise RefusedError(404, "no topology with this name runs here: it has ended, or the name is wrong")
    return found


def running_here(request: web.Request) -> RunningTopology:
    """The topology that the path names. RefusedError if it runs in another program, whose log is not here."""
    running = watched_of(request).running
    if isinstance(running, RemoteTopology):
        raise RefusedError(409, "its log is in the program that runs it: start that with --ui")
    return running


def document(kind: Any, value: Any, headers: dict[str, str] | None = None) -> web.Response:
    """A JSON response. Numbers that are not finite are null."""
    return web.Response(
        body=adapter_of(kind).dump_json(value),
        content_type="application/json",
        headers={"Cache-Control": "no-store", **(headers or {})},
    )


def prepare(kinds: Iterable[Any]) -> None:
    """Read the files of the page, and build what makes JSON of these types: it takes tenths of a second."""
    assets()
    for kind in (*kinds, Problem):
        if kind is not None:
            adapter_of(kind)


@cache
def version() -> str:
    """The version of aiostorm."""
    return metadata.version("aiostorm")


@cache
def adapter_of(kind: Any) -> TypeAdapter[Any]:
    """What makes JSON of a type, and reads it."""
    return TypeAdapter(kind)


# -- the page ----------------------------------------------------------------------------------------------------------


async def page(request: web.Request) -> web.StreamResponse:
    """A file of the page."""
    asset = assets().get(request.match_info.get("file", ""))
    if asset is None:
        raise RefusedError(404, "there is no such page")
    headers = {"ETag": asset.tag, "Cache-Control": "no-cache"}
    if request.headers.get("If-None-Match") == asset.tag:
        return web.Response(status=304, headers=headers)
    return web.Response(body=asset.body, content_type=asset.content_type, charset="utf-8", headers=headers)


async def to_page(request: web.Request) -> web.StreamResponse:
    """The page's address without its last slash: relative addresses need it."""
    if request.path.endswith("/"):  # of an application that is no sub-application this is the page itself
        return await page(request)
    return web.Response(status=308, headers={"Location": request.path + "/"})


async def openmetrics(request: web.Request) -> web.StreamResponse:
    """The metrics of all topologies, for Prometheus."""
    kind = content_type(request.headers.get("Accept", ""))
    metrics = {each.name: each.metrics() for each in request.app[PAGES].topologies()}
    text = await in_thread(partial(render, metrics, kind))  # copies: the topologies go on
    headers = {"Content-Type": kind, "Cache-Control": "no-store", "Vary": "Accept"}
    return web.Response(body=text.encode(), headers=headers)


async def healthz(request: web.Request) -> web.StreamResponse:
    """Does the process answer?"""
    return web.Response(text="ok\n", headers={"Cache-Control": "no-store"})


async def readyz(request: web.Request) -> web.StreamResponse:
    """Do all topologies run, without a worker that does not stay alive?"""
    found = request.app[PAGES].topologies()
    wrong = [each for each in found if each.degraded or each.state in (State.STARTING, State.FAILED)]
    text = "ready\n" if found and not wrong else "not ready\n"
    return web.Response(text=text, status=200 if found and not wrong else 503, headers={"Cache-Control": "no-store"})


# -- data --------------------------------------------------------------------------------------------------------------


async def topologies(request: web.Request) -> web.StreamResponse:
    """All topologies."""
    pages = request.app[PAGES]
    found = tuple(summary_of(each) for each in pages.topologies())
    return document(TopologyList, TopologyList(version(), pages.guard.read_only, found, pages.cluster is not None))


async def topology(request: web.Request) -> web.StreamResponse:
    """One topology now."""
    return document(Tick, watched_of(request).feed.now())


async def topology_text(request: web.Request) -> web.StreamResponse:
    """The same as plain text."""
    watched = watched_of(request)
    text = text_of(watched.running.name, watched.feed.now())
    return web.Response(text=text, headers={"Cache-Control": "no-store"})


async def graph(request: web.Request) -> web.StreamResponse:
    """How it is drawn."""
    return document(Graph, watched_of(request).graph)


async def component(request: web.Request) -> web.StreamResponse:
    """A component, task by task."""
    watched, name = watched_of(request), request.match_info["component"]
    if name not in watched.running.topology.components:
        raise RefusedError(404, "this topology has no such component")
    return document(ComponentDetail, detail_of(watched.running, name, watched.feed.clock_s()))


async def metrics(request: web.Request) -> web.StreamResponse:
    """The past, as far as it was watched: by the second, or with `step=15` by 15 seconds."""
    second = whole(request, "from", 0)
    coarse = whole(request, "step", 1) >= 15
    return document(Series, watched_of(request).feed.past(second, coarse=coarse))


async def pressure(request: web.Request) -> web.StreamResponse:
    """The backpressure: components, spouts that wait, and what has happened."""
    return document(Backpressure, watched_of(request).running.backpressure())


async def errors(request: web.Request) -> web.StreamResponse:
    """The last errors in user code, alike ones together, and the last calls that blocked."""
    running = watched_of(request).running
    kept = running.errors()
    stalls = tuple(
        StallRow(each.task, each.blocked_s, f"{each.filename}:{each.lineno} in {each.function}", each.line)
        for each in running.stalls()
    )
    total = sum(each.errors for each in running.metrics().values())
    return document(Errors, Errors(total, len(kept), grouped(kept), stalls))


async def workers(request: web.Request) -> web.StreamResponse:
    """The workers."""
    return document(Workers, Workers(os.getpid(), workers_of(watched_of(request).running)))


async def snapshots(request: web.Request) -> web.StreamResponse:
    """The snapshots. All of them are read and checked for this."""
    running = watched_of(request).running
    if running.config.guarantee != "exactly-once":
        return document(Snapshots, Snapshots(False, running.config.guarantee, ()))
    rows = tuple(
        SnapshotRow(
            each.number,
            each.taken_s,
            each.savepoint,
            each.size_bytes,
            {part.component: part.tasks for part in each.components},
            each.problem,
        )
        for each in await running.snapshots()
    )
    return document(Snapshots, Snapshots(True, running.config.guarantee, rows))


async def logs(request: web.Request) -> web.StreamResponse:
    """The last log records, of this process and of the workers; those of other topologies are left out."""
    name = running_here(request).name
    lines = request.app[PAGES].logs.since(whole(request, "from", 0))
    shown = tuple(line for line in lines if line.topology in ("", name))
    return document(Logs, Logs(levels(), tuple(loggers()), shown))


async def config(request: web.Request) -> web.StreamResponse:
    """Every setting, with the source of its value. Secrets are hidden."""
    found = settings_of(watched_of(request).running.config)
    return document(Settings, found, {"ETag": f'"{found.tag}"'})


async def stream(request: web.Request) -> web.StreamResponse:
    """Server-sent events: `past` (what is kept after Last-Event-ID), then a `tick` each second, `end` at the end."""
    feed = watched_of(request).feed
    last = request.headers.get("Last-Event-ID", "0")
    with feed.listen() as listener:
        response = web.StreamResponse(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        response.content_type = "text/event-stream"
        response.charset = "utf-8"
        await response.prepare(request)
        past = feed.past(int(last) if last.isascii() and last.isdecimal() and len(last) < 16 else 0)
        try:
            await _send(response, "past", 0, adapter_of(Series).dump_json(past))
            async for tick in listener.ticks():
                await _send(response, "tick", tick.second, adapter_of(Tick).dump_json(tick))
            await _send(response, "end", 0, b"{}")
        except (ConnectionError, TimeoutError):
            request.protocol.force_close()  # the page was closed, or does not read
    return response


async def _send(response: web.StreamResponse, event: str, number: int, data: bytes) -> None:
    identity = f"id: {number}\n" if number else ""
    async with asyncio.timeout(WRITE_S):
        await response.write(f"{identity}event: {event}\ndata: ".encode() + data + b"\n\n")


def whole(request: web.Request, name: str, default: int) -> int:
    """A number of the query. RefusedError if it is none."""
    text = request.query.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdecimal() and len(text) < 16):
        raise RefusedError(400, f"{name} is a whole number, 0 or more")
    return int(text)


# -- the table ---------------------------------------------------------------------------------------------------------

_ONE: Final = f"/api/{VERSION}/topologies/{{name:[^/]+}}"

READING: Final = (
    Route("GET", "", Role.PUBLIC, to_page, "Redirects to the page."),
    Route("GET", "/", Role.PUBLIC, page, "The page."),
    Route("GET", "/{file:(static|vendor)/[A-Za-z0-9._-]+}", Role.PUBLIC, page, "A file of the page."),
    Route("GET", "/healthz", Role.PUBLIC, healthz, "200 while the process answers."),
    Route("GET", "/readyz", Role.PUBLIC, readyz, "200 if all topologies run, 503 if not."),
    Route("GET", "/metrics", Role.VIEWER, openmetrics, "The metrics of all topologies, for Prometheus."),
    Route("GET", f"/api/{VERSION}/topologies", Role.VIEWER, topologies, "All topologies.", TopologyList),
    Route("GET", f"{_ONE}.txt", Role.VIEWER, topology_text, "A topology now, as plain text."),
    Route("GET", _ONE, Role.VIEWER, topology, "A topology now.", Tick),
    Route("GET", f"{_ONE}/graph", Role.VIEWER, graph, "How it is drawn.", Graph),
    Route("GET", f"{_ONE}/components/{{component:[^/]+}}", Role.VIEWER, component, "Its tasks.", ComponentDetail),
    Route(
        "GET", f"{_ONE}/metrics", Role.VIEWER, metrics, "The past, if it was watched.", Series, None, ("from", "step")
    ),
    Route("GET", f"{_ONE}/pressure", Role.VIEWER, pressure, "The backpressure.", Backpressure),
    Route("GET", f"{_ONE}/errors", Role.VIEWER, errors, "Errors in user code, alike ones together.", Errors),
    Route("GET", f"{_ONE}/workers", Role.VIEWER, workers, "The workers.", Workers),
    Route("GET", f"{_ONE}/snapshots", Role.VIEWER, snapshots, "The snapshots.", Snapshots),
    Route("GET", f"{_ONE}/logs", Role.VIEWER, logs, "The last log records.", Logs, None, ("from",)),
    Route("GET", f"{_ONE}/config", Role.VIEWER, config, "Every setting.", Settings),
    Route("GET", f"{_ONE}/stream", Role.VIEWER, stream, "Server-sent events: past, tick (each second), end."),
)
