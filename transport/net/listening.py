"""Listening: incoming connections, from their first byte until they are websockets and are passed on.

    accepted (see accepting) ─(TLS)─► aiohttp's protocol ─► one request ─► websocket ─► accept

1. aiohttp reads the request and answers it. It logs neither accesses nor requests that are not HTTP, sets no signal
   handler, and closes the connection after an answer.
2. The Host must be one of: the requested address, its resolved addresses, the address that the connection came to, and
   the configured ones; each with its port. With TLS any Host passes: the peer has a certificate of the cluster, and has
   checked that ours is for the name that it dialled.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, cast

from aiohttp import web
from aiohttp.http import HttpProcessingError

from .accepting import Accept, IncomingPeer, Listeners, SocketListener
from .addresses import Address, TcpAddress, check_exposure, is_loopback
from .admission import AdmissionLimits, refusal
from .bound_sockets import bound_tcp, resolved
from .masking import ClientFrames
from .websocket_connection import MAX_MESSAGE_BYTES, Tap, WebSocketConnection
from .write_buffer import CLOSE_S

if TYPE_CHECKING:
    from .security import Security

_log = logging.getLogger(__name__)


class _RequestErrorFilter(logging.Filter):
    """Drops aiohttp's traceback for a request that is not HTTP: unauthenticated peers could fill the log."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))


_http_log = logging.getLogger(f"{__name__}.http")
_http_log.addFilter(_RequestErrorFilter())

_MAX_FIELD_BYTES: Final = 1024
_MAX_FIELDS: Final = 32
_CLIENT_CLOSED: Final = 499  # the client has closed the connection; nginx uses this number


class IncomingConnections:
    """The listeners of one network, and their incoming connections."""

    def __init__(self, security: Security, limits: AdmissionLimits, group: asyncio.TaskGroup, taps: set[Tap]) -> None:
        self.security = security
        self.taps = taps
        self.tls = security.server_context()
        self.binding = security.own_binding()
        self.listeners = Listeners(limits, group, _log)
        self.http = web.Server(
            _serve,
            access_log=None,
            handler_cancellation=True,
            logger=_http_log,
            keepalive_timeout=0,
            lingering_time=0,
            max_line_size=_MAX_FIELD_BYTES,
            max_field_size=_MAX_FIELD_BYTES,
            max_headers=_MAX_FIELDS,
            read_bufsize=limits.request_bytes,
        )

    async def listen(self, address: TcpAddress, hosts: Sequence[Address], accept: Accept) -> SocketListener:
        """Listen at an address. NetworkError if it is taken, ExposedError if it needs TLS or a token.

        `hosts`: further addresses under which peers know the listener.
        """
        ips = await resolved(address)
        check_exposure(
            (str(TcpAddress(ip, address.port)) for ip in ips),
            tls=self.tls is not None,
            token=self.security.credentials is not None,
            insecure=self.security.insecure,
        )
        bound = bound_tcp(ips, address.port)
        address = TcpAddress(address.host, bound[0].socket.getsockname()[1])
        local = ("localhost",) if any(map(is_loopback, ips)) else ()
        known = [TcpAddress(name, address.port) for name in (address.host, *ips, *local)]
        names = [*known, *(host for host in hosts if isinstance(host, TcpAddress))]
        return self.listeners.listen(
            str(address), bound, lambda peer: _IncomingProtocol(self, peer, names, accept).start()
        )

    async def close(self) -> None:
        """Close all listeners and incoming connections."""
        self.listeners.close()
        for tap in tuple(self.taps):
            tap.writes.close()
        await self.http.shutdown(CLOSE_S)


class _IncomingProtocol(Tap):
    """An incoming connection, from accept to its end. `names`: the accepted values of Host, without TLS."""

    def __init__(
        self, incoming: IncomingConnections, peer: IncomingPeer, names: list[TcpAddress], accept: Accept
    ) -> None:
        super().__init__(incoming.listeners.limits.request_bytes)
        self.peer = peer
        self._incoming = incoming
        self._names = names
        self._accept = accept
        self._frames: ClientFrames | None = None  # once it is a websocket

    async def start(self) -> None:
        """Complete the TLS handshake and pass the connection to aiohttp."""
        tls = self._incoming.tls
        limit_s = self._incoming.listeners.limits.authenticate_within_s
        timings = {} if tls is None else {"ssl_handshake_timeout": limit_s, "ssl_shutdown_timeout": CLOSE_S}
        try:
            loop = asyncio.get_running_loop()
            await loop.connect_accepted_socket(lambda: self, self.peer.socket, ssl=tls, **timings)
        except (OSError, ssl.SSLError, TimeoutError) as error:
            self.peer.warn("%s: the connection of %s is refused: %s", error)
            self.peer.socket.close()
        finally:
            if self.inner is None:
                self._unregister()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection is open, and its TLS handshake complete."""
        http = self._incoming.http()
        self.peer.transport = cast(asyncio.Transport, transport)  # uvloop's class is no subclass
        self.attach(http, self.peer.transport)
        self._incoming.taps.add(self)
        http.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._unregister()

    def set_authenticated(self) -> None:
        super().set_authenticated()
        self.peer.on_authenticated()

    def data_received(self, data: bytes) -> None:
        if self._frames is not None and not self._frames.feed(data):
            self.peer.warn("%s: %s sends frames without a mask: connection closed")
            self.peer.abort()
            return
        super().data_received(data)

    def on_websocket(self, made: web.WebSocketResponse) -> None:
        """The request is answered: the connection is a websocket."""
        self._frames = ClientFrames()
        self.peer.on_passed()
        self.budget_bytes = self._incoming.listeners.limits.unauthenticated_bytes
        if self._incoming.security.credentials is None:
            self.set_authenticated()
        binding = self._incoming.binding if self._is_tls() else b""
        self.peer.listener.pass_on(WebSocketConnection(made, self, self._peer_name(), binding), self._accept)

    def hosts(self) -> list[TcpAddress] | None:
        """The accepted values of the Host header; None: any."""
        if self._is_tls():
            return None
        here = self.writes.transport.get_extra_info("sockname")
        return [*self._names, *([TcpAddress(str(here[0]), int(here[1]))] if isinstance(here, tuple) else [])]

    def _unregister(self) -> None:
        self.peer.on_lost()
        self._incoming.taps.discard(self)

    def _is_tls(self) -> bool:
        return self.writes.transport.get_extra_info("ssl_object") is not None

    def _peer_name(self) -> str:
        peer = self.writes.transport.get_extra_info("peername")
        return str(TcpAddress(str(peer[0]), int(peer[1]))) if isinstance(peer, tuple) else self.peer.source


async def _serve(request: web.BaseRequest) -> web.StreamResponse:
    transport = request.transport
    protocol = transport.get_protocol() if transport is not None else None
    if not isinstance(protocol, _IncomingProtocol):
        return _answer(_CLIENT_CLOSED)
    headers = ((name.decode("latin-1"), value.decode("latin-1")) for name, value in request.raw_headers)
    status = refusal(request.method, request.path_qs, headers, protocol.hosts()) or await _upgrade(request, protocol)
    level = logging.DEBUG if status == _CLIENT_CLOSED else logging.WARNING
    protocol.peer.warn("%s: a request from %s is refused: %s", status, level=level)
    return _answer(status)


def _answer(status: int) -> web.Response:
    answer = web.Response(status=status, headers={"Server": "aiostorm"})
    answer.force_close()
    return answer


async def _upgrade(request: web.BaseRequest, protocol: _IncomingProtocol) -> int:
    """Serve a websocket until its end; for any other request, return the status with which it is refused."""
    made = web.WebSocketResponse(compress=False, max_msg_size=MAX_MESSAGE_BYTES)
    made.headers["Server"] = "aiostorm"
    try:
        await made.prepare(request)
    except web.HTTPException as error:
        return error.status
    except ConnectionError:  # the peer closed it while our loop was blocked
        return _CLIENT_CLOSED
    protocol.on_websocket(made)
    # aiohttp ends the connection when its handler returns, and cancels the handler when the connection is lost.
    never: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    return await never
