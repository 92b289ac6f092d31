"""Two ends of a link, and a network between them that a test controls."""

from __future__ import annotations

import itertools
from collections import defaultdict

from aiostorm.transport import LinkSequence, PeerStarted, SequenceLimits

SMALL = SequenceLimits(max_frames=4, max_bytes=40, resend_s=0.2, max_resend_s=2.0)
HEAL_STEPS = 60
STEP_S = 0.1


class World:
    """Two ends, and everything that is under way between them, for as long as the network likes to keep it."""

    def __init__(self, limits: SequenceLimits = SMALL) -> None:
        self.limits = limits
        self.now_s = 1000.0
        self.ends: list[LinkSequence] = []
        self.under_way: list[list[bytes]] = [[], []]  # to end 0, to end 1
        self.offered: dict[tuple[int, int], list[bytes]] = defaultdict(list)
        self.delivered: dict[tuple[int, int], list[bytes]] = defaultdict(list)
        self.started: list[PeerStarted] = []
        self.waiting: list[list[bytes]] = [[], []]  # offered before there was a peer
        self._incarnations = itertools.count(7, 1_000_003)
        self._payloads = itertools.count()
        self.ends = [self._born(), self._born()]

    def _born(self) -> LinkSequence:
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
            frame = self.ends[side].next_frame(self.now_s)
            if frame is None:
                return
            self.under_way[1 - side].append(frame)

    def deliver(self, side: int, which: int, again: bool) -> None:
        if self.under_way[side]:
            which %= len(self.under_way[side])
            frame = self.under_way[side][which] if again else self.under_way[side].pop(which)
            self.come(side, frame)

    def lose(self, side: int, which: int) -> None:
        if self.under_way[side]:
            self.under_way[side].pop(which % len(self.under_way[side]))

    def pass_time(self, delay_s: float) -> None:
        self.now_s += delay_s

    def reconnect(self) -> None:
        for end in self.ends:
            end.connect(self.now_s)

    def cut(self, side: int) -> None:
        self.ends[side].disconnect()  # the other has not noticed yet

    def restart(self, side: int) -> None:
        self.ends[side] = self._born()
        self.waiting[side] = []

    # -- what must hold ------------------------------------------------------------------------------------------------

    def come(self, side: int, frame: bytes) -> None:
        end = self.ends[side]
        for told in end.receive(frame, self.now_s):
            if isinstance(told, PeerStarted):
                self.started.append(told)
                assert told.incarnation == end.peer
                pair = (end.incarnation, end.peer)
                assert pair not in self.offered, "a life never begins twice"
                self.offered[pair] = self.waiting[side]
                self.waiting[side] = []
            else:
                pair = (end.peer, end.incarnation)
                got = self.delivered[pair]
                got.append(told)
                assert got == self.offered[pair][: len(got)], "in order, once, and nothing but what was offered"
        assert end.held_bytes <= self.limits.max_bytes

    def exchange(self) -> None:
        """The network lets all through, in order, until nobody has anything to say."""
        for _ in range(100):
            for side in (0, 1):
                self.send(side, 1000)
            if not any(self.under_way):
                return
            for side in (0, 1):
                while self.under_way[side]:
                    self.come(side, self.under_way[side].pop(0))
        raise AssertionError("they talk and talk")

    def heal(self, *, reconnect: bool = True) -> int:
        """How many steps until all has come, once the network lets all through?"""
        if reconnect:
            self.reconnect()
        for step in range(HEAL_STEPS):
            self.exchange()
            if all(end.established and not end.unacked_frames for end in self.ends):
                assert [end.held_bytes for end in self.ends] == [0, 0]
                assert [end.due_s() for end in self.ends] == [float("inf")] * 2
                return step
            self.pass_time(STEP_S)
        raise AssertionError([(end.established, end.unacked_frames, end.superseded) for end in self.ends])
