"""Push server: receives partitions from executors, for one task of a batch spout; pushing.py has the protocol.

    job: mapInArrow(pusher).collect() ─► executors ─ ─ ─► accept ─► PushedReader.read ─► feed
                                         wait here          `ahead` at a time; the others wait in the backlog

1. A client without the token is disconnected before anything else is read; each server has a new token.
2. It listens on loopback, or with TLS.
3. Sizes are checked before anything is allocated.
4. Everything here blocks, except `next`, `opened` and `ended`.
"""

from __future__ import annotations

import contextlib
import hmac
import logging
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Sequence
from ipaddress import ip_address
from typing import Any, Final

from ...transport import TlsFiles
from ..errors import SparkSourceError
from ..needs import require
from .partitions import Partitions
from .pushing import (
    ANSWER,
    BUSY,
    CHUNK,
    CHUNK_BYTES,
    LEFT_OUT,
    NONCE_BYTES,
    NOT_WANTED,
    PROOF,
    PROOF_BYTES,
    WANTED,
    proof,
    pusher,
    received,
)
from .readers import End, PartitionReader, Piece

log = logging.getLogger("aiostorm.spark")

MAX_CHUNK_BYTES: Final = 1 << 30
BACKLOG: Final = 1024
_LOOK_S: Final = 0.2
_HELLO_S: Final = 10.0


class PushServer:
    """Listens from its creation until `close`."""

    def __init__(self, host: str, tls: TlsFiles | None, random: Callable[[int], bytes]) -> None:
        if tls is None and not _is_loopback(host):
            raise SparkSourceError(
                f"executors would send partitions to {host} unencrypted: give push_tls=TlsFiles(…) (`aiostorm certs`), "
                "or a loopback address if all of Spark is on this machine"
            )
        self._random = random
        self._token = random(32)
        self._context = None if tls is None else tls.server_context()
        self._authority = None
        if tls is not None and self._context is not None:
            self._context.verify_mode = ssl.CERT_NONE  # executors have no certificates: they prove the token
            with open(tls.ca, encoding="ascii") as file:
                self._authority = file.read(1 << 20)
        self._closed = threading.Event()
        self.error: BaseException | None = None
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.create_server((host, 0), family=family, backlog=BACKLOG)
        self._socket.settimeout(_LOOK_S)
        self.address: tuple[str, int] = (host, self._socket.getsockname()[1])

    def function(self, schema: Any, chunk_rows: int) -> Any:
        """The function for `mapInArrow`."""
        by_value()
        return pusher(self.address, self._token, self._authority, schema.serialize().to_pybytes(), chunk_rows)

    def accept(self) -> tuple[Any, int]:
        """The next authenticated connection and its partition. EOFError when the server is closed."""
        while not self._closed.is_set():
            try:
                sock, _ = self._socket.accept()
            except TimeoutError:
                continue
            except OSError:
                if self._closed.is_set():
                    break
                raise
            try:
                return self._checked(sock)
            except (OSError, ValueError) as error:
                log.warning("a client without the token was refused: %s", error)
                sock.close()
        raise EOFError("the push server is closed")

    def failure(self, within_s: float) -> BaseException | None:
        """The error of the job, if it fails within this time. Blocks.

        Partitions that still arrive are refused: Spark may retry a task before its job fails.
        """
        for _ in range(int(within_s / _LOOK_S)):
            if self._closed.is_set():
                break
            try:
                sock, _ = self._socket.accept()
            except OSError:  # none within _LOOK_S, or closed
                continue
            with sock, contextlib.suppress(OSError, ValueError):
                self._checked(sock)[0].sendall(struct.pack(ANSWER, NOT_WANTED, 0))
        return self.error

    @property
    def is_closed(self) -> bool:
        """Whether the server is closed."""
        return self._closed.is_set()

    def close(self) -> None:
        """Accept no more connections. May be called twice."""
        self._closed.set()
        self._socket.close()

    def _checked(self, sock: socket.socket) -> tuple[Any, int]:
        sock.settimeout(_HELLO_S)
        secured: Any = sock if self._context is None else self._context.wrap_socket(sock, server_side=True)
        nonce = self._random(NONCE_BYTES)
        secured.sendall(nonce)
        partition, shown = struct.unpack(PROOF, received(secured, PROOF_BYTES))
        if not hmac.compare_digest(shown, proof(self._token, nonce, partition)):
            raise ValueError("a wrong token")
        secured.settimeout(None)
        return secured, partition


class PushedReader:
    """Reads a partition that an executor sends. `answer` is set before the first read."""

    def __init__(self, sock: Any, partition: int, schema: Any) -> None:
        self.partition = partition
        self.size_bytes = 0
        self.answer: tuple[int, str] | None = (NOT_WANTED, "")
        self.whole = False
        """Whether the executor's input was complete. Known at the end."""
        self._sock = sock
        self._schema = schema
        self._arrow = require("pyarrow")

    def read(self, most: int) -> tuple[list[Piece | End], bool]:
        if self.answer is not None:
            (answer, runs), self.answer = self.answer, None
            self._sock.sendall(struct.pack(ANSWER, answer, len(runs)) + runs.encode("ascii"))
            if answer != WANTED:
                self.close()
                return [], False
        item = self._next()  # one at a time: do not wait for the next chunk while others are unread
        if isinstance(item, End):
            self._sock.sendall(b"\1")
            self.close()
        return [item], isinstance(item, Piece)

    def close(self) -> None:
        """Close the connection. An executor that waits for the answer is refused."""
        with contextlib.suppress(OSError):
            if self.answer is not None:
                self._sock.sendall(struct.pack(ANSWER, NOT_WANTED, 0))
            self._sock.shutdown(socket.SHUT_RDWR)  # a waiting read in another thread ends
        self._sock.close()

    def _next(self) -> Piece | End:
        number, rows, digest, size = struct.unpack(CHUNK, received(self._sock, CHUNK_BYTES))
        if number < 0:
            self.whole = bool(digest)
            return End(self.partition)
        if size == LEFT_OUT:
            return Piece(self.partition, number, digest, rows, None)
        if not 0 <= size <= MAX_CHUNK_BYTES:
            raise SparkSourceError(f"a chunk of {size:,} bytes came, {MAX_CHUNK_BYTES:,} is the most: lower chunk_rows")
        body = received(self._sock, size)
        self.size_bytes += size
        batch = self._arrow.ipc.read_record_batch(self._arrow.py_buffer(body), self._schema)
        return Piece(self.partition, number, digest, batch.num_rows, batch)


class UnconfirmedReader(PushedReader):
    """A partition that is only complete when the job has ended well, unless the executor says so: calls `over`."""

    def __init__(self, sock: Any, partition: int, schema: Any, over: Callable[[int], None]) -> None:
        super().__init__(sock, partition, schema)
        self._over = over

    def read(self, most: int) -> tuple[list[Piece | End], bool]:
        items, more = super().read(most)
        if items and isinstance(items[0], End) and not self.whole:
            self._over(self.partition)
            return [], False
        return items, more


class PushOpener:
    """Opens partitions that executors push. `job` runs the job (blocking; returns the partitions), `cancel` ends it.

    `certain`: a partition that was read to its end is complete. (The input of a `mapInArrow` function may end too
    early: PySpark does not report the failure of an earlier step.) Else partitions end when the job has ended well.
    """

    def __init__(
        self,
        machine: Partitions,
        server: PushServer,
        schema: Any,
        *,
        readers: int,
        job: Callable[[PushServer], Sequence[int]],
        cancel: Callable[[], None],
        certain: bool = True,
    ) -> None:
        self._certain = certain
        self._over: list[int] = []
        self._ran: Sequence[int] = ()
        self.readers = readers
        self._machine = machine
        self._server = server
        self._schema = schema
        self._job = job
        self._cancel = cancel

    def main(self) -> Callable[[], None] | None:
        return self._run

    def next(self) -> Callable[[], PartitionReader] | None:
        return None if self._server.is_closed else self._accepted

    def opened(self, reader: Any) -> bool:
        """Refuse a partition of another task, or one that is done."""
        if self._machine.claim(reader.partition):
            reader.answer = (WANTED, self._machine.acked_of(reader.partition))
        else:
            reader.answer = (BUSY if self._machine.is_claimed(reader.partition) else NOT_WANTED, "")
        return True

    def confirmed(self) -> Sequence[int]:
        self._machine.ran(self._ran)
        return self._over

    def ended(self, reader: PartitionReader) -> None:
        """Nothing: other executors may still connect, and are refused."""

    def cancel(self) -> None:
        self._server.close()
        self._cancel()

    def _run(self) -> None:
        try:
            self._ran = self._job(self._server)
        except BaseException as error:
            self._server.error = error
            raise
        finally:
            self._server.close()  # no more executors

    def _accepted(self) -> PartitionReader:
        sock, partition = self._server.accept()
        if self._certain:
            return PushedReader(sock, partition, self._schema)
        return UnconfirmedReader(sock, partition, self._schema, self._over.append)


def by_value() -> None:
    """Pickle the modules that run in executors by value: aiostorm need not be installed there."""
    cloudpickle = require("pyspark.cloudpickle")
    from .. import digests
    from . import chunking, pushing

    for module in (chunking, digests, pushing):
        cloudpickle.register_pickle_by_value(module)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
