"""What the page costs: `python -m tests.ui.measure`. It needs a browser, as tests/ui/browser.py says.

first paint       from loopback, nothing cached: when the browser has painted the first content
a frame           of the overview with COMPONENTS components, each second: the work of the browser's main thread
the server        with 50 components: the processor time of its process, with a viewer and without
"""

from __future__ import annotations

import asyncio
import gzip
import statistics
import sys
import time
from collections.abc import AsyncIterator
from typing import Any, Final

from aiostorm import LocalCluster, RunningTopology, Topology, TopologyBuilder, bolt, spout
from aiostorm.ui import Dashboard
from aiostorm.ui.assets import assets

from .browser import LAUNCH

COMPONENTS: Final = 100
LOADS: Final = 7
FRAMES_S: Final = 30.0
SERVED_S: Final = 20.0
ROUNDS: Final = 3


@spout(outputs="n")
async def numbers() -> AsyncIterator[int]:
    n = 0
    while True:
        yield n
        n += 1
        await asyncio.sleep(0.05 if n < 200 else 1.0)


@bolt(outputs="n")
def passes(n: int) -> int:
    return n


def wide(components: int, name: str) -> Topology:
    """A spout, and lines of nine bolts behind it."""
    builder = TopologyBuilder()
    builder.set_spout("numbers", numbers)
    for i in range(components - 1):
        declarer: Any = builder.set_bolt(f"bolt-{i}", passes)
        declarer.shuffle_grouping("numbers" if i % 9 == 0 else f"bolt-{i - 1}")
    return builder.create_topology(name)


async def first_paint(browsers: Any, url: str) -> list[float]:
    """Milliseconds, of each load in a browser that has nothing cached; the first, which starts it, is left out."""
    browser = await browsers.chromium.launch(**LAUNCH)
    found = []
    for _ in range(LOADS + 1):
        context = await browser.new_context()
        page = await context.new_page()
        await page.goto(url)
        await page.wait_for_selector(".node a")
        entries = await page.evaluate("performance.getEntriesByType('paint').map((e) => [e.name, e.startTime])")
        found.append(dict(entries)["first-contentful-paint"])
        await context.close()
    await browser.close()
    return found[1:]


async def frames(browsers: Any, url: str, seconds: float) -> dict[str, float]:
    """Milliseconds of processor time of the main thread for each tick: in all, in scripts, in style and layout."""
    browser = await browsers.chromium.launch(**LAUNCH)
    page = await browser.new_page(viewport={"width": 1440, "height": 900})
    await page.goto(url)
    await page.wait_for_selector(".node a")
    await asyncio.sleep(5.0)
    session = await page.context.new_cdp_session(page)
    await session.send("Performance.enable", {"timeDomain": "threadTicks"})  # processor time

    async def read() -> dict[str, float]:
        answer = await session.send("Performance.getMetrics")
        return {each["name"]: each["value"] for each in answer["metrics"]}

    before = await read()
    await asyncio.sleep(seconds)
    after = await read()
    await browser.close()
    names = ("TaskDuration", "ScriptDuration", "LayoutDuration", "RecalcStyleDuration")
    return {name: (after[name] - before[name]) * 1000 / seconds for name in names}


async def share(seconds: float) -> float:
    """Of a core, that this process uses in that time."""
    used_s, began_s = time.process_time(), time.monotonic()
    await asyncio.sleep(seconds)
    return (time.process_time() - used_s) / (time.monotonic() - began_s)


async def server(url: str) -> list[tuple[float, float]]:
    """(without, with a viewer): shares of a core. The viewer is another process."""
    program = "import sys, urllib.request as r\nfor line in r.urlopen(sys.argv[1]): pass"
    found = []
    for _ in range(ROUNDS):
        await asyncio.sleep(6.0)  # what was read is watched for some seconds more
        without = await share(SERVED_S)
        viewer = await asyncio.create_subprocess_exec(sys.executable, "-c", program, url)
        await asyncio.sleep(3.0)
        found.append((without, await share(SERVED_S)))
        viewer.kill()
        await viewer.wait()
    return found


def size() -> str:
    """Of all files that a browser loads."""
    bodies = [asset.body for asset in assets().values()]
    return f"{sum(map(len, bodies)):,} bytes, with gzip {sum(len(gzip.compress(body, 9)) for body in bodies):,}"


async def main() -> None:
    """Measure, and print."""
    from playwright.async_api import async_playwright

    print(f"files        {size()}")
    dashboard = Dashboard("127.0.0.1:0")
    async with LocalCluster(ui=dashboard) as cluster, async_playwright() as browsers:
        running: RunningTopology = await cluster.submit("fifty", wide(50, "fifty"))
        shares = await server(f"{dashboard.url}api/v1/topologies/fifty/stream")
        for without, viewed in shares:
            print(
                f"the server   {without:.2%} of a core without a viewer, {viewed:.2%} with one: {viewed - without:.2%}"
            )
        await running.kill(0)
        running = await cluster.submit("wide", wide(COMPONENTS, "wide"))
        url = f"{dashboard.url}#/t/wide"
        paints = await first_paint(browsers, url)
        print(f"first paint  {statistics.median(paints):.0f} ms (from {min(paints):.0f} to {max(paints):.0f})")
        for name, took_ms in (await frames(browsers, url, FRAMES_S)).items():
            print(f"a frame      {took_ms:.2f} ms {name}")
        await running.kill(0)


if __name__ == "__main__":
    with asyncio.Runner() as runner:
        runner.run(main())
