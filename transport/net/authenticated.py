"""AuthenticatedNetwork: a network on which both ends of every connection have proved that they have the token.

    async with AuthenticatedNetwork(network, credentials, Identity("worker-1")) as network: …

1. It is a `Network` over another one, real or simulated. `connect` returns, and `accept` is called, when both ends have
   proved it (see authentication): within `within_s`, or the connection is closed. `connect` then raises
   AuthenticationError; who was dialled logs it. Both say it in their own log only, ten times a minute at most.
2. At most `max_pending` that dialled are between the two; one more is turned away.
3. If the connection below limits unauthenticated peers (`RestrictedConnection`), it is notified once the peer is
   authenticated, and its TLS certificate is part of the proof. If a certificate names roles, its owner has no other.
4. Where frames may be lost or repeated, a frame of the handshake may come after it. It is not handed on: what was
   answered is answered again (a WELCOME was lost), the rest is ignored. To other frames nothing is added: what keeps
   them as they were sent is TLS, or that they do not leave the machine.
5. Leaving the block ends who is between the two. Connections live on.
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
    """A connection that keeps a stranger short, until it is said to be none."""

    @property
    def binding(self) -> bytes:
        """What the proofs are about beside what is said: the hash of the server's certificate; empty without TLS."""
        ...

    @property
    def certified(self) -> frozenset[str]:
        """The roles that its certificate names; empty if it names none, and without TLS."""
        ...

    def trust(self) -> None:
        """The peer has proved who it is."""
        ...


class AuthenticatedNetwork:
    """A `Network`. `roles`: whom we speak to."""

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
        """See Network. AuthenticationError if one of the two does not believe the other."""
        connection = await self._network.connect(address)
        dialler = Dialler(self._claim(connection))
        try:
            async with asyncio.timeout(self._within_s):
                await self._prove(connection, dialler)
        except (AuthenticationError, ConnectionLostError, TimeoutError) as error:
            wrong = _wrong(error, self._within_s)
            self._limited_warnings.warn("%s is not believed, or does not believe us: %s", address, wrong)
            raise AuthenticationError(f"{address}: {wrong}") from error
        finally:
            if not dialler.done:
                connection.close()
        return self._trusted(connection, dialler)

    async def listen(self, address: str, accept: Callable[[Connection], None]) -> Listener:
        """See Network. `accept` is called with who has proved to belong to the cluster."""

        def came(connection: Connection) -> None:
            if len(self._pending) >= self._max_pending:
                self._limited_warnings.warn("too many have not proved who they are: %s is turned away", connection.peer)
                connection.close()
                return
            self._pending.add(connection)
            self._group.create_task(self._let_in(connection, accept), name=f"who is {connection.peer}?")

        return await self._network.listen(address, came)

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

    async def _let_in(self, connection: Connection, accept: Callable[[Connection], None]) -> None:
        acceptor = Acceptor(self._claim(connection))
        try:
            async with asyncio.timeout(self._within_s):
                while not acceptor.done:
                    self._answer(connection, acceptor, await connection.receive())
        except (AuthenticationError, ConnectionLostError, TimeoutError) as error:
            self._limited_warnings.warn("%s is turned away: %s", connection.peer, _wrong(error, self._within_s))
            connection.close()
            return
        finally:
            self._pending.discard(connection)
        try:
            accept(self._trusted(connection, acceptor))
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

    def _trusted(self, connection: Connection, end: Dialler | Acceptor) -> AuthenticatedConnection:
        if isinstance(connection, RestrictedConnection):
            connection.trust()
        return AuthenticatedConnection(connection, end)


class AuthenticatedConnection:
    """A `Connection` with a peer of the cluster. `identity` is who it claims to be."""

    def __init__(self, connection: Connection, end: Dialler | Acceptor) -> None:
        assert end.peer is not None  # noqa: S101 - it is done
        self.identity: Identity = end.peer
        self.peer = f"{self.identity.name} at {connection.peer}"
        # The connection's own: a call less for each frame is a call less.
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
            answer = self._end.again(frame) if isinstance(self._end, Acceptor) else None
            if answer is not None:
                with contextlib.suppress(ConnectionLostError):  # what had come before the end is still to be received
                    self.send(answer)


def _wrong(error: Exception, within_s: float) -> str:
    if isinstance(error, TimeoutError):
        return f"it has not proved who it is within {within_s:g} s"
    if isinstance(error, ConnectionLostError):
        return "it ended the connection without a word of who it is"
    return str(error)
