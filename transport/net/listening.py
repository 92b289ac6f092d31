"""Listening: connections that come in, from the first byte until one of them is a websocket and is handed on.

    accepted ─► caller ─(TLS)─► aiohttp's protocol ─► one request ─► websocket ─► accept
                   └ counted and timed from the first moment (see admission), with TLS before its handshake

1. Connections are accepted here, one by one, and counted before anything is made for them: a TLS connection that says
   nothing has some hundred KiB of buffers, and a thousand of them would be many. (asyncio's servers make all of them;
   to begin TLS on a connection of theirs loses what came before, on uvloop.)
2. aiohttp reads the request and answers it. It logs no access and nothing of what is no HTTP, sets no signal handler,
   and keeps no connection alive after an answer.
3. The Host must be one of: the address that was asked for, those it has become, the one the connection came to, and
   those that we were told; each with its port. With TLS any will do: whoever came has a certificate of the cluster's,
   and has checked that ours is for the name it dialled.
4. Closing a listener gives the address back, and ends those who have no websocket yet.
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
    """aiohttp writes a traceback for each request that is no HTTP: strangers would fill the log."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))


_http_log = logging.getLogger(f"{__name__}.http")
_http_log.addFilter(_RequestErrorFilter())

UNIX_PEER: Final = "unix"
"""Where all come from who come by a unix socket."""

_ACCEPT_AT_ONCE: Final = 16
_ACCEPT_AGAIN_S: Final = 0.1
_MAX_FIELD_BYTES: Final = 1024
_MAX_FIELDS: Final = 32
_GONE: Final = 499  # who asked does not wait for an answer; nginx says it so

Accept = Callable[[Connection], None]


class IncomingConnections:
    """All that listens for one network, and what has come in there."""

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
        """Begin. NetworkError if the address is taken, ExposedError if it must not be used."""
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
        """Begin, with sockets that are there. `hosts`: under which others know it."""
        names = [parse_address(UNIX_HOST)] if isinstance(address, UnixAddress) else []
        listener = WebSocketListener(self, accept, str(address), [*names, *hosts], bound)
        self._listeners.add(listener)
        return listener

    def closed(self, listener: WebSocketListener) -> None:
        """It listens no more."""
        self._listeners.discard(listener)

    async def close(self) -> None:
        """Close all listeners, and all that has come in."""
        for listener in tuple(self._listeners):
            listener.close()
        for tap in tuple(self.taps):
            tap.close()
        await self.http.shutdown(CLOSE_S)


class WebSocketListener:
    """A `Listener`."""

    def __init__(
        self,
        reception: IncomingConnections,
        accept: Accept,
        address: str,
        hosts: list[Address],
        bound: list[BoundSocket],
    ) -> None:
        self.address = address
        self.reception = reception
        self.accept = accept
        self.hosts = hosts
        self.callers: set[_IncomingProtocol] = set()
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
        for caller in tuple(self.callers):
            caller.abort()
        self.reception.closed(self)

    def _begin(self, listening: socket.socket) -> None:
        if self._closed:
            return
        try:
            # Not `sock_accept`: cancelled as a connection comes, it loses it, open.
            asyncio.get_running_loop().add_reader(listening, self._ready, listening)
        except NotImplementedError:  # Windows has no readers
            task = self.reception.group.create_task(self._accept(listening), name=f"listener at {self.address}")
            self._accepting.append(task)

    def _ready(self, listening: socket.socket) -> None:
        for _ in range(_ACCEPT_AT_ONCE):
            try:
                made, _ = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self.reception.limited_warnings.warn(
                    "%s: no connection can be accepted for now: %s", self.address, error
                )
                loop = asyncio.get_running_loop()
                loop.remove_reader(listening)
                loop.call_later(_ACCEPT_AGAIN_S, self._begin, listening)
                return
            self._take(made)

    async def _accept(self, listening: socket.socket) -> None:
        while True:
            try:
                made, _ = await asyncio.get_running_loop().sock_accept(listening)
            except OSError as error:
                self.reception.limited_warnings.warn(
                    "%s: no connection can be accepted for now: %s", self.address, error
                )
                await asyncio.sleep(_ACCEPT_AGAIN_S)
            else:
                self._take(made)

    def _take(self, made: socket.socket) -> None:
        made.setblocking(False)
        try:
            peer = made.getpeername()
        except OSError:  # it has gone
            made.close()
            return
        where = str(peer[0]) if isinstance(peer, tuple) else UNIX_PEER
        caller = _IncomingProtocol(self, made, where)
        leaves = self.reception.admission.came(caller, where)
        if leaves is None:
            self.reception.limited_warnings.warn(
                "%s: too many connections from %s: one more is turned away", self.address, where
            )
            made.close()
            return
        for stranger in leaves:
            if isinstance(stranger, _IncomingProtocol):
                stranger.abort()
        self.callers.add(caller)
        self.reception.group.create_task(caller.enter(), name=f"{where} comes in at {self.address}")


class _IncomingProtocol(Tap):
    """A connection that has come in."""

    def __init__(self, listener: WebSocketListener, made: socket.socket, where: str) -> None:
        super().__init__(listener.reception.limits.request_bytes)
        self.listener = listener
        self.where = where
        self._made = made
        self._reception = listener.reception
        self._counted = True
        self._frames: ClientFrames | None = None  # once it has its websocket
        limit_s = self._reception.limits.authenticate_within_s
        self._deadline = asyncio.get_running_loop().call_later(limit_s, self._too_late)

    async def enter(self) -> None:
        """Until aiohttp has it."""
        tls = self._reception.tls if self.where != UNIX_PEER else None
        limit_s = self._reception.limits.authenticate_within_s
        timings = {} if tls is None else {"ssl_handshake_timeout": limit_s, "ssl_shutdown_timeout": CLOSE_S}
        try:
            await asyncio.get_running_loop().connect_accepted_socket(lambda: self, self._made, ssl=tls, **timings)
        except (OSError, ssl.SSLError, TimeoutError) as error:
            self._reception.limited_warnings.warn("%s: %s is turned away: %s", *self._places(), error)
            self._made.close()
        finally:
            if self.inner is None:
                self.over = True
                self._left()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is there, and TLS is, where there is TLS."""
        http = self._reception.http()
        self.stand_before(http, cast(asyncio.Transport, transport))  # uvloop's is none by name
        self._reception.taps.add(self)
        http.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._left()

    def trust(self) -> None:
        """It is no stranger."""
        super().trust()
        self._reception.admission.trust(self)
        self._deadline.cancel()

    def abort(self) -> None:
        """It has to go."""
        if self.inner is not None:
            self.transport.abort()
        else:
            with contextlib.suppress(OSError):  # it has gone
                self._made.shutdown(socket.SHUT_RDWR)

    def data_received(self, data: bytes) -> None:
        """Bytes of the peer's."""
        if self._frames is not None and not self._frames.feed(data):
            self._reception.limited_warnings.warn(
                "%s: %s sends frames without a mask: it is turned away", *self._places()
            )
            self.transport.abort()
            return
        super().data_received(data)

    def upgraded(self, made: web.WebSocketResponse) -> None:
        """It has its websocket."""
        self._frames = ClientFrames()
        self.listener.callers.discard(self)
        self.budget_bytes = self._reception.limits.unauthenticated_bytes
        if self._reception.security.credentials is None:
            self.trust()
        binding = self._reception.binding if self._is_tls() else b""
        connection = WebSocketConnection(made, self, self._peer_name(), binding)
        try:
            self.listener.accept(connection)
        except Exception as error:
            connection.close()
            message = f"accept of {self.listener.address} failed"
            asyncio.get_running_loop().call_exception_handler({"message": message, "exception": error})

    def hosts(self) -> list[TcpAddress] | None:
        """The Hosts under which it may have come; None: any."""
        if self._is_tls():
            return None
        hosts = list(self.listener.hosts)
        here = self.transport.get_extra_info("sockname")
        if isinstance(here, tuple):
            hosts.append(TcpAddress(str(here[0]), int(here[1])))
        return [host for host in hosts if isinstance(host, TcpAddress)]

    def _places(self) -> tuple[str, str]:
        return self.listener.address, self.where

    def _too_late(self) -> None:
        self._reception.limited_warnings.warn(
            "%s: %s has not said who it is in time", *self._places(), level=logging.INFO
        )
        self.abort()

    def _left(self) -> None:
        self._deadline.cancel()
        if self._counted:
            self._counted = False
            self._reception.admission.gone(self, self.where)
        self.listener.callers.discard(self)
        self._reception.taps.discard(self)

    def _is_tls(self) -> bool:
        return self.transport.get_extra_info("ssl_object") is not None

    def _peer_name(self) -> str:
        peer = self.transport.get_extra_info("peername")
        return str(TcpAddress(str(peer[0]), int(peer[1]))) if isinstance(peer, tuple) else UNIX_PEER


async def _serve(request: web.BaseRequest) -> web.StreamResponse:
    transport = request.transport
    caller = transport.get_protocol() if transport is not None else None
    if not isinstance(caller, _IncomingProtocol):
        return _answer(_GONE)
    headers = ((name.decode("latin-1"), value.decode("latin-1")) for name, value in request.raw_headers)
    status = refusal(request.method, request.path_qs, headers, caller.hosts()) or await _upgrade(request, caller)
    level = logging.DEBUG if status == _GONE else logging.WARNING
    limited_warnings = caller.listener.reception.limited_warnings
    limited_warnings.warn(
        "%s: a request from %s is refused: %s", caller.listener.address, caller.where, status, level=level
    )
    return _answer(status)


def _answer(status: int) -> web.Response:
    answer = web.Response(status=status, headers={"Server": "aiostorm"})
    answer.force_close()
    return answer


async def _upgrade(request: web.BaseRequest, caller: _IncomingProtocol) -> int:
    """Does not return if the request is one for a websocket; else the status with which it is refused."""
    made = web.WebSocketResponse(compress=False, max_msg_size=MAX_MESSAGE_BYTES)
    made.headers["Server"] = "aiostorm"
    try:
        await made.prepare(request)
    except web.HTTPException as error:
        return error.status
    except ConnectionError:  # it went while our loop was held up
        return _GONE
    caller.upgraded(made)
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
    return ips[:1] if address.port == 0 else ips  # a port that is chosen is chosen for one of them
