"""Findings: what the records of all repetitions say of a row, a probe, or of ours against a peer.

1. A repetition is the median of its rounds; a row is the median of its repetitions, with the least and the greatest.
2. Ours and a peer run in processes of their own. Each is a ratio to the same limit, run beside it; what is compared is
   those two ratios, repetition by repetition.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .cells import Figure, Probe, Row

DISTURBED = 1.25
"""The two runs of the limit around a subject differ by more than this factor: something else was using the machine."""
_SECONDS = {"rate": "wall_s", "cpu_rate": "cpu_s"}
Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Spread:
    """Median, least and greatest of the repetitions."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, figures: Sequence[float]) -> Spread:
        """From at least one figure."""
        return cls(statistics.median(figures), min(figures), max(figures))


@dataclass(frozen=True, slots=True)
class Finding:
    """One row and metric after all repetitions: the ratio first, then the figures of both sides.

    `cpu_ratio` is the same of units per second of processor time (None for latencies). It varies less where others use
    the machine too, and does not see a subject that waits: the two should agree. `disturbed` of `rounds` rounds had
    limits that differ by more than `DISTURBED`.
    """

    row: Row
    metric: str
    ratio: Spread
    cpu_ratio: Spread | None
    subject: Spread
    against: Spread
    disturbed: int
    rounds: int

    @property
    def target(self) -> float | None:
        """What the median ratio is to reach (for "rate") or stay below (for latencies)."""
        return self.row.targets.get(self.metric)

    @property
    def met(self) -> bool | None:
        """Is it? None without a target."""
        return _met(self.metric, self.ratio.median, self.target)


@dataclass(frozen=True, slots=True)
class Compared:
    """Ours against a peer: `times` is our ratio over the peer's, for rates and for latencies alike."""

    row: Row
    metric: str
    times: Spread

    @property
    def target(self) -> float | None:
        """What the median is to reach (for "rate") or stay below (for latencies)."""
        return self.row.ours_targets.get(self.metric)

    @property
    def met(self) -> bool | None:
        """Is it? None without a target."""
        return _met(self.metric, self.times.median, self.target)


@dataclass(frozen=True, slots=True)
class Probed:
    """One figure of a probe after all repetitions."""

    probe: Probe
    figure: Figure
    value: Spread

    @property
    def met(self) -> bool | None:
        """Is the median within its bounds? None without any."""
        return self.figure.met(self.value.median)


def findings(row: Row, records: Sequence[Record]) -> Iterator[Finding]:
    """What the records of a row say, metric by metric."""
    rounds = [one for record in records for one in record["rounds"]]
    if not rounds:
        return
    for metric in row.metrics:
        yield Finding(
            row,
            metric,
            Spread.of([ratio_of(record, metric) for record in records]),
            Spread.of([ratio_of(record, "cpu_rate") for record in records]) if metric == "rate" else None,
            Spread.of([_figure(one["subject"], metric) for one in rounds]),
            Spread.of([_around(one, metric) for one in rounds]),
            sum(map(_is_disturbed, rounds)),
            len(rounds),
        )


def compared(row: Row, peers: Sequence[Record], ours: Sequence[Record]) -> Iterator[Compared]:
    """A peer's row against ours, repetition by repetition."""
    pairs = list(zip(ours, peers, strict=False))  # of an interrupted run the last repetition may have one side only
    for metric in row.metrics if pairs else ():
        yield Compared(row, metric, Spread.of([ratio_of(we, metric) / ratio_of(they, metric) for we, they in pairs]))


def probed(probe: Probe, records: Sequence[Record]) -> Iterator[Probed]:
    """What the records of a probe say, figure by figure."""
    for figure in probe.figures if records else ():
        yield Probed(probe, figure, Spread.of([probed_of(record, figure) for record in records]))


def probed_of(record: Record, figure: Figure) -> float:
    """A figure of one repetition of a probe."""
    outcome = record["probed"]
    figures = outcome["figures"]
    return float(figures[figure.name]) if figure.name in figures else _figure(outcome, figure.name)


def ratio_of(record: Record, metric: str) -> float:
    """The ratio of one repetition: the median of its rounds, each the subject over the mean of the runs around it."""
    return statistics.median(_figure(one["subject"], metric) / _around(one, metric) for one in record["rounds"])


def subject_of(records: Sequence[Record], quantile: str) -> Spread:
    """A latency of the subject alone, in seconds."""
    return Spread.of([one["subject"]["quantiles_s"][quantile] for record in records for one in record["rounds"]])


def _met(metric: str, median: float, target: float | None) -> bool | None:
    if target is None:
        return None
    return median >= target if metric == "rate" else median <= target


def _figure(outcome: Record, metric: str) -> float:
    if metric in _SECONDS:
        return float(outcome["units"] / outcome[_SECONDS[metric]])
    return float(outcome["quantiles_s"][metric])


def _around(one: Record, metric: str) -> float:
    """What the other side did around the subject: for rates all units over all seconds, for latencies the mean."""
    sides = one["against"]
    if metric in _SECONDS:
        return float(sum(side["units"] for side in sides) / sum(side[_SECONDS[metric]] for side in sides))
    return statistics.fmean(_figure(side, metric) for side in sides)


def _is_disturbed(one: Record) -> bool:
    before, after = (_figure(side, "rate") for side in one["against"])
    return max(before, after) > DISTURBED * min(before, after)
