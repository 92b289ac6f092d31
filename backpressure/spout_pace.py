"""Spout pace: how one spout task applies the orders of the topology master. Pure.

1. An order is applied once, however often it arrives, and is valid for its lease: if the master falls silent, no spout
   keeps waiting.
2. A task that starts (again) while the other tasks of its component wait, waits as they do.
3. Switching off has an effect at once, whatever orders are still on their way.
"""

from __future__ import annotations

from .messages import Pace, PaceChange
from .pacer import Pacer
from .throttle import Throttle

BOUND: float = 0.01
"""A wait that delayed less than this share of the time since the last order counts as none."""


class SpoutPace:
    """The throttle, pacer and lease of one spout task."""

    def __init__(self) -> None:
        self.pacer = Pacer()
        self.throttle = Throttle()
        self.epoch = 0
        self.step = 0
        self.is_off = False
        self._trim = 0.0
        self._until_s: float | None = None
        self._taken_s = 0.0

    @property
    def wait_us(self) -> int:
        """The wait for each tuple, untrimmed; 0: none."""
        return self.throttle.wait

    @property
    def has_order(self) -> bool:
        """Is there an order whose lease has not expired?"""
        return self._until_s is not None

    def order(self, pace: Pace, now_s: float) -> None:
        """Apply an order of the master. One that arrives after switching off was sent before, and is ignored."""
        if self.is_off:
            return
        new = (pace.epoch, pace.step) != (self.epoch, self.step)
        first = self.epoch == 0
        self.epoch, self.step = pace.epoch, pace.step
        self._until_s = now_s + pace.lease_s
        self._trim = pace.trim
        self.pacer.slack_s = pace.slack_s
        if first and pace.others_us:
            self.throttle.adopt(pace.others_us)
        elif new and pace.change is PaceChange.SLOW and not (self.wait_us and pace.follow_us):
            self.throttle.slow(pace.time_us)
        elif new and pace.change is PaceChange.RELIEVE and self.wait_us:
            delayed_s, passed_s = self.pacer.delayed_s, now_s - self._taken_s
            self.throttle.relieve(pace.busy, bound=delayed_s > BOUND * passed_s)
        elif pace.follow_us:  # the time is known: no need to search for it
            self.throttle.follow(pace.follow_us)
        if new:
            self.pacer.delayed_s, self._taken_s = 0.0, now_s
        self._apply(now_s)

    def expire(self, now_s: float) -> bool:
        """Has the lease of a wait just expired? Then the task waits no more."""
        if self._until_s is None or now_s < self._until_s:
            return False
        waited = self.wait_us > 0
        self.release(now_s)
        return waited

    def switch(self, on: bool, now_s: float) -> None:
        """Accept orders from now on, or release the task and accept none."""
        self.is_off = not on
        if not on:
            self.release(now_s)

    def release(self, now_s: float) -> None:
        """Stop waiting."""
        self._until_s = None
        self._trim = 0.0
        self.throttle.release()
        self._apply(now_s)

    def _apply(self, now_s: float) -> None:
        self.pacer.pace(self.wait_us * (1 + self._trim) / 1e6, now_s)
