"""UnixNetwork: connections over unix sockets, for processes of one user on one machine. No websockets, no aiohttp.

    async with UnixNetwork(security) as network:
        listener = await network.listen("unix:/run/user/1000/a", accept)
        connection = await network.connect(listener.address)

1. Frames are written and read by StreamConnection. `connect` returns when the acceptor's preface has arrived; `accept`
   is called when the dialler's has. A peer with another framing is refused, with an error that says so.
2. There is no TLS: only this user can open the socket's file (see bound_sockets). All peers have one address, `unix`.
3. Limits and deadlines of peers that are not authenticated are as those of other networks (see admission).
4. Leaving the block closes all listeners and all connections (within CLOSE_S).
"""

from __future__ import annotations

import asyncio
import logging
from types import TracebackType
from typing import TYPE_CHECKING, Self

from ..errors import NetworkError
from .accepting import UNIX_PEER, Accept, IncomingPeer, Listeners, SocketListener
from .addresses import UnixAddress, parse_address
from .admission import AdmissionLimits
from .bound_sockets import bound_unix
from .stream_connection import StreamConnection, StreamOwner
from .write_buffer import CLOSE_S

if TYPE_CHECKING:
    from .security import Security

_log = logging.getLogger(__name__)


class UnixNetwork:
    """A `Network`, and an async context manager."""

    def __init__(self, security: Security | None = None, *, limits: AdmissionLimits | None = None) -> None:
        self._limits = limits or AdmissionLimits()
        authenticates = security is not None and security.credentials is not None
        self._budget_bytes = self._limits.unauthenticated_bytes if authenticates else None
        self._connections: set[StreamConnection] = set()
        self._all_lost = asyncio.Event()
        self._group = asyncio.TaskGroup()
        self._listeners: Listeners | None = None

    async def __aenter__(self) -> Self:
        await self._group.__aenter__()
        self._listeners = Listeners(self._limits, self._group, _log)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        listeners, self._listeners = self._listeners, None
        try:
            if listeners is not None:
                listeners.close()
            for connection in tuple(self._connections):
                connection.close()
            if self._connections:
                self._all_lost.clear()
                async with asyncio.timeout(2 * CLOSE_S):
                    await self._all_lost.wait()
        finally:
            await self._group.__aexit__(None, None, None)  # its tasks do not fail, and the user's error stays as it is

    async def listen(self, address: str, accept: Accept) -> SocketListener:
        """As in Network. NetworkError if it is no unix socket."""
        listeners = self._entered()
        bound = await bound_unix(_path(address))
        return listeners.listen(address, [bound], lambda peer: _Incoming(self, peer, accept).start())

    async def connect(self, address: str) -> StreamConnection:
        """As in Network. NetworkError if it is no unix socket, or its owner sends other frames."""
        self._entered()
        path = _path(address)
        dialled = _Dialled(self, address, asyncio.get_running_loop().create_future())
        try:
            await self._dial(dialled, path)
            await dialled.opened
        except NetworkError:
            raise
        except OSError as error:
            raise NetworkError(f"{address}: {error.strerror or error}") from error
        except NotImplementedError as error:  # Windows
            raise NetworkError(f"{address}: this system's Python has no unix sockets") from error
        except BaseException:
            dialled.connection.abort()
            raise
        finally:
            dialled.opened.cancel()
        return dialled.connection

    async def _dial(self, dialled: _Dialled, path: str) -> None:
        try:
            await asyncio.get_running_loop().create_unix_connection(lambda: dialled.connection, path)
        except BaseException:
            self.on_lost(dialled.connection)  # uvloop does not say it, if the call is cancelled
            raise

    @property
    def is_open(self) -> bool:
        """Is this within the block?"""
        return self._listeners is not None

    # -- called by the connections -----------------------------------------------------------------------------------

    def new_connection(self, peer: str, owner: StreamOwner) -> StreamConnection:
        """A connection that has no transport yet."""
        return StreamConnection(peer, owner, self._budget_bytes)

    @property
    def authenticates(self) -> bool:
        """Do peers have to authenticate?"""
        return self._budget_bytes is not None

    def on_made(self, connection: StreamConnection) -> None:
        """The connection has a transport. `on_lost` follows."""
        self._connections.add(connection)
        if self._listeners is None:  # the block is being left
            connection.abort()

    def on_lost(self, connection: StreamConnection) -> None:
        """The connection is over."""
        self._connections.discard(connection)
        if not self._connections:
            self._all_lost.set()

    def _entered(self) -> Listeners:
        if self._listeners is None:
            raise RuntimeError("use it as `async with UnixNetwork(…) as network:`")
        return self._listeners


class _Dialled:
    """A connection that this process opens."""

    def __init__(self, network: UnixNetwork, address: str, opened: asyncio.Future[None]) -> None:
        self.opened = opened
        self.connection = network.new_connection(address, self)
        self._network = network
        self._address = address

    def on_made(self, transport: asyncio.Transport) -> None:
        self._network.on_made(self.connection)

    def on_open(self) -> None:
        if not self.opened.done():
            self.opened.set_result(None)
        if not self._network.authenticates:
            self.connection.set_authenticated()

    def on_authenticated(self) -> None:
        """Only an acceptor counts its peers."""

    def on_lost(self, problem: str) -> None:
        self._network.on_lost(self.connection)
        if not self.opened.done():
            why = problem or "the connection was lost while it was opened"
            self.opened.set_exception(NetworkError(f"{self._address}: {why}"))


class _Incoming:
    """A connection that another process has opened."""

    def __init__(self, network: UnixNetwork, peer: IncomingPeer, accept: Accept) -> None:
        self._network = network
        self._peer = peer
        self._accept = accept
        self._connection = network.new_connection(UNIX_PEER, self)

    async def start(self) -> None:
        """Give the socket to the event loop."""
        loop = asyncio.get_running_loop()
        try:
            await loop.connect_accepted_socket(lambda: self._connection, self._peer.socket)
        except OSError as error:
            self._peer.warn("%s: the connection of %s is refused: %s", error)
            self._peer.socket.close()
        finally:
            if self._peer.transport is None:
                self._peer.on_lost()

    def on_made(self, transport: asyncio.Transport) -> None:
        self._peer.transport = transport
        self._network.on_made(self._connection)

    def on_open(self) -> None:
        self._peer.on_passed()
        if not self._network.authenticates:
            self._connection.set_authenticated()
        self._peer.listener.pass_on(self._connection, self._accept)

    def on_authenticated(self) -> None:
        self._peer.on_authenticated()

    def on_lost(self, problem: str) -> None:
        self._network.on_lost(self._connection)
        if problem:
            self._peer.warn("%s: the connection of %s is closed: %s", problem)
        self._peer.on_lost()


def _path(address: str) -> str:
    """The path of a unix socket's address. NetworkError if it is another address."""
    parsed = parse_address(address)
    if not isinstance(parsed, UnixAddress):
        raise NetworkError(f"{address} is no unix socket: use unix:/a/path")
    return parsed.path
