"""Messages: what a gauge, the topology master and the tasks tell each other. All on control lanes.

    gauge (one a process) ── Readings, each interval ─► topology master ── Pace, each interval ─► spout task
                                                                        ── Clear ─► bolt task

Each says how things are, not what has changed: one that is lost is made up for by the next.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from .sampler import PressureVerdict


@dataclass(frozen=True, slots=True)
class BoltReading:
    """How a bolt task is. `fill` and `capacity` in tuples, `executed` tuples in this life of its process.

    `step` counts the verdicts. `busy` (0 to 1) in the time that the last one is about; `load` in the last interval: 1
    if it had something to do all the time. `starved`: it ran out of work within the last period. `blocks`: how many
    verdicts in a row were BLOCKED.
    """

    task: int
    fill: int
    capacity: int
    executed: int
    flagged: bool = False
    verdict: PressureVerdict = PressureVerdict.NONE
    step: int = 0
    busy: float = 0.0
    load: float = 0.0
    starved: bool = False
    blocks: int = 0


@dataclass(frozen=True, slots=True)
class SpoutReading:
    """How a spout task is. `wait_us` for each tuple; `epoch` and `step` of the order that it took last.

    `active`: it may emit, and has not finished.
    """

    task: int
    emitted: int
    wait_us: int = 0
    epoch: int = 0
    step: int = 0
    active: bool = True


@dataclass(frozen=True, slots=True)
class Readings:
    """From a gauge. `life` is another one for each process; `at_s` is read from its clock."""

    life: int
    at_s: float
    bolts: tuple[BoltReading, ...] = ()
    spouts: tuple[SpoutReading, ...] = ()


class PaceChange(enum.StrEnum):
    """What an order asks for."""

    HOLD = "hold"
    SLOW = "slow"
    RELIEVE = "relieve"


@dataclass(frozen=True, slots=True)
class Pace:
    """To a spout task: an order, which holds for `lease_s`. Its change is taken once for each (epoch, step).

    SLOW: `time_us` is what a tuple of this task's takes. RELIEVE: the bolts were `busy`. Each time: `trim` bends the
    wait by so much, `slack_s` is what may be made up for in one go, `follow_us` what a tuple takes now (0: cannot be
    told), `others_us` what others of its component wait.
    """

    epoch: int
    step: int
    change: PaceChange
    lease_s: float
    time_us: int = 0
    busy: float = 0.0
    trim: float = 0.0
    slack_s: float = 0.0
    follow_us: int = 0
    others_us: int = 0


@dataclass(frozen=True, slots=True)
class Clear:
    """To a flagged bolt task: all is over."""
