"""`python -m benchmarks.scale`: what clusters of 10, 100 and 1,000 nodes ask of their store, and of their parents.

    nodes × supervisor, nimbus × 2 ─► a topology of 10 workers for each 10 nodes ─► events, one by one ─► counts

1. The daemons are the real ones; processes are stand-ins, and the store is in memory. Operations and bytes are counted,
   no time is measured: the figures are the same on each machine.
2. Whatever happens between two polls (0.1 s) is read once: the counts are lowest ones.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import sys
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import Final

from aiostorm.cluster.coordination import Put
from aiostorm.cluster.nimbus import ASSIGNMENTS, PARENTS, AssignmentRecord, ParentRecord, pack, path_of, unpack, want
from aiostorm.testing import VirtualTimeLoop

from .cluster import CountedCluster
from .counted import Counts
from .messages import Sizes, sizes_of

NODES: Final = (10, 100, 1_000)
NODES_A_TOPOLOGY: Final = 10
SETTLED_S: Final = 3.0
MOVED_S: Final = 15.0
IDLE_S: Final = 8.0

ROLES: Final = ("nimbus", "supervisor", "parent")


class WrongResultError(Exception):
    """The cluster has not done what it was to do, or asked more than it may."""


async def counted(nodes: int) -> dict[str, dict[str, Counts]]:
    """Event → role → what was asked."""
    found: dict[str, dict[str, Counts]] = {}
    names = [f"t{index:04}" for index in range(max(1, nodes // NODES_A_TOPOLOGY))]
    async with asyncio.TaskGroup() as group:
        cluster = CountedCluster(group)
        await cluster.make()
        for name in ("nimbus-1", "nimbus-2"):
            cluster.start_nimbus(name)
        for index in range(nodes):
            cluster.start_supervisor(f"node-{index:04}")
        await asyncio.sleep(SETTLED_S)

        async def event(what: str, work: Callable[[], Awaitable[None]], settled_s: float = SETTLED_S) -> None:
            cluster.book.take()
            await work()
            await asyncio.sleep(settled_s)
            found[what] = cluster.book.take()

        async def submit_all() -> None:
            for name in names:
                await cluster.submit(name)

        await event("start of all", submit_all)
        await cluster.until(lambda: set(cluster.states(names)) == {"ACTIVE"})
        await event("at rest", lambda: asyncio.sleep(0), IDLE_S)
        await event("submit one", lambda: cluster.submit("one"))
        check(cluster.states(["one"]) == ["ACTIVE"], "a submitted topology runs")
        await event("its parent writes", lambda: _degrade(cluster, "one"))
        await event("a worker's node is lost", lambda: _lose(cluster, names[0]), MOVED_S)
        check(set(cluster.states(names)) == {"ACTIVE"}, "all run when a node was lost")
        await event("kill one", lambda: _kill(cluster, "one"))
        check(cluster.states(["one"]) == [""], "a killed topology has ended")
        leading = next(name for name in ("nimbus-1", "nimbus-2") if _leads(cluster, name))
        await event("another nimbus leads", lambda: cluster.kill(leading))
        check(any(_leads(cluster, name) for name in cluster.daemons), "another nimbus leads")
        for name in list(cluster.daemons):
            await cluster.kill(name)
    return found


def check(holds: bool, what: str) -> None:
    """WrongResultError if not."""
    if not holds:
        raise WrongResultError(f"not so: {what}")


def _leads(cluster: CountedCluster, name: str) -> bool:
    node = cluster.store.tree.nodes.get("/leader/holder")
    return node is not None and node.value == name.encode()


async def _degrade(cluster: CountedCluster, name: str) -> None:
    """What a parent writes when a worker is being restarted."""
    path = path_of(PARENTS, name)
    record = unpack(ParentRecord, path, cluster.store.tree.nodes[path].value)
    async with cluster.client("parent") as client:
        await client.commit([Put(path, pack(record)), Put(PARENTS, b"")])


async def _kill(cluster: CountedCluster, name: str) -> None:
    async with cluster.client("client") as client:
        await want(client, name, "KILLED")


async def _lose(cluster: CountedCluster, name: str) -> None:
    path = path_of(ASSIGNMENTS, name)
    assignment = unpack(AssignmentRecord, path, cluster.store.tree.nodes[path].value)
    victim = next(on for on in assignment.workers if on != assignment.parent)
    await cluster.kill(victim)


def table(results: dict[int, dict[str, dict[str, Counts]]]) -> str:
    """Reads, read kB, and written operations, by event and role."""
    sizes = sorted(results)
    head = "| event | role | " + " | ".join(f"{nodes:,} nodes" for nodes in sizes) + " | kB read | written |"
    lines = [head, "|---|---|" + "---:|" * (len(sizes) + 2)]
    for event in results[sizes[0]]:
        for role in ROLES:
            each = [results[nodes][event].get(role, Counts()) for nodes in sizes]
            if any(counts.zookeeper_reads or counts.written for counts in each):
                last = each[-1]
                figures = " | ".join(f"{counts.zookeeper_reads:,}" for counts in each)
                lines.append(f"| {event} | {role} | {figures} | {last.read_bytes / 1000:,.0f} | {last.written:,} |")
    return "\n".join(lines)


def table_of_sizes(sizes: list[Sizes]) -> str:
    """What the parent of one topology sends and gets, by the number of its workers."""
    rows: list[tuple[str, Callable[[Sizes], float]]] = [
        ("tasks", lambda each: each.tasks),
        ("kB to start one worker", lambda each: (each.import_bytes + each.connect_bytes) / 1000),
        ("kB to start all of them", lambda each: each.start_bytes / 1000),
        ("links of workers with each other", lambda each: each.links),
        ("links of one worker", lambda each: each.links_of_a_worker),
        ("heartbeats/s on links at rest, all together", lambda each: each.heartbeats_a_second),
        ("reports/s to the parent", lambda each: each.reports_a_second),
        ("kB/s of reports", lambda each: each.reports_a_second * each.status_bytes / 1000),
    ]
    lines = ["| one topology | " + " | ".join(f"{each.workers:,} workers" for each in sizes) + " |"]
    lines.append("|---|" + "---:|" * len(sizes))
    lines += [f"| {what} | " + " | ".join(f"{figure(each):,.0f}" for each in sizes) + " |" for what, figure in rows]
    return "\n".join(lines)


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument("--nodes", help="as 10,100,1000", default=",".join(map(str, NODES)))
    parser.add_argument("--json", action="store_true", help="all counts, as JSON")
    given = parser.parse_args()
    logging.disable(logging.CRITICAL)
    results: dict[int, dict[str, dict[str, Counts]]] = {}
    try:
        for nodes in [int(part) for part in given.nodes.split(",")]:
            with asyncio.Runner(loop_factory=lambda: VirtualTimeLoop(max_jumps=10**9, max_steps=10**9)) as runner:
                results[nodes] = runner.run(counted(nodes))
    except WrongResultError as error:
        print(error, file=sys.stderr)
        return 1
    sizes = [sizes_of(nodes) for nodes in results]
    if given.json:
        print(json.dumps({"store": results, "topology": sizes}, default=asdict))
    else:
        print(table(results), table_of_sizes(sizes), sep="\n\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
