"""Throttle: how long a spout task waits for each tuple that it emits. Pure, in whole units of time (microseconds).

    slow(10)  slow(10)  slow(10)  relieve  relieve  relieve  relieve
       10        11        12        6        3        1        0 = released

1. The first `slow(t)` makes the wait t, or 1. A later one goes halfway to the longest wait so far, or to t if that is
   longer; at the longest it goes on in small steps (STEP of it, at least 1).
2. `relieve` goes halfway to where the last relief went; a second one in a row halves. 0 is released: all is forgotten.
3. Who knows how busy the bolt was, says so (`busy`, 0 to 1): then the wait becomes that share of itself at the most,
   and a little less (MARGIN) at the least. Halving is for who knows nothing.
4. A wait that has held nobody back for a period (`bound` is false) is no wait: relieve ends it.
5. `follow`: what a bolt takes that is never idle is known. Nothing has to be tried then.
6. `trim` bends the wait a little (MOST_TRIM), by how full the mailbox is: between its marks it finds the rate at which
   it stays as full as it is, and nothing has to overflow or run empty for that.

From: JStorm 2.1.1, BackpressureController: 1 and 2, as the traces of its tests have them, in milliseconds. 3 to 6 are
ours: halving again and again makes a spout twice as fast as its bolt, then as slow, then twice as fast.
"""

from __future__ import annotations

from typing import Final

STEP: Final = 16
"""A step beyond the longest wait is so many parts of it."""

MOST_TRIM: Final = 0.06
"""The wait is trimmed by this share at most."""

MOST_GAIN: Final = 0.16
"""So much of the wait per mailbox that is too much or too little: MOST_TRIM at the marks that are the default."""

MARGIN: Final = 0.95
"""A relief that knows how busy the bolt was goes beyond it by this: nobody can be seen to be more than fully busy."""

MAX_WAIT: Final = 10_000_000
"""Ten seconds in microseconds. A bolt that hangs is what mailboxes are for."""


class Throttle:
    """Of one spout task."""

    def __init__(self) -> None:
        self.wait = 0
        self._longest = 0
        self._lowest = 0
        self._relieved = False

    def slow(self, time: int) -> None:
        """A bolt cannot keep up; it takes so long for what is one tuple of this spout task's."""
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
        """The bolts that could not keep up have next to nothing to do."""
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
        """The bolt has something to do all the time, and takes so long: be as fast, half of the way at a time."""
        if self.wait:
            self.wait = min(max((self.wait + time) // 2, 1), MAX_WAIT)
            self._longest = max(self._longest, self.wait)

    def adopt(self, wait: int) -> None:
        """Wait as the others of its component do: it has come (again) while they wait."""
        self.wait = self._longest = min(max(wait, 0), MAX_WAIT)

    def release(self) -> None:
        """Wait for nothing, and know nothing."""
        self.wait = self._longest = self._lowest = 0
        self._relieved = False


def trim(fill: float, low: float, high: float, gain: float) -> float:
    """By what share a wait is to be longer (or shorter, below 0), `fill` being the mailbox's."""
    return min(max(gain * (fill - (low + high) / 2), -MOST_TRIM), MOST_TRIM)


def gain_of(drain_s: float, interval_s: float) -> float:
    """How strongly the fill is to be answered: less, the sooner a full mailbox is empty.

    What is seen is one interval old, and is answered for one interval more: a gain of G with a mailbox that takes D
    seconds to drain corrects at G/D per second, which must not overshoot within two intervals.
    """
    return min(MOST_GAIN, drain_s / (4 * interval_s))
