"""A network in memory whose connections break as a test wants; and processes with links on it."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from aiostorm.transport import (
    MAX_BUFFERED_BYTES,
    MAX_FRAME_BYTES,
    Connection,
    ConnectionLostError,
    FrameTooLargeError,
    Identity,
    Links,
    Network,
    NetworkError,
    PeerStarted,
    SequenceLimits,
)


@dataclass
class Weather:
    """How long a frame takes, and how often a connection breaks at a frame. Frames keep their order."""

    breaks: float = 0.0  # the share of frames at which the connection breaks: this one and all later ones are lost
    delay_s: float = 0.001
    jitter_s: float = 0.0
    cut_off: set[str] = field(default_factory=set)
    """Names of processes that neither send nor receive; neither they nor their peers get an error."""


class MemoryNetwork:
    """A network for all that share it."""

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self.processes = 0
        self.weather = Weather()
        self.random = random.Random(seed)
        self.listeners: dict[str, Callable[[Connection], None]] = {}
        self.connections: list[MemoryConnection] = []
        self.dialled: list[tuple[float, str]] = []
        self.most_buffered = 0

    def seen_by(self, who: str) -> Network:
        return MemoryHost(self, who)

    def cut(self) -> None:
        """Every connection ends, and the frames in flight are lost."""
        for connection in self.connections:
            connection.end(lose=True)
        self.connections.clear()

    @property
    def open(self) -> list[MemoryConnection]:
        return [connection for connection in self.connections if not connection.over]


@dataclass
class MemoryHost:
    network: MemoryNetwork
    who: str

    async def connect(self, address: str) -> Connection:
        network = self.network
        network.dialled.append((asyncio.get_running_loop().time(), address))
        await asyncio.sleep(network.weather.delay_s)
        if network.weather.cut_off & {self.who, address}:
            await asyncio.Event().wait()
        if address not in network.listeners:
            raise NetworkError(f"no process listens at {address}")
        near, far = MemoryConnection(network, self.who, address), MemoryConnection(network, address, self.who)
        near.other, far.other = far, near
        network.connections += [near, far]
        network.listeners[address](far)
        return near

    async def listen(self, address: str, accept: Callable[[Connection], None]) -> MemoryListener:
        if address in self.network.listeners:
            raise NetworkError(f"{address} is taken")
        self.network.listeners[address] = accept
        return MemoryListener(self.network, address)


@dataclass
class MemoryListener:
    network: MemoryNetwork
    address: str

    def close(self) -> None:
        self.network.listeners.pop(self.address, None)


class MemoryConnection:
    """One end. A frame is in the sender's buffer until it has arrived or is lost."""

    def __init__(self, network: MemoryNetwork, here: str, peer: str) -> None:
        self.network = network
        self.here = here
        self.peer = peer
        self.identity: Identity | None = None
        self.other: MemoryConnection
        self.over = False
        self.sent: list[bytes] = []
        self._broken = False
        self._last_s = 0.0
        self._in_flight: deque[bytes | None] = deque()  # None: the connection breaks here
        self._buffered = self._received = 0
        self._came: deque[bytes] = deque()
        self._changed = asyncio.Event()

    @property
    def writable(self) -> bool:
        return self.over or self._buffered < MAX_BUFFERED_BYTES

    @property
    def buffered_bytes(self) -> int:
        return self._buffered

    @property
    def received_bytes(self) -> int:
        return self._received

    def send(self, frame: bytes) -> None:
        if self.over:
            raise ConnectionLostError(f"the connection to {self.peer} is over")
        if len(frame) > MAX_FRAME_BYTES:
            raise FrameTooLargeError(f"{len(frame)} bytes")
        self.sent.append(frame)
        network, weather = self.network, self.network.weather
        if self._broken or weather.cut_off & {self.here, self.peer}:
            return
        loop = asyncio.get_running_loop()
        self._last_s = max(self._last_s, loop.time() + weather.delay_s + network.random.random() * weather.jitter_s)
        if network.random.random() < weather.breaks:
            self._broken = True
            self._in_flight.append(None)
        else:
            self._in_flight.append(frame)
            self._buffered += len(frame)
            network.most_buffered = max(network.most_buffered, self._buffered)
        loop.call_at(self._last_s, self._arrive)

    async def drained(self) -> None:
        while not self.writable:
            self._changed.clear()
            await self._changed.wait()
        if self.over:
            raise ConnectionLostError(f"the connection to {self.peer} is over")

    async def receive(self) -> bytes:
        while not self._came:
            if self.over:
                raise ConnectionLostError(f"the connection to {self.peer} is over")
            self._changed.clear()
            await self._changed.wait()
        return self._came.popleft()

    def close(self) -> None:
        """What was sent before arrives before the notice, unless the two are cut off."""
        if not self.over:
            self.end()
            if not (self._broken or self.network.weather.cut_off & {self.here, self.peer}):
                loop = asyncio.get_running_loop()
                self._last_s = max(self._last_s, loop.time() + self.network.weather.delay_s)
                self._in_flight.append(None)
                loop.call_at(self._last_s, self._arrive)

    def end(self, *, lose: bool = False) -> None:
        self.over = True
        if lose:
            self._came.clear()
        self._changed.set()

    def _break(self) -> None:
        """Frames that were sent before have arrived; those of the other end that are in flight are lost."""
        for end in (self, self.other):
            end._broken = True
            end.end()

    def _arrive(self) -> None:
        frame = self._in_flight.popleft()
        if frame is None:
            self._break()
            return
        self._buffered -= len(frame)
        self._changed.set()
        if not self.other.over and not self.network.weather.cut_off & {self.here, self.peer}:
            self.other._received += len(frame)
            self.other._came.append(frame)
            self.other._changed.set()


class SeededRng:
    """Chance that is the same in every run."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)

    def token_bytes(self, size_bytes: int) -> bytes:
        return self._random.randbytes(size_bytes)

    def generator(self) -> random.Random:
        return random.Random(self._random.random())


class Process(Links):
    """A process with links, which records what it receives. Its name is its address."""

    def __init__(self, name: str, network: MemoryNetwork, **options: Any) -> None:
        network.processes += 1
        options.setdefault("rng", SeededRng(f"{network.seed} {name} {network.processes}"))
        self.got: list[bytes] = []
        self.started: list[tuple[str, PeerStarted]] = []
        super().__init__(
            name,
            network.seen_by(name),
            on_payload=lambda peer, payload: self.got.append(payload),
            on_peer=lambda peer, started: self.started.append((peer, started)),
            **options,
        )


SMALL = SequenceLimits(max_frames=8, max_bytes=4096)
