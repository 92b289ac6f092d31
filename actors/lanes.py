"""Lanes: the two queues of a mailbox, as a pure machine.

The data lane is bounded, and counted by weight (the weight of a segment is its number of tuples). The control lane is
served first and never refuses a message: it is bounded by what is pending elsewhere, and its messages must always get
through, or there could be a deadlock.

    fill > high: the gate closes          closed: offers are refused, senders park
    fill <= low: the gate opens           opening: pieces are pulled from parked senders, one from each in turn

1. `fill` is the total weight in the data lane. It never exceeds `capacity`: the gate alone ensures this, because no
   piece weighs more than the capacity above the high mark (`max_piece`). A heavier piece is an error of the sender,
   unless the sender has checked that all of it fits. Only `force` (edges inside a cycle) may exceed the capacity.
2. Senders are parked only while the gate is closed, so no sender overtakes a parked one.
3. Parked senders are served in turn, one piece each; the pieces of one sender stay in order.
4. No accepted message is lost: it is taken, or returned by `remove_all`. Messages posted after the end go to `on_late`.
5. The reader may set a `limit` below the capacity: the marks are then shares of the limit, and senders send pieces of
   `piece` rows. Messages in the mailbox stay, and heavier pieces (up to `max_piece`) still fit.
6. `row_s` and `in_long_call` are written by the reader and read by senders; nothing here depends on them.

Storm has one Disruptor queue per executor with an overflow list; the marks are its high and low water marks of
backpressure. Pulling from parked senders in turn is ours: no sender starves another, and no sender wakes up in vain.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Final, Protocol

from .errors import MailboxClosedError


class ParkedSender(Protocol):
    """A sender that waits for free capacity, and keeps its pieces meanwhile."""

    def next_piece(self) -> tuple[Any, int] | None:
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
    """A bounded data queue and a control queue, with a gate between two marks. It never waits: see `Mailbox`."""

    __slots__ = (
        "_control",
        "_data",
        "_marks",
        "_parked",
        "capacity",
        "close_reason",
        "closed",
        "closings",
        "fill",
        "gate_open",
        "high",
        "in_long_call",
        "largest_piece",
        "limit",
        "low",
        "max_piece",
        "on_late",
        "on_long_call",
        "piece",
        "row_s",
    )

    def __init__(self, capacity: int, high_mark: float = 0.8, low_mark: float = 0.2) -> None:
        if capacity < 1:
            raise ValueError(f"a mailbox needs a capacity of at least 1, not {capacity}")
        if not 0.0 <= low_mark < high_mark <= 1.0:
            raise ValueError(f"marks must satisfy 0 <= low < high <= 1, not low={low_mark}, high={high_mark}")
        self.capacity = capacity
        self._marks = high_mark, low_mark
        self.limit = self.high = self.low = self.piece = 0
        self._apply_limit(capacity)
        self.max_piece = self.piece
        self.largest_piece = capacity - self.low  # fits once the fill is at the low mark, whatever the limit
        self.fill = 0
        self.row_s = 0.0  # the reader's measured seconds of work for a row; 0: not measured yet
        self.in_long_call = False  # the reader is in one long call: rows for any task go to other tasks
        self.on_long_call: Callable[[], None] | None = None  # called on each change, to notify senders elsewhere
        self.gate_open = True
        self.closings = 0  # how often the gate has closed
        self.closed = False
        self.close_reason = "the mailbox is closed"
        self.on_late: Callable[[Any], None] | None = None
        self._control: deque[Any] = deque()
        self._data: deque[tuple[int, Any]] = deque()
        self._parked: deque[ParkedSender] = deque()

    @property
    def has_control(self) -> bool:
        """Is there a control message?"""
        return bool(self._control)

    @property
    def has_data(self) -> bool:
        """Is there a data message?"""
        return bool(self._data)

    def waiting(self) -> Iterator[Any]:
        """The messages of the data lane in order; they stay in it."""
        return (item for _, item in self._data)

    @property
    def parked(self) -> int:
        """The number of senders that wait for free capacity."""
        return len(self._parked)

    @property
    def is_high(self) -> bool:
        """Did it pass its high mark without having come down to its low mark since?"""
        return not self.gate_open

    def offer(self, item: Any, weight: int = 1) -> bool:
        """Accept a piece if the gate is open; never waits. False also when closed (see `closed`).

        ValueError for a piece that would exceed the capacity; no piece of up to `max_piece` does.
        """
        if not self.gate_open:
            return False
        fill = self.fill + weight
        if fill > self.high:
            self._accept_last(fill, weight)
        self.fill = fill
        self._data.append((weight, item))
        self._arrived()
        return True

    def force(self, item: Any, weight: int = 1) -> bool:
        """Accept a piece even if the gate is closed, for edges on which waiting could deadlock. False when closed."""
        if self.closed:
            return False
        self._data.append((weight, item))
        self.fill += weight
        if self.fill > self.high:
            self.gate_open = False
        self._arrived()
        return True

    def post(self, item: Any) -> None:
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
            if self.gate_open:
                self._pull()

    def close_gate(self) -> None:
        """Close the gate until the fill is at the low mark, for a sender whose piece does not fit now and which parks.

        A piece of up to `capacity - low` fits then, and no other message overtakes it meanwhile.
        """
        self.gate_open = False

    def set_limit(self, limit: int) -> None:
        """From now on, accept about `limit` tuples (1 to `capacity`)."""
        self._apply_limit(limit)
        if self.gate_open:
            self.gate_open = self.fill <= self.high
        elif self.fill <= self.low:
            self._open()

    def set_in_long_call(self, value: bool, /) -> None:
        """Set by the reader when one of its calls has become long, and when that call has ended."""
        if value != self.in_long_call:
            self.in_long_call = value
            if self.on_long_call is not None:
                self.on_long_call()

    def unpark(self, sender: ParkedSender) -> None:
        """Stop waiting, if the sender still waits."""
        with contextlib.suppress(ValueError):
            self._parked.remove(sender)

    def take(self) -> Any:
        """The next message, control before data; EMPTY if there is none."""
        if self._control:
            return self._control.popleft()
        return self.take_data()

    def take_control(self) -> Any:
        """The next control message; EMPTY if there is none."""
        return self._control.popleft() if self._control else EMPTY

    def take_data(self) -> Any:
        """The next data message; EMPTY if there is none."""
        if not self._data:
            return EMPTY
        weight, item = self._data.popleft()
        self.fill -= weight
        if not self.gate_open and self.fill <= self.low:
            self._open()
        return item

    def take_batch(self, limit: int) -> list[Any]:
        """Data messages until their weight reaches `limit`.

        A message is never cut: the last one may exceed the limit, by less than its own weight.
        """
        data = self._data
        batch: list[Any] = []
        taken = 0
        while data and taken < limit:
            weight, item = data.popleft()
            batch.append(item)
            taken += weight
        self.fill -= taken
        if not self.gate_open and self.fill <= self.low:
            self._open()
        return batch

    def close(self, reason: str = "the mailbox is closed") -> None:
        """Accept no more data; accepted messages stay. Parked senders are refused. The first reason is kept."""
        if not self.closed:
            self.closed = True
            self.close_reason = reason
        self.gate_open = False
        while self._parked:
            self._parked.popleft().refused(MailboxClosedError(self.close_reason))

    def remove_all(self) -> list[Any]:
        """Empty both lanes and return their messages, for the dead letters."""
        left = [*self._control, *(item for _, item in self._data)]
        self._control.clear()
        self._data.clear()
        self.fill = 0
        if not self.gate_open:
            self._open()
        return left

    def check_weight(self, weight: int) -> None:
        """ValueError if the piece may not fit: sent while the gate is open, it could exceed the capacity."""
        if weight > self.max_piece:
            raise ValueError(
                f"a piece of {weight} tuples is more than this mailbox accepts at once ({self.max_piece}, with a "
                f"capacity of {self.capacity}): send smaller pieces, or give the mailbox a larger capacity"
            )

    def _apply_limit(self, limit: int) -> None:
        high_mark, low_mark = self._marks
        self.limit = limit
        self.high = min(int(limit * high_mark), limit - 1)
        self.low = min(int(limit * low_mark), self.high)
        self.piece = limit - self.high

    def _accept_last(self, fill: int, weight: int) -> None:
        if fill > self.capacity:
            self.check_weight(weight)
        self.gate_open = False
        self.closings += 1

    def _open(self) -> None:
        if not self.closed:
            self.gate_open = True
            if self._parked:
                self._pull()

    def _pull(self) -> None:
        parked = self._parked
        while parked and self.gate_open:
            sender = parked.popleft()
            piece = sender.next_piece()
            if piece is None:
                continue
            self.offer(*piece)
            if sender.has_more():
                parked.append(sender)

    def _arrived(self) -> None:
        """A message was accepted. Mailbox wakes its reader."""
