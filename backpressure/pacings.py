"""Pacings: the spout components that are paced, and the last order to each.

    adopt (it was already waiting) ─┐
    slow ───────────────────────────┴─► Pacing ── relieve … relieve ─► is_released ─► clear

1. Each order has a number (`step`) that only grows; with the epoch of the coordinator, it is unique.
2. A component is released when each of its tasks has reported, for the last order, that it does not wait. A task that
   has received no order for a lease, and does not wait, counts as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from .messages import Pace, PaceChange, SpoutReading
from .pacer import LEAST_SLACK_S, MOST_SLACK_S
from .throttle import gain_of, trim

if TYPE_CHECKING:
    from .capacity import Capacity
    from .settings import Settings


@dataclass(slots=True)
class Pacing:
    """A paced spout component: its last order, when and why it was given; `wait_us` is the last reported wait."""

    step: int
    change: PaceChange
    at_s: float
    why: tuple[str, ...]
    time_us: int = 0
    busy: float = 0.0
    wait_us: int = 0


class Pacings:
    """The paced spout components of one coordinator. `epoch` differs for each coordinator."""

    __slots__ = ("_epoch", "_of", "_step")

    def __init__(self, epoch: int) -> None:
        self._epoch = epoch
        self._of: dict[str, Pacing] = {}
        self._step = 0

    def __len__(self) -> int:
        return len(self._of)

    def __iter__(self) -> Iterator[str]:
        return iter(self._of)

    def get(self, component: str) -> Pacing | None:
        """The pacing of a component, if it is paced."""
        return self._of.get(component)

    def adopt(self, component: str, now_s: float, wait_us: int) -> None:
        """It waits because of an order of an earlier coordinator."""
        self._start(component, Pacing(0, PaceChange.HOLD, now_s, (), wait_us=wait_us))

    def slow(self, component: str, now_s: float, causes: tuple[str, ...], time_us: int) -> None:
        """It is too fast for `causes`: one tuple of one task each `time_us`."""
        old = self._of.get(component)
        wait_us = 0 if old is None else old.wait_us
        self._start(component, Pacing(0, PaceChange.SLOW, now_s, causes, time_us, wait_us=wait_us))

    def relieve(self, component: str, now_s: float, busy: float) -> None:
        """It may be faster. `busy`: the share of time in which the bolts work."""
        self._start(component, replace(self._of[component], change=PaceChange.RELIEVE, at_s=now_s, busy=busy))

    def clear(self) -> None:
        """No component is paced."""
        self._of.clear()

    def is_released(self, component: str, readings: Iterable[SpoutReading], now_s: float, lease_s: float) -> bool:
        """Do the readings of its tasks say so?"""
        pacing = self._of[component]
        order, is_old = (self._epoch, pacing.step), now_s - pacing.at_s > lease_s
        return all(not r.wait_us and (is_old or (r.epoch, r.step) == order) for r in readings)

    def order(self, component: str, capacity: Capacity, settings: Settings) -> Pace:
        """The last order to its tasks, with what the bolts can do now."""
        pacing = self._of[component]
        fill, drain_s = capacity.fullest(component, settings)
        return Pace(
            self._epoch,
            pacing.step,
            pacing.change,
            settings.lease_s,
            pacing.time_us,
            pacing.busy,
            trim(fill, settings.low, settings.high, gain_of(drain_s, settings.interval_s)),
            min(max(drain_s / 4, LEAST_SLACK_S), MOST_SLACK_S),
            capacity.follow_us(component),
            pacing.wait_us,
        )

    def _start(self, component: str, pacing: Pacing) -> None:
        self._step += 1
        pacing.step = self._step
        self._of[component] = pacing
