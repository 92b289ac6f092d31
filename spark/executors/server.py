"""Data server: accepts connections of Spark's executors for one task, and runs a session on each.

    listen ─► the client has proved its token ─► ClientHello ─► ServerWelcome ─► session, until the connection ends

1. The transport's network is responsible for exposure, TLS, unauthenticated peers and sizes. There is always a token.
2. A session that fails ends its connection, with a warning; the others are not affected.
3. Each client gets Alive every ALIVE_S, so that it can distinguish a slow topology from a dead one.
4. `close` ends everything: nothing is left in the loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from ...runtime import SystemRng
from ...transport import Connection, ConnectionLostError, Listener, NetworkError, ProtocolError, open_network
from ..errors import SparkSourceError
from .endpoints import Endpoint, announce, server_security, withdraw
from .messages import (
    ALIVE_S,
    DATA,
    MAX_CHUNK_BYTES,
    ROLE_SPARK,
    VERSION,
    Alive,
    ChunkAssembly,
    ClientHello,
    Message,
    Rejected,
    ServerWelcome,
    clipped,
    parts_of,
    unpack,
)
from .messages import pack as packed

if TYPE_CHECKING:
    from ...transport import Security

log = logging.getLogger("aiostorm.spark")

_HELLO_S: Final = 10.0
_UNIX: Final = "unix:"


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """How a component serves Spark. See SparkIngressSpout."""

    listen: str
    endpoints: str | None = None
    credentials: str | None = None
    given: Security | None = None
    """In place of endpoints and credentials."""

    def security(self) -> Security:
        """The server's security. SparkSourceError, CredentialsError. It reads files."""
        return server_security(self.endpoints, self.credentials) if self.given is None else self.given

    def address_of(self, index: int, tasks: int) -> str:
        """The address of one task: the given port plus its number; a socket's file with the number appended."""
        if tasks == 1:
            return self.listen
        if self.listen.startswith(_UNIX):
            return f"{self.listen}.{index}"
        host, _, port = self.listen.rpartition(":")
        return self.listen if port == "0" else f"{host}:{int(port) + index}"


class ClientConnection:
    """A connection with an executor, as messages."""

    def __init__(self, connection: Connection, endpoint: Endpoint) -> None:
        self._connection = connection
        self._endpoint = endpoint
        self.peer = connection.peer
        self.receive = connection.receive
        self.name = ""
        self._in_chunk = False

    @property
    def component(self) -> str:
        """The component that it is connected with."""
        return self._endpoint.component

    def send(self, message: Message) -> None:
        """Send a message without waiting. Does nothing if the connection is closed."""
        with suppress(ConnectionLostError):  # the receiving task gets the error
            self._connection.send(packed(message))

    def welcome(self, shape: bytes = b"") -> None:
        """Answer ClientHello. `shape`: an encoded empty batch of the server's schema, if it is known."""
        server = self._endpoint
        self.send(ServerWelcome(VERSION, server.component, server.task, server.tasks, shape))

    async def send_chunk(self, chunk: Message, data: bytes) -> None:
        """Send a chunk and its data, without other messages between; waits for capacity. ConnectionLostError."""
        self._in_chunk = True
        try:
            self._connection.send(packed(chunk))
            for part in parts_of(data):
                if not self._connection.writable:
                    await self._connection.drained()
                self._connection.send(DATA + part)
        finally:
            self._in_chunk = False

    async def message(self) -> Message:
        """Receive the next message."""
        return unpack(await self._connection.receive())

    async def chunk(self, size: int, most: int = MAX_CHUNK_BYTES) -> bytes:
        """Receive the data of a chunk, of at most so many bytes."""
        assembly = ChunkAssembly(size, most)
        while (data := assembly.add(await self._connection.receive())) is None:
            pass
        return data

    async def check(self) -> None:
        """ConnectionLostError if the connection is over."""
        await self._connection.drained()

    def alive(self) -> None:
        """Send Alive, unless the buffer is full or a chunk is being sent."""
        if self._connection.writable and not self._in_chunk:
            self.send(Alive())

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


Serve = Callable[[ClientConnection, ClientHello], Awaitable[None]]


class DataServer:
    """Serves one task. `serve` is called with each client after its ClientHello, and calls `welcome`.

    `here`: the task; its address is known when it listens.
    """

    def __init__(self, settings: ServerSettings, role: str, here: Endpoint, serve: Serve) -> None:
        self._settings = settings
        self._role = role
        self._endpoint = here
        self._serve_client = serve
        self._stack = AsyncExitStack()
        self._group = asyncio.TaskGroup()
        self._running: set[asyncio.Task[None]] = set()
        self._clients: set[ClientConnection] = set()
        self._listener: Listener | None = None
        self._entry: str | None = None

    @property
    def address(self) -> str:
        """The address on which it listens; empty before."""
        return self._endpoint.address

    async def open(self) -> None:
        """Listen, and publish the address. NetworkError, ExposedError, CredentialsError, SparkSourceError."""
        settings, here = self._settings, self._endpoint
        security = await asyncio.to_thread(settings.security)
        async with AsyncExitStack() as stack:
            name = f"{self._role}-{here.task}-{SystemRng().token_bytes(8).hex()}"
            network = await stack.enter_async_context(
                open_network(name, security, role=self._role, roles=(ROLE_SPARK,))
            )
            await self._group.__aenter__()
            stack.push_async_callback(self._group.__aexit__, None, None, None)  # the error of listening is not replaced
            stack.callback(self._end)
            self._listener = await network.listen(settings.address_of(here.task, here.tasks), self._accept)
            self._endpoint = here = replace(here, address=self._listener.address)
            if settings.endpoints is not None:
                self._entry = await asyncio.to_thread(announce, settings.endpoints, here)
            self._start_task(self._send_alive(), "alive")
            self._stack = stack.pop_all()
        log.info("%s: task %d of %d serves Spark at %s", here.component, here.task, here.tasks, here.address)

    async def close(self) -> None:
        """End everything. May be called twice."""
        await self._stack.aclose()

    def _end(self) -> None:
        if self._entry is not None:
            withdraw(self._entry)
            self._entry = None
        if self._listener is not None:
            self._listener.close()
        for client in tuple(self._clients):
            client.close()
        for task in tuple(self._running):
            task.cancel()

    def _start_task(self, work: Any, name: str) -> None:
        task = self._group.create_task(work, name=f"{self._endpoint.component}-{self._endpoint.task}: {name}")
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    def _accept(self, connection: Connection) -> None:
        self._start_task(self._serve(connection), f"Spark at {connection.peer}")

    async def _serve(self, connection: Connection) -> None:
        client, component = ClientConnection(connection, self._endpoint), self._endpoint.component
        try:
            async with asyncio.timeout(_HELLO_S):
                hello = await client.message()
            if not isinstance(hello, ClientHello):
                raise ProtocolError(f"a {type(hello).__name__} came before Hello")
            client.name = hello.name
            if hello.version != VERSION:
                client.send(Rejected(f"it has protocol version {hello.version}, this topology version {VERSION}"))
            else:
                self._clients.add(client)
                await self._serve_client(client, hello)
        except ConnectionLostError as error:
            log.debug("%s: %s %s", component, client.name, error)
        except (SparkSourceError, NetworkError, TimeoutError) as error:
            client.send(Rejected(clipped(str(error) or "no ClientHello in time")))
            log.warning("%s: %s at %s is rejected: %s", component, client.name, client.peer, error)
        except Exception as error:  # a bug: the other connections go on
            client.send(Rejected(clipped(f"the topology failed: {error!r}")))
            log.exception("%s: the connection with %s at %s failed", component, client.name, client.peer)
        finally:
            self._clients.discard(client)
            client.close()

    async def _send_alive(self) -> None:
        while True:
            await asyncio.sleep(ALIVE_S)
            for client in tuple(self._clients):
                client.alive()
