"""Server: the socket at which nimbus answers clients.

    accepted ─► not too many failures from there? ─► handshake (access/proving) ─► Session

1. Every nimbus answers, whether it leads or not: an order is a change of a record, which the leader then sees.
2. Before the handshake nothing but its frames is read: at most 4 KiB, within HANDSHAKE_S. At most MAX_CLIENTS are
   connected at a time.
3. An address that fails MOST times a minute is refused without a look at what it sends.
4. The store's session may be lost: that is the response to clients until there is another one. They stay connected.
5. At an address that other machines can reach it does not begin without TLS: ExposedError.
6. A certificate that was revoked is refused at the handshake, too, if the store can be reached.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from ...runtime import LoopClock, Rng, SystemRng
from ...transport import (
    AuthenticationError,
    ConnectionLostError,
    LimitedWarnings,
    NetworkError,
    RestrictedConnection,
    TcpAddress,
    parse_address,
)
from ..access import MOST, NONCE_BYTES, REFUSED, Checking, Failures
from ..coordination import CoordinationError
from .session import Served, Session

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...transport import Connection, Network
    from ..access import Holder

log = logging.getLogger("aiostorm.nimbus")

MAX_CLIENTS: Final = 128
HANDSHAKE_S: Final = 5.0
RETRY_S: Final = 1.0


class NimbusServer:
    """Answers clients over a network that is not authenticated by itself."""

    def __init__(self, served: Served, network: Network, *, rng: Rng | None = None) -> None:
        self._served = served
        self._network = network
        self._rng: Rng = rng or SystemRng()
        self._failures = Failures()
        self._clients = 0
        self._warnings = LimitedWarnings(LoopClock(), log)

    async def serve(self, address: str, on_listening: Callable[[str], None], *, patient: bool = False) -> None:
        """Answer until the call is cancelled. NetworkError if the address is taken; `patient`: wait until it is free.

        `on_listening` is called with the real address.
        """
        async with asyncio.TaskGroup() as group:
            waits = False
            while True:
                try:
                    listener = await self._network.listen(address, lambda made: self._accept(made, group))
                    break
                except NetworkError as error:
                    if not patient:
                        raise
                    if not waits:
                        log.info("does not answer clients yet: %s", error)
                    waits = True
                await self._served.clock.sleep(RETRY_S)
            on_listening(listener.address)
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                listener.close()

    def _accept(self, connection: Connection, group: asyncio.TaskGroup) -> None:
        if self._clients >= MAX_CLIENTS:
            self._warnings.warn("too many clients: %s is disconnected", connection.peer)
            connection.close()
            return
        self._clients += 1
        group.create_task(self._serve(connection), name=f"client {connection.peer}")

    async def _serve(self, connection: Connection) -> None:
        origin = connection.peer
        try:
            holder = await self._authenticated(connection, origin)
            if holder is None:
                return
            log.info("%s (%s) is connected from %s", holder.shown, holder.role.value, origin)
            await Session(self._served, connection, holder, origin).run()
        except (ConnectionLostError, TimeoutError) as error:
            log.debug("the client %s has disconnected: %r", origin, error)
        except Exception:
            log.exception("the connection of the client %s failed", origin)
        finally:
            self._clients -= 1
            connection.close()

    async def _authenticated(self, connection: Connection, origin: str) -> Holder | None:
        """Who it is; None: it is refused."""
        host, clock = _host(origin), self._served.clock
        checking = self._checking(connection)
        try:
            async with asyncio.timeout(HANDSHAKE_S):
                while checking.holder is None:
                    frame = await connection.receive()
                    if self._failures.refuses(host, clock.monotonic()):  # also those that have begun before
                        self._warnings.warn("%s is refused: %d failures within a minute", origin, MOST)
                        connection.send(REFUSED)
                        return None
                    answer = checking.receive(frame)
                    await self._check_not_revoked(checking)
                    connection.send(answer)
        except AuthenticationError as error:
            self._failures.failed(host, clock.monotonic())
            self._warnings.warn("%s is refused: %s", origin, error)
            connection.send(REFUSED)
            return None
        if isinstance(connection, RestrictedConnection):
            connection.set_authenticated()
        return checking.holder

    def _checking(self, connection: Connection) -> Checking:
        binding, certificate = b"", None
        if isinstance(connection, RestrictedConnection):
            binding, certificate = connection.binding, connection.certificate
        nonce = self._rng.token_bytes(NONCE_BYTES)
        return Checking(lambda: self._served.tokens.tokens, self._served.clock.now, nonce, binding, certificate)

    async def _check_not_revoked(self, checking: Checking) -> None:
        """AuthenticationError. While the store cannot be reached, each request is refused, and not the client."""
        revoked, holder = self._served.revoked, checking.holder
        if holder is None or holder.certificate is None or revoked is None:
            return
        try:
            found = await revoked.has(holder.certificate.sha256)
        except CoordinationError as error:
            log.debug("whether %s was revoked is asked with its first request: %s", holder.shown, error)
            return
        if found:
            raise AuthenticationError(f"{holder.shown} was revoked")


def _host(origin: str) -> str:
    """The host of a peer, without its port."""
    try:
        address = parse_address(origin)
    except NetworkError:
        return origin
    return address.host if isinstance(address, TcpAddress) else origin
