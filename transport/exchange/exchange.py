"""Exchange: the traffic between the tasks of this worker and those of the others.

    task here ─► remote mailbox ─► send queue ═ link ═ … ═► exchange there ─► receive buffers ─► mailbox of the task
         credit ◄── CREDIT ◄────────────────────────┘
    task here ─► post ─► TASK: many messages in one payload ═════► control lane of the task

1. A worker's tasks start and end with its exchange. Two exchanges send to each other once each has received the other's
   CREDIT in these incarnations: so nothing is sent to a worker that is not prepared. The first CREDIT requests the
   other. A CREDIT names the *build* of the tasks: one of another build is ignored. So tasks of different builds never
   receive anything of each other, even if a process that was given up still lives.
2. Segments need credit (remote_mailbox.py, receive_buffer.py). Messages for control lanes do not: the number of pending
   messages bounds them, and they go before all data (link/send_queue.py), as many in one payload as wait.
3. When a worker dies, what was under way to it and from it is lost. What waits here is kept for its next incarnation.
   `on_lost(peer)` is called once for each incarnation that ended: the spouts fail their pending messages, so that
   nothing waits for its timeout.
4. `sent` and `received` count, for each peer, segments and control messages: sent when a task here has handed one over,
   received when a mailbox here has it. Both restart with each incarnation of the peer; what still waits is counted in
   the new `sent`. Nothing is under way between two workers when one's `sent` equals the other's `received`, both ways
   (nothing is lost between two living incarnations).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Protocol

from ..codec.messages import MessageCodec, MessageCodecs
from ..codec.payloads import PayloadKind
from ..codec.values import unpack_value
from ..errors import ProtocolError
from .credit import split_capacity
from .peer_channel import PeerChannel, RemoteTask
from .receive_buffer import ReceiveBuffer
from .segments import unpack_segments

if TYPE_CHECKING:
    from ...actors import Mailbox
    from ...topology.tuples import Origin
    from ..link.send_queue import SendQueue
    from ..link.sequence import PeerStarted


class PeerRouter(Protocol):
    """What an exchange needs of its process; a Node implements it."""

    def send_queue(self, peer: str) -> SendQueue:
        """The send queue of the link to a peer; a new one when the link is opened again. PeerLostError."""
        ...

    def handle(self, kind: PayloadKind, handler: Callable[[str, int, memoryview], None]) -> None:
        """Call `handler(peer, target, body)` for each payload of that kind. Its ProtocolError ends the connection."""
        ...

    def incarnation(self, peer: str) -> int:
        """The peer's incarnation; 0 if it is not known."""
        ...

    def on_peer(self, listener: Callable[[str, PeerStarted], None]) -> None:
        """Call the listener when a peer is a new incarnation, before any payload of it."""
        ...


class Exchange:
    """The exchange of one worker. `mailboxes`, `capacities`: of its tasks; `remote`: tasks of other workers; all by id.

    `origin_of(task, stream)` returns the origin of what a remote task emits, or raises ProtocolError. `build`: a number
    that all exchanges of the tasks that belong together have. `stopwatch`: received segments are stamped with it.
    `sampled`: the bits that the roots of sampled trees have: their segments are marked (metrics/spans).
    """

    def __init__(
        self,
        worker: str,
        router: PeerRouter,
        *,
        mailboxes: Mapping[int, Mailbox],
        capacities: Mapping[int, int],
        remote: Mapping[int, RemoteTask],
        origin_of: Callable[[int, str], Origin],
        codecs: Iterable[MessageCodec],
        on_lost: Callable[[str], None],
        stopwatch: Callable[[], float],
        sampled: int = 0,
        build: int = 0,
    ) -> None:
        self.worker = worker
        self._received = stopwatch, sampled
        self.begun = False
        self.closed = False
        self._router = router
        self._mailboxes = mailboxes
        self._origin_of = origin_of
        self._codecs = MessageCodecs(codecs)
        self._on_lost = on_lost
        self._worker_of = {task_id: task.worker for task_id, task in remote.items()}
        peers = dict.fromkeys(task.worker for task in remote.values())
        self._peer_channels = {
            peer: PeerChannel(
                peer,
                router.send_queue(peer),
                router.incarnation(peer),
                codecs=self._codecs,
                on_lost=partial(on_lost, peer),
                build=build,
            )
            for peer in peers
        }
        self.inboxes = {
            task_id: self._peer_channels[task.worker].add_inbox(task_id, task, len(peers))
            for task_id, task in remote.items()
        }
        for peer_channel in self._peer_channels.values():
            for task_id, mailbox in mailboxes.items():
                _, quota = split_capacity(capacities[task_id], len(peers))
                peer_channel.receive_buffers[task_id] = ReceiveBuffer(task_id, mailbox, quota, peer_channel.accepted)
        for task_id, mailbox in mailboxes.items():
            mailbox.reader.on_long_call = partial(self._long_call_changed, task_id)
        router.handle(PayloadKind.SEGMENTS, self._segments)
        router.handle(PayloadKind.CREDIT, self._credit)
        router.handle(PayloadKind.TASK, self._messages)
        router.on_peer(self._peer_started)

    def begin(self) -> None:
        """All tasks here are ready: send credit to every peer."""
        self.begun = True
        for peer_channel in self._peer_channels.values():
            peer_channel.begin()

    def on_idle(self, listener: Callable[[], None]) -> None:
        """Call the listener when no message for a peer waits any more."""
        for peer_channel in self._peer_channels.values():
            peer_channel.messages.on_idle = listener

    def is_open(self, task_id: int) -> bool:
        """Is a message for the task sent now, or does it wait for the next incarnation of its worker?"""
        worker = self._worker_of.get(task_id)
        return worker is None or self._peer_channels[worker].is_open

    @property
    def is_idle(self) -> bool:
        """Is nothing waiting here, in either direction?"""
        return self.is_idle_without(())

    def is_idle_without(self, peers: Collection[str]) -> bool:
        """As `is_idle`; the traffic with these peers does not matter."""
        return all(channel.is_idle for peer, channel in self._peer_channels.items() if peer not in peers)

    @property
    def sent(self) -> dict[str, int]:
        """Peer → segments and messages sent, in these incarnations of both."""
        return {peer: peer_channel.sent for peer, peer_channel in self._peer_channels.items()}

    @property
    def received(self) -> dict[str, int]:
        """Peer → segments and messages that mailboxes here have received, in these incarnations of both."""
        return {peer: peer_channel.received for peer, peer_channel in self._peer_channels.items()}

    @property
    def incarnations(self) -> dict[str, int]:
        """Peer → its incarnation, for those that have connected; also if that has ended (see `ended`)."""
        return {peer: channel.incarnation for peer, channel in self._peer_channels.items() if channel.incarnation}

    @property
    def ended(self) -> tuple[str, ...]:
        """The peers whose incarnation has ended, as `peer_ended` has said, and of which no other one has connected."""
        return tuple(peer for peer, channel in self._peer_channels.items() if channel.has_ended)

    def peer_ended(self, peer: str, incarnation: int) -> None:
        """The peer's process has ended: send nothing more to it. `peer_died` then notifies the spouts.

        All workers are notified of this step before any of the next. Otherwise a worker could replay messages while
        another one still sends acks of the new trees to an acker that does not exist any more.
        """
        peer_channel = self._peer_channels.get(peer)
        if peer_channel is not None and peer_channel.incarnation == incarnation:
            peer_channel.stop_sending()

    def peer_died(self, peer: str, incarnation: int) -> None:
        """The peer's process has ended, and all workers know. Late reports of earlier incarnations are ignored."""
        peer_channel = self._peer_channels.get(peer)
        if peer_channel is not None and peer_channel.incarnation == incarnation:
            peer_channel.died()
        elif peer_channel is not None and not peer_channel.incarnation:
            self._on_lost(peer)  # it never connected to us, but other workers may have sent it tuples of our trees

    def close(self) -> None:
        """The tasks here end: send nothing any more."""
        self.closed = True
        for peer_channel in self._peer_channels.values():
            peer_channel.close()

    def _long_call_changed(self, task_id: int) -> None:
        for peer_channel in () if self.closed else self._peer_channels.values():
            peer_channel.announce(task_id)

    # -- incoming ----------------------------------------------------------------------------------------------------

    def _segments(self, peer: str, target: int, body: memoryview) -> None:
        if self.closed:
            return
        peer_channel = self._peer_channels.get(peer)
        receive_buffer = None if peer_channel is None else peer_channel.receive_buffers.get(target)
        if peer_channel is None or receive_buffer is None:
            raise ProtocolError(f"{peer} sends segments to task {target}, which is not a task of {self.worker}")
        segments = unpack_segments(body, self._origin_of)
        stopwatch, sampled = self._received
        now_s = stopwatch()
        for segment in segments:
            segment.sent_s = now_s
            if segment.traced:  # it came with its context
                continue
            if segment.lineage is not None:
                segment.traced = any(root & sampled == sampled for root in segment.lineage.edges)
            elif segment.root & sampled == sampled and segment.root:
                segment.traced = True
        receive_buffer.add(segments)

    def _credit(self, peer: str, target: int, body: memoryview) -> None:
        peer_channel = self._peer_channels.get(peer)
        if peer_channel is not None and not self.closed:
            peer_channel.on_credit(unpack_value(body))

    def _messages(self, peer: str, target: int, body: memoryview) -> None:
        if self.closed:
            return
        peer_channel = self._peer_channels.get(peer)
        if peer_channel is None:
            raise ProtocolError(f"{peer} has no tasks that send to {self.worker}")
        items = unpack_value(body)
        if not isinstance(items, tuple):
            raise ProtocolError("a payload of messages is an array")
        for item in items:
            task_id, message = self._codecs.unpack(item)
            mailbox = self._mailboxes.get(task_id)
            if mailbox is None:
                raise ProtocolError(f"{peer} sends a message to task {task_id}, which is not a task of {self.worker}")
            peer_channel.received += 1
            mailbox.post(message)

    def _peer_started(self, peer: str, started: PeerStarted) -> None:
        peer_channel = self._peer_channels.get(peer)
        if peer_channel is not None and not self.closed:
            peer_channel.restarted(started.incarnation, self._router.send_queue(peer))
