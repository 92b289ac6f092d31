"""A bad task: while one of the tasks of a shuffle hangs or is slow, do the others have all that they can do?

    spouts, as fast as they may ─► shuffle ─► n tasks of 1 ms a row; one of them never returns, or takes 50 ms a row

    python -m tests.flow.bad_task --seeds 100 [--cells "slow-4-*"] [--pending 10] [--jobs 1]

In virtual time: a seed is the same run everywhere. It draws which task goes bad, when (in the first second), and how
the shuffle deals. From one second after that the rows that are done are counted, second by second, and compared with
what the tasks can do: 1,000 a second each of the others, and the slow one 20. A cell's ratio is that of its worst
second. Prints the least and the median ratio of each cell over the seeds, and ends with 1 if one is below 0.95.

With `--pending`, spouts have so many messages open at the most, and what the others can do is measured: without the bad
task, and without the messages of which it holds a row. Its trees have to be found out first: that takes SETTLES_S more.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import math
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final, NamedTuple

from aiostorm import BasicBolt, Config, LocalCluster, RunningTopology, Topology, TopologyBuilder, spout
from aiostorm.testing import VirtualTimeLoop
from aiostorm.testing.simulation.chance import SeededRng

LEAST: Final = 0.95
TAKES_S: Final = 0.001
SLOW_S: Final = 0.05
CRAWLS_S: Final = 2.0
SETTLES_S: Final = 1.0
"""So long after a task has become bad, the others must run as before."""

SHARE: Final = 4
"""Seeds of a cell that one process runs."""


class Cell(NamedTuple):
    """`bad`: see BAD; `mailbox` in tuples, `turn` in rows."""

    bad: str
    tasks: int
    mailbox: int
    turn: int
    spouts: int

    @property
    def name(self) -> str:
        """As it is asked for."""
        return "-".join(map(str, self))

    @classmethod
    def named(cls, name: str) -> Cell:
        """What `name` says. ValueError if it says nothing."""
        bad, *numbers = name.split("-")
        if bad not in BAD or len(numbers) != len(cls._fields) - 1:
            raise ValueError(f"no cell: {name!r}")
        return cls(bad, *map(int, numbers))

    @property
    def rows_a_second(self) -> float:
        """What the tasks can do, the bad one with them."""
        return (self.tasks - 1) / TAKES_S + (1 / BAD[self.bad])


BAD: Final = {"hung": math.inf, "slow": SLOW_S, "crawling": CRAWLS_S}
"""What a row takes the bad task."""

CELLS: Final = [Cell(*cell) for cell in itertools.product(BAD, (4, 10), (16, 256, 1024, 4096), (16, 256, 1024), (1, 4))]


@dataclass
class Trouble:
    """Task `index` goes bad at `at_s`; `done` rows. All tasks share it."""

    bad: str
    index: int
    at_s: float
    done: int = 0

    def __deepcopy__(self, memo: dict[int, Any]) -> Trouble:
        return self

    async def work(self, index: int) -> None:
        """What a row takes."""
        bad = index == self.index and asyncio.get_running_loop().time() >= self.at_s
        if bad and self.bad == "hung":
            await asyncio.Event().wait()
        await asyncio.sleep(BAD[self.bad] if bad else TAKES_S)
        self.done += 1


class Work(BasicBolt):
    """One of the tasks."""

    def __init__(self, trouble: Trouble) -> None:
        self.trouble = trouble

    def prepare(self, context: Any) -> None:
        self.index = context.task_index

    async def execute(self, tup: Any, collector: Any) -> None:
        await self.trouble.work(self.index)


@spout(outputs="n", tracked=True)
def endless() -> Iterator[int]:
    """As fast as it may."""
    yield from itertools.count()


def topology(cell: Cell, trouble: Trouble) -> Topology:
    """endless ─► shuffle ─► work."""
    builder = TopologyBuilder()
    builder.set_spout("endless", endless, cell.spouts)
    builder.set_bolt("work", Work(trouble), cell.tasks).shuffle_grouping("endless")
    return builder.create_topology()


async def ratio(
    cell: Cell,
    seed: int,
    seconds: int,
    make: Callable[[Cell, Trouble], Topology] = topology,
    pending: int | None = None,
) -> float:
    """Of the worst of so many seconds: rows done to rows that can be done."""
    chance = random.Random(f"{cell.name} {seed}")
    now_s = asyncio.get_running_loop().time
    trouble = Trouble(cell.bad, chance.randrange(cell.tasks), now_s() + chance.random())
    found, held = await _rates(cell, chance, seconds, trouble, make, pending)
    if pending is None:
        return min(found) / cell.rows_a_second
    left = max(1, pending - held // cell.spouts)
    rates, _ = await _rates(cell._replace(tasks=cell.tasks - 1), chance, 1, Trouble("hung", -1, now_s()), make, left)
    return min(found) / rates[0]


async def _rates(
    cell: Cell,
    chance: random.Random,
    seconds: int,
    trouble: Trouble,
    make: Callable[[Cell, Trouble], Topology],
    pending: int | None,
) -> tuple[list[int], int]:
    """Rows done, second by second; and how many rows the bad task holds then, if one does."""
    now_s = asyncio.get_running_loop().time
    config = Config(mailbox_capacity_tuples=cell.mailbox, turn_max_tuples=cell.turn, max_spout_pending=pending)
    found = []
    async with LocalCluster(rng=SeededRng(chance)) as cluster:
        running = await cluster.submit("t", make(cell, trouble), config)
        await asyncio.sleep(trouble.at_s + SETTLES_S * (1 if pending is None else 2) - now_s())
        for _ in range(seconds):
            before = trouble.done
            await asyncio.sleep(1)
            found.append(trouble.done - before)
        held = 0 if trouble.index < 0 else _held(running, trouble.index)
        await running.kill(0)
    return found, held


def _held(running: RunningTopology, index: int) -> int:
    """Rows that a task has and has not executed."""
    (task,) = [bolt for bolt in running._task_set.tasks.bolts if bolt.task.index == index]
    return int(task.box.gate.fill + task.taken.rows + task.execution.running)


def ratios(cell: Cell, seeds: Iterable[int], seconds: int, pending: int | None = None) -> list[float]:
    """Of each seed, each in a loop of its own."""
    found = []
    for seed in seeds:
        with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
            found.append(runner.run(ratio(cell, seed, seconds, pending=pending)))
    return found


# -- many cells, many seeds --------------------------------------------------------------------------------------------

Found = dict[Cell, list[float]]


def all_ratios(cells: Sequence[Cell], seeds: range, seconds: int, jobs: int, pending: int | None) -> Found:
    """Of each cell those of all seeds. `jobs`: processes; with 1 it is this one."""
    began_s, found = time.monotonic(), Found()
    todo = [(cell, seeds[at : at + SHARE]) for at in range(0, len(seeds), SHARE) for cell in cells]

    def here(share: tuple[Cell, range]) -> list[float]:
        return ratios(*share, seconds, pending)

    def apart(share: tuple[Cell, range]) -> list[float]:
        cell, part = share
        options = ["--share", f"{part.start}:{part.stop}", "--cells", cell.name, "--seconds", str(seconds)]
        options += [] if pending is None else ["--pending", str(pending)]
        command = [sys.executable, "-m", "tests.flow.bad_task", *options]
        output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        return [float(one) for one in json.loads(output)]

    with ThreadPoolExecutor(jobs) as pool:
        shares = map(here, todo) if jobs == 1 else pool.map(apart, todo)
        for number, ((cell, part), more) in enumerate(zip(todo, shares, strict=True), 1):
            found.setdefault(cell, []).extend(more)
            for seed, one in zip(part, more, strict=True):
                if one < LEAST:
                    again = f"--cells {cell.name} --first {seed} --seeds 1 --seconds {seconds}"
                    again += "" if pending is None else f" --pending {pending}"
                    print(f"{one:.3f}: python -m tests.flow.bad_task {again}", file=sys.stderr)
            print(f"  {number}/{len(todo)} shares, {time.monotonic() - began_s:.0f} s", file=sys.stderr, flush=True)
    return found


def table(found: Found) -> Iterator[str]:
    """Markdown: the least and the median ratio of each cell; one column for each number of spouts and turn."""
    columns = list(dict.fromkeys((cell.spouts, cell.turn) for cell in sorted(found, key=lambda c: (c.spouts, c.turn))))
    heads = [f"{spouts} spout{'s' * (spouts > 1)}, turn {turn:,}" for spouts, turn in columns]
    yield f"| one of | mailbox | {' | '.join(heads)} |"
    yield "|---" * (len(columns) + 2) + "|"
    for bad, tasks, mailbox in dict.fromkeys(cell[:3] for cell in found):
        cells = []
        for spouts, turn in columns:
            one = found.get(Cell(bad, tasks, mailbox, turn, spouts))
            cells.append("" if one is None else f"{min(one):.3f} / {statistics.median(one):.3f}")
        yield f"| {tasks} {bad} | {mailbox:,} | {' | '.join(cells)} |"


def main(arguments: Sequence[str] | None = None) -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument(
        "--cells",
        default="[hs]*",
        help="bad-tasks-mailbox-turn-spouts, with * and ?: crawling-4-*-1024-1 (default: all that are hung or slow)",
    )
    parser.add_argument("--pending", type=int, help="messages that a spout has open at the most (default: any)")
    parser.add_argument("--seconds", type=int, default=3, help="virtual, that are counted (default 3)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: one a core)")
    parser.add_argument("--share", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    cells = [cell for cell in CELLS if fnmatchcase(cell.name, given.cells)]
    if min(given.seeds, given.seconds, given.jobs) < 1 or not cells:
        parser.error("there is nothing to run" if cells else f"no cell is called {given.cells}")
    if given.share:
        first, stop = map(int, given.share.split(":"))
        print(json.dumps(ratios(cells[0], range(first, stop), given.seconds, given.pending)))
        return 0
    found = all_ratios(cells, range(given.first, given.first + given.seeds), given.seconds, given.jobs, given.pending)
    print("\n".join(table(found)))
    every = [one for cell in found.values() for one in cell]
    below = sum(one < LEAST for one in every)
    print(
        f"\n{len(cells)} cells, {given.seeds} seeds: {below} of {len(every)} below {LEAST}, the least {min(every):.3f}"
    )
    return 1 if below else 0


if __name__ == "__main__":
    sys.exit(main())
