"""PeerChannel: what goes between this worker and one other: counts, credit, and what becomes of both when the other
dies.

    here: prepared ─► CREDIT (asks for the other's) ═════► there: open, and answers
    open: messages and segments go; `sent` and `received` count
    gone ─► nothing goes any more ─► died: who has something open is told ─► restarted: all begins anew

See exchange.py for what two workers promise each other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ...actors import Lanes
from ..codec.payloads import PayloadKind, pack_payload
from ..codec.values import pack_value
from ..errors import ProtocolError
from ..link.send_queue import SendQueue
from .credit import split_capacity
from .receive_buffer import ReceiveBuffer, largest_piece
from .remote_mailbox import RemoteMailbox
from .segments import segments_body

TASK_BYTES: Final = 48 * 1024
"""A payload of messages is closed when it has so much: it is larger by less than one message."""

MOST_ROW_NS: Final = 10**15
"""No row is said to take longer: eleven days."""


@dataclass(frozen=True, slots=True)
class RemoteTask:
    """What one must know of a task elsewhere: its worker, and the capacity and marks of its mailbox."""

    worker: str
    capacity: int
    high_mark: float = 0.8
    low_mark: float = 0.2


@dataclass(frozen=True, slots=True)
class MessageCodec:
    """Messages for control lanes to and from bytes. `unpack` gives (task id, message), or raises ProtocolError.

    `split` gives a message in parts, each of which a link carries. `types` are the classes, `kinds` the numbers that
    stand second in what is packed: by them several codecs can be one (see `joined`).
    """

    pack: Callable[[int, Any], bytes]
    unpack: Callable[[Any], tuple[int, Any]]
    split: Callable[[Any], Sequence[Any]] = lambda message: (message,)
    types: tuple[type[Any], ...] = ()
    kinds: tuple[int, ...] = ()


def joined(*codecs: MessageCodec) -> MessageCodec:
    """One codec for the messages of all of them."""
    by_type = {kind: codec for codec in codecs for kind in codec.types}
    by_kind = {kind: codec for codec in codecs for kind in codec.kinds}

    def pack(task_id: int, message: Any) -> bytes:
        codec = by_type.get(type(message))
        if codec is None:
            raise TypeError(f"{message!r} does not travel to another worker")
        return codec.pack(task_id, message)

    def unpack(item: Any) -> tuple[int, Any]:
        codec = None
        if isinstance(item, tuple) and len(item) > 1 and type(item[1]) is int:
            codec = by_kind.get(item[1])
        if codec is None:
            raise ProtocolError(f"no message for a task: {item!r:.100}")
        return codec.unpack(item)

    def split(message: Any) -> Sequence[Any]:
        codec = by_type.get(type(message))
        return (message,) if codec is None else codec.split(message)

    return MessageCodec(pack, unpack, split, tuple(by_type), tuple(by_kind))


class PeerChannel:
    """With one peer. It is itself the gatherer of the control messages; `_Credits` gathers limits.

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
        self.incarnation = incarnation  # 0: none was there yet
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
        self._open = False  # it has told its credit: it is prepared
        self._down = False  # it is known to have died, and no other has come yet
        self._untold = False  # and the spouts here do not know
        self._credits = _Credits(self)

    # -- out ---------------------------------------------------------------------------------------------------------

    def inbox(self, task_id: int, task: RemoteTask, senders: int) -> RemoteMailbox:
        """What senders here see of a task there."""
        own, _ = split_capacity(task.capacity, senders)
        theirs = Lanes(own, task.high_mark, task.low_mark)  # what its mailbox is like
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
        """Is the peer there, and prepared?"""
        return self._open

    @property
    def is_idle(self) -> bool:
        """Does nothing wait here?"""
        return (
            not self._messages
            and all(inbox.is_empty for inbox in self._inboxes.values())
            and all(receive_buffers.is_empty for receive_buffers in self.receive_buffers.values())
        )

    def next_payload(self) -> bytes | None:
        """Messages for control lanes, as many as go together. (See send_queue.Gatherer.)"""
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
        self.tell_all()

    def tell_all(self) -> None:
        """Tell every limit; ask for the peer's as long as they are not known. Not before all is prepared here."""
        if not self._begun:
            return
        self._credits.due.update(dict.fromkeys(self.receive_buffers))
        self._credits.must = True
        self._send_queue.schedule(self._credits)

    def tell(self, task_id: int) -> None:
        """A task here has come to stand, or stands no more: that does not wait until its limit is worth a message."""
        if self._begun and not self._closed:
            self._credits.due[task_id] = None
            self._send_queue.schedule(self._credits)

    def told(self, limits: Any) -> None:
        """The peer tells limits: (does it ask for ours?, then each task, limit, nanoseconds a row, room, stands)."""
        if not isinstance(limits, tuple) or len(limits) % 5 != 1 or any(type(number) is not int for number in limits):
            raise ProtocolError("a CREDIT is an array of whole numbers: 0 or 1, then five for each task")
        if self._down:
            return  # a late word of one that has died
        asks, *rest = limits
        for task_id, limit, row_ns, room, in_long_call in zip(*(rest[at::5] for at in range(5)), strict=True):
            inbox = self._inboxes.get(task_id)
            if inbox is None:
                raise ProtocolError(f"{self.peer} tells what task {task_id} takes, which is not one of its own")
            if not 0 <= row_ns <= MOST_ROW_NS or room < 1:
                raise ProtocolError(
                    f"{self.peer} says that a row takes task {task_id} {row_ns} ns, and that it wants {room}"
                )
            if in_long_call not in (0, 1):
                raise ProtocolError(
                    f"{self.peer} says {in_long_call} where 1 means that task {task_id} is in one call, else 0"
                )
            inbox.grant(limit, row_ns / 1e9, room, in_long_call=bool(in_long_call))
        if not self._open:
            self._open = True
            if self._messages:
                self._send_queue.schedule(self)
        if asks:
            self.tell_all()

    def limits(self) -> bytes | None:
        """A CREDIT, if there is one to tell."""
        gathered = self._credits
        if not gathered.due and not gathered.must:
            return None
        told: list[int] = [0 if self._open else 1]
        for task_id in gathered.due:
            receive_buffers = self.receive_buffers[task_id]
            told += (
                task_id,
                receive_buffers.tell(),
                _row_ns(receive_buffers.row_s),
                receive_buffers.room,
                int(receive_buffers.in_long_call),
            )
        gathered.due.clear()
        gathered.must = False
        return pack_payload(PayloadKind.CREDIT, 0, pack_value(tuple(told)))

    def accepted(self, receive_buffers: ReceiveBuffer, worth_telling: bool) -> None:
        """A mailbox here has taken a segment."""
        self.received += 1
        if worth_telling:
            self._credits.due[receive_buffers.task_id] = None
            self._send_queue.schedule(self._credits)

    # -- incarnations ------------------------------------------------------------------------------------------------

    def gone(self) -> None:
        """Its process has ended: send it nothing."""
        if self.incarnation and not self._down:
            self._down = self._untold = True
            self._open = False
            for inbox in self._inboxes.values():
                inbox.sender_credit.restart()  # the link may not know yet: what it took now would be lost unseen

    def died(self) -> None:
        """Its process has ended, and all that send to it know."""
        self.gone()
        if self._untold:
            self._untold = False
            self._on_lost()

    def restarted(self, incarnation: int, send_queue: SendQueue) -> None:
        """A new incarnation of it has come."""
        self.died()
        self._send_queue = send_queue
        self.incarnation, self._down, self._open = incarnation, False, False
        # those are of the one before
        self.received = -sum(receive_buffers.waiting for receive_buffers in self.receive_buffers.values())
        self.sent = len(self._messages)
        for inbox in self._inboxes.values():
            inbox.restarted(send_queue)
            self.sent += inbox.queued
        for receive_buffers in self.receive_buffers.values():
            receive_buffers.quota.restart()
        self.tell_all()


def _row_ns(row_s: float) -> int:
    """Whole nanoseconds; 0 only for what has not been measured."""
    return min(max(1, round(row_s * 1e9)), MOST_ROW_NS) if row_s > 0 else 0


class _Credits:
    """Gathers the limits that are to be told."""

    def __init__(self, peer_channel: PeerChannel) -> None:
        self.due: dict[int, None] = {}
        self.must = False
        self._peer_channel = peer_channel

    def next_payload(self) -> bytes | None:
        return self._peer_channel.limits()
