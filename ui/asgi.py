"""ASGI: the pages as a part of an application of Starlette, FastAPI, … : `app.mount("/storm", asgi_app(running))`.

    ASGI server ─ scope, receive ─► request, as bytes of HTTP/1.0 ─► connection in memory ─► the aiohttp application
                ◄─ send ─────────── head, then what comes (also of a stream) ◄──────────────┘

1. Each request is a connection of its own. Its ends are those of the scope, so that the guard decides as for any other.
2. Without a token only connections over loopback are answered, and none that has come by a proxy: a server may take the
   client's address from a header, which any client can send. What the scope does not say is not loopback.
3. A body is bounded, and read before the request goes on. A response waits for the server: not more than BUFFER_BYTES
   of it are kept.

From: the ASGI specification, 3.0; HTTP spec 2.4.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import quote

from aiohttp import web

from .app import CLOSE_S, MOST_BODY_BYTES, subapp
from .model import Problem
from .routes import adapter_of

if TYPE_CHECKING:
    from types import TracebackType

    from ..cluster import LocalCluster, RunningTopology
    from ..transport import Secret
    from .guard import Bearers

log = logging.getLogger("aiostorm.ui")

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

BUFFER_BYTES: Final = 64 * 1024

_PREFIX: Final = "/page"
"""Where the pages are in the application behind the connections in memory."""

_UNKNOWN: Final = ("0.0.0.0", 0)  # noqa: S104 - no address to listen at: one that is not loopback
"""The end of a connection of which the scope does not say enough."""

_PROXIED: Final = (
    b"forwarded",
    b"via",
    b"x-forwarded",
    b"x-real-ip",
    b"x-client-ip",
    b"true-client-ip",
    b"cf-connecting",
)
"""How the names of headers begin that proxies add."""

_NOT_PASSED: Final = frozenset(
    (b"connection", b"content-length", b"expect", b"keep-alive", b"proxy-connection", b"te", b"trailer", b"upgrade")
) | {b"transfer-encoding"}
"""Headers of the connection to the ASGI server."""

_NOT_RETURNED: Final = frozenset((b"connection", b"date", b"keep-alive", b"server", b"transfer-encoding"))
"""Headers that the ASGI server adds by itself."""

_METHOD: Final = re.compile(r"[A-Z]{1,20}")
_NAME: Final = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_UNSAFE: Final = re.compile(rb"[\x00\r\n]")
_UNSAFE_QUERY: Final = re.compile(rb"[\x00-\x20\x7f]")


def asgi_app(
    running: RunningTopology | LocalCluster,
    *,
    hosts: Iterable[str] = (),
    token: Secret | Bearers | None = None,
    read_only: bool = False,
) -> AsgiApp:
    """The pages of a running topology, or of all topologies of a cluster, as an ASGI application.

    Without a token it answers only connections over loopback that come by no proxy. `hosts`, `token`, `read_only` and
    errors: see `subapp`.
    """
    return AsgiApp(subapp(running, hosts=hosts, token=token, read_only=read_only))


class AsgiApp:
    """An aiohttp application as one of ASGI. It starts with its first request, or with the lifespan of a server.

    A server ends it if it is the whole application; else `async with`, or `aclose`, ends it.
    """

    def __init__(self, app: web.Application) -> None:
        outer = web.Application()
        outer.add_subapp(_PREFIX, app)
        self._runner = web.AppRunner(outer, access_log=None, shutdown_timeout=CLOSE_S)
        self._starting = asyncio.Lock()
        self._closed = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, for an ASGI server."""
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "http":
            await self._answer(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1000})  # before it is accepted: status 403
        else:
            raise ValueError(f"no ASGI scope that is known: {scope['type']!r:.80}")

    async def __aenter__(self) -> Self:
        await self._start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """End all responses, and answer no more. A second call does nothing."""
        self._closed = True
        async with self._starting:  # what is being started is ended when it has started
            await self._runner.cleanup()

    async def _start(self) -> None:
        async with self._starting:
            if self._runner.server is None and not self._closed:
                await self._runner.setup()

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        try:
            await self._start()
        except Exception as error:
            log.exception("the page cannot start")
            await send({"type": "lifespan.startup.failed", "message": f"the page of aiostorm cannot start: {error}"})
            return
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.aclose()
        await send({"type": "lifespan.shutdown.complete"})

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await _body(receive)
        if body is None:
            await _refuse(send, 413, f"a body has at most {MOST_BODY_BYTES:,} bytes")
            return
        request = request_of(scope, body)
        if request is None:
            await _refuse(send, 400, "a request whose method, path or headers are not those of HTTP")
            return
        await self._start()
        if self._runner.server is None or self._closed:  # perhaps while the body came
            await _refuse(send, 503, "the page has ended")
            return
        protocol = self._runner.server()
        connection = Connection(protocol, scope)
        protocol.connection_made(connection)
        try:
            async with asyncio.TaskGroup() as group:
                leaving = group.create_task(_until_left(receive, connection), name="the client of the page")
                protocol.data_received(request)
                await _respond(connection, send, scope.get("root_path", ""))
                leaving.cancel()
        except* OSError:
            log.debug("the client of %s has left", scope["path"])
        finally:
            protocol.connection_lost(None)


async def _body(receive: Receive) -> bytes | None:
    """The body of a request; None: it is too large, or the client has left."""
    found = b""
    while True:
        message = await receive()
        found += bytes(message.get("body", b""))
        if message["type"] != "http.request" or len(found) > MOST_BODY_BYTES:
            return None
        if not message.get("more_body", False):
            return found


def request_of(scope: Mapping[str, Any], body: bytes) -> bytes | None:
    """A request as HTTP/1.0; None if it cannot be one."""
    path, root = str(scope["path"]), str(scope.get("root_path", ""))
    if root and (path == root or path.startswith(root.rstrip("/") + "/")):
        path = path[len(root.rstrip("/")) :]
    method, query = str(scope["method"]), bytes(scope.get("query_string", b""))
    headers = [(name, value) for name, value in scope["headers"] if name.lower() not in _NOT_PASSED]
    if not _METHOD.fullmatch(method) or _UNSAFE_QUERY.search(query):
        return None
    if not all(_NAME.fullmatch(name) and not _UNSAFE.search(value) for name, value in headers):
        return None
    target = (_PREFIX + quote(path, safe="/:@!$&'()*+,;=~", errors="surrogatepass")).encode()
    lines = [method.encode() + b" " + target + (b"?" + query if query else b"") + b" HTTP/1.0"]
    lines += [name + b": " + value for name, value in headers]
    if body:
        lines.append(b"Content-Length: %d" % len(body))
    return b"\r\n".join([*lines, b"", body])


async def _until_left(receive: Receive, connection: Connection) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    connection.close()


async def _respond(connection: Connection, send: Send, root: str) -> None:
    """Send what the application writes, as it comes."""
    head, begun = b"", False
    while (chunk := await connection.read()) is not None:
        if not begun:
            head += chunk
            if b"\r\n\r\n" not in head:
                continue
            first, chunk = head.split(b"\r\n\r\n", 1)
            begun = True
            await send(_head(first, root))
        if chunk:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
    if begun:
        await send({"type": "http.response.body", "body": b"", "more_body": False})
    else:
        await _refuse(send, 503, "the page has ended")


def _head(head: bytes, root: str) -> dict[str, Any]:
    status, *lines = head.split(b"\r\n")
    headers: list[tuple[bytes, bytes]] = []
    for line in lines:
        name, _, value = line.partition(b":")
        name, value = name.strip().lower(), value.strip()
        if name == b"location":  # of the page: relative addresses need its slash
            value = quote(root).encode() + value.removeprefix(_PREFIX.encode())
        if name not in _NOT_RETURNED:
            headers.append((name, value))
    return {"type": "http.response.start", "status": int(status.split()[1]), "headers": headers}


async def _refuse(send: Send, status: int, reason: str) -> None:
    headers = [(b"content-type", b"application/json"), (b"cache-control", b"no-store")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    body = adapter_of(Problem).dump_json(Problem(reason))
    await send({"type": "http.response.body", "body": body, "more_body": False})


class Connection(asyncio.Transport):
    """The connection of one request, in memory: what the application writes waits here to be read."""

    def __init__(self, protocol: asyncio.Protocol, scope: Mapping[str, Any]) -> None:
        own, peer = _end(scope.get("server")), _end(scope.get("client"))
        if any(name.lower().startswith(_PROXIED) for name, _ in scope["headers"]):
            peer = _UNKNOWN
        super().__init__({"sockname": own, "peername": peer, "sslcontext": scope.get("scheme") == "https" or None})
        self._protocol = protocol
        self._chunks: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._paused = False
        self._closing = False
        self._changed = asyncio.Event()

    async def read(self) -> bytes | None:
        """What was written next; None: it was the last."""
        while not self._chunks:
            if self._closing:
                return None
            self._changed.clear()
            await self._changed.wait()
        chunk = b"".join(self._chunks)
        self._chunks.clear()
        self._waiting_bytes = 0
        if self._paused:
            self._paused = False
            self._protocol.resume_writing()
        return chunk

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Keep what the application writes, and let it wait if that is much."""
        if self._closing or not data:
            return
        self._chunks.append(bytes(data))
        self._waiting_bytes += len(data)
        self._changed.set()
        if self._waiting_bytes > BUFFER_BYTES and not self._paused:
            self._paused = True
            self._protocol.pause_writing()

    def close(self) -> None:
        """Nothing more is written."""
        self._closing = True
        self._changed.set()

    abort = close

    def is_closing(self) -> bool:
        """Has it ended?"""
        return self._closing

    def pause_reading(self) -> None:
        """The request is here as a whole."""

    def resume_reading(self) -> None:
        """The request is here as a whole."""


def _end(end: Any) -> tuple[str, int]:
    """An end of the connection, as the scope has it."""
    host, port = end if isinstance(end, tuple | list) and len(end) == 2 else _UNKNOWN
    return (host, port) if isinstance(host, str) and isinstance(port, int) else _UNKNOWN
