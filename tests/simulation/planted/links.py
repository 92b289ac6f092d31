"""Bugs planted into the links, one at a time: a simulation that is worth its time finds each within a few seeds.

python -m tests.simulation.planted.links        prints which seed finds which bug first, and what it says
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from aiostorm.testing.simulation.disk import SimStore
from aiostorm.testing.simulation.network import SimConnection
from aiostorm.transport import LinkSequence, PeerStarted
from aiostorm.transport.link.frame_buffers import ReorderBuffer, SendBuffer
from aiostorm.transport.link.headers import LinkHello
from aiostorm.transport.link.parts import PartAssembler, PayloadPart, PayloadSplitter

from ..links import LinksResult, run
from .planting import SEEDS, Plant, first_that_finds, replaced


@contextlib.contextmanager
def no_deduplication() -> Iterator[None]:
    """A frame that comes again is delivered again."""
    real = ReorderBuffer.accept

    def accept(self: ReorderBuffer, sequence: int, payload: bytes) -> list[bytes]:
        if sequence < self.next:
            self.owes_ack = True
            return [payload]
        return real(self, sequence, payload)

    with replaced(ReorderBuffer, "accept", accept):
        yield


@contextlib.contextmanager
def an_old_incarnation_is_accepted() -> Iterator[None]:
    """Replaced incarnations are forgotten."""
    real = LinkSequence._on_hello

    def greeted(self: LinkSequence, hello: LinkHello, now_s: float) -> list[bytes | PeerStarted]:
        self._replaced.clear()
        return real(self, hello, now_s)

    with replaced(LinkSequence, "_on_hello", greeted):
        yield


@contextlib.contextmanager
def an_old_epoch_is_accepted() -> Iterator[None]:
    """Frames are taken whatever their epoch is."""
    with replaced(LinkSequence, "_is_current", lambda self, epoch: bool(self.peer)):
        yield


@contextlib.contextmanager
def a_hello_is_believed_at_once() -> Iterator[None]:
    """A HELLO need not echo our attempt: one of a dead incarnation, long under way, is believed."""
    real = LinkSequence._on_hello

    def greeted(self: LinkSequence, hello: LinkHello, now_s: float) -> list[bytes | PeerStarted]:
        events = []
        if hello.incarnation != self.incarnation and not self.established:
            events += self._establish(hello, now_s)
        return events + real(self, hello, now_s)

    with replaced(LinkSequence, "_on_hello", greeted):
        yield


@contextlib.contextmanager
def a_gap_is_delivered() -> Iterator[None]:
    """What comes early is not held: it is taken for the next one."""
    real = ReorderBuffer.accept

    def accept(self: ReorderBuffer, sequence: int, payload: bytes) -> list[bytes]:
        if sequence > self.next:
            self.next = sequence
        return real(self, sequence, payload)

    with replaced(ReorderBuffer, "accept", accept):
        yield


@contextlib.contextmanager
def an_ack_counts_what_was_not_delivered() -> Iterator[None]:
    """What is held because it came early is acked, and dropped."""
    real = ReorderBuffer.accept

    def accept(self: ReorderBuffer, sequence: int, payload: bytes) -> list[bytes]:
        if sequence == self.next + 1:
            self.owes_ack = True
            self.next += 2
            return [payload]
        return real(self, sequence, payload)

    with replaced(ReorderBuffer, "accept", accept):
        yield


@contextlib.contextmanager
def an_ack_is_one_too_high() -> Iterator[None]:
    """A receiver acks the frame that it expects, too."""
    real = SendBuffer.acked

    def acked(self: SendBuffer, ack: int, now_s: float) -> None:
        if len(self):
            ack = min(ack + 1, self._base + self._cursor)
        real(self, ack, now_s)

    with replaced(SendBuffer, "acked", acked):
        yield


@contextlib.contextmanager
def no_resend_after_a_reconnect() -> Iterator[None]:
    """What was under way when a connection was cut counts as sent for ever."""

    def resume(self: SendBuffer, expected: int, now_s: float) -> None:
        self.acked(expected, now_s)
        for frame in self._frames:
            if frame.sent_s is not None:
                frame.sent_s = float("inf")

    with replaced(SendBuffer, "resume", resume):
        yield


@contextlib.contextmanager
def no_resend_of_lost_frames() -> Iterator[None]:
    """Only a new connection sends again."""

    def due_s(self: SendBuffer) -> float:
        return float("-inf") if self._cursor < len(self) else float("inf")

    with replaced(SendBuffer, "_expired", lambda self, now_s: False), replaced(SendBuffer, "due_s", due_s):
        yield


@contextlib.contextmanager
def a_window_without_a_bound() -> Iterator[None]:
    """There is always capacity."""
    with replaced(SendBuffer, "has_room", lambda self, size_bytes: True):
        yield


@contextlib.contextmanager
def a_writer_that_does_not_look() -> Iterator[None]:
    """It sends into a full connection, and again what has not left it."""
    with replaced(SimConnection, "writable", True), replaced(SimConnection, "buffered_bytes", 0):
        yield


@contextlib.contextmanager
def a_new_incarnation_goes_on_counting() -> Iterator[None]:
    """What the old incarnation had got counts for the new one."""
    real = ReorderBuffer.restart

    def restart(self: ReorderBuffer) -> None:
        expected = self.next
        real(self)
        self.next = expected

    with replaced(ReorderBuffer, "restart", restart):
        yield


@contextlib.contextmanager
def parts_are_mixed_up() -> Iterator[None]:
    """What is not whole outlives its sender, and any part is taken for the next one."""

    def add(self: PartAssembler, part: PayloadPart) -> bytes | None:
        come, _ = self._begun.setdefault(part.lane, (bytearray(), part.total))
        come += part.body
        if len(come) < part.total:
            return None
        del self._begun[part.lane]
        return bytes(come)

    with replaced(PartAssembler, "add", add), replaced(PartAssembler, "restart", lambda self: None):
        yield


@contextlib.contextmanager
def the_last_parts_are_forgotten_after_a_reconnect() -> Iterator[None]:
    """A new connection goes on with what was sent before, and not with what was still to be cut off."""
    real, real_cut = SendBuffer.resume, LinkSequence._split
    cutters: dict[SendBuffer, PayloadSplitter] = {}

    def cut(self: LinkSequence) -> bool:
        cutters[self._send] = self._splitter
        return real_cut(self)

    def resume(self: SendBuffer, expected: int, now_s: float) -> None:
        real(self, expected, now_s)
        if self in cutters:
            cutters[self].restart()

    with replaced(LinkSequence, "_split", cut), replaced(SendBuffer, "resume", resume):
        yield


@contextlib.contextmanager
def a_sync_that_does_not_wait() -> Iterator[None]:
    """The store answers before anything is durable."""
    with replaced(SimStore, "_sync", lambda self: None):
        yield


PLANTED: dict[str, Plant] = {
    planted.__name__: planted
    for planted in (
        no_deduplication,
        an_old_incarnation_is_accepted,
        an_old_epoch_is_accepted,
        a_hello_is_believed_at_once,
        a_gap_is_delivered,
        an_ack_counts_what_was_not_delivered,
        an_ack_is_one_too_high,
        no_resend_after_a_reconnect,
        no_resend_of_lost_frames,
        a_window_without_a_bound,
        a_writer_that_does_not_look,
        a_new_incarnation_goes_on_counting,
        parts_are_mixed_up,
        the_last_parts_are_forgotten_after_a_reconnect,
        a_sync_that_does_not_wait,
    )
}


def found_by(planted: Plant, seeds: int = SEEDS, first: int = 0) -> LinksResult | None:
    """See first_that_finds."""
    return first_that_finds(run, planted, first, seeds)
