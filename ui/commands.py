"""Commands: the handlers that change something. Each is logged, with where it came from and what came of it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

from aiohttp import web
from pydantic import ValidationError

from ..cluster.access import AuditError, Role
from ..cluster.client import MAX_TASKS, MAX_WORKERS, NoClusterError, OrderedBy
from ..cluster.coordination import SessionLostError, UnavailableError
from ..cluster.nimbus import MAX_WAIT_S, check_pins
from ..topology import UPDATABLE
from .cluster_model import RebalanceOrder
from .cluster_routes import look_at
from .model import ConfigOrder, Done, KillOrder, LogLevelOrder, Settings
from .routes import PAGES, VERSION, RefusedError, Route, adapter_of, document, running_here, watched_of
from .settings import settings_of, tag_of

if TYPE_CHECKING:
    from ..cluster import Cluster, TopologyInfo
    from ..topology import Topology
    from .managed import ManagedCluster

log = logging.getLogger("aiostorm.ui")

ANSWER_S: Final = 1.0
"""How long a response waits for a topology that drains; it drains on."""

SNAPSHOT_S: Final = 60.0

MAX_COMPONENT_CHARS: Final = 128
"""Of a name in an order; which components there are, the code of the topology says."""

SHOWN_CHARS: Final = 1_000

_Body = TypeVar("_Body")


async def activate(request: web.Request) -> web.StreamResponse:
    """Activate the spouts."""
    if (managed := await managed_of(request)) is not None:
        return await _ordered(request, managed, lambda cluster, name: cluster.activate(name), "is to be active")
    running = watched_of(request).running
    await running.activate()
    return _done(request, "activated")


async def deactivate(request: web.Request) -> web.StreamResponse:
    """Stop calling the spouts; what is under way is processed."""
    if (managed := await managed_of(request)) is not None:
        return await _ordered(request, managed, lambda cluster, name: cluster.deactivate(name), "is to be inactive")
    running = watched_of(request).running
    await running.deactivate()
    return _done(request, "deactivated: what is under way is processed")


async def kill(request: web.Request) -> web.StreamResponse:
    """Drain the topology, then end it."""
    order = await body_of(request, KillOrder, KillOrder())
    if order.wait_s is not None and not 0 <= order.wait_s <= 86_400:
        raise RefusedError(422, "wait_s is 0 to 86400 seconds")
    if (managed := await managed_of(request)) is not None:
        return await _ordered(
            request, managed, lambda cluster, name: cluster.kill(name, order.wait_s), "is to end: it is drained before"
        )
    running = watched_of(request).running
    try:
        async with asyncio.timeout(ANSWER_S):
            await running.kill(order.wait_s)
    except TimeoutError:
        return _done(request, "is being drained, then it ends", status=202)
    return _done(request, "has ended", state=running.state.value)


async def rebalance(request: web.Request) -> web.StreamResponse:
    """Spread a topology of a cluster anew over its nodes. Its code is not imported: what does not run is taken back."""
    order = await body_of(request, RebalanceOrder, RebalanceOrder())
    managed = await managed_of(request)
    if managed is None:
        watched_of(request)  # 404
        raise RefusedError(409, "it is not of a cluster: it runs where it was started (aiostorm submit hands one over)")
    name = request.match_info["name"]
    pins = {each: (labels,) if isinstance(labels, str) else labels for each, labels in order.pins.items()}
    _check_rebalance(order, pins)
    info, watched = await managed.topology(name), request.app[PAGES].watched(name)
    if info is not None and info.is_current and watched is not None:
        _check_components([*order.parallelism, *(each for each in pins if pins[each])], watched.running.topology)

    async def give(cluster: Cluster, name: str) -> None:
        try:
            await cluster.rebalance(
                name, order.workers, parallelism=order.parallelism, pins=pins, drain_s=order.drain_s, check=False
            )
        except ValueError as error:  # with the pins that it has they are too many
            raise RefusedError(422, str(error)) from error

    return await _ordered(request, managed, give, _rebalance_text(order, pins))


def _check_rebalance(order: RebalanceOrder, pins: Mapping[str, Collection[str]]) -> None:
    """RefusedError for numbers and names that no topology can have."""
    if order.workers is not None and not 1 <= order.workers <= MAX_WORKERS:
        raise RefusedError(422, f"workers: a topology has 1 to {MAX_WORKERS:,}")
    for name in (*order.parallelism, *pins):
        if not (name and name.isprintable() and len(name) <= MAX_COMPONENT_CHARS):
            reason = f"{name!r:.150} is no component: a name has 1 to {MAX_COMPONENT_CHARS} printable characters"
            raise RefusedError(422, reason)
    for name, tasks in order.parallelism.items():
        if not 1 <= tasks <= MAX_TASKS:
            raise RefusedError(422, f'parallelism: {name} has 1 to {MAX_TASKS:,} tasks, as in {{"{name}": 4}}')
    if (total := sum(order.parallelism.values())) > MAX_TASKS:
        raise RefusedError(422, f"parallelism: a topology has {MAX_TASKS:,} tasks or fewer, not {total:,}: lower some")
    try:
        check_pins({name: frozenset(labels) for name, labels in pins.items()})
    except ValueError as error:
        raise RefusedError(422, f"pins: {error}") from error
    if order.drain_s is not None and not 0 <= order.drain_s < MAX_WAIT_S:
        reason = f"drain_s is 0 to {MAX_WAIT_S:,.0f} seconds; leave it out for the message timeout of the topology"
        raise RefusedError(422, reason)


def _check_components(names: Iterable[str], topology: Topology) -> None:
    """RefusedError for one that it does not have: it would be drained for nothing."""
    for name in names:
        if name not in topology.components:
            there = ", ".join(topology.components)
            raise RefusedError(422, f"there is no component {name!r}: there are {there[:SHOWN_CHARS]}")


def _rebalance_text(order: RebalanceOrder, pins: Mapping[str, Collection[str]]) -> str:
    """What a rebalance does, for people."""
    parts = [] if order.workers is None else [f"with {order.workers} worker{'' if order.workers == 1 else 's'}"]
    parts += [f"{name}={tasks}" for name, tasks in order.parallelism.items()]
    parts += [f"{name} on {', '.join(sorted(labels)) or 'any node'}" for name, labels in pins.items()]
    return ", ".join(("is to be spread anew", *parts))[:SHOWN_CHARS]


async def snapshot(request: web.Request) -> web.StreamResponse:
    """Take a savepoint."""
    running = watched_of(request).running
    try:
        number = await running.snapshot(SNAPSHOT_S)
    except TypeError as error:
        raise RefusedError(409, str(error)) from error
    except TimeoutError as error:
        reason = f"no snapshot was committed within {SNAPSHOT_S:g} s; it may still be"
        raise RefusedError(504, reason) from error
    return _done(request, f"savepoint {number} is committed")


async def log_level(request: web.Request) -> web.StreamResponse:
    """Change the level of a logger, here and in the workers, until they end."""
    running = running_here(request)
    order = await body_of(request, LogLevelOrder, None)
    try:
        await running.set_log_level(order.logger, order.level)
    except ValueError as error:
        raise RefusedError(422, str(error)) from error
    return _done(request, f"logs {order.logger or 'the root logger'} at {order.level or 'the level above'}")


async def change_config(request: web.Request) -> web.StreamResponse:
    """Change settings that can be changed while it runs. With If-Match, only if they are still those."""
    running = watched_of(request).running
    order = await body_of(request, ConfigOrder, None)
    tags = {tag.strip().removeprefix("W/").strip('"') for tag in request.headers.get("If-Match", "").split(",")} - {""}
    if tags and not tags & {"*", tag_of(running.config)}:
        raise RefusedError(412, "the settings have changed since this page read them: read them again")
    if not order.settings:
        raise RefusedError(422, f"name a setting to change; these can be changed: {', '.join(sorted(UPDATABLE))}")
    before, settings = running.config, dict(order.settings)
    if (managed := await managed_of(request)) is not None:  # so that it lasts: for all later processes, too
        before.updated(settings)
        await _order(request, managed, lambda cluster, name: cluster.update(name, settings))
    after = await running.update(settings)
    changed = [name for name in sorted(UPDATABLE) if getattr(before, name) != getattr(after, name)]
    _log(request, f"changed {', '.join(changed) or 'nothing'}")
    found = settings_of(after)
    return document(Settings, found, {"ETag": f'"{found.tag}"'})


async def body_of(request: web.Request, kind: Callable[..., _Body], default: _Body | None) -> _Body:
    """The JSON body. RefusedError if it is missing (and there is no default), too large, or no such JSON.

    Strictly: `false` is no number of seconds.
    """
    body = await request.read()
    if not body and default is not None:
        return default
    if request.content_type != "application/json":
        raise RefusedError(415, "the body is JSON: send Content-Type: application/json")
    try:
        order: _Body = adapter_of(kind).validate_json(body, strict=True)
        return order
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise RefusedError(422, f"{where + ': ' if where else ''}{first['msg']}") from error


def _done(request: web.Request, message: str, *, state: str = "", status: int = 200) -> web.Response:
    _log(request, message)
    state = state or watched_of(request).running.state.value
    response = document(Done, Done(state, message))
    response.set_status(status)
    return response


async def managed_of(request: web.Request) -> ManagedCluster | None:
    """The cluster that has this topology: orders are for it, whatever runs here; None: there is none."""
    managed = request.app[PAGES].cluster
    if managed is None or request.match_info["name"] not in {t.name for t in (await look_at(managed)).topologies}:
        return None
    return managed


async def _ordered(
    request: web.Request,
    managed: ManagedCluster,
    order: Callable[[Cluster, str], Awaitable[object]],
    message: str,
) -> web.Response:
    """Write an order to the store: nimbus and supervisors carry it out."""
    found = await _order(request, managed, order)
    return _done(request, message, state=found.state, status=202)


async def _order(
    request: web.Request, managed: ManagedCluster, order: Callable[[Cluster, str], Awaitable[object]]
) -> TopologyInfo:
    """Write it. The topology then. RefusedError."""
    name = request.match_info["name"]
    try:
        async with managed.open_cluster(_ordered_by(request)) as cluster:
            await order(cluster, name)
            return await cluster.topology(name)
    except (AuditError, NoClusterError, UnavailableError, SessionLostError) as error:
        raise RefusedError(503, str(error)) from error
    finally:
        managed.forget()


def _ordered_by(request: web.Request) -> OrderedBy:
    """Who orders, for the audit log: without a token any process of this machine may have asked."""
    holder = request.app[PAGES].guard.holder(request.headers.get("Authorization", ""))
    who, role = ("the page", Role.OPERATOR) if holder is None else (holder.name, holder.role)
    return OrderedBy(who, role.value, f"the page, asked by {_origin(request)}")


def _log(request: web.Request, what: str) -> None:
    log.info("%s: %s (asked by %s)", request.match_info["name"], what, _origin(request))


def _origin(request: web.Request) -> str:
    return request.remote or "a process of this machine"


_ONE: Final = f"/api/{VERSION}/topologies/{{name:[^/]+}}"


def _post(name: str, handler: Any, help_text: str, takes: Any = None) -> Route:
    return Route("POST", f"{_ONE}/{name}", Role.OPERATOR, handler, help_text, Done, takes)


COMMANDS: Final = (
    _post("activate", activate, "Activates the spouts."),
    _post("deactivate", deactivate, "Stops calling the spouts."),
    _post("rebalance", rebalance, "Spreads a topology of a cluster anew over its nodes. 202.", RebalanceOrder),
    _post("kill", kill, "Drains the topology, then ends it. 202 while it drains.", KillOrder),
    _post("snapshot", snapshot, "Takes a savepoint (exactly once)."),
    _post("log-level", log_level, "Changes the level of a logger until the process ends.", LogLevelOrder),
    Route(
        "PATCH",
        f"{_ONE}/config",
        Role.OPERATOR,
        change_config,
        "Changes settings that can be changed while it runs. 412 if If-Match is not their tag.",
        Settings,
        ConfigOrder,
    ),
)
