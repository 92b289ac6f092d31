"""A served page for tests: a small topology, a dashboard on a free port, and a client that sends any header."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp

from aiostorm import (
    BasicBolt,
    BasicCollector,
    Config,
    LocalCluster,
    RunningTopology,
    TopologyBuilder,
    TopologyContext,
    Tuple,
    bolt,
    spout,
)
from aiostorm.topology import Topology
from aiostorm.ui import Dashboard

NAME = "count-numbers"


@spout(outputs="n")
async def numbers() -> AsyncIterator[int]:
    n = 0
    while True:
        yield n
        n += 1
        await asyncio.sleep(0.01)


class Half(BasicBolt):
    outputs = "n"

    def prepare(self, context: TopologyContext) -> None:
        self.halved = context.metrics.counter("halved")
        self.results = context.metrics.histogram("results")
        context.metrics.gauge("state", {"of": "task"}).set(float("nan"))

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        n: int = tup["n"]
        if n % 10 == 9:
            raise ValueError(f"{n} is <img src=x onerror=alert(1)>")
        self.halved.inc()
        self.results.observe(n // 2)
        collector.emit([n // 2])


@bolt
def ignore(n: int) -> None:
    """It goes nowhere."""


def small() -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("numbers", numbers, max_retries=0)
    builder.set_bolt("half", Half, 2).shuffle_grouping("numbers")
    builder.set_bolt("ignore", ignore).fields_grouping("half", "n")
    return builder.create_topology(NAME)


@dataclass
class Served:
    """A dashboard that runs, and a client."""

    cluster: LocalCluster
    dashboard: Dashboard
    session: aiohttp.ClientSession

    async def ask(self, method: str, path: str, headers: dict[str, str] | None = None, **more: Any) -> Answer:
        """Send a request; a header that is given replaces the client's own."""
        async with self.session.request(
            method, self.dashboard.url + path, headers=headers, allow_redirects=False, **more
        ) as answer:
            return Answer(answer.status, answer.headers, await answer.read())

    async def order(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """An order, as the page sends it."""
        return await self.ask(method, path, {"X-Aiostorm": "1", **headers}, json=body)


@dataclass
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


async def until(condition: Callable[[], bool]) -> None:
    """Wait until it is true."""
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not become true in 10 s")


@contextlib.asynccontextmanager
async def served(**options: Any) -> AsyncIterator[Served]:
    """A dashboard without topologies."""
    dashboard = Dashboard("127.0.0.1:0", **options)
    async with LocalCluster(ui=dashboard) as cluster, aiohttp.ClientSession() as session:
        yield Served(cluster, dashboard, session)


@contextlib.asynccontextmanager
async def served_numbers(config: Config | None = None, **options: Any) -> AsyncIterator[tuple[Served, RunningTopology]]:
    """A dashboard with the small topology."""
    async with served(**options) as found:
        running = await found.cluster.submit(NAME, small(), config)
        yield found, running
        await running.kill(0)
