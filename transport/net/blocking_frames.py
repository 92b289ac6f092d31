"""Blocking frames: how a BlockingConnection writes and reads frames: websockets over TCP, lengths over unix sockets.

1. Our frames of websockets are masked with zeros, so they are sent unchanged. Masks protect proxies that mistake a
   websocket for another protocol; no proxy is used here, and with TLS no third party reads the frames.
2. The frames of unix sockets are those of stream_frames.

From: RFC 6455.
"""

from __future__ import annotations

import base64
import hashlib
import struct
from typing import TYPE_CHECKING, Final, Protocol

from ..errors import NetworkError, ProtocolError
from .admission import PATH
from .network import MAX_FRAME_BYTES
from .stream_frames import LENGTH, PREFACE, preface_problem

if TYPE_CHECKING:
    from ...runtime import Rng

_MAX_ANSWER_BYTES: Final = 8 * 1024
_MAGIC: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_FINAL: Final = 0x80
_BINARY, _CLOSE, _PING, _PONG = 0x2, 0x8, 0x9, 0xA
_MASKED: Final = 0x80
_NO_MASK: Final = b"\0\0\0\0"


class Bytes(Protocol):
    """The bytes of a connection. ConnectionLostError when it is over."""

    @property
    def peer(self) -> str:
        """The peer, for people to read."""
        ...

    def peek(self, size: int, timeout_s: float | None = None) -> bytearray:
        """What has arrived, once there are that many bytes. TimeoutError."""
        ...

    def take(self, start: int, end: int) -> bytes:
        """The bytes from start to end, which are removed with all before them."""
        ...

    def write(self, data: bytes) -> None:
        """Write bytes."""
        ...


class Framing(Protocol):
    """The frames of one connection."""

    def open(self, stream: Bytes) -> None:
        """Begin. NetworkError if the peer does not agree."""
        ...

    def header(self, size: int) -> bytes:
        """What precedes the content of a frame."""
        ...

    def next_frame(self, stream: Bytes, timeout_s: float | None) -> bytes:
        """The next frame. ProtocolError if the peer sent something else or a frame that is too large."""
        ...


class StreamFrames:
    """Each frame is preceded by its length."""

    def open(self, stream: Bytes) -> None:
        stream.write(PREFACE)
        for size in range(1, len(PREFACE) + 1):  # another framing may begin with fewer bytes
            problem = preface_problem(bytes(stream.peek(size)[: len(PREFACE)]))
            if problem:
                raise NetworkError(f"{stream.peer}: {problem}")
        stream.take(0, len(PREFACE))

    def header(self, size: int) -> bytes:
        return LENGTH.pack(size)

    def next_frame(self, stream: Bytes, timeout_s: float | None) -> bytes:
        (size,) = LENGTH.unpack_from(stream.peek(LENGTH.size, timeout_s))
        end = LENGTH.size + _checked(size)
        stream.peek(end, timeout_s)
        return stream.take(LENGTH.size, end)


class WebSocketFrames:
    """Each frame is a message of a websocket. `host`: the address as it was dialled."""

    def __init__(self, host: str, rng: Rng) -> None:
        self._host = host
        self._key = base64.b64encode(rng.token_bytes(16))

    def open(self, stream: Bytes) -> None:
        request = (
            f"GET {PATH} HTTP/1.1\r\nHost: {self._host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {self._key.decode()}\r\nSec-WebSocket-Version: 13\r\n\r\n"
        )
        stream.write(request.encode("ascii"))
        arrived = stream.peek(1)
        while (end := arrived.find(b"\r\n\r\n")) < 0:
            if len(arrived) > _MAX_ANSWER_BYTES:
                raise NetworkError(f"{stream.peer}: it answers, but not with a websocket of aiostorm")
            arrived = stream.peek(len(arrived) + 1)
        status, *lines = stream.take(0, end + 4)[:end].split(b"\r\n")
        named = dict(line.lower().split(b":", 1) for line in lines if b":" in line)
        # RFC 6455 requires SHA-1 here. It shows that the server speaks websocket, and secures nothing.
        accepts = base64.b64encode(hashlib.sha1(self._key + _MAGIC).digest())  # noqa: S324
        if (
            not status.startswith(b"HTTP/1.1 101 ")
            or named.get(b"sec-websocket-accept", b"").strip() != accepts.lower()
        ):
            shown = status[:80].decode("ascii", "replace")
            raise NetworkError(f"{stream.peer}: it answers, but not with a websocket of aiostorm: {shown}")

    def header(self, size: int) -> bytes:
        return _header(_BINARY, size)

    def next_frame(self, stream: Bytes, timeout_s: float | None) -> bytes:
        while True:
            code, frame = self._frame(stream, timeout_s)
            if code == _BINARY | _FINAL:
                return frame
            if code == _PING | _FINAL:
                stream.write(_header(_PONG, len(frame)) + frame)
            elif code == _CLOSE | _FINAL:
                raise ProtocolError("the peer has closed it")
            elif code != _PONG | _FINAL:
                raise ProtocolError("the peer sent a wrong frame")

    def _frame(self, stream: Bytes, timeout_s: float | None) -> tuple[int, bytes]:
        arrived = stream.peek(2, timeout_s)
        code, size = arrived[0], arrived[1]
        if size & _MASKED:
            raise ProtocolError("the peer sent a masked frame, which no server does")
        head = 2
        if size == 126 or size == 127:
            head = 4 if size == 126 else 10
            size = int.from_bytes(stream.peek(head, timeout_s)[2:head], "big")
        end = head + _checked(size)
        stream.peek(end, timeout_s)
        return code, stream.take(head, end)


def _checked(size: int) -> int:
    if size > MAX_FRAME_BYTES:
        raise ProtocolError(f"the peer announced a frame of {size:,} bytes")
    return size


def _header(code: int, size: int) -> bytes:
    first = _FINAL | code
    if size < 126:
        return struct.pack("!BB", first, _MASKED | size) + _NO_MASK
    if size < 1 << 16:
        return struct.pack("!BBH", first, _MASKED | 126, size) + _NO_MASK
    return struct.pack("!BBQ", first, _MASKED | 127, size) + _NO_MASK
