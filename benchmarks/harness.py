"""Harness: repetitions of rows in fresh processes, interleaved, and what their ratios are.

    repetition 1: row a, row b, row c;  repetition 2: row c, row b, row a;  …

The order turns round with each repetition, so that no row always follows the same other.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .cells import Row

ROOT = Path(__file__).resolve().parents[1]
CHILD_LIMIT_S = 300.0
"""A child that takes longer is killed, and its row has failed."""
DISTURBED = 1.25
"""The two runs of the limit around a subject differ by more than this factor: something else was using the machine."""
_SECONDS = {"rate": "wall_s", "cpu_rate": "cpu_s"}
QUICK = 5
"""A quick run has one round of 1/5 of the size."""


class ChildError(Exception):
    """A child failed, or its result was wrong. The text is the end of what it said."""


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
        if self.target is None:
            return None
        return self.ratio.median >= self.target if self.metric == "rate" else self.ratio.median <= self.target


def run(
    rows: Sequence[Row], repetitions: int, *, quick: bool, say: Callable[[str], None]
) -> dict[str, list[dict[str, Any]]]:
    """All repetitions of all rows: row id → the children's records. Raises ChildError at the first that fails."""
    records: dict[str, list[dict[str, Any]]] = {row.id: [] for row in rows}
    for number in range(repetitions):
        for row in rows if number % 2 == 0 else reversed(rows):
            record = run_child(row, quick=quick)
            records[row.id].append(record)
            shown = ", ".join(f"{metric} {ratio_of(record, metric):.3f}" for metric in row.metrics)
            say(f"{number + 1}/{repetitions} {row.id}: {shown} of {row.against_name}")
    return records


def run_child(row: Row, *, quick: bool = False) -> dict[str, Any]:
    """One repetition of one row, in a fresh process."""
    if row.subject.env:
        raise ChildError(f"{row.id} needs the environment {row.subject.env!r}: only rows of our own are here so far")
    spec = {
        "subject": asdict(row.subject),
        "against": asdict(row.against),
        "size": row.size // QUICK if quick else row.size,
        "rounds": 1 if quick else row.rounds,
    }
    try:
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.child"],
            input=json.dumps(spec),
            capture_output=True,
            text=True,
            cwd=ROOT,
            timeout=CHILD_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise ChildError(f"{row.id}: not done after {CHILD_LIMIT_S:g} s") from error
    if done.returncode != 0:
        raise ChildError(f"{row.id}: the child ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])  # type: ignore[no-any-return]


def findings(rows: Sequence[Row], records: Mapping[str, Sequence[Mapping[str, Any]]]) -> Iterator[Finding]:
    """What the records say, row by row and metric by metric."""
    for row in rows:
        mine = records[row.id]
        rounds = [one for record in mine for one in record["rounds"]]
        for metric in row.metrics:
            yield Finding(
                row,
                metric,
                Spread.of([ratio_of(record, metric) for record in mine]),
                Spread.of([ratio_of(record, "cpu_rate") for record in mine]) if metric == "rate" else None,
                Spread.of([_figure(one["subject"], metric) for one in rounds]),
                Spread.of([_around(one, metric) for one in rounds]),
                sum(map(_is_disturbed, rounds)),
                len(rounds),
            )


def ratio_of(record: Mapping[str, Any], metric: str) -> float:
    """The ratio of one repetition: the median of its rounds, each the subject over the mean of the runs around it."""
    return statistics.median(_figure(one["subject"], metric) / _around(one, metric) for one in record["rounds"])


def _figure(outcome: Mapping[str, Any], metric: str) -> float:
    if metric in _SECONDS:
        return float(outcome["units"] / outcome[_SECONDS[metric]])
    return float(outcome["quantiles_s"][metric])


def _around(one: Mapping[str, Any], metric: str) -> float:
    """What the other side did around the subject: for rates all units over all seconds, for latencies the mean."""
    sides = one["against"]
    if metric in _SECONDS:
        return float(sum(side["units"] for side in sides) / sum(side[_SECONDS[metric]] for side in sides))
    return statistics.fmean(_figure(side, metric) for side in sides)


def _is_disturbed(one: Mapping[str, Any]) -> bool:
    before, after = (_figure(side, "rate") for side in one["against"])
    return max(before, after) > DISTURBED * min(before, after)
