"""The messages: a frame that is not exactly one of them is refused, and sizes are checked before they are used."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiostorm.spark.executors import messages
from aiostorm.transport import ProtocolError, pack_value

OFFER = messages.Offer(1, "query", 17, "clicks/b17/7/3", 10, b"d" * 16, 4096)


@pytest.mark.parametrize(
    "message",
    [
        messages.ClientHello(messages.VERSION, "spark-1", b""),
        messages.ServerWelcome(1, "in", 0, 2, b"x"),
        messages.Rejected("no"),
        messages.Alive(),
        OFFER,
        messages.Send(1),
        messages.Done(1),
        messages.Failed(1, "why"),
        messages.Commit("query", 17),
        messages.LogQuery("spark", "log", -1, True, 0, 0),
        messages.LogState("log", 0, 1, 2, 3),
        messages.FetchChunks("log", 0, 1),
        messages.ChunkHeader(0, 9),
        messages.Trim("spark", "log", 1),
        messages.Claim(3),
        messages.End(True),
    ],
    ids=lambda message: type(message).__name__,
)
def test_a_message_comes_as_it_was(message: messages.Message) -> None:
    assert messages.unpack(messages.pack(message)) == message


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\x10",
        b"\xff",
        b"\x15",
        b"\x16" + bytes(7),
        b"\x16" + bytes(9),
        b"\x20\2",
        b"\x13" + b"\0\0\0\5four",
        b"\x13" + b"\0\0\0\1\xff",
        messages.pack(messages.Failed(1, "x" * 5000)),
        b"\x11" + pack_value((1, "spark-1", b"")),  # version 1
        messages.pack(OFFER) + b"\0",
        messages.pack(messages.ClientHello(1, "x", b"y" * messages.MAX_MESSAGE_BYTES)),
    ],
)
def test_a_malformed_frame_is_refused(frame: bytes) -> None:
    with pytest.raises(ProtocolError):
        messages.unpack(frame)


@given(st.binary(max_size=200))
def test_any_frame_is_a_message_or_an_error(frame: bytes) -> None:
    try:
        message = messages.unpack(frame)
    except ProtocolError:
        return
    assert messages.unpack(messages.pack(message)) == message


@given(st.integers(1, 3 * messages.PART_BYTES))
def test_a_chunk_is_put_together(size: int) -> None:
    data = bytes(size)
    assembly = messages.ChunkAssembly(size)
    come = [assembly.add(messages.DATA + part) for part in messages.parts_of(data)]
    assert come[-1] == data
    assert come[:-1] == [None] * (len(come) - 1)


def test_a_chunk_of_another_size_than_was_said_is_refused() -> None:
    for size in (0, -1, messages.MAX_CHUNK_BYTES + 1):
        with pytest.raises(ProtocolError):
            messages.ChunkAssembly(size)
    assembly = messages.ChunkAssembly(3)
    assert assembly.add(messages.DATA + b"ab") is None
    for wrong in (messages.DATA + b"cd", messages.DATA, messages.pack(messages.Alive()), b""):
        with pytest.raises(ProtocolError):
            assembly.add(wrong)


def test_a_text_is_clipped() -> None:
    assert len(messages.clipped("x" * 10_000)) == messages.MAX_TEXT_CHARS


def test_a_message_has_at_most_512_kib_and_a_text_4096_characters() -> None:
    empty = len(messages.pack(messages.ClientHello(1, "x", b"")))
    largest = messages.ClientHello(1, "x", b"y" * (512 * 1024 - empty))
    assert len(messages.pack(largest)) == 512 * 1024
    assert messages.unpack(messages.pack(largest)) == largest
    with pytest.raises(ProtocolError):
        messages.unpack(messages.pack(messages.ClientHello(1, "x", largest.shape + b"y")))
    assert messages.unpack(messages.pack(messages.Rejected("x" * 4096))) == messages.Rejected("x" * 4096)
    with pytest.raises(ProtocolError):
        messages.unpack(messages.pack(messages.Rejected("x" * 4097)))


def test_a_chunk_has_at_most_16_mib() -> None:
    messages.ChunkAssembly(1)
    messages.ChunkAssembly(16 * 1024 * 1024)
    for size in (0, 16 * 1024 * 1024 + 1):
        with pytest.raises(ProtocolError, match=r"a chunk has 1 to 16,777,216 bytes, not"):
            messages.ChunkAssembly(size)
