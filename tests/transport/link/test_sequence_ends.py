"""LinkSequence: what it takes and sends at the ends of a connection and of its capacity."""

from __future__ import annotations

import pytest

from aiostorm.transport import LinkSequence, ProtocolError, SequenceLimits
from aiostorm.transport.link.headers import LinkAck, LinkData, decode, epoch_of
from aiostorm.transport.link.line_rate import FIRST_BYTES

from .ends import World


class Source:
    """A source of these payloads."""

    last_was_urgent = False

    def __init__(self, *payloads: bytes) -> None:
        self._payloads = list(payloads)

    @property
    def is_empty(self) -> bool:
        return not self._payloads

    def next_payload(self, *, urgent: bool = False) -> bytes | None:
        return None if urgent or not self._payloads else self._payloads.pop(0)


@pytest.mark.parametrize("epoch", [0, 1, 2, 2**63, 2**64 - 1])
def test_before_the_handshake_no_frame_is_of_this_connection(epoch: int) -> None:
    end = LinkSequence(7)
    for _ in range(2):
        for frame in (LinkAck(epoch, 0), LinkData(epoch, 0, 0, b"x")):
            with pytest.raises(ProtocolError, match="before the handshake is complete"):
                end.receive(frame.encode(), 1.0)
        end.connect()


def test_what_is_unsent_is_taken_or_in_the_source() -> None:
    assert not LinkSequence(7).has_unsent
    assert not LinkSequence(7, source=Source()).has_unsent
    assert LinkSequence(7, source=Source(b"x")).has_unsent
    end = LinkSequence(7, source=Source())
    assert end.offer(b"x")
    assert end.has_unsent
    end = LinkSequence(7)
    assert end.offer(bytes(FIRST_BYTES + 1)), "it is sent in parts"
    assert (end.has_unsent, end.unacked_frames, end.unacked_bytes) == (True, 1, FIRST_BYTES + 1)


def test_while_a_payload_goes_in_parts_urgent_ones_have_capacity() -> None:
    end = LinkSequence(7)
    assert end.offer(bytes(FIRST_BYTES + 1))
    assert not end.has_capacity(1)
    assert not end.offer(b"x")
    assert end.has_capacity(1, urgent=True)
    assert end.offer(b"x", urgent=True)
    assert end.offer(bytes(FIRST_BYTES + 1), urgent=True)
    assert not end.has_capacity(1, urgent=True), "one urgent payload goes in parts at a time"


@pytest.mark.parametrize(("size", "fits"), [(FIRST_BYTES + 1, True), (99_990, True), (99_991, False)])
def test_the_limits_hold_for_payloads_that_are_sent_in_parts(size: int, fits: bool) -> None:
    end = LinkSequence(7, limits=SequenceLimits(max_frames=2, max_bytes=100_000))
    assert end.has_capacity(900_000), "an empty buffer takes one of any size"
    assert end.offer(bytes(10))
    assert end.has_capacity(size) is fits
    assert end.offer(bytes(10))
    assert not end.has_capacity(size), "two frames are in the buffer"
    assert not end.offer(bytes(size))


def test_before_it_closes_a_connection_an_end_acknowledges_what_has_arrived() -> None:
    world = World()
    one, two = world.ends
    assert two.last_ack() is None
    world.reconnect()
    assert two.last_ack() is None
    world.heal()
    epoch = epoch_of(two.incarnation, one.incarnation)
    assert decode(two.last_ack() or b"") == LinkAck(epoch, 0)
    world.offer(0)
    world.exchange()
    assert decode(two.last_ack() or b"") == LinkAck(epoch, 1)
    two.disconnect()
    assert two.last_ack() is None


def test_a_replaced_end_acknowledges_nothing() -> None:
    world = World()
    world.heal()
    old = world.ends[1]
    world.restart(1)
    world.heal()
    world.ends[1] = old
    world.reconnect()
    world.exchange()
    assert old.superseded
    assert old.last_ack() is None
