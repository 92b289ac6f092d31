"""Cells and rows: what is measured, against what; outcomes: what came of it.

A cell names a function in a module, so that a child process can run it with the Python of any environment.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

Options = Mapping[str, Any]


class WrongResultError(Exception):
    """What a cell computed is not what the oracle says: its time means nothing."""


@dataclass(frozen=True, slots=True)
class Cell:
    """Something that can be measured: `module.function(size, **options)` gives an Outcome.

    `env` is the environment whose Python runs it: "" is the one that runs the harness.
    """

    module: str
    function: str
    options: Options = field(default_factory=dict)
    env: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One run of a cell: so many units in so many seconds of wall and of processor time.

    `quantiles_s` are latencies ("p50", "p99", "max"), for cells that measure them. `seen` are facts for the record.
    """

    units: int
    wall_s: float
    cpu_s: float
    quantiles_s: Mapping[str, float] = field(default_factory=dict)
    seen: Mapping[str, Any] = field(default_factory=dict)

    @property
    def rate(self) -> float:
        """Units per second."""
        return self.units / self.wall_s

    def of(self, metric: str) -> float:
        """The figure that a row compares: "rate", or a quantile in seconds."""
        return self.rate if metric == "rate" else self.quantiles_s[metric]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the table: a subject held against a limit (or against another subject).

    `size` is that of one run, as the workload counts it (see there), `rounds` how often the subject runs in one
    repetition. `metrics` are compared one by one: for "rate" more is better, for latencies less. `targets` are bounds
    for the median ratio, by metric. `labels` say what is on.
    """

    workload: str
    name: str
    subject: Cell
    against: Cell
    against_name: str
    unit: str
    size: int
    rounds: int = 3
    metrics: tuple[str, ...] = ("rate",)
    targets: Mapping[str, float] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """What `--only` selects by: "w1/functions, at least once"."""
        return f"{self.workload}/{self.name}"
