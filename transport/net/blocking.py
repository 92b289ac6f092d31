"""BlockingConnection: a connection in a thread without an event loop, for the executors of other engines.

    with dial(address, security, Identity("spark-7", "spark")) as connection:
        connection.send(frame)
        frame = connection.receive(timeout_s=10)

1. The other end is a listener of SocketNetwork under AuthenticatedNetwork, and notices no difference: frames (see
   blocking_frames) and proofs are the same. This end uses only sockets and TLS of the standard library.
2. Other machines are refused without TLS (see addresses); each address that a host name resolves to is checked.
3. A frame has at most MAX_FRAME_BYTES in both directions. A larger one is refused before its content is read.
4. Every wait ends: the connection is over after `silence_s` without a byte from the peer, or without a byte sent.
"""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, Self

from ...runtime import Rng, SystemRng
from ..errors import (
    AuthenticationError,
    ConnectionLostError,
    CredentialsError,
    FrameTooLargeError,
    NetworkError,
    ProtocolError,
)
from .addresses import TcpAddress, check_dialled, parse_address
from .authentication import NONCE_BYTES, REFUSED, Claim, Dialler, Identity
from .blocking_frames import Framing, StreamFrames, WebSocketFrames
from .network import MAX_FRAME_BYTES
from .tls import binding_of, roles_in

if TYPE_CHECKING:
    from .security import Security

_READ_BYTES: Final = 256 * 1024


class BlockingConnection:
    """Frames in both directions with one authenticated peer. For one thread only."""

    def __init__(self, made: socket.socket, peer: str, silence_s: float, framing: Framing) -> None:
        self.peer = peer
        self._socket = made
        self._silence_s = silence_s
        self._framing = framing
        self._buffer = bytearray()
        self._over = False
        made.settimeout(silence_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def send(self, *parts: bytes | memoryview) -> None:
        """Send a frame, given in parts; waits until it is written. ConnectionLostError when the connection is over."""
        size = sum(map(len, parts))
        if size > MAX_FRAME_BYTES:
            raise FrameTooLargeError(f"a frame of {size:,} bytes: at most {MAX_FRAME_BYTES:,}")
        self.write(b"".join((self._framing.header(size), *parts)))

    def receive(self, timeout_s: float | None = None) -> bytes:
        """The next frame. TimeoutError after `timeout_s` without a byte (None: after `silence_s` it is over)."""
        try:
            return self._framing.next_frame(self, timeout_s)
        except ProtocolError as error:
            self.close()
            raise self._lost(str(error)) from error

    def open(self) -> None:
        """Begin the stream of frames. NetworkError if the peer does not agree."""
        self._framing.open(self)

    def close(self) -> None:
        """End the connection. A second call does nothing."""
        self._over = True
        self._socket.close()

    # -- bytes, for the framing --------------------------------------------------------------------------------------

    def peek(self, size: int, timeout_s: float | None = None) -> bytearray:
        """The buffer, once it has that many bytes. What has been received stays there after a TimeoutError."""
        while len(self._buffer) < size:
            self._buffer += self._read_some(timeout_s)
        return self._buffer

    def take(self, start: int, end: int) -> bytes:
        """The bytes from start to end, which leave the buffer with all before them."""
        taken = bytes(memoryview(self._buffer)[start:end])
        del self._buffer[:end]
        return taken

    def write(self, data: bytes) -> None:
        """Write bytes."""
        if self._over:
            raise self._lost("it was closed")
        try:
            self._socket.settimeout(self._silence_s)
            self._socket.sendall(data)
        except OSError as error:  # TimeoutError is one
            self.close()
            raise self._lost(error.strerror or str(error)) from error

    def _read_some(self, timeout_s: float | None = None) -> bytes:
        if self._over:
            raise self._lost("it was closed")
        try:
            self._socket.settimeout(self._silence_s if timeout_s is None else timeout_s)
            data = self._socket.recv(_READ_BYTES)
        except (TimeoutError, BlockingIOError, ssl.SSLWantReadError):
            if timeout_s is not None:
                raise TimeoutError from None
            self.close()
            raise self._lost(f"nothing was received for {self._silence_s:g} s") from None
        except OSError as error:
            self.close()
            raise self._lost(error.strerror or str(error)) from error
        if not data:
            self.close()
            raise self._lost("the peer has closed it")
        return data

    def _lost(self, why: str) -> ConnectionLostError:
        return ConnectionLostError(f"the connection to {self.peer} is over: {why}")

    # -- the proofs --------------------------------------------------------------------------------------------------

    def prove(self, dialler: Dialler) -> None:
        """Both ends prove that they have the token. AuthenticationError if one proof is wrong."""
        self.send(dialler.hello)
        while not dialler.done:
            try:
                answer = dialler.receive(self.receive())
            except AuthenticationError as error:
                self.send(REFUSED)
                raise AuthenticationError(f"{self.peer}: {error}") from error
            if answer is not None:
                self.send(answer)


def dial(
    address: str,
    security: Security,
    identity: Identity,
    *,
    roles: Iterable[str] = ("node",),
    silence_s: float = 10.0,
    rng: Rng | None = None,
    without: bool = False,
) -> BlockingConnection:
    """A connection to the listener there. `roles`: the accepted roles of the peer. `without`: allow no token.

    NetworkError if the address cannot be reached, AuthenticationError if one end refuses the other, ExposedError if it
    is another machine and there is no TLS, CredentialsError without a token.
    """
    if security.credentials is None and not without:
        raise CredentialsError(f"{address} can only be dialled with a token: give credentials")
    target = parse_address(address)
    rng = rng or SystemRng()
    try:
        framing: Framing
        if isinstance(target, TcpAddress):
            made, framing = _tcp(target, security, silence_s), WebSocketFrames(str(target), rng)
        else:
            made, framing = _unix(target.path, silence_s), StreamFrames()
    except OSError as error:
        if isinstance(error, NetworkError):
            raise
        raise NetworkError(f"{address}: {error.strerror or error}") from error
    connection = BlockingConnection(made, address, silence_s, framing)
    try:
        connection.open()
        nonce = rng.token_bytes(NONCE_BYTES)
        if security.credentials is not None:
            claim = Claim(security.credentials, identity, nonce, frozenset(roles), *_shown(made))
            connection.prove(Dialler(claim))
    except ConnectionLostError as error:
        raise NetworkError(f"{address}: it ended the connection during authentication: {error}") from error
    except BaseException:
        connection.close()
        raise
    return connection


def _shown(made: socket.socket) -> tuple[bytes, frozenset[str]]:
    """What identifies the certificate that the peer showed, and the roles that it names."""
    if not isinstance(made, ssl.SSLSocket):
        return b"", frozenset()
    certificate = made.getpeercert(binary_form=True)
    return b"" if certificate is None else binding_of(certificate), roles_in(made.getpeercert())


def _tcp(target: TcpAddress, security: Security, silence_s: float) -> socket.socket:
    context = security.client_context()
    failed: OSError = NetworkError(f"{target}: the name has no address")
    for family, kind, protocol, _, where in socket.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM):
        check_dialled(str(where[0]), tls=context is not None, insecure=security.insecure)
        made = socket.socket(family, kind, protocol)
        try:
            made.settimeout(silence_s)
            made.connect(where)
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return made if context is None else context.wrap_socket(made, server_hostname=target.host)
        except OSError as error:
            made.close()
            failed = error
        except BaseException:
            made.close()
            raise
    raise failed


def _unix(path: str, silence_s: float) -> socket.socket:
    if os.name == "nt":
        raise NetworkError(f"unix:{path}: this system's Python has no unix sockets")
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        made.settimeout(silence_s)
        made.connect(path)
    except BaseException:
        made.close()
        raise
    return made
