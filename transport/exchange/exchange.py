"""Exchange: what goes between the tasks of this worker and those of the others.

    task here ─► remote mailbox ─► send queue ═ link ═ … ═► exchange there ─► receive buffers ─► mailbox of the task
         credit ◄── CREDIT ◄────────────────────────┘
    task here ─► post ─► TASK: many messages in one payload ═════► control lane of the task

1. A worker's tasks begin and end with its exchange. Two exchanges begin to send when each has heard the other's CREDIT
   in this incarnation of both: so nothing comes to a worker that is not prepared. The first one asks for the other's.
2. Segments need credit (remote_mailbox.py, receive_buffer.py). Messages for control lanes do not: they are bounded by
   what is pending, and go before all data (link/send_queue.py). Many go in one payload: as many as wait when the link
   asks.
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
from ..link.send_queue import SendQueue
from ..link.sequence import PeerStarted
from .credit import split_capacity
from .peer_channel import MessageCodec, PeerChannel, RemoteTask
from .receive_buffer import ReceiveBuffer
from .segments import unpack_segments


class PeerRouter(Protocol):
    """What an exchange needs of the process that it is in: a Node is one."""

    def send_queue(self, peer: str) -> SendQueue:
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
        router: PeerRouter,
        *,
        mailboxes: Mapping[int, Mailbox],
        capacities: Mapping[int, int],
        far: Mapping[int, RemoteTask],
        origin_of: Callable[[int, str], Origin],
        codec: MessageCodec,
        on_lost: Callable[[str], None],
        on_idle: Callable[[], None],
    ) -> None:
        self.worker = worker
        self.begun = False
        self.closed = False
        self._router = router
        self._mailboxes = mailboxes
        self._origin_of = origin_of
        self._codec = codec
        self._on_lost = on_lost
        self._worker_of = {task_id: task.worker for task_id, task in far.items()}
        peers = dict.fromkeys(task.worker for task in far.values())
        self._peer_channels = {
            peer: PeerChannel(
                peer,
                router.send_queue(peer),
                router.incarnation(peer),
                codec=codec,
                on_lost=partial(on_lost, peer),
                on_idle=on_idle,
            )
            for peer in peers
        }
        self.inboxes = {
            task_id: self._peer_channels[task.worker].inbox(task_id, task, len(peers)) for task_id, task in far.items()
        }
        for peer_channel in self._peer_channels.values():
            for task_id, mailbox in mailboxes.items():
                _, quota = split_capacity(capacities[task_id], len(peers))
                peer_channel.receive_buffers[task_id] = ReceiveBuffer(task_id, mailbox, quota, peer_channel.accepted)
        for task_id, mailbox in mailboxes.items():
            mailbox.on_long_call = partial(self._long_call_changed, task_id)
        router.handle(PayloadKind.SEGMENTS, self._segments)
        router.handle(PayloadKind.CREDIT, self._credit)
        router.handle(PayloadKind.TASK, self._messages)
        router.on_peer(self._peer_started)

    def begin(self) -> None:
        """All tasks here take what comes: say so to every peer."""
        self.begun = True
        for peer_channel in self._peer_channels.values():
            peer_channel.begin()

    def is_open(self, task_id: int) -> bool:
        """Does what is posted to a task go there now, and not wait for another life of its worker?"""
        worker = self._worker_of.get(task_id)
        return worker is None or self._peer_channels[worker].is_open

    @property
    def is_idle(self) -> bool:
        """Does nothing wait here, in either direction?"""
        return all(peer_channel.is_idle for peer_channel in self._peer_channels.values())

    @property
    def sent(self) -> dict[str, int]:
        """Peer → what was given away for it, in this incarnation of both."""
        return {peer: peer_channel.sent for peer, peer_channel in self._peer_channels.items()}

    @property
    def received(self) -> dict[str, int]:
        """Peer → what mailboxes here have got from it, in this incarnation of both."""
        return {peer: peer_channel.received for peer, peer_channel in self._peer_channels.items()}

    def peer_gone(self, peer: str, incarnation: int) -> None:
        """The first half of `peer_died`: nothing more is sent to it. The spouts are told in the second half.

        A worker that fails its messages while another still sends to the dead may lose what it emits anew: an ack of
        the new tree goes to an acker that is no more. So all hear this before any hears that.
        """
        peer_channel = self._peer_channels.get(peer)
        if peer_channel is not None and peer_channel.incarnation == incarnation:
            peer_channel.gone()

    def peer_died(self, peer: str, incarnation: int) -> None:
        """It is known that the peer's process has ended. Late news of one that was there before count for nothing."""
        peer_channel = self._peer_channels.get(peer)
        if peer_channel is not None and peer_channel.incarnation == incarnation:
            peer_channel.died()
        elif peer_channel is not None and not peer_channel.incarnation:
            self._on_lost(peer)  # we have never met it, but others may have sent it what our trees need

    def close(self) -> None:
        """The tasks here end: nothing is sent any more."""
        self.closed = True
        for peer_channel in self._peer_channels.values():
            peer_channel.close()

    def _long_call_changed(self, task_id: int) -> None:
        for peer_channel in self._peer_channels.values():
            peer_channel.tell(task_id)

    # -- what comes --------------------------------------------------------------------------------------------------

    def _segments(self, peer: str, target: int, body: memoryview) -> None:
        peer_channel = self._peer_channels.get(peer)
        receive_buffers = None if peer_channel is None else peer_channel.receive_buffers.get(target)
        if peer_channel is None or receive_buffers is None:
            if self.closed:
                return
            raise ProtocolError(f"{peer} sends segments to task {target}, which is not one of {self.worker}'s")
        receive_buffers.take(unpack_segments(body, self._origin_of))

    def _credit(self, peer: str, target: int, body: memoryview) -> None:
        peer_channel = self._peer_channels.get(peer)
        if peer_channel is not None and not self.closed:
            peer_channel.told(unpack_value(body))

    def _messages(self, peer: str, target: int, body: memoryview) -> None:
        peer_channel = self._peer_channels.get(peer)
        if peer_channel is None:
            raise ProtocolError(f"{peer} has no task that speaks to one of {self.worker}'s")
        found = unpack_value(body)
        if not isinstance(found, tuple):
            raise ProtocolError("a payload of messages is an array")
        for item in found:
            task_id, message = self._codec.unpack(item)
            mailbox = self._mailboxes.get(task_id)
            if mailbox is None:
                raise ProtocolError(f"{peer} sends a message to task {task_id}, which is not one of {self.worker}'s")
            peer_channel.received += 1
            mailbox.post(message)

    def _peer_started(self, peer: str, started: PeerStarted) -> None:
        peer_channel = self._peer_channels.get(peer)
        if peer_channel is not None and not self.closed:
            peer_channel.restarted(started.incarnation, self._router.send_queue(peer))
