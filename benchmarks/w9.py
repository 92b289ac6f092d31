"""W9, steady state: a spout that could do ten times as much as the bolt behind it. `size` is milliseconds of running.

What one tuple costs the bolt is a fixed time, spent by reading the clock until it is over: so the bottleneck's own rate
is known, and neither a busy machine nor a fast one changes it. A sleep would not do: a bolt that sleeps gives the event
loop away, and what is to be seen is one that does not. A fixed amount of arithmetic would do, but then the bottleneck's
rate would vary with the machine as the rest does, and could not be distinguished from it.

The time is ten times what a tuple takes from spout to bolt when the bolt does nothing, as measured in the same process
just before.

Limit: the bottleneck's own rate, the same waiting in a loop of its own, before and after; the best counts, since only
what others take of the machine makes it less.

Oracle: the bolt has seen each number once, in order; every message was acked.

What is aimed at here is bounded memory. In one event loop such a bolt keeps its own spout from running, and what else
a tuple needs comes out of its time: its rate is steady whatever holds the spout back, and at most 10/11 of its own.
Steadiness is aimed at where the bottleneck leaves the spout's loop alone (adapters/ours_w9_elsewhere.py): one that
waits, and one in another process. There, after the first 20 s, no second of the bolt and none of the spout may be
further than a tenth from the bottleneck's own rate.
"""

from __future__ import annotations

import statistics
import time
from array import array
from collections.abc import Sequence
from dataclasses import dataclass

from .clocking import quantiles

TIMES_SLOWER = 10
SAMPLE_S = 0.25
SETTLED_S = 20.0
"""So long a spout may take until its rate is that of the bottleneck."""
KEPT_LATENCIES = 65_536
ONE_IN = 64
"""So many tuples there are for each whose latency is kept."""


def spin(seconds: float) -> None:
    """Be busy for a fixed time."""
    end_s = time.perf_counter() + seconds
    while time.perf_counter() < end_s:
        pass


def own_rate(service_s: float, stretches: int = 10, lasting_s: float = 0.05) -> float:
    """What the bottleneck does with nothing around it, in tuples a second: the best of some stretches."""
    count = max(1, int(lasting_s / service_s))
    took_s = []
    for _ in range(stretches):
        begun_s = time.perf_counter()
        for _ in range(count):
            spin(service_s)
        took_s.append(time.perf_counter() - begun_s)
    return count / min(took_s)


class Latencies:
    """Some of many latencies, in memory that is all taken before the run: what is measured must not grow by itself."""

    def __init__(self) -> None:
        self._kept = array("d", [1.0]) * KEPT_LATENCIES
        self._count = 0

    def add(self, seconds: float) -> None:
        """Keep one. The last are kept when there are too many."""
        self._kept[self._count % KEPT_LATENCIES] = seconds
        self._count += 1

    def quantiles(self) -> dict[str, float]:
        """p50, p99 and max in seconds."""
        return quantiles(self._kept[: min(self._count, KEPT_LATENCIES)])


@dataclass(frozen=True, slots=True)
class Sample:
    """One look, `at_s` seconds after the start."""

    at_s: float
    done: int
    rss_mb: float
    fill: int
    pending: int


def rates(samples: Sequence[Sample], every_s: float = 1.0) -> list[tuple[float, float]]:
    """(seconds since the start, tuples a second) over stretches of `every_s`."""
    found = []
    last = samples[0]
    for sample in samples[1:]:
        if sample.at_s - last.at_s >= every_s - SAMPLE_S / 2:
            found.append((sample.at_s, (sample.done - last.done) / (sample.at_s - last.at_s)))
            last = sample
    return found


def settled(samples: Sequence[Sample]) -> float:
    """Since when the rate counts: a short run has a shorter start."""
    return min(SETTLED_S, samples[-1].at_s / 3)


def figures(samples: Sequence[Sample], capacity: int, bottleneck: float) -> dict[str, float]:
    """What the samples say. Memory: the last third against the middle one; the rate: over the last third."""
    end_s = samples[-1].at_s
    middle = [sample for sample in samples if end_s / 3 <= sample.at_s < end_s * 2 / 3]
    last = [sample for sample in samples if sample.at_s >= end_s * 2 / 3]
    settled = [rate for at_s, rate in rates(samples) if at_s > end_s * 2 / 3] or [0.0]
    return {
        "rss growth": statistics.median(s.rss_mb for s in last) - statistics.median(s.rss_mb for s in middle),
        "rss most": max(sample.rss_mb for sample in samples),
        "mailbox fill most": max(sample.fill for sample in samples) / capacity,
        "pending most": max(sample.pending for sample in samples),
        "rate": (last[-1].done - last[0].done) / max(last[-1].at_s - last[0].at_s, SAMPLE_S) / bottleneck,
        "rate deviation": max(abs(rate / bottleneck - 1) for rate in settled),
    }
