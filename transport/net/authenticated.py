"""AuthenticatedNetwork: a network on which both ends of every connection have proved that they have the token.

    async with AuthenticatedNetwork(network, credentials, Identity("worker-1")) as network: …

1. It is a `Network` over another one, real or simulated. `connect` returns, and `accept` is called, once both ends are
   authenticated (see authentication). After `within_s` the connection is closed; `connect` then raises
   AuthenticationError. Each end writes the reason only to its own log, at most ten times a minute.
2. At most `max_pending` incoming connections authenticate at a time; further ones are closed.
3. If the connection below limits unauthenticated peers (`RestrictedConnection`), it is notified once the peer is
   authenticated, and its TLS certificate is part of the proof. If a certificate names roles, its owner has no other.
4. Where frames may be lost or repeated, a frame of the handshake may arrive after it. It is not passed on: a repeated
   frame gets the same answer again (the WELCOME was lost), others are ignored. Other frames are not changed; TLS
   protects them, or they do not leave the machine.
5. Leaving the block ends the handshakes that are not complete. Connections continue.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from dataclasses import replace
from types import TracebackType
from typing import Protocol, Self, runtime_checkable

from ...runtime import Clock, LoopClock, Rng, SystemRng
from ..errors import AuthenticationError, ConnectionLostError
from .authentication import NONCE_BYTES, REFUSED, RESEND_S, STEPS, Acceptor, Claim, Dialler, Identity
from .credentials import Credentials
from .limited_warnings import LimitedWarnings
from .network import Connection, Listener, Network


@runtime_checkable
class RestrictedConnection(Protocol):
    """A connection that limits what its peer may send until the peer is authenticated."""

    @property
    def binding(self) -> bytes:
        """The hash of the server's certificate, which is part of the proofs; empty without TLS."""
        ...

    @property
    def certified(self) -> frozenset[str]:
        """The roles in the peer's certificate; empty if it names none, and without TLS."""
        ...

    def set_authenticated(self) -> None:
        """The peer is authenticated: lift the limits."""
        ...


class AuthenticatedNetwork:
    """A `Network`. `roles`: the roles of peers that are accepted."""

    def __init__(
        self,
        network: Network,
        credentials: Credentials,
        identity: Identity,
        *,
        roles: Iterable[str] = ("node",),
        within_s: float = 5.0,
        max_pending: int = 64,
        clock: Clock | None = None,
        rng: Rng | None = None,
    ) -> None:
        self._network = network
        self._credentials = credentials
        self._identity = identity
        self._roles = frozenset(roles)
        self._within_s = within_s
        self._max_pending = max_pending
        self._rng = rng or SystemRng()
        self._limited_warnings = LimitedWarnings(clock or LoopClock())
        self._group = asyncio.TaskGroup()
        self._pending: set[Connection] = set()

    async def __aenter__(self) -> Self:
        await self._group.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for connection in self._pending:
            connection.close()
        await self._group.__aexit__(None, None, None)  # its tasks do not fail, and the user's error stays as it is

    async def connect(self, address: str) -> AuthenticatedConnection:
        """As in Network. AuthenticationError if one end refuses the other."""
        connection = await self._network.connect(address)
        dialler = Dialler(self._claim(connection))
        try:
            async with asyncio.timeout(self._within_s):
                await self._prove(connection, dialler)
        except (AuthenticationError, ConnectionLostError, TimeoutError) as error:
            reason = _reason(error, self._within_s)
            self._limited_warnings.warn("authentication with %s failed: %s", address, reason)
            raise AuthenticationError(f"{address}: {reason}") from error
        finally:
            if not dialler.done:
                connection.close()
        return self._authenticated(connection, dialler)

    async def listen(self, address: str, accept: Callable[[Connection], None]) -> Listener:
        """As in Network; `accept` receives authenticated connections only."""

        def on_connection(connection: Connection) -> None:
            if len(self._pending) >= self._max_pending:
                self._limited_warnings.warn("too many unauthenticated connections: %s is closed", connection.peer)
                connection.close()
                return
            self._pending.add(connection)
            self._group.create_task(self._accept(connection, accept), name=f"authenticate {connection.peer}")

        return await self._network.listen(address, on_connection)

    # -- one connection ----------------------------------------------------------------------------------------------

    def _claim(self, connection: Connection) -> Claim:
        nonce = self._rng.token_bytes(NONCE_BYTES)
        claim = Claim(self._credentials, self._identity, nonce, self._roles)
        if not isinstance(connection, RestrictedConnection):
            return claim
        return replace(claim, binding=connection.binding, certified=connection.certified)

    async def _prove(self, connection: Connection, dialler: Dialler) -> None:
        connection.send(dialler.last)
        while not dialler.done:
            try:
                async with asyncio.timeout(RESEND_S):
                    frame = await connection.receive()
            except TimeoutError:
                connection.send(dialler.last)
                continue
            self._answer(connection, dialler, frame)

    async def _accept(self, connection: Connection, accept: Callable[[Connection], None]) -> None:
        acceptor = Acceptor(self._claim(connection))
        try:
            async with asyncio.timeout(self._within_s):
                while not acceptor.done:
                    self._answer(connection, acceptor, await connection.receive())
        except (AuthenticationError, ConnectionLostError, TimeoutError) as error:
            self._limited_warnings.warn("%s is refused: %s", connection.peer, _reason(error, self._within_s))
            connection.close()
            return
        finally:
            self._pending.discard(connection)
        try:
            accept(self._authenticated(connection, acceptor))
        except Exception as error:
            connection.close()
            asyncio.get_running_loop().call_exception_handler({"message": "accept failed", "exception": error})

    def _answer(self, connection: Connection, end: Dialler | Acceptor, frame: bytes) -> None:
        try:
            answer = end.receive(frame)
        except AuthenticationError:
            connection.send(REFUSED)
            raise
        if answer is not None:
            connection.send(answer)

    def _authenticated(self, connection: Connection, end: Dialler | Acceptor) -> AuthenticatedConnection:
        if isinstance(connection, RestrictedConnection):
            connection.set_authenticated()
        return AuthenticatedConnection(connection, end)


class AuthenticatedConnection:
    """A `Connection` with an authenticated peer. `identity`: the name and role that the peer claims."""

    def __init__(self, connection: Connection, end: Dialler | Acceptor) -> None:
        assert end.peer is not None  # noqa: S101 - the handshake is complete
        self.identity: Identity = end.peer
        self.peer = f"{self.identity.name} at {connection.peer}"
        # The methods themselves: that saves a call for each frame.
        self.send = connection.send
        self.drained = connection.drained
        self.close = connection.close
        self._connection = connection
        self._receive = connection.receive
        self._end = end

    @property
    def writable(self) -> bool:
        return self._connection.writable

    @property
    def buffered_bytes(self) -> int:
        return self._connection.buffered_bytes

    @property
    def received_bytes(self) -> int:
        return self._connection.received_bytes

    async def receive(self) -> bytes:
        while True:
            frame = await self._receive()
            if frame[:1] not in STEPS:
                return frame
            answer = self._end.repeated_answer(frame) if isinstance(self._end, Acceptor) else None
            if answer is not None:
                with contextlib.suppress(ConnectionLostError):  # frames that arrived before the end are still received
                    self.send(answer)


def _reason(error: Exception, within_s: float) -> str:
    if isinstance(error, TimeoutError):
        return f"it has not authenticated within {within_s:g} s"
    if isinstance(error, ConnectionLostError):
        return "it closed the connection before it was authenticated"
    return str(error)
