"""Flight: the frames on their way in one direction of a connection.

    sender ─► on the line, for as long as the path takes ─► arrive ─► the other end
                                                              ├ held: the path is cut
                                                              └ lost: the connection has broken

1. Frames arrive in their order. When the path becomes wider, those on the line arrive sooner.
2. What is sent after a break is lost, and of the frames in flight at a break all from any point on.
"""

from __future__ import annotations

import random
from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from .connection import SimConnection
    from .switch import Path

HEADER_BYTES: Final = 14
"""Added to the size of each frame, so that frames of 0 bytes fill a buffer, too."""

TIME_OUT_S: Final = (5.0, 120.0)
"""When a sender without acknowledgements gives up (TCP's user time-out), or a peer is silent (keep-alive)."""


class Flight:
    """One direction of a connection: the frames on their way from `sender` to the other end (None: the notice that the
    sender's end is over).
    """

    def __init__(self, sender: SimConnection, path: Path) -> None:
        self._sender = sender
        self._path = path
        self._world = sender.incarnation.process.world
        self._silent = False  # nothing passes any more; the other direction works
        self._dropped = False  # frames in flight are lost, after the next `_passes`
        self._passes = 0
        self._frames: deque[bytes | None] = deque()
        self._on_line: deque[int] = deque()  # the bytes of those frames whose time to arrive has not come
        self._pace = 0  # how often the path has become wider
        self._last_s = 0.0  # when the last frame arrives that no other may overtake
        self._gives_up_in_cut = 0
        self._arriving = Arriving()

    @property
    def received_bytes(self) -> int:
        """How many bytes the other end has received, with the part that has arrived of a frame on a slow path."""
        if self._path.cut:
            return self._arriving.whole_bytes
        return self._arriving.at(self._world.now_s, partly=not self._sender.other.broken)

    # -- what its sender does ----------------------------------------------------------------------------------------

    def send(self, frame: bytes) -> None:
        """A frame leaves the sender: it arrives in its time, or the connection breaks at it."""
        path, world, sender = self._path, self._world, self._sender
        world.switch.counts["sent"] += 1
        delay_s = path.draw_delay_s()
        begun_s = max(self._last_s, world.now_s + delay_s)
        if sender.broken or self._silent or path.happens(path.breaks):
            self._count_lost(frame)
            if sender.broken:
                world.call_at(world.now_s + delay_s, sender.left_buffer, frame)
                sender.notice(delay_s + path.chance.uniform(0.0, 20.0))
            elif not self._silent:
                self._silent = True
                world.call_at(begun_s, self._break)
            return
        self._trace(frame, "send")
        rate = path.bandwidth
        takes_s = (len(frame) + HEADER_BYTES) / rate if rate else 0.0
        self._last_s = begun_s + takes_s
        if takes_s:
            path.slowed[self] = None
            self._arriving.add(begun_s, self._last_s, len(frame) + HEADER_BYTES)
        self._fly(frame, self._last_s)

    def send_end(self, *, in_order: bool) -> None:
        """The sender's end is over: the other end gets a notice, behind what is in flight if `in_order`."""
        if not self._silent:
            arrives_s = self._world.now_s + self._path.draw_delay_s()
            self._fly(None, max(self._last_s, arrives_s) if in_order else arrives_s)

    def drop(self) -> None:
        """All frames in flight are lost."""
        self._dropped = True

    def drop_from_any_point(self, chance: random.Random) -> None:
        """Of the frames in flight, the first ones still arrive: none, all, or any number."""
        if not self._dropped:
            self._dropped = True
            self._passes = chance.randint(0, len(self._frames)) if chance.random() < 0.5 else 0

    def fall_silent(self) -> None:
        """Nothing passes any more, and the sender notices after a while."""
        if not self._silent:
            self._silent = True
            self.drop_from_any_point(self._path.chance)
            self._sender.notice(self._path.chance.uniform(*TIME_OUT_S))

    # -- what its path does ------------------------------------------------------------------------------------------

    def hasten(self) -> None:
        """The path has become wider: what is on the line arrives sooner."""
        path, world, arriving = self._path, self._world, self._arriving
        received, begun = self.received_bytes, arriving.whole_bytes
        arriving.restart(received)  # with the first part of a frame: the bytes never decrease
        self._pace += 1
        rate, at_s = path.bandwidth, world.now_s + path.delay_s
        for size in self._on_line:
            takes_s = size / rate if rate else 0.0
            if takes_s:
                path.slowed[self] = None
                arriving.add(at_s, at_s + takes_s, max(0, size - (received - begun)))
                begun = received
            at_s += takes_s
            world.call_at(at_s, self._off_line, self._pace)
        self._last_s = at_s

    def lose_held(self) -> None:
        """TCP gave up on a frame that waited for the end of a cut: the connection breaks."""
        self._lose(self._frames.popleft())
        self._break()

    def arrive(self) -> None:
        """The next frame has arrived, unless it is lost or has to wait."""
        path, other = self._path, self._sender.other
        if path.cut:
            path.held.append(self)
            if self._gives_up_in_cut != path.cuts:
                self._gives_up_in_cut = path.cuts
                after_s = path.chance.uniform(*TIME_OUT_S)
                self._world.call_at(self._world.now_s + after_s, self._give_up, path.cuts)
            return
        frame = self._frames.popleft()
        passes = not self._dropped and not other.broken
        if self._passes:
            self._passes -= 1
            passes = True
        if frame is None:
            if not other.broken:
                other.end("is closed by the peer")
        elif other.over or not passes:
            self._lose(frame)
            if other.over:
                self._sender.notice(other.outgoing._path.draw_delay_s())  # its kernel answers with a reset
        else:
            other.arrived(frame)

    # -- inside ------------------------------------------------------------------------------------------------------

    def _fly(self, frame: bytes | None, arrives_s: float) -> None:
        self._frames.append(frame)
        self._on_line.append(0 if frame is None else len(frame) + HEADER_BYTES)
        self._world.call_at(arrives_s, self._off_line, self._pace)

    def _off_line(self, pace: int) -> None:
        if pace == self._pace:  # otherwise it has another time by now
            self._on_line.popleft()
            self.arrive()

    def _break(self) -> None:
        """The connection breaks at this point: nothing more in this direction arrives."""
        self._dropped, self._passes = True, 0
        for side in (self._sender, self._sender.other):
            side.break_off(self._path.chance)

    def _lose(self, frame: bytes | None) -> None:
        """A frame will not arrive. (None: the notice of the end. Then the other end does not learn it.)"""
        if frame is None:
            self._sender.other.break_off(self._path.chance, soon=0.0)
        else:
            self._count_lost(frame)
            self._sender.left_buffer(frame)

    def _give_up(self, cut: int) -> None:
        if self._path.cut and self._path.cuts == cut:
            self._sender.noticed()

    def _count_lost(self, frame: bytes) -> None:
        self._world.switch.counts["lost"] += 1
        self._trace(frame, "lost")

    def _trace(self, frame: bytes, kind: str) -> None:
        world, sender = self._world, self._sender
        world.trace.add(world.now_s, kind, sender.incarnation.process.name, world.switch.describe(frame), sender.peer)


class Arriving:
    """The bytes that arrive on a slow path: also a part of a frame counts (pure)."""

    __slots__ = ("_coming", "whole_bytes")

    def __init__(self) -> None:
        self.whole_bytes = 0
        """Of frames that have arrived whole."""
        self._coming: deque[tuple[float, float, int]] = deque()  # starts to arrive, has arrived, bytes

    def add(self, begun_s: float, arrives_s: float, size: int) -> None:
        """A frame will arrive in this time."""
        self._coming.append((begun_s, arrives_s, size))

    def at(self, now_s: float, *, partly: bool) -> int:
        """How many bytes have arrived. `partly`: does a part of a frame count?"""
        while self._coming and self._coming[0][1] <= now_s:
            self.whole_bytes += self._coming.popleft()[2]
        part = 0.0
        if self._coming and partly:
            begun_s, arrives_s, size = self._coming[0]
            part = size * max(0.0, now_s - begun_s) / (arrives_s - begun_s)
        return self.whole_bytes + int(part)

    def restart(self, received_bytes: int) -> None:
        """So many have arrived, and the frames that will arrive are added anew."""
        self.whole_bytes = received_bytes
        self._coming.clear()
