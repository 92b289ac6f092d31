"""Mailbox: lanes with waiting.

One reader, many senders. The reader waits on a single future that exists only while it waits: this is two to three
times cheaper than `asyncio.Queue`, which makes a future for every wait on either side.

1. No wake-up is lost: the reader checks the lanes and starts waiting without yielding to the event loop in between, and
   every sender that adds a message wakes the reader.
2. A waiting sender ends in one of three ways: accepted, refused (the mailbox has closed) or cancelled. Only a sender
   that is cancelled in the same iteration in which it was accepted does not learn which of the two came first.
3. Everything happens in the reader's event loop: another thread must use `loop.call_soon_threadsafe`.
4. While the reader waits in `wait_steps`, data makes its step ready instead of waking it (see dispatcher.py). Control
   messages and `wake` wake it as usual.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from .errors import MailboxClosedError
from .lanes import EMPTY, Lanes

if TYPE_CHECKING:
    from .dispatcher import Stepper
    from .messages import Message


class Mailbox(Lanes):
    """The bounded mailbox of one actor. `loop` is the event loop of its reader."""

    __slots__ = ("_loop", "_owner", "_stepper", "_waiter")

    pack = None  # messages stay in this process

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
        self._owner: str | None = None
        self._stepper: Stepper | None = None

    def claim(self, owner: str) -> None:
        """Reserve the mailbox for one actor: two readers would take each other's wake-ups."""
        if self._owner is not None:
            raise ValueError(f"a mailbox has one reader: {self._owner} uses this one, give {owner} its own")
        self._owner = owner

    async def put(self, item: Message, weight: int = 1) -> None:
        """Put a piece into the mailbox; wait for free capacity. MailboxClosedError if the mailbox closes first.

        If the call is cancelled while it waits, the piece was not accepted, unless that had just happened.
        """
        if not self.offer(item, weight):
            await self._put_slowly(item, weight)

    async def wait(self) -> None:
        """Wait until there is a message or `wake` is called. Only the reader may call this."""
        if self._control or self._data:
            return
        await self.wait_next()

    async def wait_next(self) -> None:
        """Wait for the next message or `wake`, even if there are messages already. Only the reader may call this."""
        waiter = self._waiter = self._loop.create_future()  # None again once it is woken: later messages skip it
        try:
            await waiter
        finally:
            self._waiter = None

    async def wait_steps(self, stepper: Stepper, *, ready: bool) -> None:
        """Wait for a control message or `wake`; data makes the step ready. `ready`: make it ready at once.

        Only the reader may call this.
        """
        self._stepper = stepper
        if ready:
            stepper.ready()
        try:
            await self.wait_next()
        finally:
            self._stepper = None

    def takes_steps(self) -> bool:
        """Does the reader sleep in `wait_steps`, and is no wake-up pending?"""
        return self._stepper is not None and self._waiter is not None and not self._waiter.done()

    @property
    def reader_waits(self) -> bool:
        """Does the reader sleep, and is no wake-up pending?"""
        return self._waiter is not None and not self._waiter.done()

    def wake(self) -> None:
        """Wake the reader without a message (free capacity elsewhere, a new state)."""
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            self._waiter = None
            waiter.set_result(None)

    def offer(self, item: Message, weight: int = 1) -> bool:
        """Accept a piece if the gate is open; never waits. (Lanes.offer, inlined for speed.)"""
        gate = self.gate
        if not gate.is_open:
            return False
        fill = gate.fill + weight
        if fill > gate.high:
            gate.accept_last(fill, weight)
        gate.fill = fill
        self._data.append((weight, item))
        if self._stepper is not None:
            self._stepper.ready()
            return True
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            self._waiter = None
            waiter.set_result(None)
        return True

    def take(self) -> Message:
        """The next message, control before data; EMPTY if there is none. (Inlined.)"""
        if self._control:
            return self._control.popleft()
        data = self._data
        if not data:
            return EMPTY
        weight, item = data.popleft()
        gate = self.gate
        gate.fill -= weight
        if not gate.is_open and gate.fill <= gate.low:
            self._open()
        return item

    def post(self, item: Message) -> None:
        """Put a message on the control lane; never refused. (Inlined.)"""
        if self.on_late is not None:
            self.on_late(item)
            return
        self._control.append(item)
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            self._waiter = None
            waiter.set_result(None)

    async def _put_slowly(self, item: Message, weight: int) -> None:
        if self.closed:
            raise MailboxClosedError(self.close_reason)
        self.gate.check_weight(weight)
        parked = _ParkedMessage(item, weight, self._loop.create_future())
        self.park(parked)
        try:
            await parked.accepted
        except asyncio.CancelledError:
            # Accepted in the iteration in which we were cancelled: as if the cancellation had come just after.
            self.unpark(parked)
            raise

    def _arrived(self) -> None:
        if self._stepper is None:
            self.wake()
        else:
            self._stepper.ready()


class _ParkedMessage:
    """One message of a sender that waits for free capacity."""

    __slots__ = ("_piece", "accepted")

    def __init__(self, item: Message, weight: int, accepted: asyncio.Future[None]) -> None:
        self._piece: tuple[Message, int] | None = (item, weight)
        self.accepted = accepted

    def next_piece(self) -> tuple[Message, int] | None:
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
