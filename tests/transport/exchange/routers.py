"""Post routers in memory: what one send queue gives, the other process gets, in order, whenever a test says so."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from aiostorm.transport import PayloadKind, PeerStarted, SendQueue, unpack_all


class Router:
    """The router of one process. `own_incarnation` counts the starts of that process."""

    def __init__(self, name: str, routers: dict[str, Router]) -> None:
        self.name = name
        self.routers = routers
        self.own_incarnation = 1
        self.send_queues: dict[str, SendQueue] = {}
        self.way: dict[str, deque[bytes]] = {}
        self.handlers: dict[PayloadKind, Callable[[str, int, memoryview], None]] = {}
        self.callbacks: list[Callable[[str, PeerStarted], None]] = []
        routers[name] = self

    def send_queue(self, peer: str) -> SendQueue:
        self.way.setdefault(peer, deque())
        return self.send_queues.setdefault(peer, SendQueue())

    def handle(self, kind: PayloadKind, handler: Callable[[str, int, memoryview], None]) -> None:
        self.handlers[kind] = handler

    def on_peer(self, callback: Callable[[str, PeerStarted], None]) -> None:
        self.callbacks.append(callback)

    def incarnation(self, peer: str) -> int:
        return self.routers[peer].own_incarnation if peer in self.routers else 0

    # -- what a test does --------------------------------------------------------------------------------------------

    def send(self, peer: str) -> bool:
        """The link takes a payload, if there is one."""
        payload = self.send_queues[peer].next_payload()
        if payload is not None:
            self.way[peer].append(payload)
        return payload is not None

    def deliver(self, peer: str) -> bool:
        """The peer gets a payload, if one is under way. One without a handler for it drops it."""
        if not self.way[peer]:
            return False
        for kind, target, body in unpack_all(self.way[peer].popleft()):
            handler = self.routers[peer].handlers.get(kind)
            if handler is not None:
                handler(self.name, target, body)
        return True

    def reborn(self) -> Router:
        """This process is killed, and another of its name takes its place: what was under way is lost."""
        fresh = Router(self.name, self.routers)
        fresh.own_incarnation = self.own_incarnation + 1
        for peer, router in self.routers.items():
            if peer != self.name:
                router.way[self.name].clear()
                router.send_queue(self.name).restarted()
                for callback in router.callbacks:
                    callback(self.name, PeerStarted(fresh.own_incarnation, 0, b""))
        return fresh
