"""Node: this process as other processes reach it: its name, its links, its payloads, and refs to remote actors.

    async with ActorSystem() as system, Node("worker-1", network, system) as node:
        await node.listen("host:6700")
        node.link("worker-2", "host:6701")                 the peer dials: node.link("worker-3")
        node.offer("counter", system.spawn(Counter))       elsewhere: node.ref("worker-1", "counter")
        await node.ref("worker-2", "counter").ask("how many?")

    handle(kind, handler)  ◄── payloads by kind ── links ── on_peer(peer, started), on_lost(peer, error)
    send_queue(peer).post(payload) ──────────────────►

1. Handlers and listeners are called in the event loop, in the order of arrival, and do not wait.
2. One peer cannot harm the traffic of others. If a handler raises (ProtocolError: no peer of this version sends that),
   the link to that peer is closed, with a warning, and the rest of its data is not read. The peer is lost: open
   questions end with an error, its refs lead nowhere, `on_lost` is called. The same holds if a link fails for another
   reason. The peer may be linked again, with a new incarnation of ours, so that it also learns of the loss.
3. A new incarnation of a peer (`on_peer`) ends the traffic with the previous one in the same way; `on_lost` is not
   called. The traffic between actors is in peer.py, the use of a ref in ref.py.
4. A peer that is cut off or slow is not lost. A caller that knows that the process has died calls `lose`.
5. Leaving the block closes the links, each of which drains within its limit; open questions then end with
   PeerLostError. Actors continue: their system ends after its node.

From: Erlang's node; Akka's remoting, but only actors that were offered or sent can be reached.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Self

from ...runtime import AiostormError, Rng
from ..codec.payloads import PayloadKind, unpack_all
from ..errors import PeerLostError, ProtocolError
from ..link.links import Links
from ..link.send_queue import SendQueue
from .exports import NoSuchActorError
from .peer import NodeContext, RemotePeer
from .ref import RemoteRef
from .values import RefCodec

if TYPE_CHECKING:
    from ...actors import ActorSystem, Ref
    from ..link.link import Link
    from ..link.sequence import PeerStarted, SequenceLimits
    from ..link.timings import LinkTimings
    from ..net.network import Network

_log = logging.getLogger(__name__)

Handler = Callable[[str, int, memoryview], None]


class Node:
    """A process with a name that others can reach. `network` makes its connections; the clock is the system's."""

    def __init__(
        self,
        name: str,
        network: Network,
        system: ActorSystem,
        *,
        rng: Rng | None = None,
        timings: LinkTimings | None = None,
        limits: SequenceLimits | None = None,
    ) -> None:
        self.system = system
        self._links = Links(
            name,
            network,
            on_payload=self._handle_payload,
            on_peer=self._handle_peer,
            on_pulse=self._handle_pulse,
            on_failed=self._handle_failure,
            clock=system.clock,
            rng=rng or system.rng,
            timings=timings,
            limits=limits,
        )
        self.context = NodeContext(name, system, rng or system.rng)
        self.context.codec = RefCodec(self)
        self._send_queues: dict[str, SendQueue] = {}
        self._open: dict[str, Link] = {}
        self._remote: dict[str, RemotePeer] = {}
        self._handlers: dict[PayloadKind, Handler] = {PayloadKind.ACTOR: self._for_actors}
        self._on_peer: list[Callable[[str, PeerStarted], None]] = []
        self._on_lost: list[Callable[[str, Exception], None]] = []
        self._on_pulse: list[Callable[[str, int, bytes], None]] = []

    @property
    def name(self) -> str:
        """The name of this process, unique in the cluster."""
        return self.context.name

    @property
    def own_incarnation(self) -> int:
        """The incarnation of this process: random, and another one after each start."""
        return self._links.incarnation

    @property
    def peers(self) -> tuple[str, ...]:
        """The linked peers, in the order of their links."""
        return tuple(self._open)

    # -- links -------------------------------------------------------------------------------------------------------

    async def listen(self, address: str) -> str:
        """Listen at an address, which is returned with its real port. NetworkError if it is taken."""
        return await self._links.listen(address)

    def link(self, peer: str, address: str | None = None, *, role: str = "") -> Link:
        """Open the link to a peer: dial its address, or wait until it dials (None). ValueError if there is a link.

        `role`: the role that the peer must be authenticated for; empty: any.
        """
        send_queue = SendQueue()
        link = self._links.open(peer, address, source=send_queue, role=role)
        send_queue.wake = link.wake
        self._open[peer] = link
        self._send_queues[peer] = send_queue
        self._remote[peer] = RemotePeer(peer, self.context, send_queue)
        return link

    def redial(self, peer: str, address: str) -> None:
        """A linked peer listens again, at this address: dial it now."""
        self._links.redial(peer, address)

    async def unlink(self, peer: str) -> None:
        """Close the link in order, after all payloads are acked or its time is over. Then the peer is lost."""
        link = self._open.get(peer)
        if link is None:
            return
        try:
            await link.close()
        finally:
            if self._open.get(peer) is link:
                self.lose(peer, f"the link from {self.name} to {peer} was closed")

    def lose(self, peer: str, reason: str) -> None:
        """Close the link at once, for the peer has ended. Its open questions end with PeerLostError."""
        self._lose(peer, PeerLostError(reason))

    def send_queue(self, peer: str) -> SendQueue:
        """The send queue of the link to a peer, while it is open. PeerLostError if there is none."""
        send_queue = self._send_queues.get(peer)
        if send_queue is None:
            raise self._not_linked(peer)
        return send_queue

    def incarnation(self, peer: str) -> int:
        """The incarnation of a linked peer; 0 if it is not known."""
        link = self._open.get(peer)
        return 0 if link is None else link.incarnation

    def state(self, peer: str) -> Link | None:
        """The link to a peer, if there is one."""
        return self._open.get(peer)

    # -- incoming ----------------------------------------------------------------------------------------------------

    def handle(self, kind: PayloadKind, handler: Handler, *, replace: bool = False) -> None:
        """Call `handler(peer, target, body)` for each payload of that kind. ValueError if the kind has a handler.

        `replace`: instead of the handler that it has.
        """
        if kind in self._handlers and not replace:
            raise ValueError(f"payloads of kind {kind.name} have a handler already")
        self._handlers[kind] = handler

    def on_peer(self, listener: Callable[[str, PeerStarted], None]) -> None:
        """Call `listener(peer, started)` for each incarnation of a peer, before its first payload."""
        self._on_peer.append(listener)

    def on_lost(self, listener: Callable[[str, Exception], None]) -> None:
        """Call `listener(peer, error)` when a link ends before the node does. The listener may open it again."""
        self._on_lost.append(listener)

    def on_pulse(self, listener: Callable[[str, int, bytes], None]) -> None:
        """Call `listener(peer, process, note)` for each PULSE of a process whose event loop is blocked."""
        self._on_pulse.append(listener)

    # -- actors ------------------------------------------------------------------------------------------------------

    def offer(self, name: str, ref: Ref, *, to: Iterable[str] | None = None) -> None:
        """Let linked processes (`to`: only these peers) reach an actor under a name.

        ValueError if another living actor has the name, NotHereError if it is not an actor of this process.
        """
        self.context.exports.offer(name, ref, to)

    def withdraw(self, name: str) -> None:
        """Remove a name. Refs that have sent to the actor already continue."""
        self.context.exports.withdraw(name)

    def ref(self, node: str, name: str) -> Ref:
        """The actor that `node` offers under that name; it need not be linked or offered yet.

        For this node it is the actor itself, or NoSuchActorError.
        """
        return self.ref_to(node, name)

    def ref_to(self, node: str, key: str | int) -> Ref:
        """As `ref`, or by number."""
        if node != self.name:
            return RemoteRef(self, node, key)
        found = self.context.exports.find(key)
        if found is None:
            raise NoSuchActorError(f"{self.name} offers no living actor as {key!r}")
        return found

    def peer(self, name: str) -> RemotePeer:
        """The linked peer of that name. PeerLostError if there is no link."""
        peer = self._remote.get(name)
        if peer is None:
            raise self._not_linked(name)
        return peer

    # -- the block ---------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        await self._links.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            await self._links.__aexit__(kind, error, traceback)
        except BaseExceptionGroup as group:
            if error is None or group.exceptions != (error,):
                raise
            # Only the block's own error: it is raised as it was.
        finally:
            self._on_lost.clear()
            for peer in list(self._open):
                self.lose(peer, f"{self.name} has closed its links")

    # -- helpers -----------------------------------------------------------------------------------------------------

    def _handle_payload(self, peer: str, payload: bytes) -> None:
        try:
            for kind, target, body in unpack_all(payload):
                handler = self._handlers.get(kind)
                if handler is None:
                    raise ProtocolError(f"payloads of kind {kind.name} have no handler here")
                handler(peer, target, body)
        except ProtocolError as error:
            _log.warning("%s: the link to %s is closed: %s", self.name, peer, error)
            self._lose(peer, error)
        except Exception as error:  # a defect here must not end the links to other peers
            _log.exception("%s: a payload of %s could not be handled: the link is closed", self.name, peer)
            self._lose(peer, error)

    def _handle_peer(self, peer: str, started: PeerStarted) -> None:
        try:
            self._send_queues[peer].restarted()
            self._remote[peer].started()
            for listener in self._on_peer:
                listener(peer, started)
        except Exception as error:
            _log.exception("%s: the restart of %s could not be handled: the link is closed", self.name, peer)
            self._lose(peer, error)

    def _handle_failure(self, peer: str, error: Exception) -> None:
        if isinstance(error, AiostormError):
            _log.warning("%s: the link to %s is closed: %s", self.name, peer, error)
        else:
            _log.error("%s: the link to %s has failed and is closed", self.name, peer, exc_info=error)
        self._lose(peer, error)

    def _handle_pulse(self, peer: str, process: int, note: bytes) -> None:
        for listener in self._on_pulse:
            listener(peer, process, note)

    def _for_actors(self, peer: str, target: int, body: memoryview) -> None:
        self._remote[peer].on_payload(body)

    def _lose(self, peer: str, error: Exception) -> None:
        link = self._open.pop(peer, None)
        if link is None:
            return
        link.abort()
        del self._send_queues[peer]
        self._remote.pop(peer).close(lambda: PeerLostError(f"{peer} is lost: {error}"))
        for listener in list(self._on_lost):
            try:
                listener(peer, error)
            except Exception:  # the caller is in the middle of other work, which must continue
                _log.exception("%s: a listener to the loss of %s failed", self.name, peer)

    def _not_linked(self, peer: str) -> PeerLostError:
        return PeerLostError(f"{self.name} has no link to {peer}: nothing was sent. Open one with node.link")
