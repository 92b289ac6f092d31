"""Settings: the part of a topology's configuration that is about pacing, and values that follow from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ..topology import Config

LEASE_INTERVALS: Final = 5
"""Check intervals after which a reading or order that was not renewed expires."""

LEAST_LEASE_S: Final = 0.5
"""The shortest lease: user code may have blocked the event loop for a while."""

MOST_LEASE_S: Final = 86_400.0
"""The longest lease: receivers refuse longer orders."""


@dataclass(frozen=True, slots=True)
class Settings:
    """`high`, `low`: shares of a mailbox; `ratio` of a component's tasks; `rate` of the `samples` of a period.

    `target_s`: seconds of work in a mailbox; 0: as many tuples as its capacity.
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
        """The settings of a topology."""
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
        """Seconds over which a task collects samples for a verdict."""
        return self.interval_s * self.samples

    @property
    def lease_s(self) -> float:
        """Seconds for which a report or an order is valid."""
        return min(max(self.interval_s * LEASE_INTERVALS, LEAST_LEASE_S), MOST_LEASE_S)

    def are_enough(self, count: int) -> bool:
        """Are `count` of a period's samples more than `rate`? 1 means all of them."""
        return count / self.samples > self.rate or count == self.samples
