"""Quiet: has a running topology nothing left to do?

In one event loop this has an exact answer: every task waits, every mailbox is empty, nothing waits for room, no message
is pending. It is looked at when a task runs out of work, not by polling.

1. *still*: nothing moves. Every spout has finished, is inactive, is at its limit, or emitted nothing when it was last
   asked; a spout whose `next_tuple` has been suspended for `quiet_s` counts as having emitted nothing.
2. *idle*: still, and no message is pending: no bolt holds a tuple.
3. *finished*: idle, and every spout has called `collector.finish()`; nobody else can know that no more will come.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..actors import Mailbox
from ..tasks import BoltTask, SpoutTask

SOON_S = 0.001
"""What is ready now has run after so long: an acker has read its mailbox, a spout has got what it waits for."""


@dataclass(frozen=True, slots=True)
class _Wait:
    """What somebody waits for. `until`: this too must be true then."""

    finished: bool
    held: bool
    quiet_s: float
    until: Callable[[], bool] | None
    begun_s: float


class IdleDetector:
    """Waits for a running topology to become still, idle or finished. `also`: is what leads elsewhere quiet?"""

    def __init__(
        self,
        spouts: Sequence[SpoutTask],
        bolts: Sequence[BoltTask],
        ackers: Sequence[Mailbox],
        monotonic: Callable[[], float],
        also: Callable[[], bool] = lambda: True,
    ) -> None:
        self._also = also
        self._spouts = spouts
        self._bolts = bolts
        self._ackers = ackers
        self._monotonic = monotonic
        self._waiting: dict[asyncio.Future[None], _Wait] = {}
        self._soon: asyncio.Handle | None = None
        self._loop = asyncio.get_running_loop()

    def notify(self) -> None:
        """Something may have become quiet. Looks once all that runs now has run, and only then wakes somebody.

        Tasks rest often, topologies seldom: a look is cheaper than a task that wakes up to look.
        """
        if self._waiting and self._soon is None:
            self._soon = self._loop.call_soon(self._look_for_all)

    def wake(self) -> None:
        """Something is broken or over: whoever waits must hear of it."""
        for changed in self._waiting:
            if not changed.done():
                changed.set_result(None)

    def is_quiet_now(self, *, finished: bool, held: bool, quiet_s: float) -> bool:
        """Would `wait` return at once, if it had been called a while ago?"""
        wait = _Wait(finished, held, quiet_s, None, self._monotonic() - SOON_S)
        recheck_s = self._look(wait)
        return recheck_s is not None and recheck_s <= 0

    def _look_for_all(self) -> None:
        self._soon = None
        for changed, wait in self._waiting.items():
            if not changed.done() and self._look(wait) is not None:
                changed.set_result(None)

    async def wait(
        self,
        *,
        finished: bool,
        quiet_s: float,
        broken: Callable[[], None],
        held: bool = False,
        until: Callable[[], bool] | None = None,
    ) -> None:
        """Wait until it is idle (or finished; or, with `held`, still). `broken` raises if it never will be."""
        wait = _Wait(finished, held, quiet_s, until, self._monotonic())
        while True:
            broken()
            recheck_s = self._look(wait)
            if recheck_s is not None and recheck_s <= 0:
                return
            changed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting[changed] = wait
            try:
                async with asyncio.timeout(recheck_s):
                    await changed
            except TimeoutError:
                continue
            finally:
                del self._waiting[changed]

    def _look(self, wait: _Wait) -> float | None:
        """0: quiet now; a number: look again in so many seconds; None: when something changes."""
        recheck_s = 0.0  # the spouts first: as long as one is busy, nobody need ask the others
        for spout in self._spouts:
            if (wait.finished and not spout.finished) or (spout.pending and not wait.held):
                return None
            if spout.is_idle:
                continue
            since_s = spout.waits_since_s
            if since_s is None or wait.finished:
                return None
            now_s = self._monotonic()
            recheck_s = max(recheck_s, since_s + wait.quiet_s - now_s)
            if wait.quiet_s:  # what it waits for may be there since a moment ago
                recheck_s = max(recheck_s, wait.begun_s + SOON_S - now_s)
        if not all(bolt.is_idle for bolt in self._bolts) or not self._also():
            return None
        if any(box.has_control or box.has_data for box in self._ackers):
            return max(recheck_s, SOON_S)  # what it reads may lead to nothing, and then it tells nobody
        if wait.until is not None and not wait.until():
            return None
        return recheck_s
