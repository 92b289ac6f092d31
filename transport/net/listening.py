"""Listening: incoming connections, from their first byte until they are websockets and are passed on.

    accepted ─► _IncomingProtocol ─(TLS)─► aiohttp's protocol ─► one request ─► websocket ─► accept
                    └ counted and timed from the start (see admission), before the TLS handshake

1. This module accepts connections one by one, and counts each before it allocates anything for it: a silent TLS
   connection has some hundred KiB of buffers. (asyncio's servers accept and allocate at once. Starting TLS later on
   their connections loses bytes that arrived before, on uvloop.)
2. aiohttp reads the request and answers it. It logs neither accesses nor requests that are not HTTP, sets no signal
   handler, and closes the connection after an answer.
3. The Host must be one of: the requested address, its resolved addresses, the address that the connection came to, and
   the configured ones; each with its port. With TLS any Host passes: the peer has a certificate of the cluster, and has
   checked that ours is for the name that it dialled.
4. Closing a listener frees the address and ends the connections that are not websockets yet.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Callable, Sequence
from typing import Final, cast

from aiohttp import web
from aiohttp.http import HttpProcessingError

from ...runtime import LoopClock
from ..errors import NetworkError
from .addresses import Address, TcpAddress, UnixAddress, check_exposure, is_loopback, parse_address
from .admission import UNIX_HOST, Admission, AdmissionLimits, refusal
from .bound_sockets import BoundSocket, bound_tcp, bound_unix
from .limited_warnings import LimitedWarnings
from .masking import ClientFrames
from .network import Connection
from .security import Security
from .websocket_connection import CLOSE_S, MAX_MESSAGE_BYTES, Tap, WebSocketConnection

_log = logging.getLogger(__name__)


class _RequestErrorFilter(logging.Filter):
    """Drops aiohttp's traceback for a request that is not HTTP: unauthenticated peers could fill the log."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))


_http_log = logging.getLogger(f"{__name__}.http")
_http_log.addFilter(_RequestErrorFilter())

UNIX_PEER: Final = "unix"
"""The address of all peers that connect over a unix socket."""

_ACCEPT_AT_ONCE: Final = 16
_ACCEPT_AGAIN_S: Final = 0.1
_MAX_FIELD_BYTES: Final = 1024
_MAX_FIELDS: Final = 32
_CLIENT_CLOSED: Final = 499  # the client has closed the connection; nginx uses this number

Accept = Callable[[Connection], None]


class IncomingConnections:
    """The listeners of one network, and their incoming connections."""

    def __init__(self, security: Security, limits: AdmissionLimits, group: asyncio.TaskGroup, taps: set[Tap]) -> None:
        self.security = security
        self.limits = limits
        self.group = group
        self.taps = taps
        self.tls = security.server_context()
        self.binding = security.own_binding()
        self.admission = Admission(limits)
        self.limited_warnings = LimitedWarnings(LoopClock(), _log)
        self._listeners: set[WebSocketListener] = set()
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

    async def listen(self, address: Address, hosts: Sequence[Address], accept: Accept) -> WebSocketListener:
        """Listen at an address. NetworkError if it is taken, ExposedError if it needs TLS or a token."""
        if isinstance(address, UnixAddress):
            return self.listen_with([await bound_unix(address.path)], address, hosts, accept)
        ips = await _resolved(address)
        check_exposure(
            (str(TcpAddress(ip, address.port)) for ip in ips),
            tls=self.tls is not None,
            token=self.security.credentials is not None,
            insecure=self.security.insecure,
        )
        bound = bound_tcp(ips, address.port)
        address = TcpAddress(address.host, bound[0].socket.getsockname()[1])
        local = ("localhost",) if any(map(is_loopback, ips)) else ()
        names = [TcpAddress(name, address.port) for name in (address.host, *ips, *local)]
        return self.listen_with(bound, address, [*names, *hosts], accept)

    def listen_with(
        self, bound: list[BoundSocket], address: Address, hosts: Sequence[Address], accept: Accept
    ) -> WebSocketListener:
        """Listen with sockets that are already bound. `hosts`: addresses under which peers know the listener."""
        names = [parse_address(UNIX_HOST)] if isinstance(address, UnixAddress) else []
        listener = WebSocketListener(self, accept, str(address), [*names, *hosts], bound)
        self._listeners.add(listener)
        return listener

    def forget(self, listener: WebSocketListener) -> None:
        """The listener is closed."""
        self._listeners.discard(listener)

    async def close(self) -> None:
        """Close all listeners and incoming connections."""
        for listener in tuple(self._listeners):
            listener.close()
        for tap in tuple(self.taps):
            tap.close()
        await self.http.shutdown(CLOSE_S)


class WebSocketListener:
    """A `Listener`."""

    def __init__(
        self,
        incoming: IncomingConnections,
        accept: Accept,
        address: str,
        hosts: list[Address],
        bound: list[BoundSocket],
    ) -> None:
        self.address = address
        self.incoming = incoming
        self.accept = accept
        self.hosts = hosts
        self.pending: set[_IncomingProtocol] = set()
        self._closed = False
        self._bound = bound
        self._accepting: list[asyncio.Task[None]] = []
        for one in bound:
            self._begin(one.socket)

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        for task in self._accepting:
            task.cancel()
        loop = asyncio.get_running_loop()
        for one in self._bound:
            with contextlib.suppress(NotImplementedError):
                loop.remove_reader(one.socket)
            one.close()
        for protocol in tuple(self.pending):
            protocol.abort()
        self.incoming.forget(self)

    def _begin(self, listening: socket.socket) -> None:
        if self._closed:
            return
        try:
            # Not `sock_accept`: if it is cancelled just as a connection arrives, that connection stays open for ever.
            asyncio.get_running_loop().add_reader(listening, self._ready, listening)
        except NotImplementedError:  # Windows has no readers
            task = self.incoming.group.create_task(self._accept(listening), name=f"listener at {self.address}")
            self._accepting.append(task)

    def _ready(self, listening: socket.socket) -> None:
        for _ in range(_ACCEPT_AT_ONCE):
            try:
                made, _ = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self.incoming.limited_warnings.warn(
                    "%s: cannot accept connections at the moment: %s", self.address, error
                )
                loop = asyncio.get_running_loop()
                loop.remove_reader(listening)
                loop.call_later(_ACCEPT_AGAIN_S, self._begin, listening)
                return
            self._register(made)

    async def _accept(self, listening: socket.socket) -> None:
        while True:
            try:
                made, _ = await asyncio.get_running_loop().sock_accept(listening)
            except OSError as error:
                self.incoming.limited_warnings.warn(
                    "%s: cannot accept connections at the moment: %s", self.address, error
                )
                await asyncio.sleep(_ACCEPT_AGAIN_S)
            else:
                self._register(made)

    def _register(self, made: socket.socket) -> None:
        made.setblocking(False)
        try:
            peer = made.getpeername()
        except OSError:  # the peer has closed it already
            made.close()
            return
        source = str(peer[0]) if isinstance(peer, tuple) else UNIX_PEER
        protocol = _IncomingProtocol(self, made, source)
        excess = self.incoming.admission.opened(protocol, source)
        if excess is None:
            self.incoming.limited_warnings.warn(
                "%s: too many connections from %s: one more is closed", self.address, source
            )
            made.close()
            return
        for oldest in excess:
            if isinstance(oldest, _IncomingProtocol):
                oldest.abort()
        self.pending.add(protocol)
        self.incoming.group.create_task(protocol.start(), name=f"{source} connects to {self.address}")


class _IncomingProtocol(Tap):
    """An incoming connection, from accept to its end."""

    def __init__(self, listener: WebSocketListener, made: socket.socket, source: str) -> None:
        super().__init__(listener.incoming.limits.request_bytes)
        self.listener = listener
        self.source = source
        self._made = made
        self._incoming = listener.incoming
        self._counted = True
        self._frames: ClientFrames | None = None  # once it is a websocket
        limit_s = self._incoming.limits.authenticate_within_s
        self._deadline = asyncio.get_running_loop().call_later(limit_s, self._timed_out)

    async def start(self) -> None:
        """Complete the TLS handshake and pass the connection to aiohttp."""
        tls = self._incoming.tls if self.source != UNIX_PEER else None
        limit_s = self._incoming.limits.authenticate_within_s
        timings = {} if tls is None else {"ssl_handshake_timeout": limit_s, "ssl_shutdown_timeout": CLOSE_S}
        try:
            await asyncio.get_running_loop().connect_accepted_socket(lambda: self, self._made, ssl=tls, **timings)
        except (OSError, ssl.SSLError, TimeoutError) as error:
            self._incoming.limited_warnings.warn("%s: the connection of %s is refused: %s", *self._names(), error)
            self._made.close()
        finally:
            if self.inner is None:
                self.over = True
                self._unregister()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection is open, and its TLS handshake complete."""
        http = self._incoming.http()
        self.attach(http, cast(asyncio.Transport, transport))  # uvloop's class is no subclass
        self._incoming.taps.add(self)
        http.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._unregister()

    def set_authenticated(self) -> None:
        super().set_authenticated()
        self._incoming.admission.authenticated(self)
        self._deadline.cancel()

    def abort(self) -> None:
        """Close the connection at once."""
        if self.inner is not None:
            self.transport.abort()
        else:
            with contextlib.suppress(OSError):  # the peer has closed it already
                self._made.shutdown(socket.SHUT_RDWR)

    def data_received(self, data: bytes) -> None:
        if self._frames is not None and not self._frames.feed(data):
            self._incoming.limited_warnings.warn(
                "%s: %s sends frames without a mask: connection closed", *self._names()
            )
            self.transport.abort()
            return
        super().data_received(data)

    def on_websocket(self, made: web.WebSocketResponse) -> None:
        """The request is answered: the connection is a websocket."""
        self._frames = ClientFrames()
        self.listener.pending.discard(self)
        self.budget_bytes = self._incoming.limits.unauthenticated_bytes
        if self._incoming.security.credentials is None:
            self.set_authenticated()
        binding = self._incoming.binding if self._is_tls() else b""
        connection = WebSocketConnection(made, self, self._peer_name(), binding)
        try:
            self.listener.accept(connection)
        except Exception as error:
            connection.close()
            message = f"accept of {self.listener.address} failed"
            asyncio.get_running_loop().call_exception_handler({"message": message, "exception": error})

    def hosts(self) -> list[TcpAddress] | None:
        """The accepted values of the Host header; None: any."""
        if self._is_tls():
            return None
        hosts = list(self.listener.hosts)
        here = self.transport.get_extra_info("sockname")
        if isinstance(here, tuple):
            hosts.append(TcpAddress(str(here[0]), int(here[1])))
        return [host for host in hosts if isinstance(host, TcpAddress)]

    def _names(self) -> tuple[str, str]:
        return self.listener.address, self.source

    def _timed_out(self) -> None:
        self._incoming.limited_warnings.warn("%s: %s has not authenticated in time", *self._names(), level=logging.INFO)
        self.abort()

    def _unregister(self) -> None:
        self._deadline.cancel()
        if self._counted:
            self._counted = False
            self._incoming.admission.closed(self, self.source)
        self.listener.pending.discard(self)
        self._incoming.taps.discard(self)

    def _is_tls(self) -> bool:
        return self.transport.get_extra_info("ssl_object") is not None

    def _peer_name(self) -> str:
        peer = self.transport.get_extra_info("peername")
        return str(TcpAddress(str(peer[0]), int(peer[1]))) if isinstance(peer, tuple) else UNIX_PEER


async def _serve(request: web.BaseRequest) -> web.StreamResponse:
    transport = request.transport
    protocol = transport.get_protocol() if transport is not None else None
    if not isinstance(protocol, _IncomingProtocol):
        return _answer(_CLIENT_CLOSED)
    headers = ((name.decode("latin-1"), value.decode("latin-1")) for name, value in request.raw_headers)
    status = refusal(request.method, request.path_qs, headers, protocol.hosts()) or await _upgrade(request, protocol)
    level = logging.DEBUG if status == _CLIENT_CLOSED else logging.WARNING
    limited_warnings = protocol.listener.incoming.limited_warnings
    limited_warnings.warn(
        "%s: a request from %s is refused: %s", protocol.listener.address, protocol.source, status, level=level
    )
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


async def _resolved(address: TcpAddress) -> list[str]:
    if address.ip is not None:
        return [address.host]
    try:
        found = await asyncio.get_running_loop().getaddrinfo(address.host, address.port, type=1)
    except OSError as error:
        raise NetworkError(f"{address}: {error.strerror or error}") from error
    ips = list(dict.fromkeys(str(one[4][0]) for one in found))
    return ips[:1] if address.port == 0 else ips  # port 0: the system chooses a port for one address only
