"""Cluster routes: what is answered of a cluster, its nodes, and the output of the processes of its topologies.

A page without a cluster (`aiostorm run --ui`) answers 404.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from ..cluster.access import Role
from ..cluster.client import NoClusterError
from ..cluster.coordination import SessionLostError, UnavailableError
from .cluster_model import ClusterStatus, NodeDetail, NodeList, ProcessLog, ProcessLogs
from .managed import node_row, processes_on, topology_row
from .process_logs import logged_processes, read_piece
from .routes import PAGES, VERSION, RefusedError, Route, document, whole

if TYPE_CHECKING:
    from aiohttp import web

    from .managed import Look, ManagedCluster
    from .pages import Watched


def cluster_of(request: web.Request) -> ManagedCluster:
    """The cluster of this page. RefusedError if it has none."""
    found = request.app[PAGES].cluster
    if found is None:
        raise RefusedError(404, "this page is not of a cluster: start it with `aiostorm ui` where a cluster runs")
    return found


async def look_at(managed: ManagedCluster) -> Look:
    """What is there. RefusedError while the store cannot be reached."""
    try:
        return await managed.look()
    except (NoClusterError, UnavailableError, SessionLostError) as error:
        raise RefusedError(503, str(error)) from error


async def cluster(request: web.Request) -> web.StreamResponse:
    """The cluster: who leads, its nodes and topologies."""
    managed, pages = cluster_of(request), request.app[PAGES]
    look = await look_at(managed)
    here = {each.name for each in pages.topologies()}
    tasks = {name: _tasks_of(pages.watched(name)) for name in here}
    found = ClusterStatus(
        managed.store,
        pages.guard.read_only,
        look.nimbuses,
        tuple(map(node_row, look.nodes)),
        tuple(topology_row(each, tasks.get(each.name)) for each in look.topologies),
    )
    return document(ClusterStatus, found)


def _tasks_of(watched: Watched | None) -> dict[str, int]:
    """Component → tasks; empty: it has ended a moment ago."""
    return {} if watched is None else {node.id: node.tasks for node in watched.graph.nodes}


async def nodes(request: web.Request) -> web.StreamResponse:
    """All nodes."""
    look = await look_at(cluster_of(request))
    return document(NodeList, NodeList(tuple(map(node_row, look.nodes))))


async def node(request: web.Request) -> web.StreamResponse:
    """A node and its processes."""
    managed, name = cluster_of(request), request.match_info["node"]
    look = await look_at(managed)
    found = next((each for each in look.nodes if each.name == name), None)
    if found is None:
        raise RefusedError(404, "no supervisor with this name is there: it has ended, or the name is wrong")
    on_it = [each for each in look.topologies if name in each.where.values()]
    logs = await asyncio.to_thread(lambda: {each.name: logged_processes(managed.logs(each.name)) for each in on_it})
    rows = processes_on(name, on_it, lambda topology, process: process in logs[topology])
    return document(NodeDetail, NodeDetail(node_row(found), tuple(rows)))


async def process_logs(request: web.Request) -> web.StreamResponse:
    """Whose output is on this machine."""
    managed, name = await _topology(request)
    found = await asyncio.to_thread(logged_processes, managed.logs(name))
    return document(ProcessLogs, ProcessLogs(name, tuple(found)))


async def process_log(request: web.Request) -> web.StreamResponse:
    """The end of the output of a process, or what has come since."""
    managed, name = await _topology(request)
    process = request.match_info["process"]
    start = whole(request, "from", 0) if "from" in request.query else None
    found = (await asyncio.to_thread(logged_processes, managed.logs(name))).get(process)
    if found is None:
        raise RefusedError(404, "the output of this process is not on this machine, or the name is wrong")
    try:
        piece = await asyncio.to_thread(read_piece, name, process, found, start)
    except OSError as error:
        raise RefusedError(404, f"the output cannot be read: {error.strerror or 'it is no file'}") from error
    return document(ProcessLog, piece)


async def _topology(request: web.Request) -> tuple[ManagedCluster, str]:
    """The topology of the cluster that the path names."""
    managed, name = cluster_of(request), request.match_info["name"]
    if all(each.name != name for each in (await look_at(managed)).topologies):
        raise RefusedError(404, "the cluster has no topology with this name: it has ended, or the name is wrong")
    return managed, name


_API: Final = f"/api/{VERSION}"
_ONE: Final = f"{_API}/cluster/topologies/{{name:[^/]+}}"

CLUSTER: Final = (
    Route("GET", f"{_API}/cluster", Role.VIEWER, cluster, "The cluster: daemons, topologies.", ClusterStatus),
    Route("GET", f"{_API}/nodes", Role.VIEWER, nodes, "The nodes of the cluster.", NodeList),
    Route("GET", f"{_API}/nodes/{{node:[^/]+}}", Role.VIEWER, node, "A node and its processes.", NodeDetail),
    Route("GET", f"{_ONE}/logs", Role.VIEWER, process_logs, "Processes whose output is here.", ProcessLogs),
    Route(
        "GET",
        f"{_ONE}/logs/{{process:[^/]+}}",
        Role.VIEWER,
        process_log,
        "The end of the output of a process, or what has come since.",
        ProcessLog,
        None,
        ("from",),
    ),
)
