"""Simulations from the command line: the long run, the replay of a seed, the table of planted bugs.

python -m tests.simulation --seeds 200 --jobs 2          many seeds; ends with 1 if a promise was broken
python -m tests.simulation --seed 17 --trace 200         one seed, with the end of its trace
python -m tests.simulation --seed 17 --shrink            … with as few faults as still break it
python -m tests.simulation --planted                     every planted bug, and the seed that finds it
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from typing import Any

import click

from aiostorm.testing.simulation.shrink import shrink as smallest

from . import storm
from .planted import BUGS, SEEDS


@dataclass
class Tally:
    """What many seeds were, in sum."""

    seeds: int = 0
    simulated_s: float = 0.0
    faults: int = 0
    messages: int = 0
    executed: int = 0
    lives: int = 0
    recovered_s: list[float] = field(default_factory=list)
    broken: list[tuple[int, str]] = field(default_factory=list)

    def add(self, run: storm.Storm) -> None:
        """One more."""
        self.seeds += 1
        self.simulated_s += run.world.now_s
        self.faults += len(run.simulation.script)
        self.executed += run.executed
        if run.outcome is not None:
            self.messages += run.outcome.messages
            self.lives += run.outcome.lives
            self.recovered_s.append(round(run.outcome.recovered_s, 3))
        if run.problems:
            self.broken.append((run.seed, run.problems[0]))

    def join(self, other: dict[str, Any]) -> None:
        """What another process has counted."""
        for name, value in other.items():
            setattr(self, name, getattr(self, name) + value)

    def __str__(self) -> str:
        recovered = sorted(self.recovered_s) or [0.0]
        return (
            f"{self.seeds:,} seeds, {self.simulated_s / 3600:,.1f} simulated hours, {self.faults:,} faults, "
            f"{self.lives:,} lives of a process, {self.messages:,} messages between tasks, {self.executed:,} tuples "
            f"executed; all acked after the last fault: p50 {recovered[len(recovered) // 2]:.1f} s, "
            f"max {recovered[-1]:.1f} s; {len(self.broken)} violations"
        )


@click.command(help=__doc__)
@click.option("--seeds", default=200, show_default=True, help="How many seeds.")
@click.option("--first", default=0, show_default=True, help="The first of them.")
@click.option("--jobs", default=os.cpu_count() or 1, show_default=True, help="Processes.")
@click.option("--faults-s", default=storm.FAULTS_S, show_default=True, help="How long faults go on, simulated seconds.")
@click.option("--seed", type=int, help="Run this one only.")
@click.option("--only", help="Of its faults keep only these (numbers, with commas).")
@click.option("--trace", type=int, default=0, help="Show so many lines of its trace.")
@click.option("--shrink", is_flag=True, help="Look for a smaller fault script that breaks it too.")
@click.option("--plant", type=click.Choice(sorted(BUGS)), help="Plant this bug first.")
@click.option("--planted", is_flag=True, help="The table of planted bugs.")
@click.option("--slice", "share", hidden=True, help="first:stop:step, and the tally as JSON.")
def main(
    seeds: int,
    first: int,
    jobs: int,
    faults_s: float,
    seed: int | None,
    only: str | None,
    trace: int,
    shrink: bool,
    plant: str | None,
    planted: bool,
    share: str | None,
) -> None:
    """See the module."""
    if planted:
        sys.exit(_table())
    if plant is not None:
        BUGS[plant]().__enter__()
    if seed is not None:
        kept = None if only is None else [int(number) for number in only.split(",") if number]
        sys.exit(_one(seed, kept, faults_s, trace, shrink))
    if share is not None:
        start, stop, step = map(int, share.split(":"))
        click.echo(json.dumps(asdict(_tally(range(start, stop, step), faults_s))))
        return
    sys.exit(_many(first, seeds, jobs, faults_s))


def _many(first: int, seeds: int, jobs: int, faults_s: float) -> int:
    began = time.monotonic()
    stop = first + seeds
    total = Tally()
    # Small shares, so that progress is seen and no process is left with all the slow ones.
    shares = [f"{start}:{min(start + 20, stop)}:1" for start in range(first, stop, 20)]
    with ThreadPoolExecutor(jobs) as pool:
        for text in pool.map(lambda share: _share(share, faults_s), shares):
            known = len(total.broken)
            total.join(json.loads(text))
            click.echo(f"  {total.seeds}/{seeds} seeds, {time.monotonic() - began:.0f} s", err=True)
            for broken, problem in total.broken[known:]:
                click.echo(
                    f"seed {broken}: {problem}\n  python -m tests.simulation --seed {broken} --trace 100 --shrink"
                )
    took_s = time.monotonic() - began
    click.echo(f"{total}\n{took_s:.1f} s with {jobs} processes: {total.messages / took_s:,.0f} messages a second")
    return 1 if total.broken or total.seeds < seeds else 0


def _share(share: str, faults_s: float) -> str:
    command = [sys.executable, "-m", __package__, "--slice", share, "--faults-s", str(faults_s)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def _tally(seeds: Collection[int], faults_s: float) -> Tally:
    tally = Tally()
    for seed in seeds:
        tally.add(storm.run(seed, faults_s=faults_s))
    return tally


def _one(seed: int, only: list[int] | None, faults_s: float, trace: int, shrink: bool) -> int:
    run = storm.run(seed, None, only, faults_s=faults_s)
    if shrink and run.problems:
        kept = list(only) if only is not None else list(range(len(run.simulation.script)))
        click.echo(f"shrinking {len(kept)} faults …", err=True)
        shrunk = smallest(kept, lambda kept: bool(storm.run(seed, None, kept, faults_s=faults_s).problems))
        click.echo(f"{len(shrunk.indices)} are left after {shrunk.tries} runs", err=True)
        only = list(shrunk.indices)
        run = storm.run(seed, None, only, faults_s=faults_s)
    if trace:
        click.echo(run.world.trace.text(trace))
    click.echo(f"seed {seed}, order {run.world.order}, faults:")
    numbers = only if only is not None else range(len(run.simulation.script))
    for number, fault in zip(numbers, run.simulation.script, strict=True):
        click.echo(f"  {number:3} {fault}")
    if not run.problems:
        click.echo(f"every promise was kept ({run.executed:,} tuples executed)")
        return 0
    for problem in run.problems[:10]:
        click.echo(f"BROKEN: {problem}")
    if only is not None:
        click.echo(f"again: python -m tests.simulation --seed {seed} --only {','.join(map(str, only)) or ','}")
    return 1


def _table() -> int:
    missed = 0
    click.echo("| planted bug | seeds to find it | what was seen |\n|---|---|---|")
    for name, plant in BUGS.items():
        found = None
        with plant():
            for seed in range(SEEDS):
                run = storm.run(seed, faults_s=storm.SHORT_S)
                if run.problems:
                    found = run.problems[0].splitlines()[0]
                    break
        missed += found is None
        seen = found if found is not None else f"nothing in {SEEDS}"
        click.echo(f"| {name} | {seed + 1 if found is not None else '-'} | {seen.replace('|', '/')[:110]} |")
    return 1 if missed else 0


if __name__ == "__main__":
    main()
