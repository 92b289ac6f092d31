"""`python -m tests.simulation.cluster --seeds 200`: many seeds; exit code 1 if one has broken a promise."""

from __future__ import annotations

import sys
import time
from concurrent.futures import ProcessPoolExecutor

import click

from ..fresh import first_of, name_of
from .world import ClusterResult, run


def _one(seed: int) -> tuple[ClusterResult, float]:
    began = time.monotonic()
    result = run(seed)
    result.problems = list(result.problems)
    return result, time.monotonic() - began


@click.command(help=__doc__)
@click.option("--seeds", default=20, show_default=True)
@click.option("--first", default=0, show_default=True)
@click.option("--fresh", default=0, help="So many more, in a range that the checked out commit decides.")
@click.option("--seed", type=int, help="This one only.")
@click.option("--jobs", default=2, show_default=True)
@click.option("--trace", default=0, help="Show so many lines of its trace.")
def main(seeds: int, first: int, fresh: int, seed: int | None, jobs: int, trace: int) -> None:
    """See the module."""
    if seed is not None:
        result = run(seed, last=trace)
        print("\n".join(result.faults))
        print(result)
        sys.exit(1 if result.problems else 0)
    bad = faults = acked = moves = twice = 0
    simulated_s = longest_s = 0.0
    numbers = [*range(first, first + seeds)]
    if fresh:
        own = first_of(name_of())
        click.echo(f"fresh seeds: {own} to {own + fresh - 1}")
        numbers += range(own, own + fresh)
    with ProcessPoolExecutor(jobs) as pool:
        for result, took_s in pool.map(_one, numbers):
            faults += len(result.faults)
            acked, moves, twice = acked + result.acked, moves + result.moves, twice + result.twice
            simulated_s, longest_s = simulated_s + result.simulated_s, max(longest_s, took_s)
            if result.problems:
                bad += 1
                click.echo(f"seed {result.seed}: {result.problems[0]}")
                click.echo(f"  python -m tests.simulation.cluster --seed {result.seed}")
    click.echo(
        f"{len(numbers)} seeds, {faults} faults, {simulated_s:,.0f} simulated seconds, {acked} numbers acked, "
        f"{twice} executed again, {moves} moves, {bad} with a problem; the longest seed took {longest_s:.1f} s"
    )
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
