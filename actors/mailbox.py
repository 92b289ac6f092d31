"""Mailbox: lanes that can be waited for.

One reader, many senders. The reader's wake-up is a single future that exists only while it waits: that is two to three
times cheaper than `asyncio.Queue`, which makes a future for every wait on either side.

1. No wake-up is lost: the reader looks, and waits, without giving up the loop in between; whoever puts something in
   wakes it.
2. A sender that waits ends in one of three ways: accepted, refused (the mailbox has closed), cancelled. Only one that
   is cancelled in the very step in which it was accepted does not learn which it was.
3. Everything happens in the reader's event loop: another thread goes through `loop.call_soon_threadsafe`.
4. While the reader waits in `wait_steps`, data does not wake it but makes its step ready (see dispatcher.py). A control
   message and `nudge` wake it as ever.
"""

from __future__ import annotations

import asyncio
from typing import Any

from .dispatcher import Stepper
from .errors import MailboxClosedError
from .lanes import EMPTY, Lanes


class Mailbox(Lanes):
    """The bounded inbox of one actor. `loop` is the loop its reader runs in."""

    __slots__ = ("_loop", "_reader", "_stepper", "_waiter")

    pack = None  # what goes into it stays in this process

    def __init__(
        self,
        capacity: int,
        high_mark: float = 0.8,
        low_mark: float = 0.2,
        *,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(capacity, high_mark, low_mark)
        self._loop = loop or asyncio.get_running_loop()
        self._waiter: asyncio.Future[None] | None = None
        self._reader: str | None = None
        self._stepper: Stepper | None = None

    def claim(self, reader: str) -> None:
        """Be the mailbox of one actor and no other: two readers would steal each other's wake-ups."""
        if self._reader is not None:
            raise ValueError(f"a mailbox has one reader: this one is (or was) {self._reader}'s, give {reader} its own")
        self._reader = reader

    @property
    def reader(self) -> str | None:
        """The path of the actor whose mailbox it is (or was)."""
        return self._reader

    async def put(self, item: Any, weight: int = 1) -> None:
        """Accept a piece, waiting for room. MailboxClosedError if it closes first.

        Cancelled while it waits, the piece has not been accepted, unless that had just happened.
        """
        if not self.offer(item, weight):
            await self._put_slowly(item, weight)

    async def wait(self) -> None:
        """Wait until something is there or `nudge` is called. Only the reader may call it."""
        if self._control or self._data:
            return
        await self.wait_nudge()

    async def wait_nudge(self) -> None:
        """Wait for the next arrival or `nudge`, whatever is there already. Only the reader may call it."""
        waiter = self._waiter = self._loop.create_future()
        try:
            await waiter
        finally:
            self._waiter = None

    async def wait_steps(self, stepper: Stepper, *, ready: bool) -> None:
        """Wait for a control message or `nudge`; data makes the stepper ready. `ready`: it is already.

        Only the reader may call it.
        """
        self._stepper = stepper
        if ready:
            stepper.ready()
        try:
            await self.wait_nudge()
        finally:
            self._stepper = None

    def takes_steps(self) -> bool:
        """Does the reader sleep in `wait_steps`, with nothing on its way to wake it?"""
        return self._stepper is not None and self._waiter is not None and not self._waiter.done()

    @property
    def reader_waits(self) -> bool:
        """Does the reader sleep, with nothing on its way to wake it?"""
        return self._waiter is not None and not self._waiter.done()

    def nudge(self) -> None:
        """Wake the reader though nothing arrived (room elsewhere, a new state)."""
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def offer(self, item: Any, weight: int = 1) -> bool:
        """Accept a piece if the gate is open; never waits. (Lanes.offer, inlined: this is the hot path.)"""
        if not self.gate_open:
            return False
        fill = self.fill + weight
        if fill > self.high:
            self._close_gate(fill, weight)
        self.fill = fill
        self._data.append((weight, item))
        if self._stepper is not None:
            self._stepper.ready()
            return True
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)
        return True

    def take(self) -> Any:
        """See Lanes. (Inlined too.)"""
        if self._control:
            return self._control.popleft()
        if not self._data:
            return EMPTY
        weight, item = self._data.popleft()
        self.fill -= weight
        if not self.gate_open and self.fill <= self.low:
            self._open()
        return item

    def post(self, item: Any) -> None:
        """See Lanes. (Inlined too.)"""
        if self.late is not None:
            self.late(item)
            return
        self._control.append(item)
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    async def _put_slowly(self, item: Any, weight: int) -> None:
        if self.closed:
            raise MailboxClosedError(self.close_reason)
        self.check_weight(weight)
        parcel = _Parcel(item, weight, self._loop.create_future())
        self.park(parcel)
        try:
            await parcel.accepted
        except asyncio.CancelledError:
            # Accepted in the tick we were cancelled: the message is in, as if the cancel had come just after.
            self.unpark(parcel)
            raise

    def _arrived(self) -> None:
        if self._stepper is None:
            self.nudge()
        else:
            self._stepper.ready()


class _Parcel:
    """One message of a sender that waits for room."""

    __slots__ = ("_piece", "accepted")

    def __init__(self, item: Any, weight: int, accepted: asyncio.Future[None]) -> None:
        self._piece: tuple[Any, int] | None = (item, weight)
        self.accepted = accepted

    def next_piece(self) -> tuple[Any, int] | None:
        piece, self._piece = self._piece, None
        if self.accepted.done():
            return None
        self.accepted.set_result(None)
        return piece

    def has_more(self) -> bool:
        return False

    def refused(self, error: MailboxClosedError) -> None:
        if not self.accepted.done():
            self.accepted.set_exception(error)
