"""Link: a client's connection to nimbus: authenticated, and one request at a time.

    async with nimbus_link(addresses, token, tls, clock) as link:      token None: the certificate in `tls` is shown
        answer = await link.ask("list", {}, again=True)

1. It connects with the first request, to the first address that answers. When the connection is lost it connects again,
   to another address if need be: every nimbus answers, whether it leads or not.
2. A request that only reads is sent again then. One that changes something is not: whether it was done is not known
   (UnavailableError), and the caller looks.
3. A request that is cancelled, or not answered in time, ends the connection: a response never meets another request.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from ...runtime import LoopClock, Rng, SystemRng
from ...transport import (
    AuthenticationError,
    ConnectionLostError,
    NetworkError,
    RestrictedConnection,
    Security,
    SocketNetwork,
    parse_address,
)
from ..coordination import UnavailableError
from .errors import DeniedError, RequestError
from .proving import NONCE_BYTES, Proving, Showing
from .wire import PIECE_BYTES, ResponseReader, request_frame

if TYPE_CHECKING:
    from ...runtime import Clock
    from ...transport import Connection, Credentials, Network, TlsFiles

SCHEME: Final = "aiostorm://"

CONNECT_S: Final = 5.0
"""To connect, and to authenticate, for each address."""

ANSWER_S: Final = 60.0

IDLE_S: Final = 30.0
"""A connection that was not used for so long is not used again: nimbus closes those that are idle."""


class NimbusLink:
    """The client's end. `network`: not authenticated. All methods raise UnavailableError, DeniedError, RequestError.

    `token`: None: the network shows a certificate.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        token: Credentials | None,
        network: Network,
        *,
        clock: Clock | None = None,
        rng: Rng | None = None,
    ) -> None:
        self.addresses = list(addresses)
        self._token = token
        self._network = network
        self._clock: Clock = clock or LoopClock()
        self._rng: Rng = rng or SystemRng()
        self._one = asyncio.Lock()
        self._connection: Connection | None = None
        self._used_s = 0.0

    async def ask(self, name: str, arguments: Mapping[str, Any], *, again: bool) -> bytes:
        """The response, which is JSON. `again`: it may be sent again if the connection is lost."""
        frame = request_frame(name, arguments)
        async with self._one:
            try:
                return await self._asked(frame)
            except UnavailableError:
                if not again:
                    raise
            return await self._asked(frame)

    async def ask_with(self, data: bytes, name: str, arguments: Mapping[str, Any]) -> bytes:
        """As `ask`, of a request that needs code: it is sent before, over the same connection."""
        sha256 = await asyncio.to_thread(_digest, data)
        async with self._one:
            answer = await self._asked(request_frame("upload", {"size_bytes": len(data), "sha256": sha256}), data)
            if value_of(answer)[1] is not None:
                return answer
            return await self._asked(request_frame(name, arguments))

    def close(self) -> None:
        """End the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    # -- inside --------------------------------------------------------------------------------------------------------

    async def _asked(self, frame: bytes, data: bytes | None = None) -> bytes:
        if self._clock.monotonic() - self._used_s > IDLE_S:
            self.close()
        connection = self._connection or await self._connected()
        done = False
        try:
            async with asyncio.timeout(ANSWER_S):
                connection.send(frame)
                answer = await _response(connection)
            if data is not None and value_of(answer)[1] is None:
                await self._send(connection, data)
                async with asyncio.timeout(ANSWER_S):
                    answer = await _response(connection)
            done = True
        except ConnectionLostError as error:
            raise UnavailableError(
                f"{connection.peer} has ended the connection before it answered: whether it was done is not known"
            ) from error
        except TimeoutError as error:
            raise UnavailableError(
                f"{connection.peer} has not answered within {ANSWER_S:g} s: whether it was done is not known"
            ) from error
        finally:
            if not done:
                self.close()
        self._used_s = self._clock.monotonic()
        return answer

    async def _send(self, connection: Connection, data: bytes) -> None:
        for start in range(0, len(data), PIECE_BYTES):
            async with asyncio.timeout(ANSWER_S):
                connection.send(data[start : start + PIECE_BYTES])
                await connection.drained()

    async def _connected(self) -> Connection:
        """A connection to the first nimbus that answers. One that refuses the token is asked last, and named."""
        problems: list[str] = []
        refused = ""
        for address in tuple(self.addresses):
            try:
                async with asyncio.timeout(CONNECT_S):
                    made = await self._network.connect(address)
                    try:
                        await self._prove(made)
                    except BaseException:
                        made.close()
                        raise
            except AuthenticationError as error:
                refused = refused or f"{address}: {error}"
            except (NetworkError, TimeoutError) as error:
                text = f"no answer within {CONNECT_S:g} s" if isinstance(error, TimeoutError) else str(error)
                if self._token is None:
                    text += " (a certificate that has ended, or is not of nimbus' CA, is refused without a reason)"
                problems.append(text if text.startswith(address) else f"{address}: {text}")
            else:
                self.addresses.remove(address)
                self.addresses.insert(0, address)
                self._connection, self._used_s = made, self._clock.monotonic()
                made.peer = f"nimbus at {address}"
                return made
        if refused:
            raise DeniedError(refused)
        raise UnavailableError(f"no nimbus answers: {'; '.join(problems)}")

    async def _prove(self, connection: Connection) -> None:
        binding = connection.binding if isinstance(connection, RestrictedConnection) else b""
        nonce = self._rng.token_bytes(NONCE_BYTES)
        proving = Showing() if self._token is None else Proving(self._token, nonce, binding)
        connection.send(proving.hello)
        try:
            while proving.role is None:
                frame = proving.receive(await connection.receive())
                if frame is not None:
                    connection.send(frame)
        except ConnectionLostError as error:
            raise NetworkError("it closed the connection: is it a nimbus, and is this client allowed?") from error
        if isinstance(connection, RestrictedConnection):
            connection.set_authenticated()


async def _response(connection: Connection) -> bytes:
    reader = ResponseReader()
    while True:
        document = reader.feed(await connection.receive())
        if document is not None:
            return document


def value_of(document: bytes) -> tuple[bytes, tuple[str, str] | None]:
    """The value of a response, as JSON; and kind and text of its error. RequestError if it is no response."""
    if document.startswith(b'{"value":') and document.endswith(b"}"):
        return document[len(b'{"value":') : -1], None
    try:
        found = json.loads(document)
        return b"", (str(found["error"]), str(found["text"]))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise RequestError("nimbus sends what is no response: do both run the same version?") from error


def nimbus_addresses(url: str) -> tuple[str, ...] | None:
    """The addresses in `aiostorm://host:port,host:port` or `aiostorm://unix:/path`; None: it is no such URL.

    NetworkError for one that is no address.
    """
    if not url.startswith(SCHEME):
        return None
    return tuple(str(parse_address(each.strip())) for each in url.removeprefix(SCHEME).rstrip("/").split(","))


@asynccontextmanager
async def nimbus_link(
    addresses: Sequence[str], token: Credentials | None, tls: TlsFiles | None, clock: Clock
) -> AsyncIterator[NimbusLink]:
    """A link over sockets. `tls`: needed for another machine. CredentialsError if a file cannot be used.

    `token`: None: the certificate in `tls` is shown.
    """
    async with SocketNetwork(Security(token, tls)) as network:
        link = NimbusLink(addresses, token, network, clock=clock)
        try:
            yield link
        finally:
            link.close()


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
