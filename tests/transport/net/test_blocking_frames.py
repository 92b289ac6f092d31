"""Blocking frames: what is written and what is read, byte for byte, and what no honest peer sends."""

from __future__ import annotations

import base64
import hashlib
import random
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiostorm.transport import MAX_FRAME_BYTES, NetworkError, ProtocolError
from aiostorm.transport.net.admission import PATH
from aiostorm.transport.net.blocking_frames import StreamFrames, WebSocketFrames
from aiostorm.transport.net.stream_frames import PREFACE

SIZES = (0, 1, 125, 126, 127, 65_535, 65_536, MAX_FRAME_BYTES)


class Chance:
    """A random source that a seed fixes."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)

    def token_bytes(self, size_bytes: int) -> bytes:
        return self._chance.randbytes(size_bytes)

    def generator(self) -> random.Random:
        return self._chance


class Stream:
    """The bytes of a peer that has sent all of them; `asked`: how many were waited for, and how long."""

    peer = "there"

    def __init__(self, arrived: bytes = b"", at_once: int = 1 << 30) -> None:
        self.arrived = bytearray(arrived)
        self.at_once = at_once
        self.written = b""
        self.asked: list[tuple[int, float | None]] = []

    def peek(self, size: int, timeout_s: float | None = None) -> bytearray:
        self.asked.append((size, timeout_s))
        if len(self.arrived) < size:
            raise TimeoutError
        return self.arrived[: max(size, self.at_once)]

    def take(self, start: int, end: int) -> bytes:
        taken = bytes(self.arrived[start:end])
        del self.arrived[:end]
        return taken

    def write(self, data: bytes) -> None:
        self.written += data


def sent(code: int, data: bytes, *, masked: bool = False) -> bytes:
    """A frame as RFC 6455 has it."""
    size, mask = len(data), 0x80 if masked else 0
    if size < 126:
        head = bytes((code, mask | size))
    elif size < 65_536:
        head = bytes((code, mask | 126)) + struct.pack("!H", size)
    else:
        head = bytes((code, mask | 127)) + struct.pack("!Q", size)
    return head + (bytes(4) if masked else b"") + data


def websocket() -> WebSocketFrames:
    return WebSocketFrames("a.example:1", Chance(1))


def answer(request: bytes, status: bytes = b"HTTP/1.1 101 Switching Protocols", more: bytes = b"") -> bytes:
    """Of a server that speaks websocket."""
    [key] = [line.partition(b": ")[2] for line in request.split(b"\r\n") if line.startswith(b"Sec-WebSocket-Key")]
    accept = base64.b64encode(hashlib.sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())  # noqa: S324
    return status + b"\r\nServer: a\r\nno header\r\nSec-WebSocket-Accept: " + accept + more + b"\r\n\r\n"


def request_of(frames: WebSocketFrames) -> bytes:
    stream = Stream()
    with pytest.raises(TimeoutError):
        frames.open(stream)
    return stream.written


# -- websockets --------------------------------------------------------------------------------------------------------


def test_the_request_of_a_websocket() -> None:
    first, *lines = request_of(websocket()).split(b"\r\n")
    assert first == f"GET {PATH} HTTP/1.1".encode()
    assert lines[-2:] == [b"", b""]
    headers = dict(line.split(b": ") for line in lines[:-2])
    assert len(base64.b64decode(headers.pop(b"Sec-WebSocket-Key"))) == 16
    assert headers == {
        b"Host": b"a.example:1",
        b"Upgrade": b"websocket",
        b"Connection": b"Upgrade",
        b"Sec-WebSocket-Version": b"13",
    }


@pytest.mark.parametrize("at_once", [1, 1 << 30])
def test_an_answer_opens_it_and_what_follows_stays(at_once: int) -> None:
    frames = websocket()
    stream = Stream(answer(request_of(frames)) + sent(0x82, b"first"), at_once)
    frames.open(stream)
    assert frames.next_frame(stream, None) == b"first"


def test_another_answer_is_refused() -> None:
    frames = websocket()
    right = answer(request_of(frames))
    other = answer(request_of(WebSocketFrames("a.example:1", Chance(2))))
    for wrong in (
        other,
        right.replace(b"101", b"200"),
        right.replace(b"101 ", b"1010 "),
        right.replace(b"Accept", b"Accepted"),
        b"\r\n\r\n",
    ):
        with pytest.raises(NetworkError, match=r"there: it answers, but not with a websocket of aiostorm: "):
            frames.open(Stream(wrong))
    with pytest.raises(NetworkError) as refused:
        frames.open(Stream(answer(request_of(frames), b"HTTP/1.1 500 " + b"x" * 200)))
    assert str(refused.value).endswith("HTTP/1.1 500 " + "x" * 67), "80 characters of it are shown"


def test_a_long_answer_ends() -> None:
    frames = websocket()
    right = answer(request_of(frames))
    longest = answer(request_of(frames), more=b"\r\nmore: " + b"x" * (8193 - len(right) - len("\r\nmore: ")))
    assert len(longest) == 8193, "the end of the lines comes when 8192 bytes have been read"
    frames.open(Stream(longest, 1))
    for endless in (b"x" * 8193, b"x" * 100_000):
        stream = Stream(endless, 1)
        with pytest.raises(NetworkError, match=r"not with a websocket of aiostorm$"):
            frames.open(stream)
        assert max(size for size, _ in stream.asked) == 8193


@pytest.mark.parametrize("size", SIZES)
def test_a_frame_is_written_with_a_mask_of_zeros(size: int) -> None:
    assert websocket().header(size) + bytes(size) == sent(0x82, bytes(size), masked=True)


@pytest.mark.parametrize("size", SIZES)
def test_a_frame_is_read(size: int) -> None:
    data = bytes(index % 251 for index in range(min(size, 300))) + bytes(max(0, size - 300))
    stream = Stream(sent(0x82, data) + sent(0x82, b"next"))
    assert websocket().next_frame(stream, 2.5) == data
    assert {timeout_s for _, timeout_s in stream.asked} == {2.5}
    assert websocket().next_frame(stream, None) == b"next"


@given(st.binary(max_size=300), st.integers(1, 400))
def test_part_of_a_frame_is_waited_for(data: bytes, cut: int) -> None:
    whole = sent(0x82, data)
    if cut < len(whole):
        stream = Stream(whole[:-cut])
        with pytest.raises(TimeoutError):
            websocket().next_frame(stream, 0)
        assert stream.arrived == whole[:-cut], "nothing is taken"


def test_a_ping_is_answered_and_a_pong_is_nothing() -> None:
    stream = Stream(sent(0x8A, b"old") + sent(0x89, b"are you there") + sent(0x89, b"") + sent(0x82, b"data"))
    assert websocket().next_frame(stream, None) == b"data"
    assert stream.written == sent(0x8A, b"are you there", masked=True) + sent(0x8A, b"", masked=True)


@pytest.mark.parametrize(
    ("frame", "problem"),
    [
        (sent(0x88, b""), "the peer has closed it"),
        (sent(0x81, b"text"), "a wrong frame"),
        (sent(0x80, b"continued"), "a wrong frame"),
        (sent(0x02, b"not final"), "a wrong frame"),
        (sent(0x09, b"not final"), "a wrong frame"),
        (sent(0x0A, b"not final"), "a wrong frame"),
        (sent(0x08, b"not final"), "a wrong frame"),
        (sent(0xC2, b"reserved"), "a wrong frame"),
        (sent(0x82, b"data", masked=True), "a masked frame"),
        (sent(0x82, b"", masked=True), "a masked frame"),
        (b"\x82\x7f" + struct.pack("!Q", MAX_FRAME_BYTES + 1), "a frame of 1,048,577 bytes"),
        (b"\x82\x7f" + b"\xff" * 8, "a frame of 18,446,744,073,709,551,615 bytes"),
    ],
)
def test_what_no_server_of_ours_sends(frame: bytes, problem: str) -> None:
    with pytest.raises(ProtocolError, match=problem):
        websocket().next_frame(Stream(frame), None)


# -- streams -----------------------------------------------------------------------------------------------------------


def test_a_stream_begins_with_the_preface() -> None:
    stream = Stream(PREFACE + b"rest")
    StreamFrames().open(stream)
    assert (stream.written, bytes(stream.arrived)) == (PREFACE, b"rest")
    StreamFrames().open(Stream(PREFACE))  # no more is waited for


@pytest.mark.parametrize(
    ("begin", "problem"),
    [(b"HTTP/1.1", "answers with HTTP"), (b"G", "there: "), (PREFACE[:-1] + b"\xff", "version 255")],
)
@pytest.mark.parametrize("at_once", [1, 1 << 30])
def test_another_begin_is_refused_as_soon_as_it_differs(begin: bytes, problem: str, at_once: int) -> None:
    if begin == b"G":
        begin = b"GET / HT"
    with pytest.raises(NetworkError, match=problem):
        StreamFrames().open(Stream(begin, at_once))
    stream = Stream(b"x", at_once)
    with pytest.raises(NetworkError, match="begins with"):
        StreamFrames().open(stream)
    assert stream.asked == [(1, None)]


@pytest.mark.parametrize("size", SIZES)
def test_a_frame_of_a_stream(size: int) -> None:
    frames = StreamFrames()
    whole = frames.header(size) + b"a" * size
    assert whole[:4] == struct.pack("!I", size)
    stream = Stream(whole + b"rest")
    assert frames.next_frame(stream, 2.5) == b"a" * size
    assert bytes(stream.arrived) == b"rest"
    assert stream.asked == [(4, 2.5), (4 + size, 2.5)]
    for part in (whole[:3], whole[:-1] if size else b""):
        with pytest.raises(TimeoutError):
            frames.next_frame(Stream(part), 0)


def test_a_frame_of_a_stream_has_a_limit() -> None:
    stream = Stream(struct.pack("!I", MAX_FRAME_BYTES + 1))
    with pytest.raises(ProtocolError, match="a frame of 1,048,577 bytes"):
        StreamFrames().next_frame(stream, None)
