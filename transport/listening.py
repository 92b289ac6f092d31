"""Listening: connections that come in, from the first byte until one of them is a websocket and is handed on.

    accepted ─► caller ─(TLS)─► aiohttp's protocol ─► one request ─► websocket ─► accept
                   └ counted and timed from the first moment (see admission), with TLS before its handshake

1. TLS begins after a connection was counted, not as it is accepted: a TLS connection that says nothing has some
   hundred KiB of buffers, and a thousand of them would be many.
2. aiohttp reads the request and answers it. It logs no access, sets no signal handler, keeps no connection alive after
   an answer, and does not say its name.
3. The Host must be one of: the address that was asked for, those it has become, the one the connection came to, and
   those that we were told; each with its port. With TLS any will do: whoever came has a certificate of the cluster's,
   and has checked that ours is for the name it dialled.
4. Closing a listener gives the address back, and ends those who have no websocket yet.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Sequence
from typing import Final, cast

from aiohttp import web

from .addresses import Address, TcpAddress, UnixAddress, check_exposure, is_loopback, parse_address
from .admission import UNIX_HOST, Admission, AdmissionLimits, refusal
from .errors import NetworkError
from .network import Connection
from .security import Security
from .socket_files import SocketFile
from .websocket_connection import CLOSE_S, MAX_MESSAGE_BYTES, Tap, WebSocketConnection

_log = logging.getLogger(__name__)

_BACKLOG: Final = 256
_MAX_FIELD_BYTES: Final = 1024
_MAX_FIELDS: Final = 32

Accept = Callable[[Connection], None]


class Reception:
    """All that listens for one network, and what has come in there."""

    def __init__(self, security: Security, limits: AdmissionLimits, group: asyncio.TaskGroup, taps: set[Tap]) -> None:
        self.security = security
        self.limits = limits
        self.group = group
        self.taps = taps
        self.tls = security.server_context()
        self.binding = security.own_binding()
        self.admission = Admission(limits)
        self._listeners: set[WebSocketListener] = set()
        self.http = web.Server(
            _serve,
            access_log=None,
            handler_cancellation=True,
            logger=_log,
            keepalive_timeout=0,
            lingering_time=0,
            max_line_size=_MAX_FIELD_BYTES,
            max_field_size=_MAX_FIELD_BYTES,
            max_headers=_MAX_FIELDS,
            read_bufsize=limits.request_bytes,
        )

    async def listen(self, address: Address, hosts: Sequence[Address], accept: Accept) -> WebSocketListener:
        """Begin. NetworkError if the address is taken, ExposedError if it must not be used."""
        loop = asyncio.get_running_loop()
        if isinstance(address, UnixAddress):
            file = await SocketFile.bind(address.path)
            listener = WebSocketListener(self, accept, str(address), [parse_address(UNIX_HOST)], file)
            server = await loop.create_unix_server(lambda: _Caller(listener), sock=file.socket, backlog=_BACKLOG)
        else:
            ips = await _resolved(address)
            check_exposure(
                (str(TcpAddress(ip, address.port)) for ip in ips),
                tls=self.tls is not None,
                token=self.security.credentials is not None,
                insecure=self.security.insecure,
            )
            listener = WebSocketListener(self, accept, str(address), [])
            try:
                server = await loop.create_server(
                    lambda: _Caller(listener), host=ips, port=address.port, backlog=_BACKLOG
                )
            except OSError as error:
                raise NetworkError(f"cannot listen at {address}: {error.strerror or error}") from error
            port = server.sockets[0].getsockname()[1]
            listener.address = str(TcpAddress(address.host, port))
            names = [address.host, *ips]
            if any(map(is_loopback, ips)):
                names.append("localhost")
            listener.hosts += [TcpAddress(name, port) for name in names]
        listener.hosts += hosts
        listener.server = server
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
        reception: Reception,
        accept: Accept,
        address: str,
        hosts: list[Address],
        file: SocketFile | None = None,
    ) -> None:
        self.address = address
        self.reception = reception
        self.accept = accept
        self.hosts = hosts
        self.server: asyncio.Server | None = None
        self.callers: set[_Caller] = set()
        self.closed = False
        self._file = file

    def close(self) -> None:
        """See Listener."""
        if self.closed:
            return
        self.closed = True
        if self.server is not None:
            self.server.close()
        if self._file is not None:
            self._file.remove()
        for caller in tuple(self.callers):
            caller.abort()
        self.reception.closed(self)


class _Caller(Tap):
    """A connection that has come in."""

    def __init__(self, listener: WebSocketListener) -> None:
        super().__init__(listener.reception.limits.request_bytes)
        self.listener = listener
        self.where = ""  # an IP address, or `unix`
        self._reception = listener.reception
        self._deadline: asyncio.TimerHandle | None = None
        self._counted = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = self.transport = cast(asyncio.Transport, transport)  # uvloop's is none by name
        peer = transport.get_extra_info("peername")
        self.where = str(peer[0]) if isinstance(peer, tuple) else "unix"
        leaves = None if self.listener.closed else self._reception.admission.came(self, self.where)
        if leaves is None:
            _log.warning("%s: too many connections from %s: one more is turned away", self.listener.address, self.where)
            self.over = True
            transport.abort()
            return
        self._counted = True
        self.listener.callers.add(self)
        limit_s = self._reception.limits.stranger_s
        self._deadline = asyncio.get_running_loop().call_later(limit_s, self._too_late)
        for stranger in leaves:
            if isinstance(stranger, _Caller):
                stranger.abort()
        if self._reception.tls is not None and self.where != "unix":
            transport.pause_reading()
            self._reception.group.create_task(self._secure(transport, self._reception.tls), name=f"TLS {self.where}")
        else:
            self._begin(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._left()

    def trust(self) -> None:
        """It is no stranger."""
        super().trust()
        self._reception.admission.trust(self)
        if self._deadline is not None:
            self._deadline.cancel()

    def abort(self) -> None:
        """It has to go."""
        self.transport.abort()

    def upgraded(self, socket: web.WebSocketResponse) -> None:
        """It has its websocket."""
        self.listener.callers.discard(self)
        self.budget_bytes = self._reception.limits.stranger_bytes
        if self._reception.security.credentials is None:
            self.trust()
        binding = self._reception.binding if self._is_tls() else b""
        connection = WebSocketConnection(socket, self, self._peer_name(), binding)
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

    async def _secure(self, transport: asyncio.Transport, tls: ssl.SSLContext) -> None:
        limit_s = self._reception.limits.stranger_s
        try:
            secured = await asyncio.get_running_loop().start_tls(
                transport, self, tls, server_side=True, ssl_handshake_timeout=limit_s, ssl_shutdown_timeout=CLOSE_S
            )
        except (OSError, ssl.SSLError, TimeoutError) as error:
            _log.warning("%s: %s is turned away: TLS: %s", self.listener.address, self.where, error)
            secured = None
        if secured is None or secured.is_closing():
            transport.abort()
            self.over = True
            self._left()
        else:
            self._begin(secured)

    def _begin(self, transport: asyncio.Transport) -> None:
        http = self._reception.http()
        self.stand_before(http, transport)
        self._reception.taps.add(self)
        http.connection_made(transport)

    def _too_late(self) -> None:
        _log.info("%s: %s has not said who it is in time", self.listener.address, self.where)
        self.abort()

    def _left(self) -> None:
        if self._deadline is not None:
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
        return str(TcpAddress(str(peer[0]), int(peer[1]))) if isinstance(peer, tuple) else "unix"


async def _serve(request: web.BaseRequest) -> web.StreamResponse:
    transport = request.transport
    caller = transport.get_protocol() if transport is not None else None
    if not isinstance(caller, _Caller):
        raise ConnectionResetError("it is gone already")
    headers = ((name.decode("latin-1"), value.decode("latin-1")) for name, value in request.raw_headers)
    status = refusal(request.method, request.path_qs, headers, caller.hosts()) or await _upgrade(request, caller)
    _log.warning("%s: a request from %s is refused: %s", caller.listener.address, caller.where, status)
    answer = web.Response(status=status, headers={"Server": "aiostorm"})
    answer.force_close()
    return answer


async def _upgrade(request: web.BaseRequest, caller: _Caller) -> int:
    """Does not return if the request is one for a websocket; else the status with which it is refused."""
    socket = web.WebSocketResponse(compress=False, max_msg_size=MAX_MESSAGE_BYTES)
    socket.headers["Server"] = "aiostorm"
    try:
        await socket.prepare(request)
    except web.HTTPException as error:
        return error.status
    caller.upgraded(socket)
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
