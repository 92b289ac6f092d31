"""Record feeds for the tests of the page: `python -m tests.ui.record [NAME…]`. Three topologies, each for seconds.

calm       two spouts that give little, exactly once, and a bolt with metrics of its own
throttled  the demo: a bolt that is too slow
failing    a bolt that raises
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from aiostorm import (
    BasicBolt,
    BasicCollector,
    Config,
    RunningTopology,
    Topology,
    TopologyBuilder,
    TopologyContext,
    Tuple,
    bolt,
    spout,
)
from aiostorm.cli.demo import topology as demo

from .parts import Served, served

FEEDS: Final = Path(__file__).with_name("feeds")

ROOT: Final = Path(__file__).resolve().parents[2]

DOCUMENTS: Final = (
    "graph",
    "pressure",
    "traces",
    "profiles",
    "errors",
    "workers",
    "snapshots",
    "logs",
    "config",
)

TICKS: Final = 6
"""That the page is sent after the past."""


@spout(outputs="reading", repeatable=True)
async def readings() -> AsyncIterator[int]:
    number = 0
    while True:
        yield number
        number += 1
        await asyncio.sleep(0.02)


@spout(outputs="place", repeatable=True)
async def places() -> AsyncIterator[int]:
    number = 0
    while True:
        yield number
        number += 1
        await asyncio.sleep(0.2)


class Parse(BasicBolt):
    """It measures what it sees, in every kind of metric."""

    outputs = "value"

    def prepare(self, context: TopologyContext) -> None:
        metrics = context.metrics
        self.kinds = [metrics.counter("readings", {"kind": kind}) for kind in ("even", "odd")]
        self.bytes = metrics.meter("bytes")
        self.highest = metrics.gauge("highest", combine="max")
        self.digits = metrics.histogram("digits")

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        reading = tup["reading"]
        self.kinds[reading % 2].inc()
        self.bytes.mark(8)
        self.highest.set(reading)
        self.digits.observe(len(str(reading)))
        collector.emit([reading])


@bolt(outputs="value")
def locate(place: int) -> int:
    return place


@bolt(outputs="value")
def merge(value: int) -> int:
    return value


@bolt
def store(value: int) -> None:
    """It keeps nothing."""


@bolt(outputs="value")
def raising(reading: int) -> int:
    if reading % 7 == 3:
        raise ValueError(f'reading {reading} is no "number" <b>at all</b>')
    if reading % 31 == 30:
        raise KeyError("place")
    return reading


def calm() -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("readings", readings)
    builder.set_spout("places", places)
    builder.set_bolt("parse", Parse, 2).shuffle_grouping("readings")
    builder.set_bolt("locate", locate).shuffle_grouping("places")
    builder.set_bolt("merge", merge, 2).fields_grouping("parse", "value").fields_grouping("locate", "value")
    builder.set_bolt("archive", store).shuffle_grouping("readings")
    builder.set_bolt("store", store).shuffle_grouping("merge")
    return builder.create_topology("sensors")


def failing() -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("readings", readings, max_retries=0)
    builder.set_bolt("parse", raising, 2).shuffle_grouping("readings")
    builder.set_bolt("store", store).shuffle_grouping("parse")
    return builder.create_topology("failing")


async def record(name: str, topology: Topology, seconds: float, config: Config | None = None) -> None:
    """Run a topology, and write what the page would be sent."""
    async with served() as page:
        running = await page.cluster.submit(topology.name or name, topology, config)
        feed = await _recorded(page, running, seconds)
        await running.kill(0)
    FEEDS.mkdir(exist_ok=True)
    text = json.dumps(feed, ensure_ascii=False, separators=(",", ":"))
    text = text.replace(f"{ROOT}/", "")  # in tracebacks
    if config is not None and config.state_dir:
        text = text.replace(config.state_dir, "state")
    (FEEDS / f"{name}.json").write_text(text + "\n", encoding="utf-8")


async def _recorded(page: Served, running: RunningTopology, seconds: float) -> dict[str, Any]:
    path = f"api/v1/topologies/{running.name}"
    events: list[tuple[str, Any]] = []
    async with asyncio.timeout(seconds + 60), page.session.get(f"{page.dashboard.url}{path}/stream") as answer:
        kind = ""
        async for line in answer.content:
            if line.startswith(b"event: "):
                kind = line[7:].strip().decode()
            elif line.startswith(b"data: "):
                events.append((kind, json.loads(line[6:])))
            if len(events) > seconds:
                break
    ticks = [data for kind, data in events if kind == "tick"]
    past = (await page.ask("GET", f"{path}/metrics")).json()
    past["points"] = past["points"][:-TICKS]
    await page.order("POST", f"{path}/trace")
    await page.order("POST", f"{path}/profile", {"seconds": 0.5})
    documents = {name: (await page.ask("GET", f"{path}/{name}")).json() for name in DOCUMENTS}
    for node in documents["graph"]["nodes"]:
        component = f"components/{node['id']}"
        documents[component] = (await page.ask("GET", f"{path}/{component}")).json()
    for row in documents["traces"]["traces"]:
        trace = f"traces/{row['id']}"
        documents[trace] = (await page.ask("GET", f"{path}/{trace}")).json()
    listed = (await page.ask("GET", "api/v1/topologies")).json()
    return {"topologies": listed, "documents": documents, "past": past, "ticks": ticks[-TICKS:]}


async def main() -> None:
    """Record all, or those that are named."""
    wanted = sys.argv[1:] or ["calm", "throttled", "failing"]
    if "calm" in wanted:
        with TemporaryDirectory() as folder:
            await record("calm", calm(), 20, Config(guarantee="exactly-once", state_dir=folder))
    if "throttled" in wanted:
        await record("throttled", demo("600"), 45)
    if "failing" in wanted:
        await record("failing", failing(), 20)


if __name__ == "__main__":
    with asyncio.Runner() as runner:
        runner.run(main())
