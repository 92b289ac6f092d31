"""App: the web application, for a server of yours or of its own.

    subapp(running)     for an aiohttp application: app.add_subapp("/storm", aiostorm.ui.subapp(running))
    Dashboard(address)  a server of its own: LocalCluster(ui=Dashboard("127.0.0.1:8080"))

1. An address that other machines can reach needs TLS and a token, or nothing is served (ExposedError).
2. Every route has a role (see guard); one without is an error at the start.
3. A defect here ends a request or a feed, never a topology.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from aiohttp import web
from aiohttp.http import HttpProcessingError

from ..cluster import RunningTopology
from ..cluster.access import Role
from ..runtime import AiostormError, in_thread
from ..topology import ConfigError
from ..transport import (
    ExposedError,
    NetworkError,
    Secret,
    TcpAddress,
    TlsFiles,
    bound_tcp,
    is_loopback,
    parse_address,
    resolved,
)
from .cluster_routes import CLUSTER
from .commands import COMMANDS
from .feed import TooManyListenersError
from .guard import CSRF_HEADER, HEADERS, Asked, Bearers, Guard, OneToken, Origin, parse_origin
from .model import Problem
from .openapi import described
from .pages import Pages, Topologies
from .profiles import PROFILING
from .routes import PAGES, READING, VERSION, RefusedError, Route, document, prepare, version
from .traces import TRACING

if TYPE_CHECKING:
    from ..cluster import LocalCluster
    from .managed import ManagedCluster
    from .reading import Shown

log = logging.getLogger("aiostorm.ui")

MOST_BODY_BYTES: Final = 64 * 1024

CLOSE_S: Final = 1.0

ROLES: Final = web.AppKey("aiostorm_roles", dict[web.AbstractRoute, Role])


def subapp(
    running: RunningTopology | LocalCluster,
    *,
    hosts: Iterable[str] = (),
    token: Secret | Bearers | None = None,
    read_only: bool = False,
) -> web.Application:
    """The pages of a running topology, or of all topologies of a cluster, as an aiohttp application.

    Without a token it answers only connections over loopback. `hosts`: further names of the server: `storm.example`,
    `https://storm.example:8443` behind a proxy with TLS; they need a token (ExposedError). `read_only`: nothing can be
    changed. `token`: one, or a TokenFile with the tokens and roles of a cluster. ValueError for a name that is no host,
    or a token that is too short.
    """
    names = tuple(_origin(host) for host in hosts)
    exposed = [name.host for name in names if name.host != "localhost" and not is_loopback(name.host)]
    if exposed and token is None:
        raise ExposedError(f"the pages are for {exposed[0]}, which other machines can reach: they need a token=")
    guard = Guard(names, bearers=bearers_of(token), read_only=read_only)
    if isinstance(running, RunningTopology):
        one = running
        return make_app(lambda: {one.name: one}, guard)
    cluster = running
    return make_app(lambda: cluster.topologies, guard)


def bearers_of(token: Secret | Bearers | None) -> Bearers | None:
    """Who may ask. ValueError for a token that is too short."""
    return OneToken(token) if isinstance(token, Secret) else token


def make_app(
    topologies: Topologies, guard: Guard, *, all_loggers: bool = False, managed: ManagedCluster | None = None
) -> web.Application:
    """The application with all routes, each with its role. `all_loggers`: it shows the records of the whole program.

    `managed`: the cluster that it is of, if any.
    """
    app = web.Application(middlewares=[_guarded], client_max_size=MOST_BODY_BYTES)
    pages = app[PAGES] = Pages(topologies, guard, managed)
    roles = app[ROLES] = {}
    for route in ROUTES:
        roles[app.router.add_route(route.method, route.path, route.handler)] = route.role
    app.on_response_prepare.append(_add_headers)
    app.on_startup.append(_start)

    async def keep_logs(_: web.Application) -> None:
        pages.logs.attach(all_loggers=all_loggers)

    async def end(_: web.Application) -> None:
        pages.close()
        pages.logs.detach()

    app.on_startup.append(keep_logs)
    app.on_shutdown.append(end)
    return app


class HasTopologies(Protocol):
    """A cluster, or what knows the topologies of other programs."""

    @property
    def topologies(self) -> Mapping[str, Shown]:
        """The running topologies, by name."""
        ...


class _RequestErrorFilter(logging.Filter):
    """Drops aiohttp's traceback for a request that is not HTTP: any process that connects could fill the log."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))


_http_log = logging.getLogger("aiostorm.ui.http")
_http_log.addFilter(_RequestErrorFilter())


class Dashboard:
    """The pages of a cluster, on a server of its own: `LocalCluster(ui=Dashboard("127.0.0.1:8080"))`.

    `address`: HOST:PORT; port 0 is any free one, and `url` has it after the start. If other machines can reach the
    address, `tls` and `token` are needed (ExposedError at the start). `hosts`, `read_only`: see `subapp`. It starts and
    ends with the cluster.
    """

    def __init__(
        self,
        address: str = "127.0.0.1:8080",
        *,
        tls: TlsFiles | None = None,
        token: Secret | Bearers | None = None,
        hosts: Iterable[str] = (),
        read_only: bool = False,
    ) -> None:
        parsed = parse_address(address)
        if not isinstance(parsed, TcpAddress):
            raise NetworkError(f"{address}: a browser needs HOST:PORT")
        self._address = parsed
        self._tls = tls
        self._bearers = bearers_of(token)  # a token that is too short is an error now
        self._names = tuple(_origin(host) for host in hosts)
        self._read_only = read_only
        self._runner: web.AppRunner | None = None
        self.url = ""

    async def check(self) -> list[str]:
        """The IP addresses to listen at. ExposedError if they need TLS and a token; NetworkError if there is none."""
        ips = await resolved(self._address)
        missing = [name for name, there in (("TLS", self._tls), ("a token", self._bearers)) if there is None]
        if missing and not all(map(is_loopback, ips)):
            raise ExposedError(
                f"the page at {self._address} can be reached from other machines: it needs {' and '.join(missing)}. "
                "Use 127.0.0.1, or give --credentials DIR (files of `aiostorm certs`) and --ui-token-file FILE"
            )
        return ips

    async def start(self, cluster: HasTopologies, managed: ManagedCluster | None = None) -> None:
        """Listen, and show the topologies of the cluster. NetworkError if the port is taken.

        `managed`: a cluster with nodes, which has pages, too.
        """
        ips = await self.check()
        scheme = "http" if self._tls is None else "https"
        context = None if self._tls is None else self._tls.page_context()
        try:
            bound = bound_tcp(ips, self._address.port)
        except NetworkError as error:
            raise NetworkError(f"no page: {error}; choose another port, or port 0 for any free one") from error
        port = int(bound[0].socket.getsockname()[1])
        names = (Origin(scheme, self._address.host, port), *self._names)
        guard = Guard(names, bearers=self._bearers, read_only=self._read_only)
        app = make_app(lambda: cluster.topologies, guard, all_loggers=True, managed=managed)
        runner = self._runner = web.AppRunner(app, access_log=None, logger=_http_log, shutdown_timeout=CLOSE_S)
        try:
            await runner.setup()
            for one in bound:
                await web.SockSite(runner, one.socket, ssl_context=context).start()
        except BaseException:
            for one in bound:
                one.close()
            await self.stop()
            raise
        self.url = f"{scheme}://{TcpAddress(self._address.host, port)}/"
        log.info("the page is at %s", self.url)

    async def stop(self) -> None:
        """End it. A second call does nothing."""
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()


async def openapi(request: web.Request) -> web.StreamResponse:
    """The description of the REST interface."""
    return document(dict[str, Any], await in_thread(_description))


@cache
def _description() -> dict[str, Any]:
    """It takes tenths of a second, in which the loop runs on."""
    return described(ROUTES, version())


ROUTES: Final[tuple[Route, ...]] = (
    *READING,
    *COMMANDS,
    *CLUSTER,
    *TRACING,
    *PROFILING,
    Route("GET", f"/api/{VERSION}/openapi.json", Role.VIEWER, openapi, "This document.", dict),
)


# -- every request -----------------------------------------------------------------------------------------------------


@web.middleware
async def _guarded(request: web.Request, handler: Callable[[web.Request], Any]) -> web.StreamResponse:
    pages = request.app[PAGES]
    role = request.app[ROLES].get(request.match_info.route)
    if request.match_info.http_exception is not None:
        role = Role.VIEWER  # what is not there is known only to those who may look
    refused = pages.guard.refusal(_asked(request), role)
    if refused is not None:
        log.debug(
            "refused (%d, %s): %s %s from %s",
            refused.status,
            refused.reason,
            request.method,
            request.path,
            request.remote,
        )
        headers = {"WWW-Authenticate": "Bearer"} if refused.status == 401 else {}
        return _problem(refused.status, refused.reason, headers)
    try:
        if "/api/" in request.path:
            await pages.refresh(request.match_info.get("name", ""))
        response: web.StreamResponse = await handler(request)
        return response
    except RefusedError as error:
        return _problem(error.status, str(error))
    except web.HTTPException as error:
        return _problem(error.status, error.reason, {k: v for k, v in error.headers.items() if k == "Allow"})
    except TooManyListenersError as error:
        return _problem(503, str(error))
    except ConfigError as error:
        return _problem(422, "; ".join(error.problems))
    except AiostormError as error:
        return _problem(409, str(error))
    except Exception:
        log.exception("%s %s failed", request.method, request.path)
        return _problem(500, "this failed; the log of the process has more")


def _asked(request: web.Request) -> Asked:
    transport, headers = request.transport, request.headers
    own = transport.get_extra_info("sockname") if transport is not None else None
    peer = transport.get_extra_info("peername") if transport is not None else None
    ends = [(str(end[0]), int(end[1])) for end in (own, peer) if isinstance(end, tuple)]
    return Asked(
        method=request.method,
        scheme=request.scheme,
        local=transport is not None and all(is_loopback(host) for host, _ in ends),  # a unix socket has no host
        own=ends[0] if len(ends) == 2 else None,
        hosts=tuple(headers.getall("Host", ())),
        origins=tuple(headers.getall("Origin", ())),
        fetch_site=headers.get("Sec-Fetch-Site", ""),
        fetch_mode=headers.get("Sec-Fetch-Mode", ""),
        authorization=headers.get("Authorization", ""),
        csrf=headers.get(CSRF_HEADER, ""),
    )


def _problem(status: int, reason: str, headers: Mapping[str, str] | None = None) -> web.Response:
    response = document(Problem, Problem(reason), dict(headers or {}))
    response.set_status(status)
    return response


async def _add_headers(request: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(HEADERS)


async def _start(app: web.Application) -> None:
    without = [f"{route.method} {route.resource}" for route in app.router.routes() if route not in app[ROLES]]
    if without:
        raise RuntimeError(f"routes without a role: {', '.join(without)}; aiostorm.ui.routes declares one for each")
    await in_thread(partial(prepare, [kind for route in ROUTES for kind in (route.gives, route.takes)]))


def _origin(host: str) -> Origin:
    found = parse_origin(host if "://" in host else f"http://{host}")
    if found is None:
        raise ValueError(f"{host!r} is no name of a server: storm.example, storm.example:8080 or https://storm.example")
    return found
