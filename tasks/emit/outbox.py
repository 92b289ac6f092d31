"""Outbox: what one task has sent and other tasks' mailboxes have not taken yet.

One outlet per target, made when it is first used: a thousand tasks before a thousand have a million pairs, and most of
them are never used. An outlet whose target's gate is closed parks itself there, and the target pulls from it when it
has capacity. Segments for one target wait in its outlet; rows that any of several targets may take wait for the group
(waiting.py), with an entry in the outlets of all of them.

1. Order is kept per target.
2. The task is blocked as long as a segment waits for its target, or rows for a group; it is notified once, when the
   last has been taken. A watermark blocks nothing, and at most one waits between two segments.
3. An outlet on a feedback edge (inside a cycle) never waits: that keeps cycles from a deadlock. What it adds is bounded
   by what is pending at the spouts.
4. A segment weighs its rows. A segment of columns weighs `max_piece` at most, packed or not: a batch of a million rows
   fits too, and a mailbox holds no more of such batches than pieces.
5. Behind a barrier an outlet holds what follows, until the target has the barrier of each of its sources (see
   state.Aligner). It counts as parked, so a full or held outlet blocks the task in the same way. A barrier says how
   many rows were handed to the target before it: they are counted here, when the target takes them.
6. Rows of a group for another worker are packed when the target takes them; the frames of that piece then belong to
   this target. They do not block: they are no more than one piece.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from ...actors import Inbox, MailboxClosedError
from ...topology import ColumnRows, Segment
from ...transport import PackedItems
from .waiting import Waiting

if TYPE_CHECKING:
    from ...actors import Pack


class _Watermark:
    """A segment that carries a watermark."""

    __slots__ = ("ms", "segment")

    def __init__(self, segment: Segment, ms: int) -> None:
        self.segment = segment
        self.ms = ms

    @staticmethod
    def of_ms(watermark: _Watermark) -> int:
        return watermark.ms


class _Barrier:
    """A barrier that waits for its target. `make(rows)` makes its segment."""

    __slots__ = ("make", "number")

    def __init__(self, number: int, make: Callable[[int], Segment]) -> None:
        self.number = number
        self.make = make


class Outlet:
    """To one target task. `inbox`: its mailbox, as seen by the sender; `parked`: something waits, or it holds.

    `rows`: so many were handed to the target; `held`: the barrier behind which it holds; 0: none.
    """

    __slots__ = (
        "_bound",
        "_never_waits",
        "_outbox",
        "_ready",
        "held",
        "inbox",
        "pack",
        "parked",
        "rows",
        "target",
    )

    def __init__(self, outbox: Outbox, target: int, mailbox: Inbox, never_waits: bool) -> None:
        self.target = target
        self.pack = mailbox.pack
        self._outbox = outbox
        self.inbox = mailbox
        self._never_waits = never_waits
        self._ready: deque[Segment | Waiting | _Watermark | _Barrier] = deque()
        self._bound: deque[Segment] = deque()  # the packed parts of one piece of a group: they are sent first
        self.parked = False
        self.rows = 0
        self.held = 0

    @property
    def piece(self) -> int:
        """Rows that are sent together: see Inbox."""
        return self.inbox.gate.piece

    @property
    def free_rows(self) -> int:
        """How many tuples the target takes right now, in one segment."""
        return 0 if self.parked else _free_rows(self.inbox)

    def send(self, segment: Segment) -> None:
        """Send now if the target has capacity, else later; never waits."""
        if not self.parked:
            items = segment.items
            # (Outlet._weight, inlined: this is the hot path.)
            weight = self._weight(segment) if type(items) in (ColumnRows, PackedItems) else len(items)
            if self.inbox.offer(segment, weight) or (
                self._never_waits and self.inbox.force(segment, weight)  # False: it is closed
            ):
                self.rows += segment.open
                return
        if self.inbox.closed:
            self._outbox.lost(segment, MailboxClosedError("the target task has ended"))
            return
        self._outbox.blocks()
        self._append(segment)

    def send_bound(self, segment: Segment) -> None:
        """Send one part of a packed piece for which the target has capacity."""
        if self.parked or not self.inbox.offer(segment, self._weight(segment)):
            self._bound.append(segment)
            self._park()
        else:
            self.rows += segment.open

    def send_watermark(self, segment: Segment, watermark_ms: int) -> None:
        """Send a watermark after all that was sent before. Waiting watermarks with no row between them become one."""
        if not self.parked and self.inbox.offer(segment, 1):
            return
        kept: deque[Segment | Waiting | _Watermark | _Barrier] = deque()
        for entry in (*self._ready, _Watermark(segment, watermark_ms)):
            if isinstance(entry, Waiting) and entry.is_empty:
                entry.passed(self.target)
                continue
            if isinstance(entry, _Watermark) and kept and isinstance(last := kept[-1], _Watermark):
                kept[-1] = max(last, entry, key=_Watermark.of_ms)
                continue
            if isinstance(entry, _Watermark) and kept and isinstance(last := kept[-1], Waiting):
                last.sealed = True
            kept.append(entry)
        self._ready = kept
        self._park()

    def send_barrier(self, number: int, make: Callable[[int], Segment]) -> None:
        """Send a barrier after all that was sent before, and hold what follows. Not on an edge inside a cycle."""
        if not self.parked and self.inbox.offer(make(self.rows), 1):
            self.held, self.parked = number, True
        elif not self.inbox.closed:
            self._append(_Barrier(number, make))

    def release(self, number: int) -> None:
        """The target has received this barrier from all its sources: send what was held."""
        if self.held != number:
            return
        self.held = 0
        self.parked = bool(self._ready or self._bound)
        if self.parked:
            self.inbox.park(self)

    def abort(self, number: int) -> None:
        """The snapshot was given up: barriers up to this number are not sent, and hold nothing."""
        if any(type(entry) is _Barrier and entry.number <= number for entry in self._ready):
            self._ready = deque(e for e in self._ready if not (type(e) is _Barrier and e.number <= number))
        if 0 < self.held <= number:
            self.release(self.held)

    def wait_for(self, waiting: Waiting) -> None:
        if self.inbox.closed:
            waiting.refused(self.target, MailboxClosedError("the target task has ended"))
        else:
            self._append(waiting)

    def next_piece(self) -> tuple[Segment, int] | None:
        """Parked: the mailbox has capacity."""
        ready, mailbox = self._ready, self.inbox
        if self._bound:
            return self._weighed(self._bound.popleft())
        while ready:
            entry = ready[0]
            if isinstance(entry, Waiting):
                piece = entry.take(self.target, mailbox.gate.piece)
                if piece is None:
                    ready.popleft()
                    entry.passed(self.target)
                elif self.pack is None:
                    return self._weighed(piece)
                elif self._pack(piece):
                    return self._weighed(self._bound.popleft())
                continue
            ready.popleft()
            if isinstance(entry, _Watermark):
                return entry.segment, 1
            if isinstance(entry, _Barrier):
                self.held = entry.number
                return entry.make(self.rows), 1
            self._outbox.released()
            return self._weighed(entry)
        self.parked = False
        self._outbox.notify_unblocked()
        return None

    def has_more(self) -> bool:
        """Parked: is there more? If not, the outlet is free again."""
        self._outbox.notify_unblocked()
        if self.held:
            return False  # it stays parked
        ready = self._ready
        while ready and not self._bound:
            entry = ready[0]
            if type(entry) is not Waiting or not entry.is_empty:
                return True
            ready.popleft()
            entry.passed(self.target)
        self.parked = bool(self._bound)
        return self.parked

    def refused(self, error: MailboxClosedError) -> None:
        """Parked: the target has ended."""
        self.parked = False
        bound, self._bound = self._bound, deque()
        for segment in bound:
            self._outbox.lost(segment, error)
        ready, self._ready = self._ready, deque()
        for entry in ready:
            if type(entry) is Waiting:
                entry.refused(self.target, error)
            elif type(entry) is Segment:
                self._outbox.lost(entry, error)
                self._outbox.released()
        self._outbox.stir()

    def _append(self, entry: Segment | Waiting | _Watermark | _Barrier) -> None:
        """After all that waits; rows that are added to a group later come after this entry."""
        ready = self._ready
        while ready and type(last := ready[-1]) is Waiting:
            if not last.is_empty:
                last.sealed = True
                break
            ready.pop()
            last.passed(self.target)
        ready.append(entry)
        self._park()

    def _park(self) -> None:
        if not self.parked:
            self.parked = True
            self.inbox.park(self)

    def _pack(self, piece: Segment) -> bool:
        """Pack a piece of a group for another worker. Is there anything left of it?"""
        self._bound.extend(self._outbox.packed(self.pack, piece, self.target))  # type: ignore[arg-type] # called only with one
        return bool(self._bound)

    def _weighed(self, segment: Segment) -> tuple[Segment, int]:
        self.rows += segment.open
        return segment, self._weight(segment)

    def _weight(self, segment: Segment) -> int:
        items = segment.items
        count = len(items)
        # Packed rows are never more. Packed columns weigh the same here and at the receiver: credit counts by weight.
        if type(items) in (ColumnRows, PackedItems):
            return min(count, self.inbox.gate.max_piece)
        return count


class Outlets(dict[int, Outlet]):
    """The outlets of one task, by target: `outlets[target]` makes one that is missing.

    `passed_over`: was a target in a long call passed over, since this was last set to False?
    """

    __slots__ = ("_mailbox_of", "_never_waits", "_outbox", "passed_over")

    def __init__(self, outbox: Outbox, mailbox_of: Callable[[int], Inbox], *, never_waits: bool) -> None:
        super().__init__()
        self._outbox = outbox
        self._mailbox_of = mailbox_of
        self._never_waits = never_waits
        self.passed_over = False

    def __missing__(self, target: int) -> Outlet:
        found = self[target] = Outlet(self._outbox, target, self._mailbox_of(target), self._never_waits)
        return found

    def free_rows(self, target: int) -> int:
        """How many rows a target should get right now: none if it is in a long call (see Inbox)."""
        outlet = self.get(target)
        if outlet is None:
            inbox = self._mailbox_of(target)
            in_long_call, free_rows = inbox.reader.in_long_call, _free_rows(inbox)
        else:
            in_long_call, free_rows = outlet.inbox.reader.in_long_call, outlet.free_rows
        if in_long_call:
            self.passed_over = True
            return 0
        return free_rows

    def free_rows_of_any(self, target: int) -> int:
        """How many rows a target takes right now. Makes no outlet: without one, nothing is parked."""
        outlet = self.get(target)
        return _free_rows(self._mailbox_of(target)) if outlet is None else outlet.free_rows


def _free_rows(inbox: Inbox) -> int:
    """How many tuples an inbox takes, in one segment, from a sender that is not parked there."""
    if inbox.is_high:
        return 0
    gate = inbox.gate
    return gate.limit - gate.fill if inbox.pack is None else gate.piece


class Outbox:
    """All outlets of one task: `feedback` for edges inside a cycle, which never wait, `outlets` for the others.

    Streams share them, so order is kept. `on_unblock` is called when nothing waits any more or something was lost,
    `on_block` when something begins to wait.

    `lost` is called with a segment that no target will take; `packed` with a packing function and the piece of a group
    for another worker, and the target: it returns the packed parts. `new_edge`: see waiting.py. `mailbox_of` gives the
    task's view of another task's mailbox.
    """

    __slots__ = (
        "_freed",
        "_on_block",
        "_on_unblock",
        "_unblocked",
        "blocked",
        "feedback",
        "lost",
        "new_edge",
        "outlets",
        "packed",
    )

    def __init__(
        self,
        on_unblock: Callable[[], None],
        lost: Callable[[Segment, MailboxClosedError], None],
        new_edge: Callable[[], int],
        packed: Callable[[Pack, Segment, int], list[Segment]],
        mailbox_of: Callable[[int], Inbox],
        on_block: Callable[[], None] = lambda: None,
    ) -> None:
        self.outlets = Outlets(self, mailbox_of, never_waits=False)
        self.feedback = Outlets(self, mailbox_of, never_waits=True)
        self.blocked = 0
        self._freed = False  # nothing waits any more, and the task was not notified yet
        self.lost = lost
        self.new_edge = new_edge
        self.packed = packed
        self._on_unblock = on_unblock
        self._on_block = on_block
        self._unblocked: asyncio.Event | None = None  # made for the first caller that waits: most tasks need none

    def edge(self, *, never_waits: bool) -> Outlets:
        """The outlets for an edge of the graph."""
        return self.feedback if never_waits else self.outlets

    def blocks(self) -> None:
        """Something begins to wait."""
        if not self.blocked:
            self._on_block()
        self.blocked += 1
        self._freed = False

    def released(self) -> None:
        """It waits no more. The task is notified in `settle`, after the target, which has work then."""
        self.blocked -= 1
        self._freed = not self.blocked

    def notify_unblocked(self) -> None:
        """Notify the task if nothing waits any more."""
        if self._freed:
            self._freed = False
            self._on_unblock()
            if self._unblocked is not None:
                self._unblocked.set()

    def stir(self) -> None:
        """Something was lost: the task must inform the ackers, whatever else waits."""
        if self._freed:
            self.notify_unblocked()
        else:
            self._on_unblock()

    async def unblocked(self) -> None:
        """Wait until nothing waits that blocks."""
        while self.blocked:
            if self._unblocked is None:
                self._unblocked = asyncio.Event()
            self._unblocked.clear()
            await self._unblocked.wait()
