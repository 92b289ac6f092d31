"""Outbox: the segments of one task that are on their way to other tasks' mailboxes.

One outlet per target. An outlet whose target's gate is closed parks itself there, and the target pulls from it when it
has room: the task is blocked as long as any of its outlets is parked, and is told once, when the last is empty.

1. Order is kept per target.
2. An outlet on a feedback edge (inside a cycle) never waits: that is what keeps cycles from deadlock. What it adds is
   bounded by what is pending at the spouts.
3. A segment weighs its rows. One of columns weighs `max_piece` at the most, packed or not: a batch of a million rows
   fits too, and a mailbox holds no more of such batches than pieces.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

from ..actors import Inbox, MailboxClosedError
from ..topology import ColumnRows, Segment
from ..transport import PackedItems


class Outlet:
    """To one target task."""

    __slots__ = ("_mailbox", "_never_waits", "_outbox", "_parked", "_ready", "max_piece", "pack")

    def __init__(self, outbox: Outbox, mailbox: Inbox, never_waits: bool) -> None:
        self._outbox = outbox
        self._mailbox = mailbox
        self._never_waits = never_waits
        self._ready: deque[Segment] = deque()
        self._parked = False
        self.max_piece = mailbox.max_piece
        self.pack = mailbox.pack

    def fits(self, count: int) -> bool:
        """Is there room for so many tuples right now? More than `piece` need not be cut then."""
        mailbox = self._mailbox
        return not self._parked and mailbox.gate_open and mailbox.fill + count <= mailbox.limit

    @property
    def piece(self) -> int:
        """Rows that go together: see Inbox."""
        return self._mailbox.piece

    def send(self, segment: Segment) -> None:
        """Send now if there is room, else when there is; never waits."""
        if self._parked:
            self._ready.append(segment)
        elif not self._mailbox.offer(segment, self._weight(segment)):
            self._send_later(segment)

    @property
    def may_wait(self) -> int:
        """How many more tuples may be parked here so that the target takes all of them when it has room."""
        return max(0, self.max_piece - sum(map(self._weight, self._ready)))

    def next_piece(self) -> tuple[Any, int] | None:
        """Parked: the mailbox has room."""
        if not self._ready:
            return None
        segment = self._ready.popleft()
        return segment, self._weight(segment)

    def has_more(self) -> bool:
        """Parked: is there more? When not, the outlet is free again."""
        if self._ready:
            return True
        self._release()
        return False

    def refused(self, error: MailboxClosedError) -> None:
        """Parked: the target has ended."""
        for segment in self._ready:
            self._outbox.lost(segment, error)
        self._ready.clear()
        self._release()

    def _weight(self, segment: Segment) -> int:
        items = segment.items
        count = len(items)
        # Packed rows are never more. Packed columns weigh here what they weigh where they arrive: credit goes by it.
        return self.max_piece if count > self.max_piece and type(items) in (ColumnRows, PackedItems) else count

    def _send_later(self, segment: Segment) -> None:
        if self._never_waits and self._mailbox.force(segment, self._weight(segment)):
            return
        if self._mailbox.closed:
            self._outbox.lost(segment, MailboxClosedError("the target task has ended"))
            return
        self._ready.append(segment)
        self._parked = True
        self._outbox.blocked += 1
        self._mailbox.park(self)

    def _release(self) -> None:
        if self._parked:
            self._parked = False
            self._outbox.released()


class Outbox:
    """All outlets of one task. `on_room` is called when the last parked outlet has been emptied."""

    __slots__ = ("_on_room", "_outlets", "_waiters", "blocked", "lost")

    def __init__(self, on_room: Callable[[], None], lost: Callable[[Segment, MailboxClosedError], None]) -> None:
        self.blocked = 0
        self.lost = lost
        self._on_room = on_room
        self._outlets: dict[tuple[int, bool], Outlet] = {}
        self._waiters: list[asyncio.Future[None]] = []

    def outlet(self, target: int, mailbox: Inbox, *, never_waits: bool) -> Outlet:
        """The outlet to a task: one for all streams, so that their order is kept; feedback edges have their own."""
        found = self._outlets.get((target, never_waits))
        if found is None:
            found = self._outlets[target, never_waits] = Outlet(self, mailbox, never_waits)
        return found

    def may_wait(self, target: int) -> int:
        """See Outlet. 0 on a feedback edge: there nothing waits."""
        outlet = self._outlets.get((target, False))
        return 0 if outlet is None else outlet.may_wait

    def released(self) -> None:
        """An outlet is empty again."""
        self.blocked -= 1
        if not self.blocked:
            self._on_room()
            for waiter in self._waiters:
                if not waiter.done():
                    waiter.set_result(None)
            self._waiters.clear()

    async def room(self) -> None:
        """Wait until nothing is parked."""
        while self.blocked:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter
