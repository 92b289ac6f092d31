"""Messages between monitors, the topology master and the tasks. All use control lanes.

    monitor (one a process) ── Readings, each interval ─► topology master ── Pace, each interval ─► spout task
                                                                          ── Clear ─► bolt task

Each message contains the current state, not a change: the next message makes up for a lost one.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from .sampler import PressureVerdict


@dataclass(frozen=True, slots=True)
class BoltReading:
    """The state of a bolt task. `fill` and `capacity` in tuples, `executed` tuples in this incarnation of its process.

    `step` counts the verdicts. `busy` (0 to 1) in the time that the last verdict is about; `load` in the last interval:
    1 if it always had work. `starved`: it ran out of work within the last period. `blocks`: how many verdicts in a row
    were BLOCKED.
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
    """The state of a spout task. `wait_us` for each tuple; `epoch` and `step` of the last order that it accepted.

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
    """From a monitor. `incarnation` differs for each process; `at_s` is the time on the monitor's clock."""

    incarnation: int
    at_s: float
    bolts: tuple[BoltReading, ...] = ()
    spouts: tuple[SpoutReading, ...] = ()


class PaceChange(enum.StrEnum):
    """The kinds of orders."""

    HOLD = "hold"
    SLOW = "slow"
    RELIEVE = "relieve"


@dataclass(frozen=True, slots=True)
class Pace:
    """An order to a spout task, valid for `lease_s`. It is applied once for each (epoch, step).

    SLOW: `time_us` is the time of one tuple of this task. RELIEVE: the bolts were `busy`. Always: `trim` changes the
    wait by that share, `slack_s` is how much a spout may make up for at once, `follow_us` is the time of a tuple now
    (0: unknown), `others_us` is the wait of the other tasks of its component.
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
    """To a flagged bolt task: the state is NORMAL again."""
