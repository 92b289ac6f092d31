"""Push server: receives partitions from executors, for one task of a batch spout; pushing.py is the other end.

    job: mapInArrow(pusher).collect() ─► executors ─ Claim ─► accept ─► PushedPartition: want, next …, confirm
                                         wait here             one after another for each stream; the others wait

1. Each server has a new token. The transport refuses clients without it, before it reads anything else.
2. It listens on loopback, or with TLS, where executors prove only the token: they have no certificates.
3. Sizes are checked before anything is allocated.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from contextlib import suppress
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final

from ...transport import (
    ConnectionLostError,
    Credentials,
    CredentialsError,
    ProtocolError,
    Security,
    TlsFiles,
    new_token,
)
from ..errors import SparkSourceError
from ..executors.endpoints import Endpoint
from ..executors.messages import ROLE_BATCH, Claim, Done, Offer, Rejected, Send
from ..executors.messages import End as EndMessage
from ..executors.server import ClientConnection, DataServer, ServerSettings
from ..needs import require
from .pushing import CLUSTER, PushLocation
from .readers import End, Piece

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..executors.messages import ClientHello

MAX_CHUNK_BYTES: Final = 1 << 30


class PushServer:
    """Listens from `open` until `close`. `name`: of the component."""

    def __init__(self, name: str, host: str, tls: TlsFiles | None) -> None:
        if tls is None and not _is_loopback(host):
            raise SparkSourceError(
                f"executors would send partitions to {host} unencrypted: give push_tls=TlsFiles(…) (`aiostorm certs`), "
                "or a loopback address if all of Spark is on this machine"
            )
        self._host = f"[{host}]" if ":" in host else host
        self._token = new_token()
        self._tls = None if tls is None else _ServerTls(tls.certificate, tls.key, tls.ca)
        security = Security(Credentials(CLUSTER, self._token), self._tls)
        settings = ServerSettings(f"{self._host}:0", given=security)
        self._server = DataServer(settings, ROLE_BATCH, Endpoint(name, 0, 1, ""), self._serve)
        self._arrived: deque[PushedPartition] = deque()  # at most one for each connection, which the network limits
        self._changed = asyncio.Event()
        self._accepts = True

    async def open(self) -> PushLocation:
        """Listen. Returns what executors need. SparkSourceError if the address or a file cannot be used."""
        try:
            authority = None if self._tls is None else await asyncio.to_thread(self._tls.authority)
            await self._server.open()
        except (CredentialsError, OSError) as error:
            raise SparkSourceError(f"executors cannot send partitions to {self._host}: {error}") from error
        port = self._server.address.rpartition(":")[2]
        return PushLocation(f"{self._host}:{port}", self._token.reveal(), authority)

    async def accept(self) -> PushedPartition | None:
        """The next partition whose executor waits; None after `refuse`."""
        while self._accepts:
            while self._arrived:
                pushed = self._arrived.popleft()
                if await pushed.is_connected():
                    return pushed
            self._changed.clear()
            await self._changed.wait()
        return None

    def refuse(self) -> None:
        """Accept no more partitions: executors that wait, or connect later, receive that theirs are not wanted."""
        self._accepts = False
        self._changed.set()
        while self._arrived:
            self._arrived.popleft().close()

    async def close(self) -> None:
        """End all connections."""
        self.refuse()
        await self._server.close()

    async def _serve(self, client: ClientConnection, hello: ClientHello) -> None:
        client.welcome()
        message = await client.message()
        if not isinstance(message, Claim):
            raise ProtocolError(f"a {type(message).__name__} came before Claim")
        pushed = PushedPartition(client, message.partition)
        if self._accepts:
            self._arrived.append(pushed)
            self._changed.set()
        else:
            pushed.close()
        await pushed.ended.wait()


class PushedPartition:
    """A partition that an executor sends. Nothing comes before `want`; `confirm` after its end."""

    def __init__(self, client: ClientConnection, partition: int) -> None:
        self.partition = partition
        self.is_whole = False
        """Whether the executor's input was complete. Known at the end."""
        self.ended = asyncio.Event()
        self._client = client
        self._answered = False

    async def is_connected(self) -> bool:
        """Whether the executor still waits."""
        with suppress(ConnectionLostError):
            await self._client.check()
            return True
        self.close()
        return False

    def want(self) -> None:
        """Request the partition."""
        self._answer(Send(self.partition))

    def refuse_attempt(self) -> None:
        """The partition is read from another attempt: this one fails."""
        self._answer(Rejected(f"partition {self.partition} is read from another attempt of this task"))

    async def next(self, schema: Any, is_acked: Callable[[int], bool]) -> Piece | End:
        """Receive the next chunk, without its rows if it is acked; or the end. ConnectionLostError, ProtocolError."""
        message = await self._client.message()
        if isinstance(message, EndMessage):
            self.is_whole = message.whole
            return End(self.partition)
        if not isinstance(message, Offer) or not message.chunk.isdecimal():
            raise ProtocolError(f"a {type(message).__name__} came, and a chunk was to come")
        number, digest, batch = int(message.chunk), int.from_bytes(message.digest, "big"), None
        if not is_acked(number):
            if message.size > MAX_CHUNK_BYTES:
                raise SparkSourceError(
                    f"a chunk of {message.size:,} bytes came, {MAX_CHUNK_BYTES:,} is the most: lower chunk_rows"
                )
            self._client.send(Send(message.seq))
            body = await self._client.chunk(message.size, MAX_CHUNK_BYTES)
            arrow = require("pyarrow")
            batch = arrow.ipc.read_record_batch(arrow.py_buffer(body), schema)
        self._client.send(Done(message.seq))
        return Piece(self.partition, number, digest, message.rows, batch)

    def confirm(self) -> None:
        """The end of the partition is recorded: the executor's task may end."""
        self._client.send(Done(0))

    def close(self) -> None:
        """Close the connection. An executor that waits for the answer receives that its partition is not wanted."""
        if not self._answered:
            self._answer(Done(self.partition))
        self.ended.set()

    def _answer(self, message: Send | Done | Rejected) -> None:
        self._answered = True
        self._client.send(message)


class _ServerTls(TlsFiles):
    """TLS whose clients show no certificate."""

    def server_context(self) -> ssl.SSLContext:
        context = super().server_context()
        context.verify_mode = ssl.CERT_NONE
        return context

    def authority(self) -> str:
        """The CA (PEM)."""
        with open(self.ca, encoding="ascii") as file:
            return file.read(1 << 20)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
