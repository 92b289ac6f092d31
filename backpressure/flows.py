"""Flows: how many tuples pass a component, and how many of them come from one tuple that a spout emits. Pure.

    spout ══ E emitted ═══►  …  ═══► [ fill ] component ══ X executed ═══►
                              a = (X + fill) / E            rate = growth of X per second

1. Counts are added up over restarts of processes: a counter that starts again at zero subtracts nothing, and a count
   that was too high (the current execution is estimated) is not counted twice.
2. Tuples in the component's mailboxes were emitted too: without them, `a` would be too small while the mailboxes fill.
   The same goes for tuples that wait in the bolts before it, in proportion to what it has received from these so far.
3. A rate is over the last period of each task, by the clock of its own monitor; `a` is over the last LONG_S seconds,
   or up to twice as many; soon after spouts have started to be paced, it is over the time since then.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

LONG_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class _Totals:
    """`counts`: component → executed or emitted so far; `fills`: component → tuples in its mailboxes."""

    counts: Mapping[str, int] = field(default_factory=dict[str, int])
    fills: Mapping[str, int] = field(default_factory=dict[str, int])


class _TaskRate:
    """One task in one process: its counts over the last period with their times; the `highest` count so far."""

    __slots__ = ("counts", "highest", "incarnation")

    def __init__(self, incarnation: int, samples: int) -> None:
        self.incarnation = incarnation
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
    """The flows of all components of a topology. `inputs`: bolt → the components from which it receives tuples."""

    def __init__(self, samples: int, inputs: Mapping[str, Collection[str]]) -> None:
        self._samples = samples
        self._inputs = inputs
        self._counts: Counter[str] = Counter()
        self._tracks: dict[str, dict[int, _TaskRate]] = {}
        self._before = self._base = self._now = _Totals()
        self._base_s = -math.inf

    def count(self, component: str, task: int, incarnation: int, at_s: float, so_far: int) -> None:
        """A task has emitted or executed `so_far` tuples in this incarnation of its process."""
        tracks = self._tracks.setdefault(component, {})
        track = tracks.get(task)
        if track is None or track.incarnation != incarnation:
            track = tracks[task] = _TaskRate(incarnation, self._samples)
        elif track.counts and at_s <= track.counts[-1][0]:  # received twice
            return
        self._counts[component] += max(so_far - track.highest, 0)
        track.highest = max(so_far, track.highest)
        track.counts.append((at_s, so_far))

    def remove_task(self, component: str, task: int) -> None:
        """A task is lost or silent: it has no rate. Its count stays, and is not counted again."""
        track = self._tracks.get(component, {}).get(task)
        if track is not None:
            track.counts.clear()

    def end_interval(self, now_s: float, fills: Mapping[str, int]) -> None:
        """All current counts have been added."""
        self._now = _Totals(dict(self._counts), dict(fills))
        if self._base_s == -math.inf:
            self._base_s = now_s
        elif now_s - self._base_s >= LONG_S:
            self._before, self._base, self._base_s = self._base, self._now, now_s

    def reset_base(self, now_s: float, after_s: float) -> None:
        """From `after_s` on, measure from now: tuples emitted so far fill places that no reading contains.

        (For example at senders in other processes: emitted, but not yet received.)
        """
        self._base, self._base_s = self._now, now_s + after_s - LONG_S

    def rate(self, component: str) -> float:
        """Tuples a second over the last period; 0 if none or unknown."""
        return sum(track.rate(0) for track in self._tracks.get(component, {}).values())

    def rate_of(self, component: str, task: int, *, now: bool = False) -> float:
        """The rate of one task; `now`: over the last interval."""
        track = self._tracks.get(component, {}).get(task)
        return track.rate(-2 if now else 0) if track is not None else 0.0

    def rate_now(self, component: str) -> float:
        """The rate over the last interval."""
        return sum(track.rate(-2) for track in self._tracks.get(component, {}).values())

    def observed_s(self, component: str) -> float:
        """The seconds that `rate` is measured over."""
        return max((track.lasting_s for track in self._tracks.get(component, {}).values()), default=0.0)

    def per_emitted(self, component: str, spouts: Collection[str]) -> float:
        """Tuples of a component for each tuple that one of these spouts emits; 1 if unknown."""
        emitted = sum(self._passed(spout) for spout in spouts)
        arrived = self._due(component, {})
        return arrived / emitted if arrived > 0 and emitted > 0 else 1.0

    def _due(self, component: str, found: dict[str, float]) -> float:
        """Tuples that were received, and that waiting tuples will still lead to. (A cycle is followed once.)"""
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
