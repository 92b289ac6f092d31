"""Exchange: what goes between the tasks of this worker and those of the others.

    task here ─► far inbox ─► courier ═ link ═ … ═► exchange there ─► arrivals ─► mailbox of the task
         credit ◄── CREDIT ◄────────────────────────┘
    task here ─► post ─► TASK: many messages in one payload ═════► control lane of the task

1. A worker's tasks begin and end with its exchange. Two exchanges begin to send when each has heard the other's CREDIT
   in this incarnation of both: so nothing comes to a worker that is not prepared. The first one asks for the other's.
2. Segments need credit (far_inbox.py, arrivals.py). Messages for control lanes do not: they are bounded by what is
   pending, and go before all data (link/courier.py). Many go in one payload: as many as wait when the link asks.
3. When a worker dies, what was under way to it and from it is lost. What waits here is kept for its next incarnation.
   `on_lost(peer)` is called once for each incarnation that ended: the spouts fail what they have open, so that nothing
   waits for its timeout.
4. `sent` and `received` count, for each peer, segments and control messages: sent when a task here has given it away,
   received when a mailbox here has it. Both begin anew with each incarnation of the peer; what waited here then is in
   the new one's `sent`. Two workers are done with each other when one's `sent` is the other's `received`, both ways
   (and nothing is lost between two incarnations that live).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Protocol

from ...actors import Mailbox
from ...topology import Origin
from ..codec.payloads import PayloadKind
from ..codec.values import unpack_value
from ..errors import ProtocolError
from ..link.courier import Courier
from ..link.sequence import PeerStarted
from .arrivals import Arrivals
from .credit import shares
from .segments import unpack_segments
from .trade import FarTask, MessageCodec, Trade


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
        self.begun = False
        self.closed = False
        self._office = office
        self._mailboxes = mailboxes
        self._origin_of = origin_of
        self._codec = codec
        self._on_lost = on_lost
        self._worker_of = {task_id: task.worker for task_id, task in far.items()}
        peers = dict.fromkeys(task.worker for task in far.values())
        self._trades = {
            peer: Trade(
                peer,
                office.courier(peer),
                office.incarnation(peer),
                codec=codec,
                on_lost=partial(on_lost, peer),
                on_quiet=on_quiet,
            )
            for peer in peers
        }
        self.inboxes = {
            task_id: self._trades[task.worker].inbox(task_id, task, len(peers)) for task_id, task in far.items()
        }
        for trade in self._trades.values():
            for task_id, mailbox in mailboxes.items():
                _, quota = shares(capacities[task_id], len(peers))
                trade.arrivals[task_id] = Arrivals(task_id, mailbox, quota, trade.accepted)
        for task_id, mailbox in mailboxes.items():
            mailbox.on_stand = partial(self._stands, task_id)
        office.handle(PayloadKind.SEGMENTS, self._segments)
        office.handle(PayloadKind.CREDIT, self._credit)
        office.handle(PayloadKind.TASK, self._messages)
        office.on_peer(self._peer_started)

    def begin(self) -> None:
        """All tasks here take what comes: say so to every peer."""
        self.begun = True
        for trade in self._trades.values():
            trade.begin()

    def is_open(self, task_id: int) -> bool:
        """Does what is posted to a task go there now, and not wait for another life of its worker?"""
        worker = self._worker_of.get(task_id)
        return worker is None or self._trades[worker].is_open

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
            self._on_lost(peer)  # we have never met it, but others may have sent it what our trees need

    def close(self) -> None:
        """The tasks here end: nothing is sent any more."""
        self.closed = True
        for trade in self._trades.values():
            trade.close()

    def _stands(self, task_id: int) -> None:
        for trade in self._trades.values():
            trade.tell(task_id)

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
