"""Flows: how many tuples go through a component, and how many of them come of one that a spout emits. Pure.

    spout ══ E emitted ═══►  …  ═══► [ fill ] component ══ X executed ═══►
                                              a = (X + fill) / E            rate = what X grows by in a second

1. Counts are added up over the lives of processes: a counter that begins anew takes nothing away, and one that was too
   high (what is executed now is estimated) is not counted twice.
2. What waits in the component's mailboxes was emitted too: without it, `a` would be too small while they fill. So was
   what waits on the way: of the bolts before it, as many tuples as it has got for each that they have executed.
3. A rate is that of the last period, of each task by its own gauge's clock; `a` is of the last WINDOW_S seconds, or up
   to twice as many; soon after spouts have begun to be paced, of the time since then.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

WINDOW_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class _Totals:
    """`counts`: component → executed or emitted so far; `fills`: component → tuples in its mailboxes."""

    counts: Mapping[str, int] = field(default_factory=dict)
    fills: Mapping[str, int] = field(default_factory=dict)


class _TaskRate:
    """One task in one life: when it had counted how many, of the last period; the `highest` count."""

    __slots__ = ("counts", "highest", "life")

    def __init__(self, life: int, samples: int) -> None:
        self.life = life
        self.highest = 0
        self.counts: deque[tuple[float, int]] = deque(maxlen=samples + 1)

    @property
    def lasting_s(self) -> float:
        return self.counts[-1][0] - self.counts[0][0] if self.counts else 0.0

    def rate(self, since: int) -> float:
        if len(self.counts) < 2:
            return 0.0
        (first_s, first), (last_s, last) = self.counts[since], self.counts[-1]
        return max(last - first, 0) / (last_s - first_s)


class Flows:
    """Of all components of a topology. `inputs`: bolt → the components that it takes tuples from."""

    def __init__(self, samples: int, inputs: Mapping[str, Collection[str]]) -> None:
        self._samples = samples
        self._inputs = inputs
        self._counts: Counter[str] = Counter()
        self._tracks: dict[str, dict[int, _TaskRate]] = {}
        self._before = self._base = self._now = _Totals()
        self._base_s = -math.inf

    def count(self, component: str, task: int, life: int, at_s: float, so_far: int) -> None:
        """A task has emitted or executed so many in this life of its process."""
        tracks = self._tracks.setdefault(component, {})
        track = tracks.get(task)
        if track is None or track.life != life:
            track = tracks[task] = _TaskRate(life, self._samples)
        elif track.counts and at_s <= track.counts[-1][0]:  # it came twice
            return
        self._counts[component] += max(so_far - track.highest, 0)
        track.highest = max(so_far, track.highest)
        track.counts.append((at_s, so_far))

    def remove_task(self, component: str, task: int) -> None:
        """A task is no more, or silent: it has no rate. What it has counted stays, and is not counted again."""
        track = self._tracks.get(component, {}).get(task)
        if track is not None:
            track.counts.clear()

    def end_interval(self, now_s: float, fills: Mapping[str, int]) -> None:
        """All that is known now has been counted."""
        self._now = _Totals(dict(self._counts), dict(fills))
        if self._base_s == -math.inf:
            self._base_s = now_s
        elif now_s - self._base_s >= WINDOW_S:
            self._before, self._base, self._base_s = self._base, self._now, now_s

    def reset_base(self, now_s: float, after_s: float) -> None:
        """From `after_s` on count from now: what has been emitted so far fills places that nobody tells of.

        (At senders in other processes, say: it was emitted, and has not come.)
        """
        self._base, self._base_s = self._now, now_s + after_s - WINDOW_S

    def rate(self, component: str) -> float:
        """Tuples a second over the last period; 0 if none (or if nothing is known)."""
        return sum(track.rate(0) for track in self._tracks.get(component, {}).values())

    def rate_of(self, component: str, task: int, *, now: bool = False) -> float:
        """The same of one task; `now`: over the last interval."""
        track = self._tracks.get(component, {}).get(task)
        return track.rate(-2 if now else 0) if track is not None else 0.0

    def rate_now(self, component: str) -> float:
        """The same over the last interval."""
        return sum(track.rate(-2) for track in self._tracks.get(component, {}).values())

    def observed_s(self, component: str) -> float:
        """How long what `rate` is about has lasted."""
        return max((track.lasting_s for track in self._tracks.get(component, {}).values()), default=0.0)

    def per_emitted(self, component: str, spouts: Collection[str]) -> float:
        """Tuples of a component for each that one of these spouts emits; 1 if that is not known."""
        emitted = sum(self._passed(spout) for spout in spouts)
        arrived = self._due(component, {})
        return arrived / emitted if arrived > 0 and emitted > 0 else 1.0

    def _due(self, component: str, found: dict[str, float]) -> float:
        """What has come, and what will come of what waits on the way. (Once round a cycle.)"""
        if component not in found:
            inputs = self._inputs.get(component, ())
            here = self._passed(component) + self._waiting(component)
            passed = sum(map(self._passed, inputs))
            found[component] = here
            if passed > 0:
                bolts = [source for source in inputs if source in self._inputs]
                found[component] += here / passed * sum(self._due(b, found) - self._passed(b) for b in bolts)
        return found[component]

    def _passed(self, component: str) -> int:
        return self._now.counts.get(component, 0) - self._before.counts.get(component, 0)

    def _waiting(self, component: str) -> int:
        return self._now.fills.get(component, 0) - self._before.fills.get(component, 0)
