"""Cause: why a spout is slowed down: the way from it to the mailbox that asked for it, and the same in words.

    spout ──► a ──► guilty        Backpressure says which bolts slow the spout; the way is the shortest one
       ╰────► b

1. A spout is named once, with its slowest task; of several guilty bolts the fullest comes first.
2. A bolt that the spout does not reach has the way (spout, bolt): what the backpressure says is not hidden.

Flink shows colours, and leaves the search for the guilty node to the eye.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from .model import Cause

if TYPE_CHECKING:
    from ..backpressure import Backpressure, SpoutPacing

_FULL: Final = 0.5


def causes(pressure: Backpressure, targets: Mapping[str, Sequence[str]]) -> tuple[Cause, ...]:
    """The causes, each spout with each guilty bolt. `targets`: component → those that read from it."""
    spouts: dict[str, list[SpoutPacing]] = {}
    for task in pressure.spouts:
        spouts.setdefault(task.component, []).append(task)
    found: list[Cause] = []
    for spout, tasks in spouts.items():
        wait_s, since_s = max(t.wait_s for t in tasks), min(t.since_s for t in tasks)
        guilty = dict.fromkeys(name for task in tasks for name in task.why)
        for name in sorted(guilty, key=lambda each: (-_fill(pressure, each), each)) or [""]:
            fill = _fill(pressure, name)
            words = in_words(spout, wait_s, name, fill)
            found.append(Cause(spout, wait_s, since_s, name, fill, _way(spout, name, targets) if name else (), words))
    return tuple(found)


def in_words(spout: str, wait_s: float, mailbox: str, fill: float) -> str:
    """`orders waits 1.2 ms for each tuple, because payments cannot keep up: its mailbox is 92 % full`.

    The fill is left out while the mailbox is not full: then the spout is kept from filling it again.
    """
    waits = f"{spout} waits {_milliseconds(wait_s)} for each tuple"
    if not mailbox:
        return f"{waits}; the reason is not known yet"
    full = f": its mailbox is {fill * 100:.0f} % full" if fill >= _FULL else ""
    return f"{waits}, because {mailbox} cannot keep up{full}"


def _fill(pressure: Backpressure, component: str) -> float:
    known = pressure.components.get(component)
    return 0.0 if known is None else known.fill


def _way(spout: str, mailbox: str, targets: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """The shortest way; of several, the one that was declared first."""
    before: dict[str, str] = {spout: spout}
    waiting = [spout]
    for component in waiting:  # it grows
        for target in targets.get(component, ()):
            if target not in before:
                before[target] = component
                waiting.append(target)
    if mailbox not in before:
        return (spout, mailbox)
    way = [mailbox]
    while way[-1] != spout:
        way.append(before[way[-1]])
    return tuple(reversed(way))


def _milliseconds(seconds: float) -> str:
    if seconds < 0.001:
        return f"{seconds * 1e6:.0f} µs"
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"
