"""Node: this process, as others reach it: its name, its links, what comes over them, and refs to actors elsewhere.

    async with ActorSystem() as system, Node("worker-1", network, system) as node:
        await node.listen("host:6700")
        node.link("worker-2", "host:6701")                 they dial us: node.link("worker-3")
        node.offer("counter", system.spawn(Counter))       others: node.ref("worker-1", "counter")
        await node.ref("worker-2", "counter").ask("how many?")

    handle(kind, handler)  ◄── payloads by kind ── links ── on_peer(peer, started), on_lost(peer, error)
    send_queue(peer).post(payload) ──────────────────►

1. Handlers and listeners are called in the event loop, in the order of what comes, and do not wait.
2. What one peer sends does no harm to what goes on with the others. If a handler raises (ProtocolError: no peer of this
   version sends that), the link to that peer is closed, with a warning; nothing that was behind it is read. The peer is
   lost then: whoever asked it is told, its refs lead nowhere, `on_lost` is called. It may be linked again: to the peer
   that is a new life of ours, so it knows, too, that what was between us is lost.
3. A new life of a peer (`on_peer`) loses what was between us and the one before, in the same way; `on_lost` is not
   called for that. What actors say to one another is in peer.py, how a ref is used in ref.py.
   So is a link that fails for another reason: no error of one ends the others, or the block.
4. A peer that is cut off, or slow, is none that is lost. Whoever knows better (it has seen the process die) says so:
   `lose`.
5. Leaving the block closes the links, each of which drains within its bound; then what was asked of others ends with
   PeerLostError. Actors live on: their system ends after its node.

From: Erlang's node; Akka's remoting, but nothing can be reached that was not offered or sent.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Self

from ...actors import ActorSystem, Ref
from ...runtime import AiostormError, Rng
from ..codec.payloads import PayloadKind, unpack_all
from ..errors import NoSuchActorError, PeerLostError, ProtocolError
from ..link.link import Link, LinkTimings
from ..link.links import Links
from ..link.send_queue import SendQueue
from ..link.sequence import PeerStarted, SequenceLimits
from ..net.network import Network
from .peer import NodeContext, RemotePeer
from .ref import RemoteRef
from .values import RefCodec

_log = logging.getLogger(__name__)

Handler = Callable[[str, int, memoryview], None]


class Node:
    """A process that others reach. `network` makes its connections; time and chance are the system's."""

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
            on_payload=self._came,
            on_peer=self._started,
            on_pulse=self._pulsed,
            on_failed=self._failed,
            clock=system.clock,
            rng=rng or system.rng,
            timings=timings,
            limits=limits,
        )
        self.home = NodeContext(name, system, rng or system.rng)
        self.home.codec = RefCodec(self)
        self._send_queues: dict[str, SendQueue] = {}
        self._open: dict[str, Link] = {}
        self._remote: dict[str, RemotePeer] = {}
        self._handlers: dict[PayloadKind, Handler] = {PayloadKind.ACTOR: self._for_actors}
        self._on_peer: list[Callable[[str, PeerStarted], None]] = []
        self._on_lost: list[Callable[[str, Exception], None]] = []
        self._on_pulse: list[Callable[[str, int], None]] = []

    @property
    def name(self) -> str:
        """Its name, which no other process of the cluster has."""
        return self.home.name

    @property
    def peers(self) -> tuple[str, ...]:
        """Those that there are links to, in the order in which they were opened."""
        return tuple(self._open)

    # -- links -------------------------------------------------------------------------------------------------------

    async def listen(self, address: str) -> str:
        """Let peers dial this address. Returns where it is. NetworkError if it is taken."""
        return await self._links.listen(address)

    def link(self, peer: str, address: str | None = None, *, role: str = "") -> Link:
        """Open the link to a peer: dial that address, or wait for it to dial us (None). ValueError if there is one.

        `role`: what it must have proved to be, where connections are authenticated; empty: anything.
        """
        send_queue = SendQueue()
        link = self._links.open(peer, address, source=send_queue, role=role)
        send_queue.wake = link.wake
        self._open[peer] = link
        self._send_queues[peer] = send_queue
        self._remote[peer] = RemotePeer(peer, self.home, send_queue)
        return link

    def redial(self, peer: str, address: str) -> None:
        """A linked peer that is dialled is known to listen (again), there: dial it now."""
        self._links.redial(peer, address)

    async def unlink(self, peer: str) -> None:
        """Close the link in order: what was sent is acked first, within the link's bound. Then the peer is lost."""
        link = self._open.get(peer)
        if link is None:
            return
        try:
            await link.close()
        finally:
            if self._open.get(peer) is link:
                self.lose(peer, f"the link from {self.name} to {peer} was closed")

    def lose(self, peer: str, reason: str) -> None:
        """Close the link at once: the peer is known to have ended. What was asked of it ends with PeerLostError."""
        self._lose(peer, PeerLostError(reason))

    def send_queue(self, peer: str) -> SendQueue:
        """What takes payloads for a peer, for as long as this link to it is open. PeerLostError if there is none."""
        send_queue = self._send_queues.get(peer)
        if send_queue is None:
            raise self._not_linked(peer)
        return send_queue

    def incarnation(self, peer: str) -> int:
        """Which life of a peer is linked, as far as it is known; else 0."""
        link = self._open.get(peer)
        return 0 if link is None else link.incarnation

    def state(self, peer: str) -> Link | None:
        """The link to a peer, if there is one: is it established, how much is on its way?"""
        return self._open.get(peer)

    # -- what comes --------------------------------------------------------------------------------------------------

    def handle(self, kind: PayloadKind, handler: Handler) -> None:
        """Call `handler(peer, target, body)` for each payload of that kind. ValueError if somebody does already."""
        if kind in self._handlers:
            raise ValueError(f"payloads of kind {kind.name} have a handler already")
        self._handlers[kind] = handler

    def on_peer(self, listener: Callable[[str, PeerStarted], None]) -> None:
        """Call `listener(peer, started)` when a peer begins a life, before anything of that comes; the first, too."""
        self._on_peer.append(listener)

    def on_lost(self, listener: Callable[[str, Exception], None]) -> None:
        """Call `listener(peer, error)` when a link was closed before the node was. It may open it again."""
        self._on_lost.append(listener)

    def on_pulse(self, listener: Callable[[str, int], None]) -> None:
        """Call `listener(peer, process)` when a process says that it lives, though its loop is held (see door)."""
        self._on_pulse.append(listener)

    # -- actors ------------------------------------------------------------------------------------------------------

    def offer(self, name: str, ref: Ref, *, to: Iterable[str] | None = None) -> None:
        """Let actors of linked processes (`to`: of these peers only) reach this one by that name.

        ValueError if another living actor has the name, NotHereError if it is not an actor of this process.
        """
        self.home.exports.offer(name, ref, to)

    def withdraw(self, name: str) -> None:
        """From now on nobody finds it by that name. Who has sent to it already goes on."""
        self.home.exports.withdraw(name)

    def ref(self, node: str, name: str) -> Ref:
        """The actor that `node` offers under that name; it need not be linked yet, nor have offered it.

        Of this node: the actor itself. NoSuchActorError if there is none.
        """
        return self.ref_to(node, name)

    def ref_to(self, node: str, key: str | int) -> Ref:
        """As `ref`, or by number."""
        if node != self.name:
            return RemoteRef(self, node, key)
        found = self.home.exports.find(key)
        if found is None:
            raise NoSuchActorError(f"{self.name} offers no living actor as {key!r}")
        return found

    def peer(self, name: str) -> RemotePeer:
        """What a RemoteRef works with. PeerLostError if there is no link."""
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
            # The block's own error, and no link's: it is raised as it was.
        finally:
            self._on_lost.clear()
            for peer in list(self._open):
                self.lose(peer, f"{self.name} has closed its links")

    # -- helpers -----------------------------------------------------------------------------------------------------

    def _came(self, peer: str, payload: bytes) -> None:
        try:
            for kind, target, body in unpack_all(payload):
                handler = self._handlers.get(kind)
                if handler is None:
                    raise ProtocolError(f"nobody here takes payloads of kind {kind.name}")
                handler(peer, target, body)
        except ProtocolError as error:
            _log.warning("%s: the link to %s is closed: %s", self.name, peer, error)
            self._lose(peer, error)
        except Exception as error:  # a defect of ours, which is no reason to lose the other peers
            _log.exception("%s: what %s has sent could not be taken: the link is closed", self.name, peer)
            self._lose(peer, error)

    def _started(self, peer: str, started: PeerStarted) -> None:
        try:
            self._send_queues[peer].restarted()
            self._remote[peer].started()
            for listener in self._on_peer:
                listener(peer, started)
        except Exception as error:
            _log.exception("%s: the new life of %s could not be taken: the link is closed", self.name, peer)
            self._lose(peer, error)

    def _failed(self, peer: str, error: Exception) -> None:
        """A link has ended with an error: that peer is lost, and no other."""
        if isinstance(error, AiostormError):
            _log.warning("%s: the link to %s is closed: %s", self.name, peer, error)
        else:
            _log.error("%s: the link to %s has failed, and is closed", self.name, peer, exc_info=error)
        self._lose(peer, error)

    def _pulsed(self, peer: str, process: int) -> None:
        for listener in self._on_pulse:
            listener(peer, process)

    def _for_actors(self, peer: str, target: int, body: memoryview) -> None:
        self._remote[peer].came(body)

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
            except Exception:  # it is told in the middle of something else, which must go on
                _log.exception("%s: a listener to the loss of %s failed", self.name, peer)

    def _not_linked(self, peer: str) -> PeerLostError:
        return PeerLostError(f"{self.name} has no link to {peer}: nothing was sent. Open one with node.link")
