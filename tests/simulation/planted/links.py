"""Bugs planted into the links, one at a time: a simulation that is worth its time finds each within a few seeds.

python -m tests.simulation.planted.links        prints which seed finds which bug first, and what it says
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from aiostorm.testing.simulation.connection import SimConnection
from aiostorm.testing.simulation.disk import SimStore
from aiostorm.transport import LinkSequence, PeerStarted
from aiostorm.transport.link.handshake import Handshake
from aiostorm.transport.link.headers import LinkAck, LinkHello, decode
from aiostorm.transport.link.parts import PartAssembler, PayloadPart
from aiostorm.transport.link.send_buffer import SendBuffer
from aiostorm.transport.link.silence import SilenceCheck

from ..links import LinksResult, run
from .planting import SEEDS, Plant, first_that_finds, replaced


@contextlib.contextmanager
def a_duplicate_after_a_reconnect_is_delivered() -> Iterator[None]:
    """A receiver forgets at a reconnect that it had the last frame."""
    real = LinkSequence.connect

    def connect(self: LinkSequence) -> None:
        self._expected = max(0, self._expected - 1)
        real(self)

    with replaced(LinkSequence, "connect", connect):
        yield


@contextlib.contextmanager
def an_old_incarnation_is_accepted() -> Iterator[None]:
    """Replaced incarnations are forgotten."""
    real = Handshake.on_hello

    def on_hello(self: Handshake, hello: LinkHello) -> bool:
        self._replaced.clear()
        return real(self, hello)

    with replaced(Handshake, "on_hello", on_hello):
        yield


@contextlib.contextmanager
def a_hello_is_believed_at_once() -> Iterator[None]:
    """A HELLO need not repeat our attempt: one of an incarnation that has died is believed."""
    real = Handshake.on_hello

    def on_hello(self: Handshake, hello: LinkHello) -> bool:
        return real(self, hello) or not (self.established or self.refusal)

    with replaced(Handshake, "on_hello", on_hello):
        yield


@contextlib.contextmanager
def an_ack_counts_a_frame_that_was_not_received() -> Iterator[None]:
    """A sender takes the next expected frame for an acknowledged one."""
    real = SendBuffer.acked

    def acked(self: SendBuffer, ack: int, now_s: float) -> bool:
        return real(self, min(ack + 1, self.base + self.cursor), now_s)

    with replaced(SendBuffer, "acked", acked):
        yield


@contextlib.contextmanager
def only_payloads_acknowledge() -> Iterator[None]:
    """An ACK is answered, but what it says of received frames is ignored: a flow in one direction stops."""
    real = LinkSequence.receive

    def receive(self: LinkSequence, frame: bytes, now_s: float) -> Sequence[bytes | PeerStarted]:
        if frame[1] & 0x7F == 3:
            ack = decode(frame)
            assert isinstance(ack, LinkAck)
            frame = LinkAck(ack.epoch, self._send.base, ack.asks).encode()
        return real(self, frame, now_s)

    with replaced(LinkSequence, "receive", receive):
        yield


@contextlib.contextmanager
def no_acknowledgement_is_requested() -> Iterator[None]:
    """A sender with a full buffer waits for a payload or a heartbeat of the peer."""
    real = SendBuffer.next

    def next_frame(self: SendBuffer) -> tuple[int, bytes | PayloadPart, bool]:
        number, payload, _ = real(self)
        return number, payload, False

    with replaced(SendBuffer, "next", next_frame), replaced(SendBuffer, "ask_if_none", lambda self: None):
        yield


@contextlib.contextmanager
def no_replay_after_a_reconnect() -> Iterator[None]:
    """What was in flight when a connection broke counts as sent for ever."""
    real = SendBuffer.resume

    def resume(self: SendBuffer, expected: int) -> None:
        sent = self.base + self.cursor
        real(self, expected)
        self.cursor = max(0, sent - self.base)

    with replaced(SendBuffer, "resume", resume):
        yield


@contextlib.contextmanager
def a_replay_starts_one_too_late() -> Iterator[None]:
    """The first frame that is missing is not sent again."""
    real = SendBuffer.resume

    def resume(self: SendBuffer, expected: int) -> None:
        was_sent = self.base + self.cursor > expected
        real(self, expected)
        self.cursor = int(was_sent)

    with replaced(SendBuffer, "resume", resume):
        yield


@contextlib.contextmanager
def a_send_buffer_without_a_bound() -> Iterator[None]:
    """There is always capacity."""
    with replaced(SendBuffer, "has_capacity", lambda self, size_bytes: True):
        yield


@contextlib.contextmanager
def a_writer_that_does_not_look() -> Iterator[None]:
    """It sends into a full connection."""
    with replaced(SimConnection, "writable", True):
        yield


@contextlib.contextmanager
def no_heartbeat_is_sent() -> Iterator[None]:
    """A side that only receives, or is idle, looks dead to its peer."""
    with replaced(SilenceCheck, "sent", property(lambda self: True, lambda self, value: None)):
        yield


@contextlib.contextmanager
def a_silent_connection_is_kept() -> Iterator[None]:
    """A connection of which one direction is dead is not given up."""
    always = property(lambda self: self._clock.monotonic(), lambda self, value: None)
    with replaced(SilenceCheck, "received_s", always):
        yield


@contextlib.contextmanager
def a_new_incarnation_continues_the_count() -> Iterator[None]:
    """What the old incarnation has sent counts for the new one."""
    real = LinkSequence._establish

    def establish(self: LinkSequence, hello: LinkHello) -> list[bytes | PeerStarted]:
        expected = self._expected
        events = real(self, hello)
        self._expected = expected
        return events

    with replaced(LinkSequence, "_establish", establish):
        yield


@contextlib.contextmanager
def a_new_incarnation_gets_the_frames_of_the_last_one() -> Iterator[None]:
    """What was kept for the last one is sent to the new one."""

    def restart(self: SendBuffer) -> int:
        self.base = 0
        self._connected()
        return 0

    with replaced(SendBuffer, "restart", restart):
        yield


@contextlib.contextmanager
def a_new_incarnation_acknowledges_for_the_last_one() -> Iterator[None]:
    """What was kept for the last one counts as delivered."""
    real = SendBuffer.restart

    def restart(self: SendBuffer) -> int:
        real(self)
        return 0

    with replaced(SendBuffer, "restart", restart):
        yield


@contextlib.contextmanager
def parts_are_mixed_up() -> Iterator[None]:
    """An incomplete payload outlives its sender, and any part is taken for the next one."""

    def add(self: PartAssembler, part: PayloadPart) -> bytes | None:
        received, _ = self._open.setdefault(part.lane, (bytearray(), part.total))
        received += part.body
        if len(received) < part.total:
            return None
        del self._open[part.lane]
        return bytes(received)

    with replaced(PartAssembler, "add", add), replaced(PartAssembler, "restart", lambda self: None):
        yield


@contextlib.contextmanager
def the_last_parts_are_forgotten_after_a_reconnect() -> Iterator[None]:
    """A new connection continues with what was sent before, and not with what was still to be split off."""
    real = LinkSequence._establish

    def establish(self: LinkSequence, hello: LinkHello) -> list[bytes | PeerStarted]:
        events = real(self, hello)
        self._splitter.restart()
        return events

    with replaced(LinkSequence, "_establish", establish):
        yield


@contextlib.contextmanager
def a_sync_that_does_not_wait() -> Iterator[None]:
    """The store answers before anything is durable."""
    with replaced(SimStore, "_sync", lambda self: None):
        yield


PLANTED: dict[str, Plant] = {
    planted.__name__: planted
    for planted in (
        a_duplicate_after_a_reconnect_is_delivered,
        an_old_incarnation_is_accepted,
        a_hello_is_believed_at_once,
        an_ack_counts_a_frame_that_was_not_received,
        only_payloads_acknowledge,
        no_acknowledgement_is_requested,
        no_replay_after_a_reconnect,
        a_replay_starts_one_too_late,
        a_send_buffer_without_a_bound,
        a_writer_that_does_not_look,
        no_heartbeat_is_sent,
        a_silent_connection_is_kept,
        a_new_incarnation_continues_the_count,
        a_new_incarnation_gets_the_frames_of_the_last_one,
        a_new_incarnation_acknowledges_for_the_last_one,
        parts_are_mixed_up,
        the_last_parts_are_forgotten_after_a_reconnect,
        a_sync_that_does_not_wait,
    )
}


def found_by(planted: Plant, seeds: int = SEEDS, first: int = 0) -> LinksResult | None:
    """See first_that_finds."""
    return first_that_finds(run, planted, first, seeds)
