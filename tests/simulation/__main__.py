"""Simulations from the command line: the long run, the replay of a seed, the table of planted bugs.

    python -m tests.simulation --seeds 2000                  many seeds; ends with 1 if a promise was broken
    python -m tests.simulation --seeds 50 --fresh 150        50 fixed ones, and 150 that only this commit has
    python -m tests.simulation --seed 17 --trace 200         one seed, with the end of its trace
    python -m tests.simulation --seed 17 --shrink            … with as few faults as still break it
    python -m tests.simulation --planted                     every planted bug, and the seed that finds it

Worlds: "storm" is a random topology in one process, "links" several processes and the links between them, "workers" a
random topology on several processes, "pressure" one that cannot keep up, in one process, "windows" bolts with windows
on several processes, "state" one with exactly once, on one process or several.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict

import click

from aiostorm.testing.simulation.shrink import shrink as smallest

from . import fresh as fresh_seeds
from . import storm
from .observed import WORLDS, SeedResult, Tally
from .planted import pressure as planted_pressure
from .planted import windows as planted_windows
from .planted import workers as planted_workers
from .planted.links import PLANTED, found_by
from .planted.planting import SEEDS
from .planted.storm import BUGS

SHARE = 10
"""Seeds that a process runs before it is replaced: progress is result, and none is left with all the slow ones."""


def _numbers(context: click.Context, option: click.Parameter, text: str | None) -> list[int] | None:
    if text is None:
        return None
    names = [name for name in text.split(",") if name]
    if not all(name.isdecimal() for name in names):
        raise click.BadParameter(f"numbers of faults, with commas between them; not {text!r}")
    return sorted(set(map(int, names)))


@click.command(help=__doc__)
@click.option(
    "--seeds", type=click.IntRange(min=1), default=200, show_default=True, help="How many seeds, of each world."
)
@click.option("--first", type=click.IntRange(min=0), default=0, show_default=True, help="The first of them.")
@click.option(
    "--fresh",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="So many more, in a range that the checked out commit decides.",
)
@click.option("--jobs", type=click.IntRange(min=1), default=os.cpu_count() or 1, show_default=True, help="Processes.")
@click.option("--world", type=click.Choice([*WORLDS]), help="This world only.")
@click.option(
    "--faults-s",
    type=click.FloatRange(min=0, min_open=True),
    default=storm.FAULTS_S,
    show_default=True,
    help="How long faults go on, simulated seconds.",
)
@click.option(
    "--seed", type=click.IntRange(min=0), help="Run this one only (of a storm, unless --world says otherwise)."
)
@click.option(
    "--only", callback=_numbers, help="Of its faults keep only these (numbers, with commas; one comma: none)."
)
@click.option("--trace", type=click.IntRange(min=0), default=0, help="Show so many lines of its trace.")
@click.option("--shrink", is_flag=True, help="Look for a smaller fault script that breaks it too.")
@click.option("--plant", type=click.Choice(sorted(BUGS)), help="Plant this bug first.")
@click.option("--planted", is_flag=True, help="The table of planted bugs.")
@click.option("--share", hidden=True, help="first:stop; prints the tally as JSON.")
def main(
    seeds: int,
    first: int,
    fresh: int,
    jobs: int,
    world: str | None,
    faults_s: float,
    seed: int | None,
    only: list[int] | None,
    trace: int,
    shrink: bool,
    plant: str | None,
    planted: bool,
    share: str | None,
) -> None:
    """See the module."""
    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)  # bolts fail on purpose, by the hundred
    click.get_current_context().call_on_close(lambda: logging.disable(disabled))
    if planted:
        sys.exit(_table())
    if plant is not None:  # until the command ends: a context manager without a reference would take it out at once
        click.get_current_context().with_resource(BUGS[plant]())
    worlds = [world] if world is not None else [*WORLDS]
    if seed is not None:
        sys.exit(_one(world or "storm", seed, only, faults_s, trace, shrink, plant))
    if share is not None:
        start, stop = map(int, share.split(":"))
        tally = Tally()
        for number in range(start, stop):
            for name in worlds:
                tally.add(WORLDS[name](number, None, faults_s, 0))
        click.echo(json.dumps(asdict(tally)))
        return
    ranges = [range(first, first + seeds)]
    if fresh:
        ranges.append(_fresh(fresh, worlds, faults_s))
    sys.exit(_many(worlds, ranges, jobs, faults_s, plant))


def _fresh(count: int, worlds: Sequence[str], faults_s: float) -> range:
    name = fresh_seeds.name_of()
    first = fresh_seeds.first_of(name)
    one_world = f" --world {worlds[0]}" if len(worlds) == 1 else ""
    click.echo(f"fresh seeds of {name}: {first} to {first + count - 1}; these alone:")
    click.echo(f"  python -m tests.simulation --first {first} --seeds {count} --faults-s {faults_s:g}{one_world}")
    return range(first, first + count)


def _many(worlds: Sequence[str], ranges: Sequence[range], jobs: int, faults_s: float, plant: str | None) -> int:
    began = time.monotonic()
    total, seeds = Tally(), sum(map(len, ranges))
    one_world = ["--world", worlds[0]] if len(worlds) == 1 else []
    planted = ["--plant", plant] if plant is not None else []
    program = [sys.executable, "-m", str(__package__), *one_world, "--faults-s", str(faults_s), *planted]
    parts = (numbers[at : at + SHARE] for numbers in ranges for at in range(0, len(numbers), SHARE))
    shares = (f"{part.start}:{part.stop}" for part in parts)
    commands = [[*program, "--share", share] for share in shares]
    with ThreadPoolExecutor(jobs) as pool:
        for text in pool.map(_output, commands):
            known = len(total.broken)
            total.join(json.loads(text))
            click.echo(f"  {total.seeds}/{seeds * len(worlds)} seeds, {time.monotonic() - began:.0f} s", err=True)
            for world, broken, problem in total.broken[known:]:
                click.echo(f"{world} {broken}: {problem}")
                click.echo(f"  {_command(world, broken, faults_s, plant)} --shrink --trace 100")
    took_s = time.monotonic() - began
    rate = (total.messages + total.frames) / took_s
    click.echo(f"{total}\n{took_s:.1f} s with {jobs} processes: {rate:,.0f} messages and frames a second")
    return 1 if total.broken or total.seeds < seeds * len(worlds) else 0


def _output(command: list[str]) -> str:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def _command(world: str, seed: int, faults_s: float, plant: str | None) -> str:
    planted = "" if plant is None else f' --plant "{plant}"'
    return f"python -m tests.simulation --world {world} --seed {seed} --faults-s {faults_s:g}{planted}"


def _one(
    world: str, seed: int, only: list[int] | None, faults_s: float, trace: int, shrink: bool, plant: str | None
) -> int:
    run = WORLDS[world]
    result = run(seed, only, faults_s, trace)
    if only is not None and len(result.script) < len(only):
        raise click.UsageError(f"--only {','.join(map(str, only))}: the script of seed {seed} has fewer faults")
    if shrink and result.problems:
        kept = only if only is not None else list(range(len(result.script)))
        click.echo(f"shrinking {len(kept)} faults …", err=True)
        shrunk = smallest(kept, lambda part: bool(run(seed, part, faults_s, 0).problems))
        click.echo(f"{len(shrunk.indices)} are left after {shrunk.tries} runs", err=True)
        only = list(shrunk.indices)
        result = run(seed, only, faults_s, trace)
    _tell(result, only, _command(world, seed, faults_s, plant))
    return 1 if result.problems else 0


def _tell(result: SeedResult, only: list[int] | None, command: str) -> None:
    if result.trace:
        click.echo(result.trace)
    click.echo(f"{result.world} {result.seed}, {len(result.script)} faults:")
    for number, fault in zip(only if only is not None else range(len(result.script)), result.script, strict=True):
        click.echo(f"  {number:3} {fault}")
    if not result.problems:
        click.echo("every promise was kept")
    for problem in result.problems[:10]:
        click.echo(f"BROKEN: {problem}")
    kept = "" if only is None else f" --only {','.join(map(str, only)) or ','}"
    click.echo(f"again: {command}{kept}")


def _table() -> int:
    missed = 0
    click.echo("| planted bug | world | seeds to find it | what was result |\n|---|---|---|---|")
    for name, plant in BUGS.items():
        found: SeedResult | None = None
        with plant():
            for seed in range(SEEDS):
                found = WORLDS["storm"](seed, None, storm.SHORT_S, 0)
                if found.problems:
                    break
        missed += _row(name, "storm", found.seed if found else 0, found.problems if found else [])
    for name, plant in PLANTED.items():
        result = found_by(plant)
        missed += _row(name.replace("_", " "), "links", result.seed if result else 0, result.problems if result else [])
    for name, plant in planted_workers.PLANTED.items():
        worse = planted_workers.found_by(plant)
        missed += _row(name.replace("_", " "), "workers", worse.seed if worse else 0, worse.problems if worse else [])
    for name, plant in planted_pressure.PLANTED.items():
        worst = planted_pressure.found_by(plant)
        missed += _row(name.replace("_", " "), "pressure", worst.seed if worst else 0, worst.problems if worst else [])
    for name, plant in planted_windows.PLANTED.items():
        lost = planted_windows.found_by(plant)
        missed += _row(name.replace("_", " "), "windows", lost.seed if lost else 0, lost.problems if lost else [])
    return 1 if missed else 0


def _row(name: str, world: str, seed: int, problems: Sequence[str]) -> bool:
    result = problems[0].splitlines()[0].replace("|", "/")[:110] if problems else f"nothing in {SEEDS} seeds"
    click.echo(f"| {name} | {world} | {seed + 1 if problems else '-'} | {result} |")
    return not problems


if __name__ == "__main__":
    main()
