"""SocketNetwork: the network of a real process. Unix sockets carry frames by themselves, TCP carries websockets.

1. `unix:/path` is UnixNetwork's, every other address WebSocketNetwork's.
2. aiohttp is imported, in a thread, when a TCP address is used first: that takes a third of a second, and workers of
   one machine do not need it.
3. `open_network` is the network of a real process as its security settings require: authenticated, if it has a token.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from importlib import import_module
from types import TracebackType
from typing import TYPE_CHECKING, Self

from .addresses import UnixAddress, parse_address
from .admission import AdmissionLimits
from .authenticated import AuthenticatedNetwork
from .authentication import Identity
from .security import Security
from .unix_network import UnixNetwork

if TYPE_CHECKING:
    from .accepting import Accept, SocketListener
    from .network import Network
    from .stream_connection import StreamConnection
    from .websocket_connection import WebSocketConnection
    from .websockets import WebSocketNetwork


class SocketNetwork:
    """A `Network`, and an async context manager. CredentialsError if a file of `security` cannot be used.

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
        self._limits = limits
        self._hosts = tuple(str(parse_address(host)) for host in hosts)
        self._unix = UnixNetwork(security, limits=limits)
        self._websockets: asyncio.Future[WebSocketNetwork] | None = None
        self._left = asyncio.Event()
        self._group = asyncio.TaskGroup()

    async def __aenter__(self) -> Self:
        await self._group.__aenter__()
        await self._unix.__aenter__()
        if self._security.tls is not None:  # a file that cannot be used is an error now
            try:
                await self._tcp_network()
            except BaseException:
                await self.__aexit__(None, None, None)
                raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._left.set()
        try:
            await self._unix.__aexit__(None, None, None)
        finally:
            await self._group.__aexit__(None, None, None)

    async def listen(self, address: str, accept: Accept) -> SocketListener:
        """As in Network. ExposedError if other machines can reach the address and something is missing."""
        return await (await self._network(address)).listen(address, accept)

    async def connect(self, address: str) -> StreamConnection | WebSocketConnection:
        """As in Network. ExposedError if the address is another machine and there is no TLS."""
        return await (await self._network(address)).connect(address)

    async def _network(self, address: str) -> UnixNetwork | WebSocketNetwork:
        if not self._unix.is_open:
            raise RuntimeError("use it as `async with SocketNetwork(…) as network:`")
        if isinstance(parse_address(address), UnixAddress):
            return self._unix
        return await self._tcp_network()

    async def _tcp_network(self) -> WebSocketNetwork:
        if self._websockets is None:
            self._websockets = asyncio.get_running_loop().create_future()
            self._group.create_task(self._run_websockets(self._websockets), name="websockets")
        return await asyncio.shield(self._websockets)  # others wait for it, too

    async def _run_websockets(self, opened: asyncio.Future[WebSocketNetwork]) -> None:
        """Open WebSocketNetwork and keep it open until the block is left."""
        try:
            await asyncio.to_thread(import_module, f"{__package__}.websockets")
            from .websockets import WebSocketNetwork

            network = WebSocketNetwork(self._security, hosts=self._hosts, limits=self._limits)
        except Exception as error:  # for those who wait for it
            opened.set_exception(error)
            return
        async with network:
            opened.set_result(network)
            await self._left.wait()


@asynccontextmanager
async def open_network(
    name: str,
    security: Security,
    *,
    role: str = "node",
    roles: Iterable[str] = ("node",),
    hosts: Iterable[str] = (),
    limits: AdmissionLimits | None = None,
) -> AsyncIterator[Network]:
    """A network of sockets, authenticated if there are credentials. `name`, `role`: our own; `roles`: those accepted.

    `hosts`: addresses under which peers know a listener of this process. CredentialsError if a file cannot be used.
    """
    async with SocketNetwork(security, hosts=hosts, limits=limits) as network:
        if security.credentials is None:
            yield network
            return
        limits = limits or AdmissionLimits()
        async with AuthenticatedNetwork(
            network,
            security.credentials,
            Identity(name, role),
            roles=roles,
            within_s=limits.authenticate_within_s,
            max_pending=limits.max_unauthenticated,
        ) as authenticated:
            yield authenticated
