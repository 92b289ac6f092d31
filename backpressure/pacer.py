"""Pacer: lets tuples go at an even rate. Pure: the time passed in.

    wait 4 ms a tuple:   emit ··4·· emit ··4·· emit          wait 40 us:   250 in a turn ··10·· 250 ··10·· …

1. A wait belongs to a tuple, and a turn has several: as many tuples go at once as TURN_S allows, at least one.
2. Tuples that could not go in time go later, up to `slack_s` of them: a spout that was delayed for another reason does
   not make up for all of it at once.
3. A turn counts at the pace at which it started, if that was faster: an order that arrives while `next_tuple` waits for
   its source does not apply to what was emitted before it.
4. `delayed_s` adds up the time that it really delayed tuples.

From: the virtual scheduling algorithm (GCRA) of ITU-T I.371.
"""

from __future__ import annotations

import math
from typing import Final

TURN_S: Final = 0.01
LEAST_SLACK_S: Final = 0.05
MOST_SLACK_S: Final = 1.0


class Pacer:
    """The pacer of one spout task. `wait_s` 0: all tuples may go."""

    def __init__(self) -> None:
        self.wait_s = 0.0
        self.delayed_s = 0.0
        self.slack_s = LEAST_SLACK_S
        self._next_s = 0.0

    def pace(self, wait_s: float, now_s: float) -> None:
        """Wait this long for each tuple from now on."""
        if self.wait_s == 0.0:
            self._next_s = now_s
        elif self._next_s > now_s and self.wait_s > wait_s:  # a shorter wait applies at once
            self._next_s = now_s + (self._next_s - now_s) * wait_s / self.wait_s
        self.wait_s = wait_s

    def delay_s(self, now_s: float) -> float:
        """Seconds until the next tuple may go; 0: now."""
        return max(self._next_s - now_s, 0.0) if self.wait_s else 0.0

    def turn(self) -> int:
        """The number of tuples that may go in one turn."""
        return max(1, int(TURN_S / self.wait_s)) if self.wait_s else 1 << 30

    def sent(self, count: int, now_s: float, begun_at_s: float = math.inf) -> None:
        """`count` tuples were emitted in a turn that started when the wait was `begun_at_s` (0: none)."""
        if self.wait_s:
            self._next_s = max(self._next_s, now_s - self.slack_s) + count * min(self.wait_s, begun_at_s)
