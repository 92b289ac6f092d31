"""Faults: what a simulated world does to the system, as a script that the seed draws and that can be cut down.

| kind | what happens |
|---|---|
| crash | the process is killed (`kill -9`), some time later it starts again; sometimes right after an effect outside |
| pause | the process is frozen (SIGSTOP), up to a minute |
| slow | the processor is up to 20 times slower |
| clock | the wall clock jumps by up to a day, or the process's clock runs up to 10 % fast or slow for a while |
| error | a bolt's `execute` raises, before or after it has done its work |
| loss | segments, and messages to and from ackers, are lost: as when a worker dies |
| repeat | messages to and from ackers come twice |
| late | messages to and from ackers are up to 5 s late, and overtake one another |
| acker | an acker fails and is started again |
| steer | the topology is deactivated for a while |

Of several processes (a fleet) instead of the last six:

| kind | what happens |
|---|---|
| partition | some processes do not reach the others, both ways or one way |
| flap | the connections between two processes are cut again and again |
| half | the connections between two processes end for one side only |
| sever | connections from one process to another, or all, break at any frame: it and all later ones are lost |
| silence | nothing that one process sends on its connections to another arrives; the other direction works |
| refuse | new connections from one process to another, or all, are refused |
| lag, narrow | frames are up to 5 s late, in their order; a line carries few bytes a second |
| full, sync, disk | a disk is full; a sync fails; a disk is slow |
| replace | a process is taken for dead, and its spare is started: both may live |
| error, oust | what the fleet's workload makes of them: a bolt raises; a frozen process is replaced and goes on |

1. A script is data: (when, what, how much, how long), in true seconds from the world's start. A fault that is left out
   does not happen, so a failing script can be shrunk by leaving out more and more (shrink.py).
2. Each seed enables a random subset of the kinds: faults hide one another. How many there are, and how bad, is drawn
   from wide ranges. Many follow another closely: systems break by a second fault while they recover.

From: TigerBeetle's and FoundationDB's simulators; "Swarm Testing" (Groce et al., ISSTA 2012).
"""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ..errors import ScriptError

KINDS: Final = ("crash", "pause", "slow", "clock", "error", "loss", "repeat", "late", "acker", "steer")

FLEET_KINDS: Final = (
    *("crash", "pause", "slow", "clock"),
    *("partition", "flap", "half", "sever", "silence", "refuse", "lag", "narrow"),
    *("full", "sync", "disk", "replace"),
)

PER_MINUTE: Final = {
    # The most that a seed may draw. (A task that fails more than 5 times in 30 s fails its topology, as documented.)
    "crash": 1.5,
    "pause": 1.0,
    "slow": 1.0,
    "clock": 2.0,
    "error": 4.0,
    "loss": 2.0,
    "repeat": 2.0,
    "late": 2.0,
    "acker": 1.0,
    "steer": 0.5,
}

FLEET_PER_MINUTE: Final = dict.fromkeys(FLEET_KINDS, 4.0) | {"crash": 8.0, "error": 4.0, "oust": 4.0}

_RANGES: Final[dict[str, tuple[tuple[float, float] | None, tuple[float, float] | None]]] = {
    # Amount and length: from, to.
    "pause": (None, (0.05, 60)),
    "slow": ((1.5, 20), (0.1, 30)),
    "loss": ((0.002, 0.4), (0.1, 20)),
    "repeat": ((0.002, 0.4), (0.1, 20)),
    "late": ((0.05, 5), (0.1, 20)),
    "steer": (None, (0.05, 10)),
    "flap": ((0.05, 5), (0.5, 20)),
    "half": (None, None),
    "sever": ((0.001, 0.2), (0.5, 60)),
    "silence": (None, None),
    "refuse": (None, (0.1, 20)),
    "lag": ((0.05, 5), (0.1, 60)),
    "narrow": ((2e3, 1e6), (0.5, 60)),
    "full": (None, (0.1, 20)),
    "sync": (None, None),
    "disk": ((2, 200), (0.1, 20)),
    "replace": (None, None),
    "oust": (None, (6, 30)),
}


_CLUSTERED: Final = 0.4


@dataclass(frozen=True, slots=True)
class Fault:
    """At `at_s` (true seconds) this happens. What `amount` is depends on the kind; `for_s` is how long it lasts."""

    at_s: float
    kind: str
    amount: float = 0.0
    for_s: float = 0.0
    choice: int = 0
    """In a fleet: the process, or the two processes; the operator takes it modulo their number."""

    def __str__(self) -> str:
        lasts = f" for {self.for_s:.3f} s" if self.for_s else ""
        how = _HOW.get(f"{self.kind} {'for' if self.for_s else 'once'}", _HOW.get(self.kind, " ({:.3g})"))
        amount = how.format(self.amount) if self.amount else ""
        return f"{self.at_s:10.3f}  {self.kind}{amount}{lasts}"


_HOW: Final = {
    # The meaning of an amount, for readers of a script. (For an error and an acker it only says which one.)
    "crash": " after its next effect outside, down",
    "slow": " {:.1f} times",
    "clock once": " jumps by {:.3f} s",
    "clock for": " runs at {:.4f}",
    "error": "",
    "acker": "",
    "loss": " of {:.1%}",
    "repeat": " of {:.1%}",
    "late": " up to {:.3f} s",
    "partition": " one way",
    "flap": " every {:.3f} s",
    "sever": " at {:.2%} of frames",
    "lag": " up to {:.3f} s",
    "narrow": " to {:,.0f} bytes/s",
    "disk": " {:.1f} times slower",
}


def kinds_of(faults: str | Collection[str] | None, known: Sequence[str] = KINDS) -> tuple[str, ...]:
    """The kinds that a user names: "crash late", ["crash"], "none", or None for all. ScriptError for an unknown one."""
    if faults is None or faults == "all":
        return tuple(known)
    names = faults.replace(",", " ").split() if isinstance(faults, str) else list(faults)
    if names == ["none"]:
        return ()
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ScriptError(f"no such fault: {', '.join(map(repr, unknown))}; there are: {', '.join(known)}, all, none")
    return tuple(name for name in known if name in names)


class FaultScript:
    """The faults of one seed. `only`: the indices of those that happen; None: all."""

    def __init__(self, kinds: Sequence[str], only: Collection[int] | None) -> None:
        self.kinds = kinds
        self.only = only
        self.drawn: list[Fault] = []
        """The whole script; `only` names faults by their index in it."""
        self.script: list[Fault] = []
        """Those that happen."""

    def draw(self, chance: random.Random, begin_s: float, span_s: float, *, fleet: bool = False) -> None:
        """Draw it for this time."""
        self.drawn = draw(chance, self.kinds, begin_s, span_s, fleet=fleet)
        self.script = [fault for i, fault in enumerate(self.drawn) if self.only is None or i in self.only]


def draw(
    chance: random.Random, kinds: Sequence[str], begin_s: float, span_s: float, *, fleet: bool = False
) -> list[Fault]:
    """A script for the time from `begin_s` on, `span_s` long, in order."""
    enabled = [kind for kind in kinds if chance.random() < 0.6]
    if kinds and not enabled:
        enabled = [chance.choice(kinds)]
    per_minute = FLEET_PER_MINUTE if fleet else PER_MINUTE
    script: list[Fault] = []
    for kind in enabled:
        most = max(1, round(per_minute[kind] * span_s / 60))
        for _ in range(chance.randint(1, most)):
            at_s = begin_s + chance.random() * span_s
            if script and chance.random() < _CLUSTERED:
                at_s = min(chance.choice(script).at_s + _between(chance, 0.001, 5), begin_s + span_s)
            script.append(_draw_one(chance, kind, at_s, span_s))
    if fleet:
        script = [replace(fault, choice=chance.randrange(1 << 16)) for fault in script]
    return sorted(script, key=lambda fault: fault.at_s)


def _draw_one(chance: random.Random, kind: str, at_s: float, span_s: float) -> Fault:
    amount, for_s = 0.0, 0.0
    if kind == "crash":
        amount, for_s = float(chance.random() < 0.3), _between(chance, 0.01, 20)
    elif kind == "clock":
        if chance.random() < 0.5:
            amount = chance.choice((-1, 1)) * _between(chance, 1, 86_400)
        else:
            amount, for_s = chance.uniform(0.9, 1.1), _between(chance, 1, 60)
    elif kind in ("error", "acker"):
        amount = float(chance.randrange(1 << 16))
    elif kind == "partition":
        amount, for_s = float(chance.random() < 0.4), _between(chance, 0.5, 40)
    else:
        amounts, lengths = _RANGES[kind]
        amount = _between(chance, *amounts) if amounts else 0.0
        for_s = _between(chance, *lengths) if lengths else 0.0
    return Fault(round(at_s, 6), kind, amount, min(for_s, span_s))


def _between(chance: random.Random, low: float, high: float) -> float:
    """Small values as often as large ones: the logarithm is uniform."""
    return float(low * (high / low) ** chance.random())
