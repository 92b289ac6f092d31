"""Harness: repetitions of rows and probes in fresh processes, interleaved.

    repetition 1: row a, row b, row c;  repetition 2: row c, row b, row a;  …

1. The order turns round with each repetition, so that no row always follows the same other.
2. What fails is left out from then on, with its reason; the rest goes on. So does a peer that cannot be installed.
3. Interrupted (Ctrl-C), it kills the child that runs, and keeps the repetitions that are complete.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .cells import Item, Row
from .children import ChildError, run_child
from .environments import UnavailableError, python_of
from .findings import probed_of, ratio_of

Say = Callable[[str], None]


@dataclass(slots=True)
class Run:
    """What came of a run: item id → the children's records. `failed` and `unavailable`: item id → reason."""

    records: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    unavailable: dict[str, str] = field(default_factory=dict)
    interrupted: bool = False

    def of(self, item: Item) -> Sequence[Mapping[str, Any]]:
        """The records of an item that did not fail."""
        return () if item.id in self.failed else self.records.get(item.id, ())


def run(items: Sequence[Item], repetitions: int, *, quick: bool, say: Say) -> Run:
    """All repetitions of all items."""
    result = Run()
    try:
        pythons = _pythons(items, result, say)
        for number in range(repetitions):
            for item in items if number % 2 == 0 else reversed(items):
                if item.id not in result.failed and item.id not in result.unavailable:
                    _run_one(item, pythons[item.subject.env], result, quick, f"{number + 1}/{repetitions}", say)
    except KeyboardInterrupt:
        result.interrupted = True
        kept = sum(map(len, result.records.values()))
        say(f"interrupted: {kept} repetitions of {len(result.records)} rows are kept, the one that ran is not")
    return result


def _run_one(item: Item, python: Path, result: Run, quick: bool, progress: str, say: Say) -> None:
    try:
        record = run_child(item, python, quick=quick)
    except ChildError as error:
        result.failed[item.id] = str(error)
        say(f"{progress} {item.id}: FAILED: {error}")
        return
    result.records.setdefault(item.id, []).append(record)
    say(f"{progress} {item.id}: {_shown(item, record)}")


def _shown(item: Item, record: Mapping[str, Any]) -> str:
    if isinstance(item, Row):
        shown = ", ".join(f"{metric} {ratio_of(record, metric):.3f}" for metric in item.metrics)
        return f"{shown} of {item.against_name}"
    return ", ".join(f"{figure.name} {probed_of(record, figure):.4g} {figure.unit}" for figure in item.figures)


def _pythons(items: Sequence[Item], result: Run, say: Say) -> dict[str, Path]:
    """The Python of every environment that is needed; cells without their environment are noted."""
    pythons = {"": Path(sys.executable)}
    for name in dict.fromkeys(item.subject.env for item in items if item.subject.env):
        try:
            pythons[name] = python_of(name, say)
        except UnavailableError as error:
            say(f"{name} is not available: {error}")
            result.unavailable |= {item.id: str(error) for item in items if item.subject.env == name}
    return pythons
