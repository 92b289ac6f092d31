"""PeerLinks: the links of a worker to the others, opened for each build of its tasks. A PeerRouter for their exchange.

    open ─► links ◄─► the exchange of this build          end ─► no links; the next `open` gives new incarnations

1. With exactly once the tasks of a process are built again after a failure; otherwise there is one build. The links end
   with the tasks, so that nothing of the old ones arrives at the new ones.
2. What arrives goes to the exchange that was made last. Between two builds there are no links, so nothing arrives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...transport import PayloadKind, PeerStarted, SendQueue
    from ..node_router import NodeRouter

Handler = Callable[[str, int, memoryview], None]


class PeerLinks:
    """The links of the worker whose node it is. `listen`: its address for other workers."""

    def __init__(self, node: NodeRouter, listen: str) -> None:
        self.ending = False
        """Are links being ended on purpose?"""
        self._node = node
        self._listen = listen
        self._listens_at = ""
        self._peers: list[str] = []
        self._restarted: dict[str, str] = {}  # peer → the address of its newest process
        self._kinds: set[PayloadKind] = set()
        self._on_peer: Callable[[str, PeerStarted], None] | None = None

    @property
    def worker(self) -> str:
        """The name of this worker."""
        return self._node.name

    @property
    def address(self) -> str:
        """The address at which this worker listens; empty before it does."""
        return self._listens_at

    async def listen(self) -> str:
        """Listen, unless it does already. Returns the address."""
        if not self._listens_at:
            self._listens_at = await self._node.listen(self._listen)
        return self._listens_at

    def open(self, peers: Mapping[str, str | None]) -> None:
        """Open the links: dial the address, or (None) wait until the peer dials."""
        for peer, address in peers.items():
            # The peer may have been restarted while this command was under way.
            self._node.link(peer, None if address is None else self._restarted.get(peer, address))
            self._peers.append(peer)

    def end(self) -> None:
        """End all links at once. What peers send from now on is not received."""
        self.ending = True
        try:
            for peer in self._peers:
                self._node.lose(peer, f"the tasks of {self.worker} are built again")
        finally:
            self.ending = False
        self._peers.clear()
        self._restarted.clear()

    def redial(self, peer: str, address: str) -> None:
        """A peer listens again, at this address: dial it now."""
        self._restarted[peer] = address
        self._node.redial(peer, address)

    # -- PeerRouter --------------------------------------------------------------------------------------------------

    def send_queue(self, peer: str) -> SendQueue:
        return self._node.send_queue(peer)

    def handle(self, kind: PayloadKind, handler: Handler) -> None:
        self._node.handle(kind, handler, replace=kind in self._kinds)
        self._kinds.add(kind)

    def incarnation(self, peer: str) -> int:
        return self._node.incarnation(peer)

    def on_peer(self, listener: Callable[[str, PeerStarted], None]) -> None:
        if self._on_peer is None:
            self._node.on_peer(self._peer_started)
        self._on_peer = listener

    def _peer_started(self, peer: str, started: PeerStarted) -> None:
        if self._on_peer is not None:
            self._on_peer(peer, started)
