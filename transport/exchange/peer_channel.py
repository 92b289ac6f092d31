"""PeerChannel: the traffic between this worker and one other: counters, credit, and the loss of the other worker.

    here: prepared ─► CREDIT (requests the other's) ═════► there: open, and answers
    open: messages and segments are sent; `sent` and `received` count
    stop_sending ─► died: the spouts are notified ─► restarted: everything starts again

exchange.py says what two workers guarantee each other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ...actors import Gate
from ..codec.payloads import PayloadKind, pack_payload
from ..codec.values import pack_value
from ..errors import ProtocolError
from ..link.send_queue import SendQueue
from .credit import split_capacity
from .receive_buffer import ReceiveBuffer, largest_piece
from .remote_mailbox import RemoteMailbox
from .segments import segments_body

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


@dataclass(frozen=True, slots=True)
class MessageCodec:
    """Encodes messages for control lanes. `unpack` returns (task id, message), or raises ProtocolError.

    `split` returns a message in parts that a link can carry. `types` are the classes, `kinds` the numbers that are
    second in an encoded message; `joined` needs both to combine codecs.
    """

    pack: Callable[[int, Any], bytes]
    unpack: Callable[[Any], tuple[int, Any]]
    split: Callable[[Any], Sequence[Any]] = lambda message: (message,)
    types: tuple[type[Any], ...] = ()
    kinds: tuple[int, ...] = ()


def joined(*codecs: MessageCodec) -> MessageCodec:
    """One codec for the messages of all these codecs."""
    by_type = {kind: codec for codec in codecs for kind in codec.types}
    by_kind = {kind: codec for codec in codecs for kind in codec.kinds}

    def pack(task_id: int, message: Any) -> bytes:
        codec = by_type.get(type(message))
        if codec is None:
            raise TypeError(f"{message!r} cannot be sent to another worker")
        return codec.pack(task_id, message)

    def unpack(item: Any) -> tuple[int, Any]:
        codec = None
        if isinstance(item, tuple) and len(item) > 1 and type(item[1]) is int:
            codec = by_kind.get(item[1])
        if codec is None:
            raise ProtocolError(f"not a message for a task: {item!r:.100}")
        return codec.unpack(item)

    def split(message: Any) -> Sequence[Any]:
        codec = by_type.get(type(message))
        return (message,) if codec is None else codec.split(message)

    return MessageCodec(pack, unpack, split, tuple(by_type), tuple(by_kind))


class PeerChannel:
    """The traffic with one peer. It is the gatherer of the control messages; `_Credits` gathers limits.

    `on_lost` is called once for each incarnation of the peer that ended, `on_idle` when no message waits any more.
    """

    def __init__(
        self,
        peer: str,
        send_queue: SendQueue,
        incarnation: int,
        *,
        codec: MessageCodec,
        on_lost: Callable[[], None],
        on_idle: Callable[[], None],
    ) -> None:
        self.peer = peer
        self.incarnation = incarnation  # 0: none has connected yet
        self.sent = 0
        self.received = 0
        self.receive_buffers: dict[int, ReceiveBuffer] = {}
        self._send_queue = send_queue
        self._codec = codec
        self._on_lost = on_lost
        self._on_idle = on_idle
        self._begun = False
        self._closed = False
        self._inboxes: dict[int, RemoteMailbox] = {}
        self._messages: deque[tuple[int, Any]] = deque()
        self._open = False  # its credit has arrived: it is prepared
        self._down = False  # it has died, and no other incarnation has connected yet
        self._loss_pending = False  # and the spouts here are not notified yet
        self._credits = _Credits(self)

    # -- out ---------------------------------------------------------------------------------------------------------

    def inbox(self, task_id: int, task: RemoteTask, senders: int) -> RemoteMailbox:
        """The remote mailbox of a task there."""
        own, _ = split_capacity(task.capacity, senders)
        theirs = Gate(own, task.high_mark, task.low_mark)  # sizes as in its real mailbox
        found = self._inboxes[task_id] = RemoteMailbox(
            task_id,
            self._send_queue,
            max_piece=largest_piece(theirs),
            capacity=task.capacity,
            posted=lambda message: self._post(task_id, message),
            counted=self._counted,
        )
        return found

    @property
    def is_open(self) -> bool:
        """Is the peer connected and prepared?"""
        return self._open

    @property
    def is_idle(self) -> bool:
        """Is nothing waiting here?"""
        return (
            not self._messages
            and all(inbox.is_empty for inbox in self._inboxes.values())
            and all(receive_buffers.is_empty for receive_buffers in self.receive_buffers.values())
        )

    def next_payload(self) -> bytes | None:
        """Messages for control lanes, up to TASK_BYTES."""
        messages = self._messages
        if not messages or not self._open:
            return None
        parts: list[bytes] = []
        size = 0
        while messages and size < TASK_BYTES:
            part = self._codec.pack(*messages.popleft())
            parts.append(part)
            size += len(part)
        if not messages:
            self._on_idle()
        return pack_payload(PayloadKind.TASK, 0, segments_body(parts))

    def _post(self, task_id: int, message: Any) -> None:
        if self._closed:
            return
        for part in self._codec.split(message):
            self._messages.append((task_id, part))
            self.sent += 1
        if self._open:
            self._send_queue.schedule(self)

    def _counted(self) -> None:
        self.sent += 1

    def close(self) -> None:
        """The tasks here end."""
        self._closed = True
        self._messages.clear()
        for inbox in self._inboxes.values():
            inbox.close()

    # -- credit ------------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """All tasks here are prepared."""
        self._begun = True
        self.announce_all()

    def announce_all(self) -> None:
        """Send every limit, and request the peer's if they are not known. Only once all tasks here are prepared."""
        if not self._begun:
            return
        self._credits.due.update(dict.fromkeys(self.receive_buffers))
        self._credits.must = True
        self._send_queue.schedule(self._credits)

    def announce(self, task_id: int) -> None:
        """A task here has entered or left a long call: send its entry at once."""
        if self._begun and not self._closed:
            self._credits.due[task_id] = None
            self._send_queue.schedule(self._credits)

    def on_credit(self, numbers: Any) -> None:
        """A CREDIT: 1 if it requests ours, then task, limit, nanoseconds a row, wanted, in a long call of each."""
        if (
            not isinstance(numbers, tuple)
            or len(numbers) % 5 != 1
            or any(type(number) is not int for number in numbers)
        ):
            raise ProtocolError("a CREDIT is an array of integers: 0 or 1, then five for each task")
        if self._down:
            return  # a late message of a process that has died
        requests, *rest = numbers
        for task_id, limit, row_ns, wanted, in_long_call in zip(*(rest[at::5] for at in range(5)), strict=True):
            inbox = self._inboxes.get(task_id)
            if inbox is None:
                raise ProtocolError(f"{self.peer} sends credit for task {task_id}, which is not one of its own")
            if not 0 <= row_ns <= MOST_ROW_NS or wanted < 1:
                raise ProtocolError(
                    f"{self.peer} sends for task {task_id} {row_ns} ns a row and {wanted} wanted tuples"
                )
            if in_long_call not in (0, 1):
                raise ProtocolError(f"{self.peer} sends {in_long_call} for task {task_id}: 1 means a long call, 0 none")
            inbox.grant(limit, row_ns / 1e9, wanted, in_long_call=bool(in_long_call))
        if not self._open:
            self._open = True
            if self._messages:
                self._send_queue.schedule(self)
        if requests:
            self.announce_all()

    def next_credit(self) -> bytes | None:
        """A CREDIT, if there is one to send."""
        gathered = self._credits
        if not gathered.due and not gathered.must:
            return None
        numbers: list[int] = [0 if self._open else 1]
        for task_id in gathered.due:
            receive_buffers = self.receive_buffers[task_id]
            numbers += (
                task_id,
                receive_buffers.next_limit(),
                _row_ns(receive_buffers.row_s),
                receive_buffers.wanted,
                int(receive_buffers.in_long_call),
            )
        gathered.due.clear()
        gathered.must = False
        return pack_payload(PayloadKind.CREDIT, 0, pack_value(tuple(numbers)))

    def accepted(self, receive_buffers: ReceiveBuffer, worth_sending: bool) -> None:
        """A mailbox here has taken a segment of the peer."""
        self.received += 1
        if worth_sending:
            self._credits.due[receive_buffers.task_id] = None
            self._send_queue.schedule(self._credits)

    # -- incarnations ------------------------------------------------------------------------------------------------

    def stop_sending(self) -> None:
        """The peer's process has ended: send nothing to it."""
        if self.incarnation and not self._down:
            self._down = self._loss_pending = True
            self._open = False
            for inbox in self._inboxes.values():
                inbox.sender_credit.restart()  # the link may not know yet: a frame that it took now would be lost

    def died(self) -> None:
        """The peer's process has ended, and all workers that send to it know."""
        self.stop_sending()
        if self._loss_pending:
            self._loss_pending = False
            self._on_lost()

    def restarted(self, incarnation: int, send_queue: SendQueue) -> None:
        """A new incarnation of the peer has connected."""
        self.died()
        self._send_queue = send_queue
        self.incarnation, self._down, self._open = incarnation, False, False
        # what still waits came from the previous incarnation
        self.received = -sum(receive_buffers.waiting for receive_buffers in self.receive_buffers.values())
        self.sent = len(self._messages)
        for inbox in self._inboxes.values():
            inbox.restarted(send_queue)
            self.sent += inbox.queued
        for receive_buffers in self.receive_buffers.values():
            receive_buffers.credit.restart()
        self.announce_all()


def _row_ns(row_s: float) -> int:
    """Whole nanoseconds; 0 only if not measured."""
    return min(max(1, round(row_s * 1e9)), MOST_ROW_NS) if row_s > 0 else 0


class _Credits:
    """Gathers the tasks whose limits are to be sent."""

    def __init__(self, peer_channel: PeerChannel) -> None:
        self.due: dict[int, None] = {}
        self.must = False
        self._peer_channel = peer_channel

    def next_payload(self) -> bytes | None:
        return self._peer_channel.next_credit()
