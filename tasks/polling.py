"""Polling: how a spout that had nothing to emit is called again, a little later each time.

    nothing ─► 1 ms ─► call ─► 2 ms ─► call ─► … ─► interval timer ─► call ─► interval timer ─► …      until it
    emits, or the wakeup fires

1. The waits double up to the longest one, which ends at the interval timer that all such spouts of a loop share.
2. Only a `next_tuple` that runs in the loop is called here, and only while nothing has changed since the polling began:
   whatever could forbid a call (a verdict, an order, the end of the task) fires the wakeup or sets `on_control`.
3. A poll that finds nothing reads as little as possible. A hundred idle spouts are polled a thousand times a second,
   each after its memory has left the processor's caches: reading is what costs.
"""

from __future__ import annotations

from typing import Any, Final, Protocol

from ..topology import Spout
from .emit.spout_collector import SpoutTaskCollector
from .interval_timer import interval_timer_of
from .wakeup import SpoutWakeup

NOT_CALLED: Final = object()
"""The wakeup has fired, or something else is to be done before the next call."""


class PollingTask(Protocol):
    """The spout task."""

    on_control: bool


class Polling:
    """The polling of one spout task: `first_s` and `longest_s` are the waits."""

    __slots__ = ("_first_s", "_interval_timer", "_longest_s", "_wait_s", "_wakeup", "idle")

    def __init__(self, wakeup: SpoutWakeup, first_s: float, longest_s: float) -> None:
        self._wakeup = wakeup
        self._first_s = self._wait_s = first_s
        self._longest_s = longest_s
        # The last call emitted nothing, and nothing has happened since that could bring more.
        self.idle = True
        self._interval_timer = interval_timer_of(wakeup.loop, longest_s)

    def soon(self) -> None:
        """There may be more to emit: the waits are short again."""
        self.idle = False
        self._wait_s = self._first_s

    async def poll(self, task: PollingTask, collector: SpoutTaskCollector, spout: Spout | None) -> Any:
        """Wait and call until a call emits, finishes or returns something to await. Returns that, None, or NOT_CALLED.

        Without `spout` nothing is called: one wait.
        """
        wakeup, emitted = self._wakeup, collector.emitted
        while True:
            self.idle = True  # again, if `next_tuple` has called `wake` by itself
            if self._wait_s < self._longest_s:
                rung = await wakeup.wait(self._wait_s)
                self._wait_s = min(self._wait_s * 2, self._longest_s)
            else:
                rung = await wakeup.wait_for(self._interval_timer)
            if rung or spout is None or task.on_control or collector.emitted != emitted:
                return NOT_CALLED
            result = spout.next_tuple()
            if result is not None or collector.emitted != emitted or collector.finished:
                return result
