"""Idle detection: has a running topology nothing left to do?

In one event loop the answer is exact: every task waits, every mailbox is empty, no sender waits for capacity, no
message is pending. It is checked when a task runs out of work, not by polling; and while a spout is known to be busy,
only when a spout has nothing to do: so a busy topology is not checked in each turn of each bolt.

1. *still*: no tuple moves. Every spout has finished, is inactive, is at its limit, or emitted nothing when it was last
   called; a spout whose `next_tuple` has been suspended for `quiet_s` counts as having emitted nothing.
2. *idle*: still, and no message is pending: no bolt holds a tuple.
3. *finished*: idle, and every spout has called `collector.finish()`; only the spout knows that there is no more data.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..actors import Mailbox
    from ..tasks import BoltTask, SpoutTask

SOON_S = 0.001
"""After this time, work that is ready now has run: an acker has read its mailbox, a spout has resumed."""


@dataclass(frozen=True, slots=True)
class IdleGoal:
    """What a caller waits for. `still`: it is enough that nothing moves; `until`: must be true as well.

    `away`: lost workers for which messages may wait here, since no process will need them. `durable`: with exactly
    once, a snapshot must have been committed since.
    """

    finished: bool = False
    still: bool = False
    quiet_s: float = 0.0
    until: Callable[[], bool] | None = None
    away: tuple[str, ...] = ()
    durable: bool = False


@dataclass(frozen=True, slots=True)
class _Waiter:
    goal: IdleGoal
    begun_s: float


class IdleDetector:
    """Waits until a running topology is still, idle or finished. `traffic_is_idle(away)`: does nothing wait here
    for other workers, or come from them, but those that are away?"""

    def __init__(
        self,
        spouts: Sequence[SpoutTask],
        bolts: Sequence[BoltTask],
        ackers: Sequence[Mailbox],
        monotonic: Callable[[], float],
        traffic_is_idle: Callable[[Collection[str]], bool] = lambda away: True,
    ) -> None:
        self._traffic_is_idle = traffic_is_idle
        self._spouts = spouts
        self._bolts = bolts
        self._ackers = ackers
        self._monotonic = monotonic
        self._waiting: dict[asyncio.Future[None], _Waiter] = {}
        self._soon: asyncio.Handle | None = None
        self._loop = asyncio.get_running_loop()

    def notify(self) -> None:
        """A task may have become quiet. Checks after all ready tasks have run, and wakes the callers that are done.

        Tasks are often quiet, topologies seldom: a check here is cheaper than waking a caller to check.
        """
        if self._waiting and self._soon is None:
            self._soon = self._loop.call_soon(self._check_all)

    def wake(self) -> None:
        """The topology has failed or ended: wake all callers."""
        for changed in self._waiting:
            if not changed.done():
                changed.set_result(None)

    def is_quiet_now(self, goal: IdleGoal) -> bool:
        """Would an earlier call of `wait` return now?"""
        recheck_s = self._check(_Waiter(goal, self._monotonic() - SOON_S))
        return recheck_s is not None and recheck_s <= 0

    def _check_all(self) -> None:
        self._soon = None
        self._bolts_matter(False)
        for changed, wait in self._waiting.items():
            if not changed.done() and self._check(wait) is not None:
                changed.set_result(None)

    def _bolts_matter(self, matter: bool) -> None:
        """Must a bolt that becomes quiet call `notify`? Not while a spout is busy: that one will."""
        for spout in self._spouts:
            spout.env.bolts_matter = matter
            return

    async def wait(self, goal: IdleGoal, broken: Callable[[], None]) -> None:
        """Wait until the goal is reached. `broken` raises if that is impossible."""
        wait = _Waiter(goal, self._monotonic())
        while True:
            broken()
            self._bolts_matter(True)
            recheck_s = self._check(wait)
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

    def _check(self, wait: _Waiter) -> float | None:
        """0: quiet now; a number: check again after so many seconds; None: check after the next change."""
        goal = wait.goal
        recheck_s = 0.0  # the spouts first: while one is busy, the others do not matter
        for spout in self._spouts:
            if (goal.finished and not spout.finished) or (spout.pending and not goal.still):
                return None
            if spout.is_idle:
                continue
            since_s = spout.waits_since_s
            if since_s is None or goal.finished:
                return None
            now_s = self._monotonic()
            recheck_s = max(recheck_s, since_s + goal.quiet_s - now_s)
            if goal.quiet_s:  # its data may have arrived a moment ago
                recheck_s = max(recheck_s, wait.begun_s + SOON_S - now_s)
        self._bolts_matter(True)
        if not all(bolt.is_idle for bolt in self._bolts) or not self._traffic_is_idle(goal.away):
            return None
        if any(box.has_control or box.has_data for box in self._ackers):
            return max(recheck_s, SOON_S)  # reading may change nothing, and then there is no notification
        if goal.until is not None and not goal.until():
            return None
        return recheck_s
