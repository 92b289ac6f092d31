"""Settings: what of a topology's configuration is about pacing, and what follows from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ..topology import Config

LEASE_INTERVALS: Final = 5
"""What was not said again for so many check intervals does not hold any more."""

LEAST_LEASE_S: Final = 0.5
"""Nor less than this: it may be only that user code has held up the loop."""

MOST_LEASE_S: Final = 86_400.0
"""Nor more: who takes orders refuses longer ones."""


@dataclass(frozen=True, slots=True)
class Settings:
    """`high`, `low`: shares of a mailbox; `ratio` of a component's tasks; `rate` of the `samples` of a period.

    `target_s`: seconds of work that a mailbox holds; 0: as many tuples as it can.
    """

    enable: bool = True
    high: float = 0.8
    low: float = 0.05
    ratio: float = 0.1
    interval_s: float = 1.0
    samples: int = 4
    rate: float = 0.75
    target_s: float = 0.2

    @classmethod
    def of(cls, config: Config) -> Settings:
        """Those of a topology."""
        return cls(
            enable=config.backpressure_enable,
            high=config.backpressure_high_mark,
            low=config.backpressure_low_mark,
            ratio=config.backpressure_trigger_ratio,
            interval_s=config.backpressure_check_interval_ms / 1000,
            samples=config.backpressure_sample_number,
            rate=config.backpressure_sample_rate,
            target_s=config.mailbox_target_ms / 1000,
        )

    @property
    def period_s(self) -> float:
        """So long a task looks before it judges."""
        return self.interval_s * self.samples

    @property
    def lease_s(self) -> float:
        """So long a report or an order holds."""
        return min(max(self.interval_s * LEASE_INTERVALS, LEAST_LEASE_S), MOST_LEASE_S)

    def are_enough(self, count: int) -> bool:
        """Are so many of a period's samples more than `rate`? 1 means all of them."""
        return count / self.samples > self.rate or count == self.samples
