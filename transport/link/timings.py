"""LinkContext: what all links of a process share, with LinkTimings, the times of a link."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...runtime import LIVENESS, Clock

if TYPE_CHECKING:
    from ..net.limited_warnings import LimitedWarnings


@dataclass(frozen=True, slots=True)
class LinkTimings:
    """Times of a link, in seconds."""

    heartbeat_s: float = LIVENESS.link_heartbeat_s
    dead_s: float = LIVENESS.link_timeout_s
    first_retry_s: float = 0.05
    max_retry_s: float = 2.0
    connect_s: float = LIVENESS.link_connect_timeout_s
    drain_s: float = LIVENESS.link_drain_timeout_s

    def __post_init__(self) -> None:
        if not 0 < self.heartbeat_s < self.dead_s:
            raise ValueError(f"0 < heartbeat_s < dead_s, or every silence ends the connection: {self}")
        if not 0 < self.first_retry_s <= self.max_retry_s or self.connect_s <= 0 or self.drain_s < 0:
            raise ValueError(f"0 < first_retry_s <= max_retry_s, 0 < connect_s, 0 <= drain_s: {self}")


@dataclass(frozen=True, slots=True)
class LinkContext:
    """What all links of a process share. `warnings`: those that peers can cause."""

    clock: Clock
    jitter: random.Random
    timings: LinkTimings
    warnings: LimitedWarnings
