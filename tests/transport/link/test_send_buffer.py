"""SendBuffer: what is kept, when an acknowledgement is asked for, and what a new connection begins with."""

from __future__ import annotations

import pytest

from aiostorm.transport import ProtocolError
from aiostorm.transport.link.line_rate import FIRST_BYTES, MOST_BYTES
from aiostorm.transport.link.parts import Lane, PayloadPart
from aiostorm.transport.link.send_buffer import SendBuffer


def filled(*sizes: int, max_frames: int = 100, max_bytes: int = 1000) -> SendBuffer:
    """A buffer with frames of these sizes, none of them sent."""
    buffer = SendBuffer(max_frames, max_bytes)
    for size in sizes:
        buffer.add(bytes(size))
    return buffer


def sent(buffer: SendBuffer) -> list[tuple[int, int, bool]]:
    """All frames that were not sent: number, size, asks."""
    found = []
    while buffer.cursor < len(buffer.frames):
        number, payload, asks = buffer.next()
        found.append((number, len(payload), asks))
    return found


def test_a_new_buffer_is_empty_and_asks_nothing() -> None:
    buffer = SendBuffer(4, 1000)
    assert (buffer.base, buffer.cursor, buffer.size_bytes, buffer.payloads, buffer.ask_due) == (0, 0, 0, 0, False)
    buffer.ask_if_none()
    assert not buffer.ask_due, "there is nothing to acknowledge"
    assert not buffer.acked(0, 1.0)


@pytest.mark.parametrize(
    ("sizes", "asks"),
    [
        ([1, 1, 1, 1, 1, 1], [False, True, False, True, False, True]),
        ([249, 1, 250, 249], [False, True, True, False]),
        ([250, 250], [True, True]),
    ],
)
def test_a_quarter_of_the_frames_or_bytes_asks_also_on_a_new_connection(sizes: list[int], asks: list[bool]) -> None:
    buffer = filled(*sizes, max_frames=8)
    for _ in range(2):
        assert sent(buffer) == [(number, size, asks[number]) for number, size in enumerate(sizes)]
        buffer.resume(0)
    assert buffer.acked(0, 1.0) is False


def test_a_question_covers_what_was_sent_before_it() -> None:
    buffer = filled(1, 1, 1, max_frames=16)
    sent(buffer)
    buffer.ask_if_none()
    assert buffer.ask_due
    buffer.ask()
    assert not buffer.ask_due
    buffer.ask_if_none()
    assert not buffer.ask_due, "an answer is on its way"
    for _ in range(4):
        buffer.add(b"x")
    assert [asks for _, _, asks in sent(buffer)] == [False, False, False, True]
    assert buffer.acked(3, 1.0)
    buffer.ask_if_none()
    assert not buffer.ask_due, "the second answer is on its way"
    assert buffer.acked(7, 2.0)
    buffer.add(b"x")
    buffer.ask_if_none()
    assert buffer.ask_due
    assert sent(buffer) == [(7, 1, True)], "a frame asks in place of an ACK"
    assert not buffer.ask_due


def test_an_acknowledgement_without_a_question_counts_as_an_answer() -> None:
    buffer = filled(1, 1, 1, max_frames=16)
    sent(buffer)
    assert buffer.acked(2, 1.0)
    for _ in range(4):
        buffer.add(b"x")
    assert [asks for _, _, asks in sent(buffer)] == [False, False, True, False], "four frames after it"
    assert (buffer.base, buffer.size_bytes, buffer.payloads) == (2, 5, 5)


def test_what_is_acknowledged_was_sent_on_this_connection() -> None:
    buffer = filled(1, 1, 1)
    buffer.next()
    for ack in (2, -1):
        with pytest.raises(ProtocolError, match=f"acknowledges {ack} frames: 0 were acknowledged before, and 1 were"):
            buffer.acked(ack, 1.0)
    assert buffer.acked(1, 1.0)
    with pytest.raises(ProtocolError, match="acknowledges 0 frames: 1 were acknowledged before, and 1 were"):
        buffer.acked(0, 1.0)


def test_a_new_connection_replays_from_what_the_peer_expects() -> None:
    buffer = filled(10, 20, 30, 40)
    sent(buffer)
    buffer.ask_if_none()
    assert buffer.ask_due
    buffer.resume(2)
    assert (buffer.base, buffer.cursor, buffer.size_bytes, buffer.ask_due) == (2, 0, 70, False)
    assert [number for number, _, _ in sent(buffer)] == [2, 3]
    for expected in (1, 5):
        with pytest.raises(ProtocolError, match=f"continue with frame {expected}: there are 2 to 4 here"):
            buffer.resume(expected)
    buffer.resume(4)
    assert (buffer.size_bytes, len(buffer.frames)) == (0, 0)


def test_a_new_incarnation_begins_at_zero_with_an_empty_buffer() -> None:
    buffer = filled(10, 20, max_bytes=10_000)
    buffer.add(PayloadPart(Lane.ORDINARY, 100, 0, bytes(60)))
    sent(buffer)
    buffer.acked(1, 1.0)
    buffer.ask_if_none()
    assert buffer.payloads == 1
    assert buffer.restart() == 1, "a part that is not the last is no payload"
    assert (buffer.base, buffer.cursor, buffer.size_bytes, buffer.ask_due) == (0, 0, 0, False)
    buffer.add(b"new")
    assert sent(buffer) == [(0, 3, False)]


def test_the_last_part_counts_as_a_payload() -> None:
    buffer = filled(10)
    buffer.add(PayloadPart(Lane.ORDINARY, 100, 0, bytes(60)))
    buffer.add(PayloadPart(Lane.ORDINARY, 100, 60, bytes(40)))
    assert (buffer.payloads, buffer.restart(), buffer.payloads) == (2, 2, 0)


@pytest.mark.parametrize(("size", "fits"), [(900, True), (901, False)])
def test_bytes_and_frames_are_bounded(size: int, fits: bool) -> None:
    assert filled(100).has_capacity(size) is fits
    assert filled().has_capacity(size)
    assert filled().has_capacity(5_000), "an empty buffer takes any frame"
    assert filled(1, 1, max_frames=3).has_capacity(1)
    assert not filled(1, 1, 1, max_frames=3).has_capacity(1)
    assert filled(1, 1, max_frames=3).takes_more
    assert not filled(1, 1, 1, max_frames=3).takes_more
    assert filled(500).takes_more
    assert not filled(501).takes_more, "half the limit is the usual size"


# -- the line ----------------------------------------------------------------------------------------------------------


def measured(buffer: SendBuffer, now_s: float) -> float:
    """Two frames are answered at `now_s` and a tenth of a second later. Returns the rate of the line."""
    first = buffer.base
    for _ in range(2):
        buffer.add(bytes(FIRST_BYTES // 2))
    assert [asks for _, _, asks in sent(buffer)] == [True, True]
    buffer.acked(first + 1, now_s)
    buffer.acked(first + 2, now_s + 0.1)
    return buffer.line.bytes_s


def test_the_line_is_measured_between_two_answers_of_one_connection() -> None:
    buffer = SendBuffer(1000, 1 << 20)
    assert measured(buffer, 5.0) == pytest.approx(FIRST_BYTES / 2 / 0.1)
    assert buffer.line.frame_bytes == 2 * FIRST_BYTES
    assert buffer.limit_bytes == 4 * FIRST_BYTES
    buffer.resume(2)
    assert buffer.line.frame_bytes == FIRST_BYTES, "another connection may have another route"
    assert buffer.limit_bytes == 2 * FIRST_BYTES


def test_an_answer_of_the_connection_before_measures_nothing() -> None:
    buffer = SendBuffer(1000, 1 << 20)
    for size in (FIRST_BYTES // 2, FIRST_BYTES):
        buffer.add(bytes(size))
    sent(buffer)
    buffer.acked(1, 5.0)
    buffer.resume(1)
    sent(buffer)
    buffer.acked(2, 65.0)
    assert buffer.line.bytes_s == 0.0


def test_the_line_is_not_measured_while_nothing_is_on_its_way() -> None:
    buffer = SendBuffer(1000, 1 << 20)
    for second in range(3):
        buffer.add(bytes(FIRST_BYTES))
        assert sent(buffer) == [(second, FIRST_BYTES, True)]
        buffer.acked(second + 1, 60.0 * second)
    assert buffer.line.bytes_s == 0.0


def test_a_fast_line_does_not_limit_what_is_in_flight() -> None:
    buffer = SendBuffer(1000, 1 << 20)
    buffer.line.frame_bytes = MOST_BYTES // 2
    for _ in range(2):
        buffer.add(bytes(MOST_BYTES))
    sent(buffer)
    buffer.acked(1, 5.0)
    buffer.acked(2, 5.001)
    assert (buffer.line.frame_bytes, buffer.limit_bytes) == (MOST_BYTES, 1 << 20)
