"""Post offices in memory: what one courier gives, the other process gets, in order, whenever a test says so."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from aiostorm.transport import Courier, PayloadKind, PeerStarted, unpack_all


class Office:
    """Of one process. `incarnations` counts its lives."""

    def __init__(self, name: str, offices: dict[str, Office]) -> None:
        self.name = name
        self.offices = offices
        self.life = 1
        self.couriers: dict[str, Courier] = {}
        self.way: dict[str, deque[bytes]] = {}
        self.handlers: dict[PayloadKind, Callable[[str, int, memoryview], None]] = {}
        self.callbacks: list[Callable[[str, PeerStarted], None]] = []
        offices[name] = self

    def courier(self, peer: str) -> Courier:
        self.way.setdefault(peer, deque())
        return self.couriers.setdefault(peer, Courier())

    def handle(self, kind: PayloadKind, handler: Callable[[str, int, memoryview], None]) -> None:
        self.handlers[kind] = handler

    def on_peer(self, callback: Callable[[str, PeerStarted], None]) -> None:
        self.callbacks.append(callback)

    def incarnation(self, peer: str) -> int:
        return self.offices[peer].life if peer in self.offices else 0

    # -- what a test does --------------------------------------------------------------------------------------------

    def send(self, peer: str) -> bool:
        """The link takes a payload, if there is one."""
        payload = self.couriers[peer].next_payload()
        if payload is not None:
            self.way[peer].append(payload)
        return payload is not None

    def deliver(self, peer: str) -> bool:
        """The peer gets a payload, if one is under way. One without a handler for it drops it."""
        if not self.way[peer]:
            return False
        for kind, target, body in unpack_all(self.way[peer].popleft()):
            handler = self.offices[peer].handlers.get(kind)
            if handler is not None:
                handler(self.name, target, body)
        return True

    def reborn(self) -> Office:
        """This process is killed, and another of its name takes its place: what was under way is lost."""
        fresh = Office(self.name, self.offices)
        fresh.life = self.life + 1
        for peer, office in self.offices.items():
            if peer != self.name:
                office.way[self.name].clear()
                office.courier(self.name).restarted()
                for callback in office.callbacks:
                    callback(self.name, PeerStarted(fresh.life, 0, b""))
        return fresh
