"""SimNetwork: the network of one simulated process: connections that break as the faults say.

    send ─► buffer ─► in flight ─► inbox ─► receive        drained: the buffer has space again
              ▲          ├ late: the lag and the bandwidth of the path (see switch.py)
              │          ├ waiting: the path is cut, or the inbox is full (the receiver is slow, or frozen)
              │          └ lost: the connection has broken before the frame had arrived
              └ a frame leaves the buffer when it is in the inbox, or lost

1. An address is the name of a process, and a port if wanted: "storm", "storm:6700", "storm:0" (any that is free).
2. `connect` takes a while. It is refused without a listener; a cut path refuses it too, or delays it until it times
   out. A frozen process is connected to, as by a real kernel: its `accept` is called when it continues.
3. Frames arrive as events of the world, in true time. Nothing of a dead process has any effect.
4. A connection is TCP: frames arrive in the order in which they were sent, each once, and whole. When it breaks, the
   frames in flight are lost from any point on, in each direction; nothing that is sent later arrives.
5. A path may have a bandwidth: a large frame takes its time then, and those behind it wait.
6. A connection ends in one of TCP's ways: a close (after what was in flight), a reset (what was in flight is lost), or
   a time-out. The other end may not know it yet. One direction may be silent while the other still works.
"""

from __future__ import annotations

import asyncio
import contextvars
import random
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ...transport import (
    MAX_BUFFERED_BYTES,
    MAX_FRAME_BYTES,
    ConnectionLostError,
    FrameTooLargeError,
    Identity,
    NetworkError,
)
from .switch import Path, Switch

if TYPE_CHECKING:
    from ...transport import Connection
    from .process import Process

HEADER_BYTES: Final = 14
"""Added to the size of each frame, so that frames of 0 bytes fill a buffer, too."""

CONNECT_TIMEOUT_S: Final = (1.0, 30.0)
"""How long `connect` waits for a cut path, before it times out."""

TIME_OUT_S: Final = (5.0, 120.0)
"""When a sender without acknowledgements gives up (TCP's user time-out), or a peer is silent (keep-alive)."""


class SimNetwork:
    """The `Network` of one incarnation. Made by its process: `process.network`."""

    def __init__(self, process: Process, switch: Switch) -> None:
        self.process = process
        self.incarnation = process.incarnation
        self.switch = switch
        self._chance = switch.world.chance.stream(f"connects {process.name}.{self.incarnation}")

    async def connect(self, address: str) -> Connection:
        target = address.partition(":")[0]
        there = self.switch.path(self.process.name, target)
        back = self.switch.path(target, self.process.name)
        await self._reach(address, there, back)
        await self._pause(there.draw_delay_s() + back.draw_delay_s())
        listener = self.switch.listeners.get(address)
        if listener is None or listener.process is self.process:
            self.switch.counts["refused"] += 1
            raise NetworkError(f"{address}: no listener there")
        mine = SimConnection(self.process, self.incarnation, there)
        theirs = SimConnection(listener.process, listener.incarnation, back)
        mine.other, theirs.other = theirs, mine
        self.switch.plug(mine)
        self.switch.plug(theirs)
        self.switch.counts["connections"] += 1
        listener.process.loop.call_soon(listener.on_connection, theirs, context=listener.context)
        return mine

    async def listen(self, address: str, accept: Callable[[Connection], None]) -> SimListener:
        name, _, port = address.partition(":")
        if name != self.process.name:
            raise NetworkError(f"{address}: an address of {self.process.name} begins with its name")
        if port == "0":
            address = f"{name}:{self.switch.new_port()}"
        if address in self.switch.listeners:
            raise NetworkError(f"{address}: there is a listener already")
        listener = SimListener(self, address, accept)
        if self.is_alive:
            self.switch.listeners[address] = listener
        return listener

    @property
    def is_alive(self) -> bool:
        """Does the incarnation still run that this network was made for?"""
        return self.process.alive and self.process.incarnation == self.incarnation

    def process_died(self, crashed: bool) -> None:
        """Its listeners and connections end with it."""
        self.switch.process_died(self.process.name, crashed=crashed)

    async def _reach(self, address: str, there: Path, back: Path) -> None:
        """Wait until the path is whole. NetworkError if that takes too long, or at once."""
        if there.refuses:
            self.switch.counts["refused"] += 1
            raise NetworkError(f"{address}: the connection is refused")
        if there.happens(there.breaks) or back.happens(back.breaks):
            await self._pause(1.0)  # TCP tries again after a second
        if not (there.cut or back.cut):
            return
        timeout_s = self._chance.uniform(*CONNECT_TIMEOUT_S) if self._chance.random() < 0.7 else 0.0
        end_s = self.switch.world.now_s + timeout_s
        while there.cut or back.cut:
            if self.switch.world.now_s >= end_s:
                self.switch.counts["refused"] += 1
                raise NetworkError(f"{address}: {'timed out' if timeout_s else 'no way there'}")
            await self._pause(1.0)

    async def _pause(self, for_s: float) -> None:
        """True time, whatever the process's own clock says."""
        world = self.switch.world
        waiter = self.process.loop.create_future()
        world.call_at(world.now_s + for_s, _wake, waiter)
        await waiter
        if not self.is_alive:
            await self.process.loop.create_future()  # a dead process never continues


class SimListener:
    """Made by `SimNetwork.listen`: a `Listener`."""

    def __init__(self, network: SimNetwork, address: str, accept: Callable[[Connection], None]) -> None:
        self.process = network.process
        self.incarnation = network.incarnation
        self.address = address
        self.context = contextvars.copy_context()  # of the caller of `listen`: `accept` is called in it
        self._network = network
        self._accept = accept

    def on_connection(self, connection: SimConnection) -> None:
        """In the process's loop: a connection was made."""
        if self._network.switch.listeners.get(self.address) is not self:
            connection.close()
            return
        try:
            self._accept(connection)
        except Exception as error:
            connection.close()
            self.process.loop.call_exception_handler(
                {"message": f"accept of {self.address} failed", "exception": error}
            )

    def close(self) -> None:
        if self._network.switch.listeners.get(self.address) is self:
            del self._network.switch.listeners[self.address]


class SimConnection:
    """One end of a connection: a `Connection`. `other` is the other end."""

    identity: Identity | None = None

    def __init__(self, process: Process, incarnation: int, path: Path) -> None:
        self.process = process
        self.incarnation = incarnation
        self.peer = path.target
        self.over = False
        self.other: SimConnection
        self._path = path
        self._world = process.world
        self._switch = process.world.switch
        self._broken = False  # nothing passes any more, but this end does not know
        self._silent = False  # nothing from here passes any more; the other direction works
        self._dropped = False  # frames in flight from here are lost, after the next `_passes`
        self._passes = 0
        self._flight: deque[bytes | None] = deque()  # in their order; None: the notice that this end is over
        self._on_line: deque[int] = deque()  # the bytes of those in flight whose time to arrive has not come
        self._pace = 0  # how often the path has become wider
        self._buffered = 0
        self._last_s = 0.0  # when the last frame arrives that no other may overtake
        self._gives_up_in_cut = 0
        self._inbox: deque[bytes] = deque()
        self._inbox_bytes = 0
        self._waiting: deque[bytes] = deque()  # wait for space in the inbox
        self._received_bytes = 0
        self._coming: deque[tuple[float, float, int]] = deque()  # on a slow path: starts to arrive, has arrived, bytes
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
        now_s = self._world.now_s
        if self.other._path.cut:
            return self._received_bytes
        while self._coming and self._coming[0][1] <= now_s:
            self._received_bytes += self._coming.popleft()[2]
        part = 0.0
        if self._coming and not self._broken:
            begun_s, arrives_s, size = self._coming[0]
            part = size * max(0.0, now_s - begun_s) / (arrives_s - begun_s)
        return self._received_bytes + int(part)

    def send(self, frame: bytes) -> None:
        if len(frame) > MAX_FRAME_BYTES:
            raise FrameTooLargeError(f"a frame of {len(frame):,} bytes: {MAX_FRAME_BYTES:,} is the most, cut it up")
        if self.over:
            raise ConnectionLostError(f"the connection to {self.peer} is over")
        path, world = self._path, self._world
        self._buffered += len(frame) + HEADER_BYTES
        self._switch.most_buffered_bytes = max(self._switch.most_buffered_bytes, self._buffered)
        self._switch.counts["sent"] += 1
        delay_s = path.draw_delay_s()
        begun_s = max(self._last_s, world.now_s + delay_s)
        if self._broken or self._silent or path.happens(path.breaks):
            self._switch.counts["lost"] += 1
            self._trace(frame, "lost")
            if self._broken:
                world.call_at(world.now_s + delay_s, self._on_left_buffer, frame)
                self._notice(delay_s + path.chance.uniform(0.0, 20.0))
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
            self.other._coming.append((begun_s, self._last_s, len(frame) + HEADER_BYTES))
        self._fly(frame, self._last_s)

    async def drained(self) -> None:
        while not self.writable:
            waiter = self.process.loop.create_future()
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
        while not self._inbox:
            if self.over:
                raise ConnectionLostError(f"the connection to {self.peer} is over")
            self._reader = self.process.loop.create_future()
            try:
                await self._reader
            finally:
                self._reader = None
        frame = self._inbox.popleft()
        self._inbox_bytes -= len(frame) + HEADER_BYTES
        while self._waiting and self._inbox_bytes < MAX_BUFFERED_BYTES:
            self._deliver(self._waiting.popleft())
        return frame

    def close(self) -> None:
        if not self.over:
            world = self._world
            if not self._silent:
                self._fly(None, max(self._last_s, world.now_s + self._path.draw_delay_s()))
            self.end("closes")

    # -- what happens to it ------------------------------------------------------------------------------------------

    def reset(self) -> None:
        """This end is lost, and with it all frames in flight from here."""
        self._dropped = True
        if not self._silent:
            self._fly(None, self._world.now_s + self._path.draw_delay_s())
        self.end("is reset")

    def end(self, how: str) -> None:
        """The connection is over at this end: its waiters continue."""
        if self.over:
            return
        self.over = True
        self._switch.unplug(self)
        self._world.trace.add(self._world.now_s, "life", self.process.name, f"the connection {how}", self.peer)
        for waiter in (*self._writers, self._reader):
            _wake(waiter)

    def break_off(self, chance: random.Random, soon: float = 0.6) -> None:
        """Nothing passes any more. It is noticed here `soon` (with this chance), or on sending, or after minutes.

        Frames in flight from here are lost from any point on.
        """
        if not self.over and not self._broken:
            self._broken = True
            self.drop_from_any_point(chance)
            self._notice(chance.random() * 0.1 if chance.random() < soon else chance.uniform(60.0, 600.0))

    def drop_from_any_point(self, chance: random.Random) -> None:
        """Of the frames in flight from here, the first ones still arrive: none, all, or any number."""
        if not self._dropped:
            self._dropped = True
            self._passes = chance.randint(0, len(self._flight)) if chance.random() < 0.5 else 0

    def fall_silent(self) -> None:
        """Nothing from here passes any more, and this end notices after a while: TCP gets no acknowledgements."""
        if not self.over and not self._silent:
            self._silent = True
            self.drop_from_any_point(self._path.chance)
            self._notice(self._path.chance.uniform(*TIME_OUT_S))

    def hasten(self) -> None:
        """The path has become wider: what is on the line arrives sooner."""
        other, path, world = self.other, self._path, self._world
        received, begun = other.received_bytes, other._received_bytes
        other._received_bytes = received  # with the first part of a frame: the bytes never decrease
        other._coming.clear()
        self._pace += 1
        rate, at_s = path.bandwidth, world.now_s + path.delay_s
        for size in self._on_line:
            takes_s = size / rate if rate else 0.0
            if takes_s:
                path.slowed[self] = None
                other._coming.append((at_s, at_s + takes_s, max(0, size - (received - begun))))
                begun = received
            at_s += takes_s
            world.call_at(at_s, self._off_line, self._pace)
        self._last_s = at_s

    def lose_held(self) -> None:
        """TCP gave up on a frame that waited for the end of a cut: the connection breaks."""
        self._lose(self._flight.popleft())
        self._break()

    def arrive(self) -> None:
        """The next frame has arrived, unless it is lost or has to wait."""
        other = self.other
        if self._path.cut:
            self._path.held.append(self)
            if self._gives_up_in_cut != self._path.cuts:
                self._gives_up_in_cut = self._path.cuts
                after_s = self._path.chance.uniform(*TIME_OUT_S)
                self._world.call_at(self._world.now_s + after_s, self._give_up, self._path.cuts)
            return
        frame = self._flight.popleft()
        passes = not self._dropped and not other._broken
        if self._passes:
            self._passes -= 1
            passes = True
        if frame is None:
            if not other._broken:
                other.end("is closed by the peer")
        elif other.over or not passes:
            self._lose(frame)
            if other.over:
                self._notice(other._path.draw_delay_s())  # its kernel answers with a reset
        elif other._inbox_bytes < MAX_BUFFERED_BYTES and not other._waiting:
            other._deliver(frame)
        else:
            other._waiting.append(frame)

    def _fly(self, frame: bytes | None, arrives_s: float) -> None:
        self._flight.append(frame)
        self._on_line.append(0 if frame is None else len(frame) + HEADER_BYTES)
        self._world.call_at(arrives_s, self._off_line, self._pace)

    def _off_line(self, pace: int) -> None:
        if pace == self._pace:  # otherwise it has another time by now
            self._on_line.popleft()
            self.arrive()

    def _break(self) -> None:
        """The connection breaks at this point: nothing more from here arrives."""
        self._dropped, self._passes = True, 0
        for side in (self, self.other):
            side.break_off(self._path.chance)

    def _lose(self, frame: bytes | None) -> None:
        """A frame will not arrive. (None: the notice that this end is over. Then the other end does not learn it.)"""
        if frame is None:
            self.other.break_off(self._path.chance, soon=0.0)
        else:
            self._switch.counts["lost"] += 1
            self._trace(frame, "lost")
            self._on_left_buffer(frame)

    def _deliver(self, frame: bytes) -> None:
        self._inbox.append(frame)
        self._inbox_bytes += len(frame) + HEADER_BYTES
        self._switch.counts["received"] += 1
        self.other._on_left_buffer(frame)
        _wake(self._reader)

    def _on_left_buffer(self, frame: bytes) -> None:
        self._buffered -= len(frame) + HEADER_BYTES
        if self.writable:
            for waiter in self._writers:
                _wake(waiter)

    def _notice(self, after_s: float) -> None:
        self._world.call_at(self._world.now_s + after_s, self._noticed)

    def _noticed(self) -> None:
        self._dropped = True
        self.end("is found broken")

    def _give_up(self, cut: int) -> None:
        if self._path.cut and self._path.cuts == cut:
            self._noticed()

    def _trace(self, frame: bytes, kind: str) -> None:
        self._world.trace.add(self._world.now_s, kind, self.process.name, self._switch.describe(frame), self.peer)


def _wake(waiter: asyncio.Future[None] | None) -> None:
    if waiter is not None and not waiter.done():
        waiter.set_result(None)
