"""PeerChannel: the traffic between this worker and one other: counters, credit, and the loss of the other worker.

    here: prepared ─► CREDIT (requests the other's) ═════► there: open, and answers
    open: messages and segments are sent; `sent` and `received` count

    WAITING ─► on_credit ─► OPEN ─► stop_sending ─► ENDED ─► died: the spouts are notified ─► LOST
       ▲                                                                                       │
       └────────────── restarted: another incarnation has connected, all starts again ◄────────┘

These gatherers take turns in the send queue: `_Messages` (for control lanes), `_Credits`, and each remote mailbox with
its segments. exchange.py says what two workers guarantee each other.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ...actors import Gate
from ..codec.payloads import PayloadKind, pack_payload
from ..codec.values import pack_value
from ..errors import ProtocolError
from .credit import split_capacity
from .remote_mailbox import RemoteMailbox
from .segments import segments_body

if TYPE_CHECKING:
    from ...actors import Message
    from ..codec import Received
    from ..codec.messages import MessageCodec, MessageCodecs
    from ..link.send_queue import SendQueue
    from .receive_buffer import ReceiveBuffer

TASK_BYTES: Final = 48 * 1024
"""A payload of messages is complete at this size; the last message may exceed it."""

MOST_ROW_NS: Final = 10**15
"""The longest time that a row is reported to take: eleven days."""


@dataclass(frozen=True, slots=True)
class RemoteTask:
    """A task of another worker: its worker, and the capacity and marks of its mailbox."""

    worker: str
    capacity: int
    high_mark: float = 0.8
    low_mark: float = 0.2


class Phase(enum.Enum):
    """What is known of the peer; the module draws it."""

    WAITING = enum.auto()
    OPEN = enum.auto()
    ENDED = enum.auto()
    LOST = enum.auto()


class PeerChannel:
    """The traffic with one peer. `incarnation`: 0 if none has connected yet. `build`: see Exchange.

    `on_lost` is called once for each incarnation of the peer that ended.
    """

    def __init__(
        self,
        peer: str,
        send_queue: SendQueue,
        incarnation: int,
        *,
        codecs: MessageCodecs,
        on_lost: Callable[[], None],
        build: int = 0,
    ) -> None:
        self.peer = peer
        self.build = build
        self.incarnation = incarnation
        self.phase = Phase.WAITING
        self.sent = 0
        self.received = 0
        self.receive_buffers: dict[int, ReceiveBuffer] = {}
        self.inboxes: dict[int, RemoteMailbox] = {}
        self.send_queue = send_queue
        self.messages = _Messages(self, codecs)
        self._credits = _Credits(self)
        self._on_lost = on_lost

    @property
    def is_open(self) -> bool:
        """Is the peer connected and prepared?"""
        return self.phase is Phase.OPEN

    @property
    def has_ended(self) -> bool:
        """Has the peer's incarnation ended, and no other one connected?"""
        return self.phase in (Phase.ENDED, Phase.LOST)

    @property
    def is_idle(self) -> bool:
        """Is nothing waiting here?"""
        return (
            not self.messages.waiting
            and all(inbox.is_empty for inbox in self.inboxes.values())
            and all(receive_buffer.is_empty for receive_buffer in self.receive_buffers.values())
        )

    # -- out ---------------------------------------------------------------------------------------------------------

    def add_inbox(self, task_id: int, task: RemoteTask, senders: int) -> RemoteMailbox:
        """Make the remote mailbox of a task there."""
        own, _ = split_capacity(task.capacity, senders)
        theirs = Gate(own, task.high_mark, task.low_mark)  # sizes as in its real mailbox
        found = RemoteMailbox(task_id, self, max_piece=theirs.largest_piece, capacity=task.capacity)
        self.inboxes[task_id] = found
        return found

    def post(self, task_id: int, message: Message) -> None:
        """Send a message to the control lane of a task there. TypeError if there is no codec for it."""
        codec = self.messages.codecs.by_type.get(type(message))
        if codec is None:
            raise TypeError(f"{message!r} cannot be sent to another worker")
        for part in codec.split(message):
            self.messages.waiting.append((codec, task_id, part))
            self.sent += 1
        if self.phase is Phase.OPEN:
            self.send_queue.schedule(self.messages)

    def close(self) -> None:
        """The tasks here end."""
        self.messages.waiting.clear()
        for inbox in self.inboxes.values():
            inbox.close()

    # -- credit ------------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """All tasks here are prepared: send credit from now on."""
        self._credits.begun = True
        self.announce_all()

    def announce_all(self) -> None:
        """Send every limit, and request the peer's if they are not known. Only once all tasks here are prepared."""
        self._credits.must = True
        self.announce(*self.receive_buffers)

    def announce(self, *task_ids: int) -> None:
        """Send the entries of these tasks here: their limits are worth it, or a long call has begun or ended."""
        if self._credits.begun:
            self._credits.due.update(dict.fromkeys(task_ids))
            self.send_queue.schedule(self._credits)

    def on_credit(self, numbers: Received) -> None:
        """A CREDIT: 1 if it requests ours, plus twice the build; then five numbers for each task.

        They are task, limit, nanoseconds a row, wanted tuples, and whether it is in a long call.
        """
        if (
            not isinstance(numbers, tuple)
            or len(numbers) % 5 != 1
            or any(type(number) is not int for number in numbers)
        ):
            raise ProtocolError(
                "a CREDIT is an array of integers: 0 or 1 plus twice the build, then five for each task"
            )
        head, *rest = numbers
        if self.phase in (Phase.ENDED, Phase.LOST) or head >> 1 != self.build:
            return  # a late message of a process that has died, or of tasks that do not belong to those here
        for task_id, limit, row_ns, wanted, in_long_call in zip(*(rest[at::5] for at in range(5)), strict=True):
            inbox = self.inboxes.get(task_id)
            if inbox is None:
                raise ProtocolError(f"{self.peer} sends credit for task {task_id}, which is not one of its own")
            if not 0 <= row_ns <= MOST_ROW_NS or wanted < 1:
                raise ProtocolError(
                    f"{self.peer} sends for task {task_id} {row_ns} ns a row and {wanted} wanted tuples"
                )
            if in_long_call not in (0, 1):
                raise ProtocolError(f"{self.peer} sends {in_long_call} for task {task_id}: 1 means a long call, 0 none")
            inbox.grant(limit, row_ns / 1e9, wanted, in_long_call=bool(in_long_call))
        self.phase = Phase.OPEN
        if self.messages.waiting:
            self.send_queue.schedule(self.messages)
        if head & 1:
            self.announce_all()

    def accepted(self, task_id: int, worth_sending: bool) -> None:
        """A mailbox here has taken a segment of the peer. Is a new limit worth sending?"""
        self.received += 1
        if worth_sending:
            self.announce(task_id)

    # -- incarnations ------------------------------------------------------------------------------------------------

    def stop_sending(self) -> None:
        """The peer's process has ended: send nothing to it."""
        if self.incarnation and self.phase in (Phase.WAITING, Phase.OPEN):
            self.phase = Phase.ENDED
            for inbox in self.inboxes.values():
                inbox.stop_sending()  # the link may not know yet: a frame that it took now would be lost

    def died(self) -> None:
        """The peer's process has ended, and all workers that send to it know."""
        self.stop_sending()
        if self.phase is Phase.ENDED:
            self.phase = Phase.LOST
            self._on_lost()

    def restarted(self, incarnation: int, send_queue: SendQueue) -> None:
        """A new incarnation of the peer has connected."""
        self.died()
        self.send_queue = send_queue
        self.incarnation, self.phase = incarnation, Phase.WAITING
        # what still waits came from the previous incarnation
        self.received = -sum(receive_buffer.waiting for receive_buffer in self.receive_buffers.values())
        self.sent = len(self.messages.waiting) + sum(inbox.queued for inbox in self.inboxes.values())
        for inbox in self.inboxes.values():
            inbox.restarted()
        for receive_buffer in self.receive_buffers.values():
            receive_buffer.credit.restart()
        self.announce_all()


class _Messages:
    """Gathers messages for control lanes. `on_idle` is called when none waits any more."""

    def __init__(self, channel: PeerChannel, codecs: MessageCodecs) -> None:
        self.codecs = codecs
        self.waiting: deque[tuple[MessageCodec, int, object]] = deque()
        self._channel = channel
        self.on_idle: Callable[[], None] | None = None

    def next_payload(self) -> tuple[bytes | None, bool]:
        """Messages, up to TASK_BYTES."""
        waiting = self.waiting
        if not waiting or self._channel.phase is not Phase.OPEN:
            return None, False
        parts: list[bytes] = []
        size = 0
        while waiting and size < TASK_BYTES:
            codec, task_id, message = waiting.popleft()
            part = codec.pack(task_id, message)
            parts.append(part)
            size += len(part)
        if not waiting and self.on_idle is not None:
            self.on_idle()
        return pack_payload(PayloadKind.TASK, 0, segments_body(parts)), bool(waiting)


class _Credits:
    """Gathers the tasks whose limits are to be sent."""

    def __init__(self, channel: PeerChannel) -> None:
        self.begun = False
        self.due: dict[int, None] = {}
        self.must = False
        self._channel = channel

    def next_payload(self) -> tuple[bytes | None, bool]:
        """A CREDIT, if there is one to send."""
        if not self.due and not self.must:
            return None, False
        numbers: list[int] = [2 * self._channel.build + (self._channel.phase is not Phase.OPEN)]
        for task_id in self.due:
            buffer = self._channel.receive_buffers[task_id]
            numbers += task_id, buffer.next_limit(), _row_ns(buffer.row_s), buffer.wanted, int(buffer.in_long_call)
        self.due.clear()
        self.must = False
        return pack_payload(PayloadKind.CREDIT, 0, pack_value(tuple(numbers))), False


def _row_ns(row_s: float) -> int:
    """Whole nanoseconds; 0 only if not measured."""
    return min(max(1, round(row_s * 1e9)), MOST_ROW_NS) if row_s > 0 else 0
