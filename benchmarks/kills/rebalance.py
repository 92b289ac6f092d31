"""`python -m benchmarks.kills.rebalance SCENARIO…`: a topology is rebalanced again and again, under load.

drain    at least once: tasks of two bolts, then workers, then back
replace  the same plans, each with `submit --replace`: new processes, and the same code
exact    exactly once (benchmarks.bank): tasks of the bolt that has the state, then workers, then back
kill     at least once: it is killed while a rebalance is under way, and nothing of it is left

A cluster of one node. For each order it is printed when the topology ran with the new plan, and how long its output was
silent; at the end the topology finishes its input, and a process of its own reads what it has written. Exit code 1 if
anything is not as it is promised.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from aiostorm.cluster import Cluster
from aiostorm.cluster.nimbus import SUPERVISORS
from aiostorm.runtime import loop_factory

from .daemons import Bench, cluster
from .nodes import BANK_RATE, load, silences_after, submit_bank, summary, verified, watch_commits

LIMIT_S: Final = 2.0
"""For an order of an exactly-once topology."""

SETTLE_S: Final = 4.0
ORDER_S: Final = 12
"""About what one order takes, until the next one."""

Plan = dict[str, Any]


def plans(*bolts: str) -> list[Plan]:
    """More tasks, fewer workers, more workers, and back."""
    return [
        {"parallelism": dict.fromkeys(bolts, 4)},
        {"workers": 2},
        {"workers": 3},
        {"parallelism": dict.fromkeys(bolts, 3)},
    ]


class Orders:
    """Orders for one topology, and how long each took."""

    def __init__(self, bench: Bench, client: Cluster, name: str, target: tuple[str, ...] = ()) -> None:
        self.bench, self.client, self.name = bench, client, name
        self.target = target
        """Module and arguments, for `submit --replace`; empty: rebalance."""
        self.given_s: list[float] = []
        self.ran_s: list[float] = []

    async def give(self, plan: Plan) -> None:
        """One order, until the topology runs so."""
        generation = await self._ordered(plan)
        at_s = time.monotonic()
        await self.client.wait_running(self.name, 60, generation=generation)
        self.given_s.append(at_s)
        self.ran_s.append(time.monotonic() - at_s)
        print(f"{self.name} {plan}: ran after {self.ran_s[-1]:.2f} s; load {load()}", file=sys.stderr, flush=True)
        await asyncio.sleep(SETTLE_S)

    async def _ordered(self, plan: Plan) -> int:
        if not self.target:
            # The client's own check of a new parallelism imports the code in a process: it is not part of the pause.
            return await self.client.rebalance(self.name, **plan)
        found = await self.client.submit(
            self.name, self.target[0], arguments=self.target[1:], replace=True, check=False, **plan
        )
        return found.record.generation

    def figures(self, times_s: list[float]) -> dict[str, Any]:
        """`times_s`: of the output, in order."""
        silences = silences_after(self.given_s, times_s)
        return {
            "orders": len(self.given_s),
            "ran": summary(self.ran_s),
            "silence": summary(silences),
            "load": load(),
        }


class Scenarios:
    """What is ordered, and what it is checked by."""

    def __init__(self, bench: Bench, client: Cluster, rounds: int, rate: float) -> None:
        self.bench, self.client = bench, client
        self.rounds, self.rate = rounds, rate

    async def numbers(self, name: str, *, by_replace: bool) -> None:
        bench, orders = self.bench, plans("square", "write") * self.rounds
        count = int(self.rate * (15 + ORDER_S * len(orders)))
        bench.out = bench.folder / f"out-{name}"
        await bench.submit(name, count, self.rate)
        target = ("benchmarks.kills.topology:topology", str(bench.out), str(count), str(self.rate))
        given = Orders(bench, self.client, name, target if by_replace else ())
        await asyncio.sleep(SETTLE_S)
        for plan in orders:
            await given.give(plan)
        await self.client.wait_ended(name, 600)
        (bench.out / "kills.json").write_text('{"kills": [], "pids": {}}')
        said = await verified("benchmarks.kills.verify", bench.out, count)
        del said["kills"]
        self._keep(name, given.figures([at_s for at_s, _, _ in bench.lines()]) | said)
        if any(said[what] for what in ("lost", "never_acked", "acked_and_lost", "wrong_lines")):
            bench.problems.append(f"{name}: {said}")

    async def exact(self) -> None:
        bench, orders = self.bench, plans("balances") * self.rounds
        count = BANK_RATE * (15 + ORDER_S * len(orders))
        folder = await submit_bank(bench, "exact", count, workers=3)
        given = Orders(bench, self.client, "exact")
        await asyncio.sleep(SETTLE_S)
        commits: list[float] = []
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(watch_commits(folder / "bank.db", commits))
            for plan in orders:
                await given.give(plan)
            watching.cancel()
        await self.client.wait_ended("exact", 600)
        said = await verified("benchmarks.bank.verify", folder, count)
        figures = given.figures(commits)
        self._keep("exact", figures | {"transfers": count, **said})
        for sink, found in said.items():
            if found["lost"] or found["twice"] or found["wrong"] or found["sum"]:
                bench.problems.append(f"exact: {sink}: {found}")
        for what in ("ran", "silence"):
            if late := [value for value in figures[what]["all"] if value > LIMIT_S]:
                bench.problems.append(f"exact: {what}: {late} s, and {LIMIT_S:g} s are allowed")

    async def kill(self) -> None:
        """Killed at another moment of the rebalance each time."""
        bench, took_s = self.bench, list[float]()
        for at in range(4 * self.rounds):
            name = f"kill-{at}"
            bench.out = bench.folder / f"out-{name}"
            await bench.submit(name, 1_000_000, self.rate)
            await self.client.rebalance(name, parallelism={"square": 4}, drain_s=5)
            await asyncio.sleep(0.3 * at)
            began_s = time.monotonic()
            await self.client.kill(name, 2)
            await self.client.wait_ended(name, 30)
            took_s.append(time.monotonic() - began_s)

            async def nothing_left(name: str = name) -> bool:
                return not bench.slots(name)

            await bench.until(f"the end of all processes of {name}", nothing_left, 5)
        self._keep("kill", {"kills": len(took_s), "ended": summary(took_s)})

    def _keep(self, what: str, figures: dict[str, Any]) -> None:
        self.bench.figures[what] = figures
        print(what, json.dumps(figures), file=sys.stderr, flush=True)


async def run(scenarios: list[str], rounds: int, rate: float, folder: Path) -> int:
    async with cluster(folder, 1) as bench:
        bench.start("nimbus-1")
        bench.start("supervisor")

        async def there() -> bool:
            return bool(await bench.store.get(SUPERVISORS) and await bench.store.children(SUPERVISORS))

        await bench.until("the supervisor", there, 60)
        async with Cluster(home=bench.home) as client:
            each = Scenarios(bench, client, rounds, rate)
            for scenario in scenarios:
                if scenario == "exact":
                    await each.exact()
                elif scenario == "kill":
                    await each.kill()
                else:
                    await each.numbers(scenario, by_replace=scenario == "replace")
        print(json.dumps(bench.figures, indent=1))
        for problem in bench.problems:
            print(f"problem: {problem}", file=sys.stderr)
        return 1 if bench.problems else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kills.rebalance", description=__doc__)
    parser.add_argument("scenarios", nargs="+", choices=("drain", "replace", "exact", "kill"))
    parser.add_argument("--rounds", type=int, default=1, help="of four orders each")
    parser.add_argument("--rate", type=float, default=1000.0, help="numbers a second")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="re") as name, asyncio.Runner(loop_factory=loop_factory()) as loop:
        return loop.run(run(given.scenarios, given.rounds, given.rate, Path(name)))


if __name__ == "__main__":
    sys.exit(main())
