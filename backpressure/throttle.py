"""Throttle: how long a spout task waits for each tuple that it emits. Pure, in whole units of time (microseconds).

    slow(10)  slow(10)  slow(10)  relieve  relieve  relieve  relieve
      10        11        12        6        3        1        0 = released

1. The first `slow(t)` sets the wait to t, or 1. A later one goes halfway to the longest wait so far, or to t if that is
   longer; at the longest wait it continues in small steps (STEP of it, at least 1).
2. `relieve` goes halfway to where the last relief went; a second one in a row halves. 0 is released: all is forgotten.
3. If the caller knows how busy the bolt was (`busy`, 0 to 1), the wait becomes at most that share of itself, and is
   reduced by at least MARGIN. Halving is for a caller that does not know.
4. A wait that has delayed no tuple for a period (`bound` is false) is no wait: relieve ends it.
5. `follow`: the time of a bolt that is never idle is known, so the throttle need not search for it.
6. `trim` changes the wait a little (MOST_TRIM), by the fill of the mailbox: between its marks it finds the rate at
   which the fill stays the same, so that the mailbox neither overflows nor runs empty.

From: JStorm 2.1.1, BackpressureController: 1 and 2, as in the traces of its tests, in milliseconds. 3 to 6 are ours:
halving repeatedly makes a spout twice as fast as its bolt, then as slow, then twice as fast.
"""

from __future__ import annotations

from typing import Final

STEP: Final = 16
"""A step beyond the longest wait is one part in this many of it."""

MOST_TRIM: Final = 0.06
"""The largest share by which the wait is trimmed."""

MOST_GAIN: Final = 0.16
"""The share of the wait per mailbox of too much or too little: MOST_TRIM at the default marks."""

MARGIN: Final = 0.95
"""A relief with a known `busy` goes below it by this share: a bolt never appears more than fully busy."""

MAX_WAIT: Final = 10_000_000
"""Ten seconds in microseconds. For a stuck bolt there are the mailboxes."""


class Throttle:
    """The throttle of one spout task."""

    def __init__(self) -> None:
        self.wait = 0
        self._longest = 0
        self._lowest = 0
        self._relieved = False

    def slow(self, time: int) -> None:
        """A bolt cannot keep up; it takes `time` for one tuple of this spout task."""
        time = min(max(time, 0), MAX_WAIT)
        if self.wait == 0:
            self.wait = max(time, 1)
        elif time > self._longest:
            self.wait = time
        elif self.wait < self._longest:
            self.wait = -(-(self.wait + self._longest) // 2)
        else:
            self.wait = min(self.wait + max(1, self.wait // STEP), MAX_WAIT)
        self._longest = max(self._longest, self.wait)
        self._relieved = False

    def relieve(self, busy: float | None = None, *, bound: bool = True) -> None:
        """The bolts that could not keep up have almost no work left."""
        halved = self.wait // 2 if self._relieved else (self.wait + self._lowest) // 2
        if busy is not None:
            share = min(max(busy, 0.0), 1.0) * self.wait
            halved = max(int(MARGIN * share), min(halved, int(share)))
        self.wait = min(halved, self.wait - 1) if bound and self.wait else 0
        self._lowest = self.wait
        self._relieved = True
        if self.wait <= 0:
            self.release()

    def follow(self, time: int) -> None:
        """The bolt always has work, and takes `time`: go halfway to that."""
        if self.wait:
            self.wait = min(max((self.wait + time) // 2, 1), MAX_WAIT)
            self._longest = max(self._longest, self.wait)

    def adopt(self, wait: int) -> None:
        """Wait as the other tasks of the component: this one has started (again) while they wait."""
        self.wait = self._longest = min(max(wait, 0), MAX_WAIT)

    def release(self) -> None:
        """Stop waiting, and forget everything."""
        self.wait = self._longest = self._lowest = 0
        self._relieved = False


def trim(fill: float, low: float, high: float, gain: float) -> float:
    """The share by which a wait is to be longer (or shorter, below 0) at this `fill` of the mailbox."""
    return min(max(gain * (fill - (low + high) / 2), -MOST_TRIM), MOST_TRIM)


def gain_of(drain_s: float, interval_s: float) -> float:
    """How strongly to react to the fill: less, the sooner a full mailbox is empty.

    A reading is one interval old, and the reaction lasts one interval more: a gain of G with a mailbox that takes D
    seconds to drain corrects at G/D per second, which must not overshoot within two intervals.
    """
    return min(MOST_GAIN, drain_s / (4 * interval_s))
