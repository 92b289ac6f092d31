"""The wire: what is not exactly a message of its is refused, and no size is believed before it is checked."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiostorm.spark.datasource import wire
from aiostorm.transport import ProtocolError, pack_value

OFFER = wire.Offer(1, "query", 17, "clicks/b17/7/3", b"d" * 16, 4096)


@pytest.mark.parametrize(
    "message",
    [
        wire.ClientHello(wire.WIRE_VERSION, "spark-1", b""),
        wire.ServerWelcome(1, "in", 0, 2, b"x"),
        wire.Rejected("no"),
        wire.Alive(),
        OFFER,
        wire.Send(1),
        wire.Done(1),
        wire.Failed(1, "why"),
        wire.Commit("query", 17),
        wire.LogQuery("spark", "log", -1, True, 0, 0),
        wire.LogState("log", 0, 1, 2, 3),
        wire.FetchChunks("log", 0, 1),
        wire.ChunkHeader(0, 9),
        wire.Trim("spark", "log", 1),
    ],
    ids=lambda message: type(message).__name__,
)
def test_a_message_comes_as_it_was(message: wire.Message) -> None:
    assert wire.unpack(wire.pack(message)) == message


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\x10",
        b"\xff",
        b"\x15",
        b"\x16" + pack_value(("1",)),
        b"\x16" + pack_value((True,)),
        b"\x16" + pack_value((1, 2)),
        b"\x16" + pack_value([1]),
        b"\x18" + pack_value((1, "x" * 5000)),
        wire.pack(OFFER) + b"\0",
        wire.pack(wire.ClientHello(1, "x", b"y" * wire.MAX_MESSAGE_BYTES)),
    ],
)
def test_a_malformed_frame_is_refused(frame: bytes) -> None:
    with pytest.raises(ProtocolError):
        wire.unpack(frame)


@given(st.binary(max_size=200))
def test_whatever_comes_is_a_message_or_an_error(frame: bytes) -> None:
    try:
        message = wire.unpack(frame)
    except ProtocolError:
        return
    assert wire.unpack(wire.pack(message)) == message


@given(st.integers(1, 3 * wire.PART_BYTES))
def test_a_chunk_is_put_together(size: int) -> None:
    data = bytes(size)
    assembly = wire.ChunkAssembly(size)
    come = [assembly.add(wire.DATA + part) for part in wire.parts_of(data)]
    assert come[-1] == data
    assert come[:-1] == [None] * (len(come) - 1)


def test_a_chunk_of_another_size_than_was_said_is_refused() -> None:
    for size in (0, -1, wire.MAX_CHUNK_BYTES + 1):
        with pytest.raises(ProtocolError):
            wire.ChunkAssembly(size)
    assembly = wire.ChunkAssembly(3)
    assert assembly.add(wire.DATA + b"ab") is None
    for wrong in (wire.DATA + b"cd", wire.DATA, wire.pack(wire.Alive()), b""):
        with pytest.raises(ProtocolError):
            assembly.add(wrong)


def test_a_text_is_clipped() -> None:
    assert len(wire.clipped("x" * 10_000)) == wire.MAX_TEXT_CHARS
