"""Cells, rows and probes: what is measured, against what; outcomes: what came of it.

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

    `env` is the environment whose Python runs it (a peer's name): "" is the one that runs the harness. `collector` is
    how Python's garbage collector is set while it runs (see child.py): "python" is as Python has it.
    """

    module: str
    function: str
    options: Options = field(default_factory=dict)
    env: str = ""
    collector: str = "python"


@dataclass(frozen=True, slots=True)
class Outcome:
    """One run of a cell: so many units in so many seconds of wall and of processor time.

    `quantiles_s` are latencies ("p50", "p99", "max"), for cells that measure them. `figures` are what probes show by
    name. `seen` are facts for the record.
    """

    units: int
    wall_s: float
    cpu_s: float
    quantiles_s: Mapping[str, float] = field(default_factory=dict)
    figures: Mapping[str, float] = field(default_factory=dict)
    seen: Mapping[str, Any] = field(default_factory=dict)

    @property
    def rate(self) -> float:
        """Units per second."""
        return self.units / self.wall_s

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the table: a subject held against a limit (or against another subject).

    `size` is that of one run, as the workload counts it (see there); `against_size` that of the other side where it is
    another. `rounds` is how often the subject runs in one repetition. `metrics` are compared one by one: for "rate"
    more is better, for latencies less. `targets` are bounds for the median ratio, by metric. `labels` say what is on.

    A peer's row names the row of ours that does the same against the same limit, as `ours`, and what ours is to be as a
    multiple of the peer's, by metric, as `ours_targets`.
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
    against_size: int | None = None
    ours: str = ""
    ours_targets: Mapping[str, float] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """What is selected by: "w1/functions, at least once"."""
        return f"{self.workload}/{self.name}"


@dataclass(frozen=True, slots=True)
class Figure:
    """Something that a probe shows: its name in `Outcome.figures`, its unit, and its bounds."""

    name: str
    unit: str = ""
    at_most: float | None = None
    at_least: float | None = None

    def met(self, median: float) -> bool | None:
        """Is it within its bounds? None without any."""
        if self.at_most is None and self.at_least is None:
            return None
        return (self.at_most is None or median <= self.at_most) and (self.at_least is None or median >= self.at_least)

    @property
    def target(self) -> str:
        """The bounds in words."""
        parts = [
            f"{sign} {bound:g}" for sign, bound in (("≤", self.at_most), ("≥", self.at_least)) if bound is not None
        ]
        return ", ".join(parts) or "–"


@dataclass(frozen=True, slots=True)
class Probe:
    """Figures of one subject with nothing to hold it against: memory, steadiness, limits whose subject is yet to come.

    It runs once in a fresh process, without a run before it (unless `warm`), so what it says of the process's memory is
    its own.
    """

    workload: str
    name: str
    subject: Cell
    size: int
    figures: tuple[Figure, ...]
    warm: bool = False
    note: str = ""

    @property
    def id(self) -> str:
        """As a row's."""
        return f"{self.workload}/{self.name}"


Item = Row | Probe
