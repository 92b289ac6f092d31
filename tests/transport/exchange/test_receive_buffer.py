"""ReceiveBuffer: segments of another worker in front of one mailbox: in order, within its capacity."""

from __future__ import annotations

import pyarrow as pa
import pytest

from aiostorm.actors import EMPTY, Mailbox, MailboxClosedError
from aiostorm.topology import ColumnRows, Fields, Origin, Segment
from aiostorm.transport import ProtocolError
from aiostorm.transport.exchange.receive_buffer import ReceiveBuffer

ORIGIN = Origin("numbers", 1, "default", Fields("n"))
CAPACITY = 64  # high mark 51, low mark 12
LARGEST = 52  # what fits once the fill is at the low mark


class Receiver:
    """A mailbox and the buffer in front of it; `accepted`: what the mailbox took, and whether a limit was due."""

    def __init__(self, quota: int = 8) -> None:
        self.mailbox = Mailbox(CAPACITY)
        self.accepted: list[tuple[int, bool]] = []
        self.buffer = ReceiveBuffer(5, self.mailbox, quota, lambda task, due: self.accepted.append((task, due)))

    @property
    def state(self) -> tuple[int, int, int]:
        """The rows in the mailbox, and in the buffer; the segments in the buffer."""
        return self.mailbox.gate.fill, self.buffer.credit.buffered, self.buffer.waiting

    def taken(self) -> int:
        """The rows of the segment that the task takes now."""
        segment = self.mailbox.take_data()
        return 0 if segment is EMPTY else len(segment.items)


class Local:
    """A sender of this process with segments of these sizes."""

    def __init__(self, *sizes: int) -> None:
        self._sizes = list(sizes)

    def next_piece(self) -> tuple[Segment, int]:
        rows = self._sizes.pop(0)
        return segment(rows), rows

    def has_more(self) -> bool:
        return bool(self._sizes)

    def refused(self, error: MailboxClosedError) -> None:
        raise AssertionError(error)


def segment(rows: int) -> Segment:
    return Segment(ORIGIN, list(range(rows)))


def columns(rows: int) -> Segment:
    return Segment(ORIGIN, ColumnRows(pa.RecordBatch.from_pydict({"n": list(range(rows))}), True))


async def test_what_fits_goes_into_the_mailbox_at_once() -> None:
    receiver = Receiver()
    receiver.buffer.add([segment(30), segment(21)])
    assert receiver.state == (51, 0, 0)
    assert receiver.mailbox.gate.is_open
    receiver.buffer.add([segment(13)])
    assert receiver.state == (64, 0, 0), "the last one fills it exactly"
    assert receiver.accepted == [(5, True)] * 3
    assert receiver.buffer.is_empty


async def test_a_segment_that_does_not_fit_yet_closes_the_gate_until_it_does() -> None:
    receiver = Receiver()
    receiver.buffer.add([segment(12), segment(39)])
    receiver.buffer.add([segment(14)])
    assert receiver.state == (51, 14, 1)
    assert not receiver.buffer.is_empty
    assert not receiver.mailbox.offer(segment(1)), "no other message overtakes it"
    assert receiver.taken() == 12
    assert receiver.state == (39, 14, 1)
    assert receiver.taken() == 39
    assert receiver.state == (14, 0, 0)
    assert receiver.mailbox.offer(segment(1))
    assert len(receiver.accepted) == 3


async def test_the_largest_segment_fits_when_the_fill_is_at_the_low_mark() -> None:
    receiver = Receiver()
    receiver.buffer.add([segment(40), segment(11), segment(1), segment(LARGEST)])
    assert receiver.state == (52, LARGEST, 1)
    assert receiver.taken() == 40
    assert receiver.state == (CAPACITY, 0, 0)


async def test_segments_behind_one_that_waits_keep_their_order() -> None:
    receiver = Receiver()
    receiver.buffer.add([segment(45), segment(20), segment(1), segment(2)])
    assert receiver.state == (45, 23, 3)
    assert receiver.mailbox.parked == 1
    assert [receiver.taken() for _ in range(5)] == [45, 20, 1, 2, 0]
    assert receiver.state == (0, 0, 0)
    assert receiver.mailbox.parked == 0
    receiver.buffer.add([segment(45), segment(20)])
    assert [receiver.taken() for _ in range(3)] == [45, 20, 0], "it parks again"


async def test_a_waiting_segment_that_does_not_fit_when_it_has_its_turn_waits_on() -> None:
    receiver = Receiver()
    for rows in (LARGEST, 4):
        receiver.mailbox.force(segment(rows), rows)
    receiver.mailbox.park(Local(9))  # its turn is the first
    receiver.buffer.add([segment(LARGEST), segment(3)])
    assert receiver.state == (56, 55, 2)
    assert receiver.taken() == LARGEST
    assert receiver.state == (13, 55, 2), "the nine rows went first, and the largest segment does not fit now"
    assert not receiver.mailbox.gate.is_open, "no other message overtakes it"
    assert [receiver.taken() for _ in range(5)] == [4, 9, LARGEST, 3, 0]


async def test_a_segment_heavier_than_ever_fits_refuses_its_frame() -> None:
    receiver = Receiver()
    with pytest.raises(ProtocolError, match="a segment of 53 tuples: at most 52 are allowed"):
        receiver.buffer.add([segment(1), segment(LARGEST + 1)])
    assert receiver.state == (0, 0, 0), "none of the frame was added"
    receiver.buffer.add([segment(1), segment(LARGEST)])
    assert receiver.state == (53, 0, 0)


async def test_a_batch_of_columns_is_not_split_and_counts_as_what_fits() -> None:
    receiver = Receiver()
    receiver.buffer.add([columns(LARGEST + 1)])
    assert receiver.state == (LARGEST, 0, 0)
    receiver.buffer.add([columns(1000), columns(3)])
    assert receiver.state == (LARGEST, LARGEST + 3, 2)
    assert [receiver.taken() for _ in range(3)] == [LARGEST + 1, 1000, 3]
    assert receiver.state == (0, 0, 0)


async def test_a_closed_mailbox_returns_the_credit_of_what_waits() -> None:
    receiver = Receiver()
    assert receiver.buffer.next_limit() == 8
    receiver.buffer.add([segment(50), segment(20), segment(3)])
    receiver.accepted.clear()
    receiver.mailbox.close()
    assert receiver.state == (50, 0, 0)
    assert receiver.accepted == [(5, True)] * 2
    assert receiver.buffer.next_limit() == 73 + 8
    receiver.buffer.add([segment(1)])
    assert receiver.state == (50, 0, 0), "and so does each one after it"
    assert len(receiver.accepted) == 3


async def test_a_buffer_and_a_local_sender_take_turns() -> None:
    receiver = Receiver()
    receiver.buffer.add([segment(50), segment(20), segment(20), segment(2)])
    receiver.mailbox.park(Local(1, 1, 1))
    assert [receiver.taken() for _ in range(8)] == [50, 20, 1, 20, 1, 2, 1, 0]


async def test_the_limit_is_the_share_of_what_the_task_wants_now() -> None:
    receiver = Receiver(quota=8)
    assert (receiver.buffer.wanted, receiver.buffer.next_limit()) == (CAPACITY, 8)
    receiver.buffer.add([segment(10)])
    receiver.mailbox.set_limit(32)
    assert (receiver.buffer.wanted, receiver.buffer.next_limit()) == (32, 10 + 4)
    receiver.buffer.add([segment(10)])
    receiver.mailbox.set_limit(1)
    assert receiver.buffer.next_limit() == 20 + 1, "at least one row"
    receiver.mailbox.set_limit(CAPACITY)
    assert receiver.buffer.next_limit() == 20 + 8


async def test_it_shows_what_the_task_says_about_its_rows() -> None:
    receiver = Receiver()
    assert (receiver.buffer.row_s, receiver.buffer.in_long_call) == (0.0, False)
    receiver.mailbox.reader.row_s = 0.5
    receiver.mailbox.reader.set_in_long_call(True)
    assert (receiver.buffer.row_s, receiver.buffer.in_long_call) == (0.5, True)
