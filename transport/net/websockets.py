"""WebSocketNetwork: connections over TCP. Each is a websocket of aiohttp, a frame is a binary message.

    async with WebSocketNetwork(security) as network:
        listener = await network.listen("127.0.0.1:0", accept)
        connection = await network.connect(listener.address)

1. Addresses are `host:port` and `[::1]:port`. Host names are resolved here; the resolved addresses are checked and
   used.
2. Addresses that other machines can reach are refused without TLS and a token (see addresses), for dialling and for
   listening. With TLS, every address uses it, loopback too. Both sides show a certificate of the cluster's CA; the
   acceptor's must be for the name that was dialled.
3. If `security` has credentials, a peer is limited until AuthenticatedNetwork has authenticated it.
4. Dialling follows no redirect, uses no proxy, sends no cookie and no Origin, and requests one path.
5. Leaving the block closes all listeners and all connections (within CLOSE_S), with what they left in aiohttp.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, NoReturn, Self

import aiohttp
import aiohttp.abc

from ..errors import NetworkError
from .addresses import TcpAddress, check_dialled, parse_address
from .admission import PATH, AdmissionLimits
from .listening import IncomingConnections
from .security import Security, dialled_binding
from .websocket_connection import MAX_MESSAGE_BYTES, Tap, WebSocketConnection
from .write_buffer import CLOSE_S

if TYPE_CHECKING:
    from .accepting import SocketListener
    from .network import Connection

_MAX_FIELD_BYTES: Final = 1024


class WebSocketNetwork:
    """A `Network`, and an async context manager.

    `hosts`: further addresses under which peers know a listener of this process, for example behind a NAT.
    """

    def __init__(
        self,
        security: Security | None = None,
        *,
        hosts: Iterable[str] = (),
        limits: AdmissionLimits | None = None,
    ) -> None:
        self._security = security or Security()
        self._limits = limits or AdmissionLimits()
        self._hosts = tuple(map(parse_address, hosts))
        self._tls = self._security.client_context()
        self._taps: set[Tap] = set()
        self._group = asyncio.TaskGroup()
        self._incoming: IncomingConnections | None = None

    async def __aenter__(self) -> Self:
        await self._group.__aenter__()
        self._incoming = IncomingConnections(self._security, self._limits, self._group, self._taps)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if self._incoming is not None:
                await self._incoming.close()
            await self._close_all()
        finally:
            self._incoming = None
            await self._group.__aexit__(None, None, None)  # its tasks do not fail, and the user's error stays as it is

    async def listen(self, address: str, accept: Callable[[Connection], None]) -> SocketListener:
        """As in Network. ExposedError if other machines can reach the address and something is missing."""
        return await self._entered().listen(_tcp(address), self._hosts, accept)

    async def connect(self, address: str) -> WebSocketConnection:
        """As in Network. ExposedError if the address is another machine and there is no TLS."""
        self._entered()
        target = _tcp(address)
        check_dialled(target.host, tls=self._tls is not None, insecure=self._security.insecure)
        session = self._session()
        try:
            made = await self._dial(session, target)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise NetworkError(f"{address}: {_reason(error)}") from error
        finally:
            # The session is not needed any more. Its detached connector lives as long as its one connection.
            if not session.closed:
                await session.close()
        return self._connected(made, address)

    # -- dialling ----------------------------------------------------------------------------------------------------

    async def _dial(self, session: aiohttp.ClientSession, target: TcpAddress) -> _ClientSocket:
        made = await session.ws_connect(
            f"{'http' if self._tls is None else 'https'}://{target}{PATH}",
            headers={"Host": str(target)},
            compress=0,
            max_msg_size=MAX_MESSAGE_BYTES,
            ssl=True if self._tls is None else self._tls,
        )
        assert isinstance(made, _ClientSocket)  # noqa: S101 - `ws_response_class` below
        session.detach()
        return made

    def _session(self) -> aiohttp.ClientSession:
        resolver = _Resolver(tls=self._tls is not None, insecure=self._security.insecure)
        connector = aiohttp.TCPConnector(resolver=resolver, use_dns_cache=False, force_close=True)
        trace = aiohttp.TraceConfig()
        trace.on_request_redirect.append(_refuse_redirect)
        return aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None),
            trace_configs=[trace],
            ws_response_class=_ClientSocket,
            auto_decompress=False,
            max_line_size=_MAX_FIELD_BYTES,
            max_field_size=_MAX_FIELD_BYTES,
        )

    def _connected(self, made: _ClientSocket, address: str) -> WebSocketConnection:
        tap = Tap(self._limits.unauthenticated_bytes if self._security.credentials is not None else None)
        transport = made.transport
        inner = transport.get_protocol() if transport is not None else None
        if transport is None or not isinstance(inner, asyncio.Protocol) or transport.is_closing():
            made.release()
            raise NetworkError(f"{address}: the connection was lost while it was opened")
        tap.attach(inner, transport)
        transport.set_protocol(tap)
        self._taps.add(tap)
        tap.on_close += [lambda: self._taps.discard(tap), made.release]
        binding = dialled_binding(transport)
        return WebSocketConnection(made, tap, address, binding)

    # -- the end -----------------------------------------------------------------------------------------------------

    async def _close_all(self) -> None:
        for tap in tuple(self._taps):
            tap.writes.close()
        ended = asyncio.Event()
        for tap in self._taps:
            tap.on_close.append(lambda: None if self._taps else ended.set())
        if self._taps:
            async with asyncio.timeout(2 * CLOSE_S):
                await ended.wait()

    def _entered(self) -> IncomingConnections:
        if self._incoming is None:
            raise RuntimeError("use it as `async with WebSocketNetwork(…) as network:`")
        return self._incoming


class _ClientSocket(aiohttp.ClientWebSocketResponse):
    """aiohttp's websocket, with access to its transport."""

    def __init__(self, reader: Any, writer: Any, protocol: Any, response: Any, *more: Any, **named: Any) -> None:
        super().__init__(reader, writer, protocol, response, *more, **named)
        self._answer: aiohttp.ClientResponse = response
        connection = response.connection
        self.transport: asyncio.Transport | None = None if connection is None else connection.transport

    def release(self) -> None:
        """Remove the connection, which is over, from aiohttp's connector."""
        self._answer.close()


class _Resolver(aiohttp.abc.AbstractResolver):
    """The system's resolver; each address that it returns must be one that may be dialled."""

    def __init__(self, *, tls: bool, insecure: bool) -> None:
        self._system = aiohttp.ThreadedResolver()
        self._tls = tls
        self._insecure = insecure

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[aiohttp.abc.ResolveResult]:
        """Resolve a host. ExposedError if one of its addresses must not be dialled."""
        found = await self._system.resolve(host, port, family)
        for one in found:
            check_dialled(one["host"], tls=self._tls, insecure=self._insecure)
        return found

    async def close(self) -> None:
        await self._system.close()


def _tcp(address: str) -> TcpAddress:
    parsed = parse_address(address)
    if not isinstance(parsed, TcpAddress):
        raise NetworkError(f"{address}: unix sockets carry frames without websockets: use SocketNetwork")
    return parsed


async def _refuse_redirect(session: Any, context: Any, params: aiohttp.TraceRequestRedirectParams) -> NoReturn:
    raise aiohttp.ClientConnectionError("it answers with a redirect, which no peer of aiostorm does")


def _reason(error: Exception) -> str:
    if isinstance(error, aiohttp.WSServerHandshakeError):
        return f"it answers, but not with a websocket of aiostorm: {error.status} {error.message}"
    if isinstance(error, ssl.SSLError | aiohttp.ClientSSLError):
        return f"TLS: {error}"
    return str(error) or type(error).__name__
