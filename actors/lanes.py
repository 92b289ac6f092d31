"""Lanes: the inside of a mailbox, as a pure machine.

Two queues. Data is counted in weight (a segment weighs as many tuples as it holds) and bounded; control is served
first and never refused: it is bounded by what is pending elsewhere, and it must always get through (that is the
deadlock rule).

    fill > high: the gate closes          closed: offers are refused, senders park
    fill <= low: the gate opens           opening: parked senders are pulled from, one piece each in turn

1. `fill` is the sum of the weights of the data that is in. It never exceeds `capacity`: the gate alone decides, and no
   piece weighs more than the room above the high mark (`max_piece`). A heavier one is an error of the sender, unless it
   has looked, and all of it fits. Only `force` (edges inside a cycle) may go over.
2. Senders are parked only while the gate is closed, so nobody overtakes one that is parked.
3. Parked senders are served in turn, one piece each; pieces of one sender stay in order.
4. Nothing accepted is lost: it is taken, or handed out by `remove_all`. What is posted after the end goes to `late`.
5. The reader may hold it to a `limit` below its capacity (`hold`): the marks are shares of that, and senders send
   pieces of `piece` rows then. What is in stays, and what is heavier (up to `max_piece`) fits all the same.
6. `row_s` and `stands` are written by the reader and read by senders; nothing in here depends on them.

Storm has one disruptor queue per executor with an overflow list; the marks are its backpressure high and low water
marks. Pulling from parked senders in turn is ours: no sender can starve another, and none wakes up in vain.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Final, Protocol

from .errors import MailboxClosedError


class Parked(Protocol):
    """A sender that waits for room, with its pieces still in hand."""

    def next_piece(self) -> tuple[Any, int] | None:
        """The next piece and its weight; None if there is none (any more)."""
        ...

    def has_more(self) -> bool:
        """Is there another piece? When not, the sender is let go (and should tell its owner)."""
        ...

    def refused(self, error: MailboxClosedError) -> None:
        """The mailbox has closed: the remaining pieces will never be accepted."""
        ...


class _Empty:
    def __repr__(self) -> str:
        return "EMPTY"


EMPTY: Final = _Empty()
"""What `take` returns when nothing is there (None is a message like any other)."""


class Lanes:
    """A bounded data queue and a control queue, with a gate between marks. No waiting in here: see `Mailbox`."""

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
        "largest_piece",
        "late",
        "limit",
        "low",
        "max_piece",
        "on_stand",
        "piece",
        "row_s",
        "stands",
    )

    def __init__(self, capacity: int, high_mark: float = 0.8, low_mark: float = 0.2) -> None:
        if capacity < 1:
            raise ValueError(f"a mailbox needs a capacity of at least 1, not {capacity}")
        if not 0.0 <= low_mark < high_mark <= 1.0:
            raise ValueError(f"marks must satisfy 0 <= low < high <= 1, not low={low_mark}, high={high_mark}")
        self.capacity = capacity
        self._marks = high_mark, low_mark
        self.limit = self.high = self.low = self.piece = 0
        self._set_limit(capacity)
        self.max_piece = self.piece
        self.largest_piece = capacity - self.low  # it fits once the mailbox is down at its low mark, whatever the limit
        self.fill = 0
        self.row_s = 0.0  # seconds that the reader works for a row, as it has measured; 0: not yet
        self.stands = False  # the reader is in one call for long: who may send to another does
        self.on_stand: Callable[[], None] | None = None  # called when that changes: it has to be told elsewhere
        self.gate_open = True
        self.closings = 0  # how often the gate has closed, since more came than goes
        self.closed = False
        self.close_reason = "the mailbox is closed"
        self.late: Callable[[Any], None] | None = None
        self._control: deque[Any] = deque()
        self._data: deque[tuple[int, Any]] = deque()
        self._parked: deque[Parked] = deque()

    @property
    def has_control(self) -> bool:
        """Is a control message there?"""
        return bool(self._control)

    @property
    def has_data(self) -> bool:
        """Is a data message there?"""
        return bool(self._data)

    def waiting(self) -> Iterator[Any]:
        """The data that is in, in order; it stays."""
        return (item for _, item in self._data)

    @property
    def parked(self) -> int:
        """How many senders wait for room."""
        return len(self._parked)

    @property
    def is_high(self) -> bool:
        """Is it past its high mark, or on the way down to its low mark?"""
        return not self.gate_open

    def offer(self, item: Any, weight: int = 1) -> bool:
        """Accept a piece if the gate is open; never waits. False also when closed (see `closed`).

        ValueError for a piece that goes past the capacity, which none of up to `max_piece` does.
        """
        if not self.gate_open:
            return False
        fill = self.fill + weight
        if fill > self.high:
            self._close_gate(fill, weight)
        self.fill = fill
        self._data.append((weight, item))
        self._arrived()
        return True

    def force(self, item: Any, weight: int = 1) -> bool:
        """Accept a piece whatever the fill: for the edges on which waiting could deadlock. False only when closed."""
        if self.closed:
            return False
        self._data.append((weight, item))
        self.fill += weight
        if self.fill > self.high:
            self.gate_open = False
        self._arrived()
        return True

    def post(self, item: Any) -> None:
        """Put a message on the control lane: never refused, not even when closed (stopping needs it).

        Once there is no reader any more, `late` is called with it.
        """
        if self.late is not None:
            self.late(item)
            return
        self._control.append(item)
        self._arrived()

    def park(self, sender: Parked) -> None:
        """Wait for room: pieces are pulled from the sender when the gate opens."""
        if self.closed:
            sender.refused(MailboxClosedError(self.close_reason))
        else:
            self._parked.append(sender)
            if self.gate_open:
                self._pull()

    def shut(self) -> None:
        """Close the gate until the fill is at the low mark: somebody parks who has a piece that does not fit now.

        A piece of up to `capacity - low` fits then, and nothing overtakes it meanwhile.
        """
        self.gate_open = False

    def hold(self, limit: int) -> None:
        """Let in about so many (1 to `capacity`) from now on."""
        self._set_limit(limit)
        if self.gate_open:
            self.gate_open = self.fill <= self.high
        elif self.fill <= self.low:
            self._open()

    def stand(self, *, stands: bool) -> None:
        """The reader comes to be in one call for long, or has come to its end."""
        if stands != self.stands:
            self.stands = stands
            if self.on_stand is not None:
                self.on_stand()

    def unpark(self, sender: Parked) -> None:
        """Stop waiting (if it still waits)."""
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

        A message is never cut: the last may go over, by less than its own weight.
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
        """Accept no more data; what was accepted stays. Parked senders are refused. The first reason is kept."""
        if not self.closed:
            self.closed = True
            self.close_reason = reason
        self.gate_open = False
        while self._parked:
            self._parked.popleft().refused(MailboxClosedError(self.close_reason))

    def remove_all(self) -> list[Any]:
        """Empty both lanes and hand out what was in them, for the dead letters."""
        left = [*self._control, *(item for _, item in self._data)]
        self._control.clear()
        self._data.clear()
        self.fill = 0
        if not self.gate_open:
            self._open()
        return left

    def check_weight(self, weight: int) -> None:
        """ValueError if a piece may not fit: one sent while the gate is open may go past the capacity."""
        if weight > self.max_piece:
            raise ValueError(
                f"a piece of {weight} is more than this mailbox takes at once ({self.max_piece}, of a capacity of "
                f"{self.capacity}): send it in smaller pieces, or give the mailbox a larger capacity"
            )

    def _set_limit(self, limit: int) -> None:
        high_mark, low_mark = self._marks
        self.limit = limit
        self.high = min(int(limit * high_mark), limit - 1)
        self.low = min(int(limit * low_mark), self.high)
        self.piece = limit - self.high

    def _close_gate(self, fill: int, weight: int) -> None:
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
        """Something was accepted; the mailbox wakes its reader."""
