"""What is result of a seed, in each world, and in sum."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

from aiostorm.testing.simulation import Fault

from . import links, storm
from .pressure import world as pressure
from .runner import WorldResult
from .state import world as state
from .windows import world as windows
from .workers import world as workers


@dataclass
class SeedResult:
    """One seed of one world. `messages` went between tasks, `frames` between processes."""

    world: str
    seed: int
    simulated_s: float
    script: list[Fault]
    problems: list[str]
    incarnations: int = 0
    messages: int = 0
    frames: int = 0
    executed: int = 0
    trace: str = ""


Run = Callable[[int, Collection[int] | None, float, int], SeedResult]


def run_storm(seed: int, only: Collection[int] | None, faults_s: float, last: int) -> SeedResult:
    """A topology in one process."""
    run = storm.run(seed, None, only, faults_s=faults_s)
    return SeedResult(
        "storm",
        seed,
        run.world.now_s,
        run.simulation.faults.script,
        run.problems,
        run.outcome.incarnations if run.outcome is not None else 0,
        run.outcome.messages if run.outcome is not None else 0,
        executed=run.executed,
        trace=run.world.trace.text(last) if last else "",
    )


def run_links(seed: int, only: Collection[int] | None, faults_s: float, last: int) -> SeedResult:
    """Several processes and the links between them. (A tenth of a storm's time holds as much.)"""
    run = links.run(seed, only=only, faults_s=faults_s / 10, last=last)
    return _result("links", run, frames=run.frames)


def run_workers(seed: int, only: Collection[int] | None, faults_s: float, last: int) -> SeedResult:
    """A topology on several workers. (A twentieth of a storm's time holds as much.)"""
    run = workers.run(seed, only=only, faults_s=faults_s / 20, last=last)
    return _result("workers", run, messages=run.segments, frames=run.frames, executed=run.executed)


def run_pressure(seed: int, only: Collection[int] | None, faults_s: float, last: int) -> SeedResult:
    """A topology that cannot keep up. (Its time is counted in check intervals.)"""
    run = pressure.run(seed, only=only, faults_s=faults_s, last=last)
    return _result("pressure", run, incarnations=1, messages=run.messages, executed=run.executed)


def run_windows(seed: int, only: Collection[int] | None, faults_s: float, last: int) -> SeedResult:
    """Windows on several workers. (A thirtieth of a storm's time holds as much.)"""
    run = windows.run(seed, only=only, faults_s=faults_s / 30, last=last)
    return _result("windows", run, frames=run.frames, executed=run.rows)


def run_state(seed: int, only: Collection[int] | None, faults_s: float, last: int) -> SeedResult:
    """State on one process or on workers. (A hundredth of a storm's time holds as much.)"""
    run = state.run(seed, only=only, faults_s=faults_s / 100, last=last)
    return _result("state", run, run.starts, frames=run.frames, executed=run.executed)


def _result(world: str, run: WorldResult, incarnations: int = 0, **counts: int) -> SeedResult:
    if run.outcome is not None:
        incarnations = run.outcome.incarnations
    script, problems = list(run.script), list(run.problems)
    return SeedResult(world, run.seed, run.simulated_s, script, problems, incarnations, trace=run.trace, **counts)


WORLDS: dict[str, Run] = {
    "storm": run_storm,
    "links": run_links,
    "workers": run_workers,
    "pressure": run_pressure,
    "windows": run_windows,
    "state": run_state,
}


@dataclass
class Tally:
    """What many seeds were, in sum."""

    seeds: int = 0
    simulated_s: float = 0.0
    faults: int = 0
    incarnations: int = 0
    messages: int = 0
    frames: int = 0
    executed: int = 0
    broken: list[tuple[str, int, str]] = field(default_factory=list)

    def add(self, result: SeedResult) -> None:
        """One more."""
        self.seeds += 1
        self.simulated_s += result.simulated_s
        self.faults += len(result.script)
        self.incarnations += result.incarnations
        self.messages += result.messages
        self.frames += result.frames
        self.executed += result.executed
        if result.problems:
            self.broken.append((result.world, result.seed, result.problems[0]))

    def join(self, other: dict[str, Any]) -> None:
        """What another process has counted."""
        for name, value in other.items():
            setattr(self, name, getattr(self, name) + value)

    def __str__(self) -> str:
        return (
            f"{self.seeds:,} seeds, {self.simulated_s / 3600:,.1f} simulated hours, {self.faults:,} faults, "
            f"{self.incarnations:,} process starts, {self.messages:,} messages between tasks, {self.frames:,} frames "
            f"between processes, {self.executed:,} tuples executed, {len(self.broken)} violations"
        )
