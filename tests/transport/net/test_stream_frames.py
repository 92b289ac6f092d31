"""Frames in a stream: any cut of the bytes gives the same frames, and no announced length makes anything large."""

from __future__ import annotations

import struct
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiostorm.transport import MAX_FRAME_BYTES
from aiostorm.transport.net.stream_frames import (
    HTTP_ANSWER,
    HTTP_REQUEST,
    PREFACE,
    FrameBuffer,
    preface_problem,
)

Pieces = list[bytes]


def framed(*frames: bytes) -> bytes:
    return b"".join(struct.pack("!I", len(frame)) + frame for frame in frames)


def put(buffer: FrameBuffer, data: bytes, at_most: int = 1 << 30) -> list[bytes]:
    """Receive the bytes, as an event loop does: as many at a time as the buffer has space for."""
    frames: list[bytes] = []
    while data:
        space = buffer.space
        count = min(len(space), len(data), at_most)
        assert count, "there is always space"
        space[:count] = data[:count]
        frames += buffer.received(count)
        data = data[count:]
    return frames


def cut(stream: bytes, places: list[int]) -> Pieces:
    ends = sorted(place % (len(stream) + 1) for place in places)
    return [stream[start:end] for start, end in zip([0, *ends], [*ends, len(stream)], strict=True)]


sizes = st.sampled_from((0, 1, 3, 4, 5, 250, 5_000, 135_000, 140_000, 300_000))
places = st.lists(st.integers(0, 1 << 22), max_size=12)


@given(sizes=st.lists(sizes, max_size=6), places=places)
def test_any_cut_gives_the_same_frames(sizes: list[int], places: list[int]) -> None:
    sent = [bytes([65 + number]) * size for number, size in enumerate(sizes)]
    buffer = FrameBuffer(MAX_FRAME_BYTES)
    received = [frame for piece in cut(PREFACE + framed(*sent), places) for frame in put(buffer, piece)]
    assert received == sent
    assert buffer.opened
    assert not buffer.problem


@given(before=st.lists(st.sampled_from((0, 1, 40)), max_size=4), excess=st.integers(1, 1 << 31), places=places)
def test_frames_before_a_wrong_length_count_and_nothing_after_it(
    before: list[int], excess: int, places: list[int]
) -> None:
    sent = [b"x" * size for size in before]
    wrong = struct.pack("!I", min(100 + excess, (1 << 32) - 1))
    buffer = FrameBuffer(100)
    pieces = cut(PREFACE + framed(*sent) + wrong + framed(b"after it"), places)
    assert [frame for piece in pieces for frame in put(buffer, piece)] == sent
    assert "announces a frame of" in buffer.problem


@given(stream=st.binary(max_size=60), places=places)
def test_any_bytes_are_frames_or_a_problem(stream: bytes, places: list[int]) -> None:
    for begin in (b"", PREFACE):
        whole, in_pieces = FrameBuffer(1000), FrameBuffer(1000)
        frames = put(whole, begin + stream)
        assert [frame for piece in cut(begin + stream, places) for frame in put(in_pieces, piece)] == frames
        assert bool(in_pieces.problem) == bool(whole.problem)
        assert in_pieces.opened == whole.opened


def test_nothing_is_allocated_for_a_length_that_is_too_large() -> None:
    buffer = FrameBuffer(4096)
    tracemalloc.start()
    try:
        assert put(buffer, PREFACE + b"\xff\xff\xff\xff" + bytes(100)) == []
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert buffer.problem == "it announces a frame of 4,294,967,295 bytes: at most 4,096 are accepted"
    assert peak < 16 * 1024


def test_the_limit_may_be_raised_while_the_stream_is_read() -> None:
    buffer = FrameBuffer(100)
    assert put(buffer, PREFACE + framed(b"small")) == [b"small"]
    buffer.max_frame_bytes = MAX_FRAME_BYTES
    large = bytes(MAX_FRAME_BYTES)
    assert put(buffer, framed(large, b"and small"), at_most=30_000) == [large, b"and small"]
    assert put(buffer, framed(*[b"y"] * 50_000)) == [b"y"] * 50_000
    assert len(buffer.space) < 200_000, "the buffer is of its usual size again"


@pytest.mark.parametrize(
    ("begin", "problem"),
    [
        (b"GET /aiostorm/link HTTP/1.1\r\n", HTTP_REQUEST),
        (b"G", HTTP_REQUEST),
        (b"HTTP/1.1 400 Bad Request\r\n", HTTP_ANSWER),
        (b"\0aiostorm\2", "it uses version 2 of the frames of unix sockets, this is version 1"),
        (b"\x16\x03\x01", "it begins with b'\\x16\\x03\\x01', which no process of aiostorm does"),
    ],
)
def test_another_framing_is_named(begin: bytes, problem: str) -> None:
    buffer = FrameBuffer(100)
    assert put(buffer, begin) == []
    assert buffer.problem == problem
    assert not buffer.opened


def test_the_bytes_are_those_of_the_page() -> None:
    page = (Path(__file__).parents[3] / "docs" / "protocol.md").read_text(encoding="utf-8")
    assert f"preface is `{PREFACE.hex(' ')}`" in page
    assert f"contains `hi` is `{framed(b'hi').hex(' ')}`" in page


def test_the_preface_may_arrive_in_pieces() -> None:
    for size in range(len(PREFACE) + 1):
        assert not preface_problem(PREFACE[:size])
