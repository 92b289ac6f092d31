"""Exchange: what goes between the tasks of this worker and those of the others.

    task here ─► far inbox ─► courier ═ link ═ … ═► exchange there ─► arrivals ─► mailbox of the task
         credit ◄── CREDIT ◄────────────────────────┘
    task here ─► post ─► TASK: many messages in one payload ═════► control lane of the task

1. A worker's tasks begin and end with its exchange. Two exchanges begin to send when each has heard the other's CREDIT
   in this incarnation of both: so nothing comes to a worker that is not prepared. The first one asks for the other's.
2. Segments need credit (far_inbox.py, arrivals.py). Messages for control lanes do not: they are bounded by what is
   pending, and go before all data (courier.py). Many go in one payload: as many as wait when the link asks.
3. When a worker dies, what was under way to it and from it is lost. What waits here is kept for its next incarnation.
   `on_lost(peer)` is called once for each incarnation that ended: the spouts fail what they have open, so that nothing
   waits for its timeout.
4. `sent` and `received` count, for each peer, segments and control messages: sent when a task here has given it away,
   received when a mailbox here has it. Both begin anew with each incarnation of the peer; what waited here then is in
   the new one's `sent`. Two workers are done with each other when one's `sent` is the other's `received`, both ways
   (and nothing is lost between two incarnations that live).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from ..actors import Lanes, Mailbox
from ..topology import Origin
from .arrivals import Arrivals, largest_piece
from .courier import Courier
from .credit import shares
from .errors import ProtocolError
from .far_inbox import FarInbox
from .payloads import PayloadKind, pack_payload
from .segments import segments_body, unpack_segments
from .sequence import PeerStarted
from .values import pack_value, unpack_value

TASK_BYTES: Final = 48 * 1024
"""A payload of messages is closed when it has so much: it is larger by less than one message."""


class PostOffice(Protocol):
    """What an exchange needs of the process that it is in: a Node is one."""

    def courier(self, peer: str) -> Courier:
        """The near end of the link to that peer: another one after the link was opened again. PeerLostError if none."""
        ...

    def handle(self, kind: PayloadKind, handler: Callable[[str, int, memoryview], None]) -> None:
        """Call this with each payload of that kind: (peer, target, body). ProtocolError ends that peer's connection."""
        ...

    def incarnation(self, peer: str) -> int:
        """The peer's, as far as it is known; else 0."""
        ...

    def on_peer(self, listener: Callable[[str, PeerStarted], None]) -> None:
        """Call this when a peer is a new incarnation, before anything that comes from it."""
        ...


@dataclass(frozen=True, slots=True)
class FarTask:
    """What one must know of a task elsewhere: its worker, and the capacity and marks of its mailbox."""

    worker: str
    capacity: int
    high_mark: float = 0.8
    low_mark: float = 0.2


@dataclass(frozen=True, slots=True)
class MessageCodec:
    """Messages for control lanes to and from bytes. `unpack` gives (task id, message), or raises ProtocolError.

    `split` gives a message in parts, each of which a link carries.
    """

    pack: Callable[[int, Any], bytes]
    unpack: Callable[[Any], tuple[int, Any]]
    split: Callable[[Any], Sequence[Any]] = lambda message: (message,)


class Exchange:
    """Of one worker. `mailboxes`: those of its tasks; `far`: the tasks elsewhere, by id; `capacities`: of its tasks.

    `origin_of(task, stream)` gives the origin of what a task elsewhere emits, or raises ProtocolError.
    """

    def __init__(
        self,
        worker: str,
        office: PostOffice,
        *,
        mailboxes: Mapping[int, Mailbox],
        capacities: Mapping[int, int],
        far: Mapping[int, FarTask],
        origin_of: Callable[[int, str], Origin],
        codec: MessageCodec,
        on_lost: Callable[[str], None],
        on_quiet: Callable[[], None],
    ) -> None:
        self.worker = worker
        self._office = office
        self.begun = False
        self.closed = False
        self._mailboxes = mailboxes
        self._origin_of = origin_of
        self._codec = codec
        self._on_lost = on_lost
        self._on_quiet = on_quiet
        peers = dict.fromkeys(task.worker for task in far.values())
        self._trades = {peer: Trade(self, peer, office.courier(peer), office.incarnation(peer)) for peer in peers}
        self.inboxes = {
            task_id: self._trades[task.worker].inbox(task_id, task, len(peers)) for task_id, task in far.items()
        }
        for trade in self._trades.values():
            for task_id, mailbox in mailboxes.items():
                _, quota = shares(capacities[task_id], len(peers))
                trade.arrivals[task_id] = Arrivals(task_id, mailbox, quota, trade.accepted)
        office.handle(PayloadKind.SEGMENTS, self._segments)
        office.handle(PayloadKind.CREDIT, self._credit)
        office.handle(PayloadKind.TASK, self._messages)
        office.on_peer(self._peer_started)

    def begin(self) -> None:
        """All tasks here take what comes: say so to every peer."""
        self.begun = True
        for trade in self._trades.values():
            trade.tell_all()

    @property
    def is_quiet(self) -> bool:
        """Does nothing wait here, in either direction?"""
        return all(trade.is_quiet for trade in self._trades.values())

    @property
    def sent(self) -> dict[str, int]:
        """Peer → what was given away for it, in this incarnation of both."""
        return {peer: trade.sent for peer, trade in self._trades.items()}

    @property
    def received(self) -> dict[str, int]:
        """Peer → what mailboxes here have got from it, in this incarnation of both."""
        return {peer: trade.received for peer, trade in self._trades.items()}

    def peer_gone(self, peer: str, incarnation: int) -> None:
        """The first half of `peer_died`: nothing more is sent to it. The spouts are told in the second half.

        A worker that fails its messages while another still sends to the dead may lose what it emits anew: an ack of
        the new tree goes to an acker that is no more. So all hear this before any hears that.
        """
        trade = self._trades.get(peer)
        if trade is not None and trade.incarnation == incarnation:
            trade.gone()

    def peer_died(self, peer: str, incarnation: int) -> None:
        """It is known that the peer's process has ended. Late news of one that was there before count for nothing."""
        trade = self._trades.get(peer)
        if trade is not None and trade.incarnation == incarnation:
            trade.died()
        elif trade is not None and not trade.incarnation:
            self.lost(peer)  # we have never met it, but others may have sent it what our trees need

    def close(self) -> None:
        """The tasks here end: nothing is sent any more."""
        self.closed = True
        for trade in self._trades.values():
            trade.close()

    # -- what comes --------------------------------------------------------------------------------------------------

    def _segments(self, peer: str, target: int, body: memoryview) -> None:
        trade = self._trades.get(peer)
        arrivals = None if trade is None else trade.arrivals.get(target)
        if trade is None or arrivals is None:
            if self.closed:
                return
            raise ProtocolError(f"{peer} sends segments to task {target}, which is not one of {self.worker}'s")
        arrivals.take(unpack_segments(body, self._origin_of))

    def _credit(self, peer: str, target: int, body: memoryview) -> None:
        trade = self._trades.get(peer)
        if trade is not None and not self.closed:
            trade.told(unpack_value(body))

    def _messages(self, peer: str, target: int, body: memoryview) -> None:
        trade = self._trades.get(peer)
        if trade is None:
            raise ProtocolError(f"{peer} has no task that speaks to one of {self.worker}'s")
        found = unpack_value(body)
        if not isinstance(found, tuple):
            raise ProtocolError("a payload of messages is an array")
        for item in found:
            task_id, message = self._codec.unpack(item)
            mailbox = self._mailboxes.get(task_id)
            if mailbox is None:
                raise ProtocolError(f"{peer} sends a message to task {task_id}, which is not one of {self.worker}'s")
            trade.received += 1
            mailbox.post(message)

    def _peer_started(self, peer: str, started: PeerStarted) -> None:
        trade = self._trades.get(peer)
        if trade is not None and not self.closed:
            trade.restarted(started.incarnation, self._office.courier(peer))

    # -- for a trade -------------------------------------------------------------------------------------------------

    def pack(self, task_id: int, message: Any) -> bytes:
        """A message for a control lane."""
        return self._codec.pack(task_id, message)

    def split(self, message: Any) -> Sequence[Any]:
        """The same in parts that a link carries."""
        return self._codec.split(message)

    def lost(self, peer: str) -> None:
        """An incarnation of a peer has ended."""
        self._on_lost(peer)

    def settled(self) -> None:
        """Something has left; perhaps nothing waits here any more."""
        self._on_quiet()


class Trade:
    """With one peer. It is itself the gatherer of the control messages; `_Credits` gathers limits."""

    def __init__(self, exchange: Exchange, peer: str, courier: Courier, incarnation: int) -> None:
        self.peer = peer
        self.incarnation = incarnation  # 0: none was there yet
        self.sent = 0
        self.received = 0
        self.arrivals: dict[int, Arrivals] = {}
        self._exchange = exchange
        self._courier = courier
        self._inboxes: dict[int, FarInbox] = {}
        self._messages: deque[tuple[int, Any]] = deque()
        self._open = False  # it has told its credit: it is prepared
        self._down = False  # it is known to have died, and no other has come yet
        self._untold = False  # and the spouts here do not know
        self._credits = _Credits(self)

    # -- out ---------------------------------------------------------------------------------------------------------

    def inbox(self, task_id: int, task: FarTask, senders: int) -> FarInbox:
        """What senders here see of a task there."""
        own, _ = shares(task.capacity, senders)
        theirs = Lanes(own, task.high_mark, task.low_mark)  # what its mailbox is like
        found = self._inboxes[task_id] = FarInbox(
            task_id,
            self._courier,
            max_piece=largest_piece(theirs),
            frame_tuples=task.capacity,
            posted=lambda message: self._post(task_id, message),
            counted=self._counted,
        )
        return found

    @property
    def is_quiet(self) -> bool:
        """Does nothing wait here?"""
        return (
            not self._messages
            and all(inbox.is_empty for inbox in self._inboxes.values())
            and all(arrivals.is_empty for arrivals in self.arrivals.values())
        )

    def next_payload(self) -> bytes | None:
        """Messages for control lanes, as many as go together. (See courier.Gatherer.)"""
        messages = self._messages
        if not messages or not self._open:
            return None
        parts: list[bytes] = []
        size = 0
        while messages and size < TASK_BYTES:
            part = self._exchange.pack(*messages.popleft())
            parts.append(part)
            size += len(part)
        if not messages:
            self._exchange.settled()
        return pack_payload(PayloadKind.TASK, 0, segments_body(parts))

    def _post(self, task_id: int, message: Any) -> None:
        if self._exchange.closed:
            return
        for part in self._exchange.split(message):
            self._messages.append((task_id, part))
            self.sent += 1
        if self._open:
            self._courier.urge(self)

    def _counted(self) -> None:
        self.sent += 1

    def close(self) -> None:
        """The tasks here end."""
        self._messages.clear()
        for inbox in self._inboxes.values():
            inbox.close()

    # -- credit ------------------------------------------------------------------------------------------------------

    def tell_all(self) -> None:
        """Tell every limit; ask for the peer's as long as they are not known. Not before all is prepared here."""
        if not self._exchange.begun:
            return
        self._credits.due.update(dict.fromkeys(self.arrivals))
        self._credits.must = True
        self._courier.urge(self._credits)

    def told(self, limits: Any) -> None:
        """The peer tells limits: (does it ask for ours?, task, limit, task, limit …)."""
        if not isinstance(limits, tuple) or len(limits) % 2 == 0 or any(type(number) is not int for number in limits):
            raise ProtocolError("a CREDIT is an array of whole numbers: 0 or 1, then task and limit in turn")
        if self._down:
            return  # a late word of one that has died
        asks, *pairs = limits
        for task_id, limit in zip(pairs[::2], pairs[1::2], strict=True):
            inbox = self._inboxes.get(task_id)
            if inbox is None:
                raise ProtocolError(f"{self.peer} tells what task {task_id} takes, which is not one of its own")
            inbox.grant(limit)
        if not self._open:
            self._open = True
            if self._messages:
                self._courier.urge(self)
        if asks:
            self.tell_all()

    def limits(self) -> bytes | None:
        """A CREDIT, if there is one to tell."""
        gathered = self._credits
        if not gathered.due and not gathered.must:
            return None
        told: list[int] = [0 if self._open else 1]
        for task_id in gathered.due:
            told += (task_id, self.arrivals[task_id].quota.tell())
        gathered.due.clear()
        gathered.must = False
        return pack_payload(PayloadKind.CREDIT, 0, pack_value(tuple(told)))

    def accepted(self, arrivals: Arrivals, worth_telling: bool) -> None:
        """A mailbox here has taken a segment."""
        self.received += 1
        if worth_telling:
            self._credits.due[arrivals.task_id] = None
            self._courier.urge(self._credits)

    # -- incarnations ------------------------------------------------------------------------------------------------

    def gone(self) -> None:
        """Its process has ended: send it nothing."""
        if self.incarnation and not self._down:
            self._down = self._untold = True
            self._open = False
            for inbox in self._inboxes.values():
                inbox.allowance.restart()  # the link may not know yet: what it took now would be lost unseen

    def died(self) -> None:
        """Its process has ended, and all that send to it know."""
        self.gone()
        if self._untold:
            self._untold = False
            self._exchange.lost(self.peer)

    def restarted(self, incarnation: int, courier: Courier) -> None:
        """A new incarnation of it has come."""
        self.died()
        self._courier = courier
        self.incarnation, self._down, self._open = incarnation, False, False
        self.received = -sum(arrivals.waiting for arrivals in self.arrivals.values())  # those are of the one before
        self.sent = len(self._messages)
        for inbox in self._inboxes.values():
            inbox.restarted(courier)
            self.sent += inbox.queued
        for arrivals in self.arrivals.values():
            arrivals.quota.restart()
        self.tell_all()


class _Credits:
    """Gathers the limits that are to be told."""

    def __init__(self, trade: Trade) -> None:
        self.due: dict[int, None] = {}
        self.must = False
        self._trade = trade

    def next_payload(self) -> bytes | None:
        return self._trade.limits()
