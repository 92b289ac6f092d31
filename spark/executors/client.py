"""Data client: Spark's side of a connection, in executors and in the driver's Python workers. Blocking, one thread.

    Location ─► ServerClient: finds the task, connects, sends ClientHello; reconnects for `patience_s`
                       ├ ChunkWriter: offers chunks, some at a time, sends the requested ones, until all are done
                       └ ChunkReader: queries the log, fetches chunks, commits them

1. Memory: at most `ahead` chunks that are not done (a writer), or one chunk (a reader).
2. A lost connection is made again, to wherever the task runs by then; chunks that are not done are offered again. After
   `patience_s` it is an error, and Spark retries the task as it does with every failed task.
3. Permanent errors (token, schema, a chunk that the topology cannot process) are raised at once.
4. All of it but ChunkReader also runs where aiostorm is not installed (see by_value): it uses only the standard
   library, and no module of ours as a value.
"""

from __future__ import annotations

import os
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, Self, TypeVar

from ...runtime import SystemRng
from ...transport import AuthenticationError, BlockingConnection, Identity, NetworkError, ProtocolError, dial_blocking
from ..errors import SparkLostError, SparkSourceError
from .messages import (
    DATA,
    ROLE_SPARK,
    SILENCE_S,
    VERSION,
    Alive,
    ChunkAssembly,
    ChunkHeader,
    ClientHello,
    Commit,
    Done,
    Failed,
    FetchChunks,
    LogQuery,
    LogState,
    Message,
    Offer,
    Rejected,
    Send,
    ServerWelcome,
    Trim,
    pack,
    parts_of,
    unpack,
)

if TYPE_CHECKING:
    from ...transport import Security
    from .endpoints import Endpoint

M = TypeVar("M", bound=Message)

AHEAD: Final = 4
_WAIT_S: Final = 0.05
_MAX_WAIT_S: Final = 1.0


class Location(Protocol):
    """Where the tasks of a component are. `role`: of the component. `patience_s`: how long to try to connect."""

    @property
    def role(self) -> str: ...

    @property
    def patience_s(self) -> float: ...

    def tasks(self) -> list[Endpoint]:
        """The endpoints of all tasks, in order. SparkLostError if some are missing (now)."""
        ...

    def security(self) -> Security:
        """The client's security."""
        ...


class ServerClient:
    """A connection with one task, made again when it is lost. `index`: the task, modulo the number of tasks.

    `patience_s`: for how long it is made again.
    """

    def __init__(self, where: Location, index: int, shape: bytes = b"") -> None:
        self.patience_s = where.patience_s
        self._where = where
        self._index = index
        self._shape = shape
        self._name = f"spark-{os.getpid()}-{SystemRng().token_bytes(8).hex()}"
        self._connection: BlockingConnection | None = None
        self.welcome: ServerWelcome

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def with_retries(self, work: Callable[[BlockingConnection], M]) -> M:
        """Call `work` with a connection, again with a new one if it is lost. SparkLostError after `patience_s`."""
        until_s = time.monotonic() + self.patience_s
        wait_s = _WAIT_S
        while True:
            try:
                return work(self.connected())
            except AuthenticationError as error:
                raise SparkSourceError(f"{error}. Give both sides the same token") from error
            except ProtocolError as error:
                self.close()
                raise SparkSourceError(f"a protocol error between the topology and this executor: {error}") from error
            except (NetworkError, SparkLostError) as error:
                self.close()
                if time.monotonic() + wait_s > until_s:
                    raise SparkLostError(
                        f"the topology was not available for {self.patience_s:g} s (option patience): {error}"
                    ) from error
                time.sleep(wait_s)
                wait_s = min(2 * wait_s, _MAX_WAIT_S)

    def tasks(self) -> int:
        """The number of tasks. Waits for a connection."""
        self.with_retries(self._welcomed)
        return self.welcome.tasks

    def shape(self) -> bytes:
        """An encoded empty batch of the server's schema; empty if the schema is not known yet."""
        self.with_retries(self._welcomed)
        return self.welcome.shape

    def _welcomed(self, connection: BlockingConnection) -> ServerWelcome:
        return self.welcome

    def connected(self) -> BlockingConnection:
        """The connection, after ClientHello and ServerWelcome."""
        if self._connection is not None:
            return self._connection
        tasks = self._where.tasks()
        endpoint = tasks[self._index % len(tasks)]
        connection = dial_blocking(
            endpoint.address,
            self._where.security(),
            Identity(self._name, ROLE_SPARK),
            roles=(self._where.role,),
            silence_s=SILENCE_S,
        )
        try:
            connection.send(pack(ClientHello(VERSION, self._name, self._shape)))
            welcome = receive_message(connection, ServerWelcome)
            if welcome.version != VERSION:
                raise SparkSourceError(f"the topology has version {welcome.version}, this is version {VERSION}")
            if welcome.tasks != len(tasks):
                raise SparkSourceError(
                    f"{welcome.component} has {welcome.tasks} tasks, and option address names {len(tasks)}: name each"
                )
        except BaseException:
            connection.close()
            raise
        self.welcome, self._connection = welcome, connection
        return connection

    def close(self) -> None:
        """Close the connection; the next use makes another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


@dataclass(slots=True)
class _OpenOffer:
    offer: Offer
    data: Any


class ChunkWriter:
    """Sends chunks to one spout task, and waits until they are processed."""

    def __init__(self, client: ServerClient, ahead: int = AHEAD) -> None:
        self._client = client
        self._ahead = ahead
        self._open: OrderedDict[int, _OpenOffer] = OrderedDict()
        self._offered_on: BlockingConnection | None = None
        self._offered: set[int] = set()
        self._seq = 0

    def write(self, chunks: Iterable[tuple[Offer, Any]]) -> int:
        """Write all chunks (offers and buffers), with new `seq` numbers. Returns their number when all are done.

        SparkSourceError if one cannot be processed, SparkLostError if the topology is unavailable for too long.
        """
        for offer, data in chunks:
            while len(self._open) >= self._ahead:
                self._pump(None)
            self._seq += 1
            numbered = Offer(self._seq, offer.stream, offer.batch, offer.chunk, offer.rows, offer.digest, offer.size)
            self._open[self._seq] = _OpenOffer(numbered, data)
            self._pump(0)
        while self._open:
            self._pump(None)
        return self._seq

    def commit(self, stream: str, batch: int) -> None:
        """Report that a batch is complete."""

        def request(connection: BlockingConnection) -> Done:
            connection.send(pack(Commit(stream, batch)))
            return receive_message(connection, Done)

        self._client.with_retries(request)

    def _pump(self, timeout_s: float | None) -> None:
        """Offer new chunks, and handle messages: at least one, unless the timeout ends."""
        self._client.with_retries(lambda connection: self._exchange(connection, timeout_s))

    def _exchange(self, connection: BlockingConnection, timeout_s: float | None) -> Alive:
        self._offer(connection)
        if not self._open and timeout_s is None:  # the last connection was lost after it had answered all
            return Alive()
        try:
            while True:
                message = unpack(connection.receive(timeout_s))
                settled = self._on_message(connection, message)
                if timeout_s is None and settled:
                    timeout_s = 0
        except TimeoutError:
            return Alive()

    def _offer(self, connection: BlockingConnection) -> None:
        if connection is not self._offered_on:
            self._offered_on, self._offered = connection, set()
        for seq, one in self._open.items():
            if seq not in self._offered:
                self._offered.add(seq)
                connection.send(pack(one.offer))

    def _on_message(self, connection: BlockingConnection, message: Message) -> bool:
        if isinstance(message, Send) and message.seq in self._open:
            for part in parts_of(self._open[message.seq].data):
                connection.send(DATA, part)
            return False
        if isinstance(message, Done):
            self._offered.discard(message.seq)
            return self._open.pop(message.seq, None) is not None
        if isinstance(message, Failed):
            raise SparkSourceError(message.error)
        if isinstance(message, Rejected):
            raise SparkSourceError(message.reason)
        if isinstance(message, Alive):
            return False
        raise ProtocolError(f"a {type(message).__name__} came")


class ChunkReader:
    """Reads the chunks that one bolt task has kept."""

    def __init__(self, client: ServerClient, consumer: str) -> None:
        self._client = client
        self._consumer = consumer

    def query(
        self, log: str = "", begin: int = -1, *, done: bool = False, max_rows: int = 0, max_bytes: int = 0
    ) -> LogState:
        """The state of the log. SparkSourceError if chunks from `begin` on are missing, or it is another log."""
        asked = pack(LogQuery(self._consumer, log, begin, done, max_rows, max_bytes))

        def ask(connection: BlockingConnection) -> LogState:
            connection.send(asked)
            return receive_message(connection, LogState)

        return self._client.with_retries(ask)

    def trim(self, log: str, end: int) -> None:
        """Commit all chunks before `end`."""

        def request(connection: BlockingConnection) -> Done:
            connection.send(pack(Trim(self._consumer, log, end)))
            return receive_message(connection, Done)

        self._client.with_retries(request)

    def fetch(self, log: str, begin: int, end: int) -> Iterator[bytes]:
        """Iterate the chunks from `begin` to before `end`; after a reconnect only the remaining ones are fetched."""
        fetching = _FetchState(log, begin, end)
        while fetching.at < end:
            self._client.with_retries(fetching.next)
            yield fetching.taken()


class _FetchState:
    """The progress of a fetch."""

    def __init__(self, log: str, begin: int, end: int) -> None:
        self.at = begin
        self._log = log
        self._end = end
        self._data = b""
        self._asked_on: BlockingConnection | None = None

    def next(self, connection: BlockingConnection) -> ChunkHeader:
        """Receive the next chunk."""
        if connection is not self._asked_on:
            connection.send(pack(FetchChunks(self._log, self.at, self._end)))
            self._asked_on = connection
        chunk = receive_message(connection, ChunkHeader)
        if chunk.at != self.at:
            raise ProtocolError(f"chunk {chunk.at} came, and {self.at} was to come")
        assembly = ChunkAssembly(chunk.size)
        while (data := assembly.add(connection.receive())) is None:
            pass
        self._data = data
        return chunk

    def taken(self) -> bytes:
        """Return the data of the received chunk, and move on."""
        data, self._data = self._data, b""
        self.at += 1
        return data


def receive_message(connection: BlockingConnection, *kinds: type[M]) -> M:
    """The next message, without Alive. SparkSourceError if it is Rejected, ConnectionLostError after a silence."""
    while True:
        message = unpack(connection.receive())
        if isinstance(message, kinds):
            return message
        if isinstance(message, Rejected):
            raise SparkSourceError(message.reason)
        if not isinstance(message, Alive):
            raise ProtocolError(f"a {type(message).__name__} came, and a {kinds[0].__name__} was to come")
