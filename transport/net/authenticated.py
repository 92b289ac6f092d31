"""AuthenticatedNetwork: a network on which both ends of every connection have proved that they have the token.

    async with AuthenticatedNetwork(network, credentials, Identity("worker-1")) as network: …

1. It is a `Network` over another one, real or simulated. `connect` returns, and `accept` is called, once both ends are
   authenticated (see authentication). After `within_s` the connection is closed; `connect` then raises
   AuthenticationError. Each end writes the reason only to its own log, at most ten times a minute.
2. At most `max_pending` incoming connections authenticate at a time; further ones are closed.
3. If the connection below limits unauthenticated peers (`RestrictedConnection`), it is notified once the peer is
   authenticated, and its TLS certificate is part of the proof. If a certificate names roles, its owner has no other.
4. An authenticated connection has the peer's `identity`. Frames after the handshake are not changed; TLS protects them,
   or they do not leave the machine.
5. Leaving the block ends the handshakes that are not complete. Connections continue.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self, runtime_checkable

from ...runtime import Clock, LoopClock, Rng, SystemRng
from ..errors import AuthenticationError, ConnectionLostError
from .authentication import NONCE_BYTES, REFUSED, Acceptor, Claim, Dialler, Identity
from .limited_warnings import LimitedWarnings

if TYPE_CHECKING:
    from .credentials import Credentials
    from .network import Connection, Listener, Network
    from .tls import PeerCertificate


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

    @property
    def certificate(self) -> PeerCertificate | None:
        """The certificate that the peer has shown; None: none, and without TLS."""
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

    async def connect(self, address: str) -> Connection:
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
        connection.send(dialler.hello)
        while not dialler.done:
            self._answer(connection, dialler, await connection.receive())

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

    def _authenticated(self, connection: Connection, end: Dialler | Acceptor) -> Connection:
        if isinstance(connection, RestrictedConnection):
            connection.set_authenticated()
        assert end.peer is not None  # noqa: S101 - the handshake is complete
        connection.identity = end.peer
        connection.peer = f"{end.peer.name} at {connection.peer}"
        return connection


def _reason(error: Exception, within_s: float) -> str:
    if isinstance(error, TimeoutError):
        return f"it has not authenticated within {within_s:g} s"
    if isinstance(error, ConnectionLostError):
        return "it closed the connection before it was authenticated"
    return str(error)
