"""BlockingConnection: a connection in a thread without an event loop, for the executors of other engines.

    with dial(address, security, Identity("spark-7", "spark")) as connection:
        connection.send(frame)
        frame = connection.receive(timeout_s=10)

1. The other end is a listener of WebSocketNetwork under AuthenticatedNetwork, and notices no difference: requests,
   proofs and frames are the same. This end uses only sockets and TLS of the standard library.
2. Other machines are refused without TLS (see addresses); each address that a host name resolves to is checked.
3. A frame has at most MAX_FRAME_BYTES in both directions. A larger one is refused before its content is read.
4. Every wait ends: after `silence_s` without a byte from the peer, or without room to send, the connection is over.
5. Our frames are masked with zeros, so they are sent unchanged. Masks protect proxies that mistake a websocket for
   another protocol; no proxy is used here, and with TLS no third party reads the frames.

From: RFC 6455.
"""

from __future__ import annotations

import base64
import hashlib
import os
import socket
import ssl
import struct
from collections.abc import Iterable
from typing import Final, Self

from ...runtime import Rng, SystemRng
from ..errors import AuthenticationError, ConnectionLostError, CredentialsError, FrameTooLargeError, NetworkError
from .addresses import TcpAddress, check_dialled, parse_address
from .admission import PATH, UNIX_HOST
from .authentication import NONCE_BYTES, REFUSED, STEPS, Claim, Dialler, Identity
from .network import MAX_FRAME_BYTES
from .security import Security
from .tls import binding_of, roles_in

_MAX_ANSWER_BYTES: Final = 8 * 1024
_READ_BYTES: Final = 256 * 1024
_MAGIC: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_FINAL: Final = 0x80
_BINARY, _CLOSE, _PING, _PONG = 0x2, 0x8, 0x9, 0xA
_MASKED: Final = 0x80
_NO_MASK: Final = b"\0\0\0\0"


class BlockingConnection:
    """Frames in both directions with one authenticated peer. For one thread only."""

    def __init__(self, made: socket.socket, peer: str, silence_s: float) -> None:
        self.peer = peer
        self._socket = made
        self._silence_s = silence_s
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
        self._write(_header(_BINARY, size) + b"".join(parts))

    def receive(self, timeout_s: float | None = None) -> bytes:
        """The next frame. TimeoutError after `timeout_s` without a byte (None: after `silence_s` it is over)."""
        while True:
            code, frame = self._frame(timeout_s)
            if code == _BINARY | _FINAL:
                return frame
            if code == _PING | _FINAL:
                self._write(_header(_PONG, len(frame)) + frame)
            elif code != _PONG | _FINAL:
                self.close()
                raise self._lost("the peer has closed it" if code == _CLOSE | _FINAL else "the peer sent a wrong frame")

    def close(self) -> None:
        """End the connection. A second call does nothing."""
        self._over = True
        self._socket.close()

    # -- frames ------------------------------------------------------------------------------------------------------

    def _frame(self, timeout_s: float | None) -> tuple[int, bytes]:
        self._need(2, timeout_s)
        code, size = self._buffer[0], self._buffer[1]
        head = 2
        if size == 126 or size == 127:
            head = 4 if size == 126 else 10
            self._need(head, timeout_s)
            size = int.from_bytes(self._buffer[2:head], "big")
        if size > MAX_FRAME_BYTES:  # also true if the mask bit is set: no server masks
            self.close()
            raise self._lost(f"the peer announced a frame of {size:,} bytes")
        self._need(head + size, timeout_s)
        frame = bytes(memoryview(self._buffer)[head : head + size])
        del self._buffer[: head + size]
        return code, frame

    def _need(self, size: int, timeout_s: float | None) -> None:
        """Fill the buffer to that size. What has been received stays there after a TimeoutError."""
        while len(self._buffer) < size:
            self._buffer += self.read_some(timeout_s)

    def read_some(self, timeout_s: float | None = None) -> bytes:
        """Receive one byte or more."""
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

    def _write(self, data: bytes) -> None:
        if self._over:
            raise self._lost("it was closed")
        try:
            self._socket.settimeout(self._silence_s)
            self._socket.sendall(data)
        except OSError as error:  # TimeoutError is one
            self.close()
            raise self._lost(error.strerror or str(error)) from error

    def _lost(self, why: str) -> ConnectionLostError:
        return ConnectionLostError(f"the connection to {self.peer} is over: {why}")

    # -- the beginning -----------------------------------------------------------------------------------------------

    def upgrade(self, host: str, rng: Rng) -> None:
        """Turn the socket into a websocket. NetworkError if the peer does not agree."""
        key = base64.b64encode(rng.token_bytes(16))
        request = (
            f"GET {PATH} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {key.decode()}\r\nSec-WebSocket-Version: 13\r\n\r\n"
        )
        self._write(request.encode("ascii"))
        while (end := self._buffer.find(b"\r\n\r\n")) < 0:
            if len(self._buffer) > _MAX_ANSWER_BYTES:
                raise NetworkError(f"{self.peer}: it answers, but not with a websocket of aiostorm")
            self._buffer += self.read_some()
        status, *lines = bytes(self._buffer[:end]).split(b"\r\n")
        del self._buffer[: end + 4]
        named = dict(line.lower().split(b":", 1) for line in lines if b":" in line)
        # RFC 6455 requires SHA-1 here. It shows that the server speaks websocket, and secures nothing.
        accepts = base64.b64encode(hashlib.sha1(key + _MAGIC).digest())  # noqa: S324
        if (
            not status.startswith(b"HTTP/1.1 101 ")
            or named.get(b"sec-websocket-accept", b"").strip() != accepts.lower()
        ):
            shown = status[:80].decode("ascii", "replace")
            raise NetworkError(f"{self.peer}: it answers, but not with a websocket of aiostorm: {shown}")

    def prove(self, dialler: Dialler) -> None:
        """Both ends prove that they have the token. AuthenticationError if one proof is wrong."""
        self.send(dialler.last)
        while not dialler.done:
            frame = self.receive()
            if frame[:1] not in STEPS:
                raise AuthenticationError(f"{self.peer}: it sends other frames before it is authenticated")
            try:
                answer = dialler.receive(frame)
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
        if isinstance(target, TcpAddress):
            made, host = _tcp(target, security, silence_s), str(target)
        else:
            made, host = _unix(target.path, silence_s), UNIX_HOST
    except OSError as error:
        if isinstance(error, NetworkError):
            raise
        raise NetworkError(f"{address}: {error.strerror or error}") from error
    connection = BlockingConnection(made, address, silence_s)
    try:
        connection.upgrade(host, rng)
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


def _header(code: int, size: int) -> bytes:
    first = _FINAL | code
    if size < 126:
        return struct.pack("!BB", first, _MASKED | size) + _NO_MASK
    if size < 1 << 16:
        return struct.pack("!BBH", first, _MASKED | 126, size) + _NO_MASK
    return struct.pack("!BBQ", first, _MASKED | 127, size) + _NO_MASK
