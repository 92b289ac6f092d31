"""Lanes: the two queues of a mailbox, as a pure machine.

The data lane is bounded, and counted by weight (the weight of a segment is its number of tuples). The control lane is
served first and never refuses a message: it is bounded by what is pending elsewhere, and its messages must always get
through, or there could be a deadlock.

    offer ─► gate open? ─ yes ─► data lane ─► take: the fill falls to the low mark ─► the gate opens
                 └─ no: the sender parks ◄── a piece of each in turn, until the gate is closed ─┘

1. The fill never exceeds the capacity (see Gate). A piece that is too heavy is an error of the sender, unless the
   sender has checked that all of it fits. Only `force` (edges inside a cycle) may exceed the capacity.
2. Senders are parked only while the gate is closed, so no sender overtakes a parked one.
3. Parked senders are served in turn, one piece each; the pieces of one sender stay in order.
4. No accepted message is lost: it is taken, or returned by `remove_all`. Messages posted after the end go to `on_late`.

Storm has one Disruptor queue per executor with an overflow list; the marks are its high and low water marks of
backpressure. Pulling from parked senders in turn is ours: no sender starves another, and no sender wakes up in vain.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, Protocol

from .errors import MailboxClosedError
from .gate import Gate
from .reader_state import ReaderState

if TYPE_CHECKING:
    from .messages import Message


class ParkedSender(Protocol):
    """A sender that waits for free capacity, and keeps its pieces meanwhile."""

    def next_piece(self) -> tuple[Message, int] | None:
        """The next piece and its weight; None if there are no more pieces."""
        ...

    def has_more(self) -> bool:
        """Is there another piece? If not, the mailbox forgets the sender, which should then notify its owner."""
        ...

    def refused(self, error: MailboxClosedError) -> None:
        """The mailbox has closed: the remaining pieces will never be accepted."""
        ...


class _Empty:
    def __repr__(self) -> str:
        return "EMPTY"


EMPTY: Final = _Empty()
"""Returned by `take` when there is no message (None is an ordinary message)."""


class Lanes:
    """A bounded data queue behind a gate, and a control queue. It never waits: see `Mailbox`."""

    __slots__ = ("_control", "_data", "_parked", "close_reason", "closed", "gate", "on_late", "reader")

    def __init__(self, capacity: int, high_mark: float = 0.8, low_mark: float = 0.2) -> None:
        self.gate = Gate(capacity, high_mark, low_mark)
        self.reader = ReaderState()
        self.closed = False
        self.close_reason = "the mailbox is closed"
        self.on_late: Callable[[Message], None] | None = None
        self._control: deque[Message] = deque()
        self._data: deque[tuple[int, Message]] = deque()
        self._parked: deque[ParkedSender] = deque()

    @property
    def has_control(self) -> bool:
        """Is there a control message?"""
        return bool(self._control)

    @property
    def has_data(self) -> bool:
        """Is there a data message?"""
        return bool(self._data)

    def waiting(self) -> Iterator[Message]:
        """The messages of the data lane in order; they stay in it."""
        return (item for _, item in self._data)

    @property
    def parked(self) -> int:
        """The number of senders that wait for free capacity."""
        return len(self._parked)

    @property
    def is_high(self) -> bool:
        """Did it pass its high mark without having come down to its low mark since?"""
        return not self.gate.is_open

    def offer(self, item: Message, weight: int = 1) -> bool:
        """Accept a piece if the gate is open; never waits. False also when closed (see `closed`).

        ValueError for a piece that would exceed the capacity; no piece of up to `gate.max_piece` does.
        """
        gate = self.gate
        if not gate.is_open:
            return False
        fill = gate.fill + weight
        if fill > gate.high:
            gate.accept_last(fill, weight)
        gate.fill = fill
        self._data.append((weight, item))
        self._arrived()
        return True

    def force(self, item: Message, weight: int = 1) -> bool:
        """Accept a piece even if the gate is closed, for edges on which waiting could deadlock. False when closed."""
        if self.closed:
            return False
        gate = self.gate
        self._data.append((weight, item))
        gate.fill += weight
        if gate.fill > gate.high:
            gate.is_open = False
        self._arrived()
        return True

    def post(self, item: Message) -> None:
        """Put a message on the control lane. It is never refused, even when the mailbox is closed: stopping needs it.

        When there is no reader any more, `on_late` is called with it.
        """
        if self.on_late is not None:
            self.on_late(item)
            return
        self._control.append(item)
        self._arrived()

    def park(self, sender: ParkedSender) -> None:
        """Wait for free capacity: pieces are pulled from the sender when the gate opens."""
        if self.closed:
            sender.refused(MailboxClosedError(self.close_reason))
        else:
            self._parked.append(sender)
            if self.gate.is_open:
                self._open()

    def set_limit(self, limit: int) -> None:
        """From now on, accept about `limit` tuples (1 to `capacity`)."""
        gate = self.gate
        gate.set_limit(limit)
        if not gate.is_open and gate.fill <= gate.low:
            self._open()

    def unpark(self, sender: ParkedSender) -> None:
        """Stop waiting, if the sender still waits."""
        with contextlib.suppress(ValueError):
            self._parked.remove(sender)

    def take(self) -> Message:
        """The next message, control before data; EMPTY if there is none."""
        if self._control:
            return self._control.popleft()
        return self.take_data()

    def take_control(self) -> Message:
        """The next control message; EMPTY if there is none."""
        return self._control.popleft() if self._control else EMPTY

    def take_data(self) -> Message:
        """The next data message; EMPTY if there is none."""
        if not self._data:
            return EMPTY
        weight, item = self._data.popleft()
        gate = self.gate
        gate.fill -= weight
        if not gate.is_open and gate.fill <= gate.low:
            self._open()
        return item

    def take_batch(self, limit: int) -> list[Message]:
        """Data messages until their weight reaches `limit`.

        A message is never cut: the last one may exceed the limit, by less than its own weight.
        """
        data = self._data
        batch: list[Message] = []
        taken = 0
        while data and taken < limit:
            weight, item = data.popleft()
            batch.append(item)
            taken += weight
        gate = self.gate
        gate.fill -= taken
        if not gate.is_open and gate.fill <= gate.low:
            self._open()
        return batch

    def close(self, reason: str = "the mailbox is closed") -> None:
        """Accept no more data; accepted messages stay. Parked senders are refused. The first reason is kept."""
        if not self.closed:
            self.closed = True
            self.close_reason = reason
        self.gate.close()
        while self._parked:
            self._parked.popleft().refused(MailboxClosedError(self.close_reason))

    def remove_all(self) -> list[Message]:
        """Empty both lanes and return their messages, for the dead letters."""
        left = [*self._control, *(item for _, item in self._data)]
        self._control.clear()
        self._data.clear()
        self.gate.fill = 0
        if not self.gate.is_open:
            self._open()
        return left

    def _open(self) -> None:
        """Open the gate, and serve parked senders in turn until it is closed again."""
        if self.closed:
            return
        gate, parked = self.gate, self._parked
        gate.is_open = True
        while parked and gate.is_open:
            sender = parked.popleft()
            piece = sender.next_piece()
            if piece is None:
                continue
            self.offer(*piece)
            if sender.has_more():
                parked.append(sender)

    def _arrived(self) -> None:
        """A message was accepted. Mailbox wakes its reader."""
