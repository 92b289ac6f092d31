"""A connection of the simulated network: two ends, and what is in flight in each of the two directions.

    end ── send ─► Flight ── arrive ─► end's ArrivedFrames ── receive ─►      (the other direction has another Flight)

1. Frames arrive in the order in which they were sent, each once, and whole, until the connection breaks.
2. An end that is `over` knows it; one that is `broken` does not know it yet.
3. `Flight` (flight.py) loses frames.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from typing import TYPE_CHECKING

from ...transport import MAX_BUFFERED_BYTES, MAX_FRAME_BYTES, ConnectionLostError, FrameTooLargeError, Identity
from .flight import HEADER_BYTES, Flight

if TYPE_CHECKING:
    from .incarnation import Incarnation
    from .switch import Path


class SimConnection:
    """One end of a connection: a `Connection`. `other` is the other end, `outgoing` what is in flight from here."""

    identity: Identity | None = None

    def __init__(self, incarnation: Incarnation, path: Path) -> None:
        self.incarnation = incarnation
        self.peer = path.target
        self.over = False
        self.broken = False  # nothing passes any more, but this end does not know
        self.other: SimConnection
        self.outgoing = Flight(self, path)
        self._switch = incarnation.process.world.switch
        self._buffered = 0
        self._inbox = ArrivedFrames()
        self._reader: asyncio.Future[None] | None = None
        self._writers: list[asyncio.Future[None]] = []

    # -- Connection --------------------------------------------------------------------------------------------------

    @property
    def writable(self) -> bool:
        return self.over or self._buffered < MAX_BUFFERED_BYTES

    @property
    def buffered_bytes(self) -> int:
        return self._buffered

    @property
    def received_bytes(self) -> int:
        return self.other.outgoing.received_bytes

    def send(self, frame: bytes) -> None:
        if len(frame) > MAX_FRAME_BYTES:
            raise FrameTooLargeError(f"a frame of {len(frame):,} bytes: {MAX_FRAME_BYTES:,} is the most, cut it up")
        if self.over:
            raise ConnectionLostError(f"the connection to {self.peer} is over")
        self._buffered += len(frame) + HEADER_BYTES
        self._switch.most_buffered_bytes = max(self._switch.most_buffered_bytes, self._buffered)
        self.outgoing.send(frame)

    async def drained(self) -> None:
        while not self.writable:
            waiter = self.incarnation.loop.create_future()
            self._writers.append(waiter)
            try:
                await waiter
            finally:
                self._writers.remove(waiter)
        if self.over:
            raise ConnectionLostError(f"the connection to {self.peer} is over")

    async def receive(self) -> bytes:
        if self._reader is not None:
            raise RuntimeError(f"receive was called twice on the connection to {self.peer}: one call at a time")
        while not self._inbox.frames:
            if self.over:
                raise ConnectionLostError(f"the connection to {self.peer} is over")
            self._reader = self.incarnation.loop.create_future()
            try:
                await self._reader
            finally:
                self._reader = None
        frame = self._inbox.take()
        while (waiting := self._inbox.next_waiting()) is not None:
            self._deliver(waiting)
        return frame

    def close(self) -> None:
        if not self.over:
            self.outgoing.send_end(in_order=True)
            self.end("closes")

    # -- what happens to it ------------------------------------------------------------------------------------------

    def reset(self) -> None:
        """This end is lost, and with it all frames in flight from here."""
        self.outgoing.drop()
        self.outgoing.send_end(in_order=False)
        self.end("is reset")

    def end(self, how: str) -> None:
        """The connection is over at this end: its waiters continue."""
        if self.over:
            return
        self.over = True
        self._switch.unplug(self)
        process = self.incarnation.process
        process.world.trace.add(process.world.now_s, "process", process.name, f"the connection {how}", self.peer)
        for waiter in (*self._writers, self._reader):
            wake(waiter)

    def break_off(self, chance: random.Random, soon: float = 0.6) -> None:
        """Nothing passes any more. It is noticed here `soon` (with this chance), or on sending, or after minutes.

        Frames in flight from here are lost from any point on.
        """
        if not self.over and not self.broken:
            self.broken = True
            self.outgoing.drop_from_any_point(chance)
            self.notice(chance.random() * 0.1 if chance.random() < soon else chance.uniform(60.0, 600.0))

    def fall_silent(self) -> None:
        """Nothing from here passes any more, and this end notices after a while: TCP gets no acknowledgements."""
        if not self.over:
            self.outgoing.fall_silent()

    def notice(self, after_s: float) -> None:
        """After so long this end finds out that the connection is broken."""
        world = self.incarnation.process.world
        world.call_at(world.now_s + after_s, self.noticed)

    def noticed(self) -> None:
        """This end finds out that the connection is broken."""
        self.outgoing.drop()
        self.end("is found broken")

    # -- what its flights do -----------------------------------------------------------------------------------------

    def arrived(self, frame: bytes) -> None:
        """A frame has arrived here."""
        if self._inbox.has_space and not self._inbox.waiting:
            self._deliver(frame)
        else:
            self._inbox.waiting.append(frame)

    def left_buffer(self, frame: bytes) -> None:
        """A frame that was sent here is received, or lost: the buffer has space for others."""
        self._buffered -= len(frame) + HEADER_BYTES
        if self.writable:
            for waiter in self._writers:
                wake(waiter)

    def _deliver(self, frame: bytes) -> None:
        self._inbox.add(frame)
        self._switch.counts["received"] += 1
        self.other.left_buffer(frame)
        wake(self._reader)


class ArrivedFrames:
    """The frames that have arrived at an end (pure). Those that it has no space for are `waiting`."""

    __slots__ = ("_bytes", "frames", "waiting")

    def __init__(self) -> None:
        self.frames: deque[bytes] = deque()
        self.waiting: deque[bytes] = deque()
        self._bytes = 0

    @property
    def has_space(self) -> bool:
        """For another frame?"""
        return self._bytes < MAX_BUFFERED_BYTES

    def add(self, frame: bytes) -> None:
        """A frame may be received."""
        self.frames.append(frame)
        self._bytes += len(frame) + HEADER_BYTES

    def take(self) -> bytes:
        """The next frame."""
        frame = self.frames.popleft()
        self._bytes -= len(frame) + HEADER_BYTES
        return frame

    def next_waiting(self) -> bytes | None:
        """A frame that waited and for which there is space now."""
        return self.waiting.popleft() if self.waiting and self.has_space else None


def wake(waiter: asyncio.Future[None] | None) -> None:
    """What waits continues."""
    if waiter is not None and not waiter.done():
        waiter.set_result(None)
