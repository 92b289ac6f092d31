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

import contextvars
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ...transport import NetworkError
from .connection import SimConnection, wake

if TYPE_CHECKING:
    from ...transport import Connection
    from .incarnation import Incarnation
    from .switch import Path, Switch

CONNECT_TIMEOUT_S: Final = (1.0, 30.0)
"""How long `connect` waits for a cut path, before it times out."""


class SimNetwork:
    """The `Network` of one incarnation. Made by its process: `process.network`."""

    def __init__(self, incarnation: Incarnation, switch: Switch) -> None:
        self.incarnation = incarnation
        self.switch = switch
        self._name = incarnation.process.name
        self._chance = switch.world.chance.stream(f"connects {self._name}.{incarnation.number}")

    async def connect(self, address: str) -> Connection:
        target = address.partition(":")[0]
        there = self.switch.path(self._name, target)
        back = self.switch.path(target, self._name)
        await self._reach(address, there, back)
        await self._pause(there.draw_delay_s() + back.draw_delay_s())
        listener = self.switch.listeners.get(address)
        if listener is None or listener.incarnation is self.incarnation:
            self.switch.counts["refused"] += 1
            raise NetworkError(f"{address}: no listener there")
        mine = SimConnection(self.incarnation, there)
        theirs = SimConnection(listener.incarnation, back)
        mine.other, theirs.other = theirs, mine
        self.switch.plug(mine)
        self.switch.plug(theirs)
        self.switch.counts["connections"] += 1
        listener.incarnation.loop.call_soon(listener.on_connection, theirs, context=listener.context)
        return mine

    async def listen(self, address: str, accept: Callable[[Connection], None]) -> SimListener:
        name, _, port = address.partition(":")
        if name != self._name:
            raise NetworkError(f"{address}: an address of {self._name} begins with its name")
        if port == "0":
            address = f"{name}:{self.switch.new_port()}"
        if address in self.switch.listeners:
            raise NetworkError(f"{address}: there is a listener already")
        listener = SimListener(self, address, accept)
        if self.incarnation.alive:
            self.switch.listeners[address] = listener
        return listener

    def process_died(self, crashed: bool) -> None:
        """Its listeners and connections end with it."""
        self.switch.process_died(self._name, crashed=crashed)

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
        loop = self.incarnation.loop
        waiter = loop.create_future()
        world.call_at(world.now_s + for_s, wake, waiter)
        await waiter
        if not self.incarnation.alive:
            await loop.create_future()  # a dead process never continues


class SimListener:
    """Made by `SimNetwork.listen`: a `Listener`."""

    def __init__(self, network: SimNetwork, address: str, accept: Callable[[Connection], None]) -> None:
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
            self.incarnation.loop.call_exception_handler(
                {"message": f"accept of {self.address} failed", "exception": error}
            )

    def close(self) -> None:
        if self._network.switch.listeners.get(self.address) is self:
            del self._network.switch.listeners[self.address]
