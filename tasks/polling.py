"""Polling: how a spout that had nothing to emit is asked again, a little later each time.

    nothing ─► 1 ms ─► asked ─► 2 ms ─► asked ─► … ─► interval timer ─► asked ─► interval timer ─► …      until it
    emits, or the wakeup rings

1. The waits double up to the longest; those are ended by the interval timer that all such spouts of a loop share.
2. Asked here is only `next_tuple` that runs in the loop, as long as all is as it was when the polling began: whatever
   could forbid a call (a verdict, an order, a task that has ended) rings the wakeup, or is emitted, or is being heard.
3. A poll that finds nothing looks at as little as can be. A hundred idle spouts are polled a thousand times a second,
   each time after their memory has left the processor's caches: what it looks at is what it costs.
"""

from __future__ import annotations

from typing import Any, Final, Protocol

from ..topology import Spout
from .emit.spout_collector import SpoutTaskCollector
from .interval_timer import interval_timer_of
from .wakeup import Wakeup

NOT_ASKED: Final = object()
"""The wakeup has rung, or something else is to be done before the next call."""


class Hearing(Protocol):
    """The spout task."""

    hearing: bool


class Polling:
    """Of one spout task: `first_s` and `longest_s` are the waits."""

    __slots__ = ("_first_s", "_interval_timer", "_longest_s", "_wait_s", "_wakeup", "resting")

    def __init__(self, wakeup: Wakeup, first_s: float, longest_s: float) -> None:
        self._wakeup = wakeup
        self._first_s = self._wait_s = first_s
        self._longest_s = longest_s
        # Nothing was emitted when it was last asked, and there has been no sign since that there may be more.
        self.resting = True
        self._interval_timer = interval_timer_of(wakeup.loop, longest_s)

    def soon(self) -> None:
        """There may be more than there was: the waits are short again."""
        self.resting = False
        self._wait_s = self._first_s

    async def poll(self, task: Hearing, collector: SpoutTaskCollector, spout: Spout | None) -> Any:
        """Wait and ask until a call emits or finishes, or gives something to wait for: that, None, or NOT_ASKED.

        Without `spout` nothing is asked: one wait.
        """
        wakeup, emitted = self._wakeup, collector.emitted
        while True:
            self.resting = True  # again, if `next_tuple` has called `wake` by itself
            if self._wait_s < self._longest_s:
                rung = await wakeup.wait(self._wait_s)
                self._wait_s = min(self._wait_s * 2, self._longest_s)
            else:
                rung = await wakeup.wait_for(self._interval_timer)
            if rung or spout is None or task.hearing or collector.emitted != emitted:
                return NOT_ASKED
            result = spout.next_tuple()
            if result is not None or collector.emitted != emitted or collector.finished:
                return result
