"""Figures: what a run comes to, from its record. All of the time behind the first 20 s, but for memory."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .run import Second
from .slowness import KINDS


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one run. Rates are shares of what an even flow would have at the time (Slowness.rate).

    `emit_cv` is the coefficient of variation of the emit rate, `done_cv` that of the bolt's rate around what it could
    do in that very second; `*_off` is how far the worst second was from the even flow. `share` are numbers done, each
    counted once, of all that could have been done. Times in seconds, memory in MB, the rest counted.
    """

    emit_cv: float
    done_cv: float
    emit_off: float
    done_off: float
    share: float
    p50_s: float
    p99_s: float
    longest_pause_s: float
    pauses: int
    transitions: int
    failed: int
    replayed: int
    again: int
    rss_mb: float
    growth_mb: float


def seconds_of(record: Mapping[str, Any]) -> list[Second]:
    """Its seconds."""
    return [Second(*values) for values in record["series"]]


def per_second(values: Sequence[float], seconds: Sequence[Second]) -> list[float]:
    """Counts of seconds as rates: a second that was looked at late is a little longer."""
    starts = [0.0, *(second.at_s for second in seconds)]
    return [value / (second.at_s - at_s) for value, second, at_s in zip(values, seconds, starts, strict=False)]


def figures(record: Mapping[str, Any]) -> Figures:
    """What the record says."""
    slowness = KINDS[record["slowness"]](record["seconds"])
    seconds = seconds_of(record)
    emits = per_second([second.emitted + second.replayed for second in seconds], seconds)
    does = per_second([second.done + second.again for second in seconds], seconds)
    counted = [place for place, second in enumerate(seconds) if second.at_s > record["warm_s"] + 0.5]
    bears = [slowness.rate(seconds[place].at_s - 0.5) for place in counted]
    emitted, done = (
        [rates[place] / rate for place, rate in zip(counted, bears, strict=True)] for rates in (emits, does)
    )
    idle = [(second.bears - second.done - second.again) / slowness.rate(second.at_s - 0.5) for second in seconds]
    return Figures(
        emit_cv=statistics.pstdev(emitted) / statistics.fmean(emitted) if any(emitted) else float("nan"),
        done_cv=statistics.pstdev(idle[place] for place in counted),
        emit_off=max(abs(share - 1) for share in emitted),
        done_off=max(abs(share - 1) for share in done),
        share=sum(seconds[place].done for place in counted) / sum(seconds[place].bears for place in counted),
        p50_s=_or_nan(record["p50_s"]),
        p99_s=_or_nan(record["p99_s"]),
        longest_pause_s=record["longest_pause_s"],
        pauses=len(record["pauses"]),
        transitions=record["transitions"],
        failed=record["failed"],
        replayed=record["replayed"],
        again=sum(second.again for second in seconds),
        rss_mb=max(second.rss_mb for second in seconds),
        growth_mb=max(second.rss_mb for second in seconds) - seconds[0].rss_mb,
    )


def _or_nan(value: float | None) -> float:
    return float("nan") if value is None else value
