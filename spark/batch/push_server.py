"""Push server: receives partitions from executors, for one task of a batch spout; pushing.py has the protocol.

    job: mapInArrow(pusher).collect() ─► executors ─ ─ ─► accept ─► PushedReader: answer, read …, confirm
                                         wait here          `ahead` at a time; the others wait in the backlog

1. A client without the token is disconnected before anything else is read; each server has a new token.
2. It listens on loopback, or with TLS.
3. Sizes are checked before anything is allocated.
4. Everything here blocks.
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
from typing import TYPE_CHECKING, Any, Final

from ..errors import SparkSourceError
from ..needs import require
from .pushing import (
    ANSWER,
    CHUNK,
    CHUNK_BYTES,
    LEFT_OUT,
    NONCE_BYTES,
    NOT_WANTED,
    PROOF,
    PROOF_BYTES,
    proof,
    pusher,
    received,
)
from .readers import End, Piece

if TYPE_CHECKING:
    from ...transport import TlsFiles

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

    def during(self, job: Callable[[PushServer], Sequence[int]]) -> Sequence[int]:
        """Run the job, and accept no more executors after it. Returns or raises what it does."""
        try:
            return job(self)
        except BaseException as error:
            self.error = error
            raise
        finally:
            self.close()

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
    """Reads a partition that an executor sends. Nothing comes before `answer`; `confirm` after its end."""

    def __init__(self, sock: Any, partition: int, schema: Any) -> None:
        self.partition = partition
        self.is_whole = False
        """Whether the executor's input was complete. Known at the end."""
        self._sock = sock
        self._schema = schema
        self._answered = False
        self._arrow = require("pyarrow")

    def answer(self, answer: int, skipped: str = "") -> None:
        """Tell the executor whether the partition is wanted; `skipped`: the runs of chunks that it leaves out."""
        self._answered = True
        self._sock.sendall(struct.pack(ANSWER, answer, len(skipped)) + skipped.encode("ascii"))

    def read(self, most: int) -> tuple[list[Piece | End], bool]:
        """Read the next chunk, or the end. One at a time: the next chunk may take long."""
        item = self._next()
        return [item], isinstance(item, Piece)

    def confirm(self) -> None:
        """The end of the partition is recorded: the executor's task may end."""
        self._sock.sendall(b"\1")

    def close(self) -> None:
        """Close the connection. An executor that waits for the answer is refused."""
        with contextlib.suppress(OSError):
            if not self._answered:
                self.answer(NOT_WANTED)
            self._sock.shutdown(socket.SHUT_RDWR)  # a waiting read in another thread ends
        self._sock.close()

    def _next(self) -> Piece | End:
        number, rows, digest, size = struct.unpack(CHUNK, received(self._sock, CHUNK_BYTES))
        if number < 0:
            self.is_whole = bool(digest)
            return End(self.partition)
        if size == LEFT_OUT:
            return Piece(self.partition, number, digest, rows, None)
        if not 0 <= size <= MAX_CHUNK_BYTES:
            raise SparkSourceError(f"a chunk of {size:,} bytes came, {MAX_CHUNK_BYTES:,} is the most: lower chunk_rows")
        body = received(self._sock, size)
        batch = self._arrow.ipc.read_record_batch(self._arrow.py_buffer(body), self._schema)
        return Piece(self.partition, number, digest, batch.num_rows, batch)


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
