"""Two ends of a link, and the connection between them: it keeps the order, and breaks where a test wants."""

from __future__ import annotations

import itertools
from collections import defaultdict, deque

from aiostorm.transport import LinkSequence, PeerStarted, SequenceLimits

SMALL = SequenceLimits(max_frames=4, max_bytes=40)
HEAL_STEPS = 60


class World:
    """Two ends, and the frames in flight between them, in their order."""

    def __init__(self, limits: SequenceLimits = SMALL) -> None:
        self.limits = limits
        self.now_s = 1000.0
        self.ends: list[LinkSequence] = []
        self.in_flight: list[deque[bytes]] = [deque(), deque()]  # to end 0, to end 1
        self.offered: dict[tuple[int, int], list[bytes]] = defaultdict(list)
        self.delivered: dict[tuple[int, int], list[bytes]] = defaultdict(list)
        self.started: list[PeerStarted] = []
        self.waiting: list[list[bytes]] = [[], []]  # offered before there was a peer
        self._incarnations = itertools.count(7, 1_000_003)
        self._payloads = itertools.count()
        self.ends = [self._new_end(), self._new_end()]

    def _new_end(self) -> LinkSequence:
        return LinkSequence(next(self._incarnations), limits=self.limits)

    # -- what may happen -----------------------------------------------------------------------------------------------

    def offer(self, side: int) -> None:
        end = self.ends[side]
        payload = b"%d" % next(self._payloads)
        if end.offer(payload):
            (self.offered[end.incarnation, end.peer] if end.peer else self.waiting[side]).append(payload)
        assert end.unacked_frames <= self.limits.max_frames
        assert end.unacked_bytes <= self.limits.max_bytes

    def send(self, side: int, frames: int) -> None:
        for _ in range(frames):
            frame = self.ends[side].next_frame()
            if frame is None:
                return
            self.in_flight[1 - side].append(frame)

    def deliver(self, side: int, frames: int = 1) -> None:
        for _ in range(min(frames, len(self.in_flight[side]))):
            self.arrive(side, self.in_flight[side].popleft())

    def heartbeat(self, side: int) -> None:
        self.ends[side].ack_due = self.ends[side].established

    def reconnect(self) -> None:
        """The connection has broken: all frames that have not arrived are lost. Here is another one."""
        self.in_flight = [deque(), deque()]
        for end in self.ends:
            end.connect()

    def cut(self, side: int) -> None:
        self.ends[side].disconnect()  # the other end has not noticed yet
        self.in_flight[side].clear()

    def restart(self, side: int) -> None:
        """A new incarnation, without a connection. Frames of the previous one may still arrive."""
        self.ends[side] = self._new_end()
        self.waiting[side] = []
        self.in_flight[side].clear()

    # -- what must hold ------------------------------------------------------------------------------------------------

    def arrive(self, side: int, frame: bytes) -> None:
        end = self.ends[side]
        for found in end.receive(frame, self.now_s):
            if isinstance(found, PeerStarted):
                self.started.append(found)
                assert found.incarnation == end.peer
                pair = (end.incarnation, end.peer)
                assert pair not in self.offered, "an incarnation never begins twice"
                self.offered[pair] = self.waiting[side]
                self.waiting[side] = []
            else:
                pair = (end.peer, end.incarnation)
                got = self.delivered[pair]
                got.append(found)
                assert got == self.offered[pair][: len(got)], "in order, once, and nothing but what was offered"

    def exchange(self) -> None:
        """The connection lives until neither end has a frame to send."""
        for _ in range(100):
            for side in (0, 1):
                self.send(side, 1000)
            if not any(self.in_flight):
                return
            for side in (0, 1):
                self.deliver(side, 1000)
        raise AssertionError("the two ends never stop sending")

    def heal(self) -> int:
        """How many steps until all has arrived and is acknowledged, on a connection that lives?"""
        self.reconnect()
        for step in range(HEAL_STEPS):
            self.exchange()
            if all(end.established and not end.unacked_frames for end in self.ends):
                return step
            for side in (0, 1):
                self.heartbeat(side)
        raise AssertionError([(end.established, end.unacked_frames, end.superseded) for end in self.ends])
