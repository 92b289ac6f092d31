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
    _USUAL_BYTES,  # pyright: ignore[reportPrivateUsage]
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
    buffer.allow(MAX_FRAME_BYTES)
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
        (b"GETS", "it begins with b'GETS', which no process of aiostorm does"),
        (b"HTTQ", "it begins with b'HTTQ', which no process of aiostorm does"),
        (b"\0aiostor\1", "it begins with b'\\x00aiostor\\x01', which no process of aiostorm does"),
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
        assert preface_problem(PREFACE[:size]) == ""


# -- the buffer --------------------------------------------------------------------------------------------------------


def opened(max_frame_bytes: int) -> FrameBuffer:
    buffer = FrameBuffer(max_frame_bytes)
    assert put(buffer, PREFACE) == []
    assert buffer.opened
    return buffer


def test_its_usual_size_is_that_of_the_frames_that_are_accepted_or_of_those_of_links() -> None:
    assert len(FrameBuffer(100).space) == len(PREFACE) + 4 + 100
    assert len(FrameBuffer(MAX_FRAME_BYTES).space) == _USUAL_BYTES


def test_there_is_space_behind_what_has_arrived() -> None:
    buffer = FrameBuffer(100)
    assert put(buffer, PREFACE[:3]) == []
    assert not buffer.opened
    assert len(buffer.space) == 114 - 3
    assert put(buffer, PREFACE[3:]) == []
    assert len(buffer.space) == 114, "the preface is not kept"
    assert put(buffer, framed(b"one", b"two")[:-1]) == [b"one"]
    assert len(buffer.space) == 114 - 6, "the frame that is complete is not kept"
    assert put(buffer, b"o") == [b"two"]
    assert len(buffer.space) == 114


def test_frames_of_the_greatest_size_need_no_other_buffer() -> None:
    buffer = opened(100)
    memory = buffer.space.obj
    for _ in range(3):
        assert put(buffer, framed(b"x" * 100, b"y" * 100)[:150]) == [b"x" * 100]
        assert put(buffer, framed(b"x" * 100, b"y" * 100)[150:]) == [b"y" * 100]
    assert buffer.space.obj is memory


def test_a_larger_frame_gets_a_buffer_of_its_size_once_and_after_it_the_usual_one_comes_back() -> None:
    size = 2 * _USUAL_BYTES
    buffer = opened(MAX_FRAME_BYTES)
    begin = b"\1\2\3"
    assert put(buffer, framed(b"before") + struct.pack("!I", size) + begin) == [b"before"]
    assert len(buffer.space) == size - len(begin)
    memory = buffer.space.obj
    assert put(buffer, bytes(_USUAL_BYTES)) == []
    assert buffer.space.obj is memory, "its bytes are not copied for each piece"
    rest = bytes(size - len(begin) - _USUAL_BYTES)
    assert len(buffer.space) == len(rest)
    assert put(buffer, rest) == [begin + bytes(size - len(begin))]
    assert len(buffer.space) == _USUAL_BYTES


def test_a_frame_that_just_fits_needs_no_larger_buffer() -> None:
    buffer = opened(MAX_FRAME_BYTES)
    memory = buffer.space.obj
    assert put(buffer, struct.pack("!I", _USUAL_BYTES - 4) + b"x") == []
    assert buffer.space.obj is memory
    assert put(buffer, bytes(_USUAL_BYTES - 5)) == [b"x" + bytes(_USUAL_BYTES - 5)]
    assert put(buffer, struct.pack("!I", _USUAL_BYTES - 3)) == []
    assert len(buffer.space) == _USUAL_BYTES - 3
    assert buffer.space.obj is not memory


def test_a_higher_limit_gives_a_larger_buffer_with_the_next_bytes_which_are_kept() -> None:
    buffer = opened(100)
    assert put(buffer, b"\0\0\0") == []
    buffer.allow(5_000)
    assert put(buffer, b"\5he") == []
    assert len(buffer.space) == len(PREFACE) + 4 + 5_000 - 6
    assert put(buffer, b"llo") == [b"hello"]


@pytest.mark.parametrize("wrong", [b"what is this?", PREFACE + b"\xff\xff\xff\xff"])
def test_after_a_problem_there_is_space_and_nothing_is_read(wrong: bytes) -> None:
    buffer = FrameBuffer(100)
    assert put(buffer, wrong) == []
    problem = buffer.problem
    assert problem
    for _ in range(50):
        assert put(buffer, PREFACE + framed(b"frame")) == []
    assert len(buffer.space) == 114
    assert buffer.problem == problem


def test_a_frame_may_have_as_many_bytes_as_the_limit_and_no_more() -> None:
    assert put(opened(100), framed(b"x" * 100)) == [b"x" * 100]
    buffer = opened(100)
    assert put(buffer, framed(b"x" * 100, b"y" * 101, b"z")) == [b"x" * 100]
    assert buffer.problem == "it announces a frame of 101 bytes: at most 100 are accepted"
