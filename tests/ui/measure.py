"""What the page costs: `python -m tests.ui.measure`. It needs a browser, as tests/ui/browser.py says.

first paint       from loopback, nothing cached: when the browser has painted the first content
first data        the same, until the numbers are there
a frame           of the overview with COMPONENTS components: the processor time of the browser's main thread in a
                  second, in which the page changes once; and the same of an empty page of which one text changes
the server        with 50 components: the processor time of its process, with a viewer and without

Figures: low, median, high.
"""

from __future__ import annotations

import asyncio
import gzip
import statistics
import sys
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final, NamedTuple

from aiostorm import LocalCluster, RunningTopology, Topology, TopologyBuilder, bolt, spout
from aiostorm.ui import Dashboard
from aiostorm.ui.assets import assets

from .browser import LAUNCH

COMPONENTS: Final = 100
LOADS: Final = 7
FRAMES_S: Final = 10.0
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


class Load(NamedTuple):
    """One load of the page: milliseconds from its start until…"""

    paint: float
    """…the browser has painted the first content: the header, which is in the HTML."""
    data: float
    """…the graph is there, with its numbers."""


_DATA: Final = """(() => {
  const look = () => {
    if (document.querySelector(".node a")) window.dataAt = performance.now();
    else requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
})()"""

_LOADED: Final = """[
  performance.getEntriesByType("paint").find((each) => each.name === "first-contentful-paint").startTime,
  window.dataAt,
]"""

_TEXT_A_SECOND: Final = """
  document.body.textContent = "0";
  setInterval(() => { document.body.firstChild.data = String(Date.now()); }, 1000);
"""


async def loads(browsers: Any, url: str) -> list[Load]:
    """Of a browser that has nothing cached; the first load, which starts it, is left out."""
    browser = await browsers.chromium.launch(**LAUNCH)
    found = []
    for _ in range(LOADS + 1):
        context = await browser.new_context()
        page = await context.new_page()
        await page.add_init_script(_DATA)
        await page.goto(url)
        await page.wait_for_selector(".node a")
        await asyncio.sleep(0.2)
        found.append(Load(*await page.evaluate(_LOADED)))
        await context.close()
    await browser.close()
    return found[1:]


class Frames:
    """The processor time of the main thread of a page that changes once a second: a frame a second."""

    def __init__(self, page: Any, session: Any) -> None:
        self._page = page
        self._session = session
        self.found: dict[str, list[tuple[float, float]]] = {}

    async def measure(self, what: str) -> None:
        """(all tasks, of it style and layout), milliseconds a second, of FRAMES_S."""
        await asyncio.sleep(5.0)  # what a page does once, after it was loaded
        before = await self._read()
        await asyncio.sleep(FRAMES_S)
        after = await self._read()
        used = [(after[name] - before[name]) * 1000 / FRAMES_S for name in before]
        self.found.setdefault(what, []).append((used[0], used[1] + used[2]))

    async def _read(self) -> dict[str, float]:
        answer = await self._session.send("Performance.getMetrics")
        known = {each["name"]: each["value"] for each in answer["metrics"]}
        return {name: known[name] for name in ("TaskDuration", "LayoutDuration", "RecalcStyleDuration")}


async def frames(browsers: Any, url: str) -> dict[str, list[tuple[float, float]]]:
    """What is in sight → (all, style and layout), by turns. An empty page shows what a frame costs in this browser."""
    browser = await browsers.chromium.launch(**LAUNCH)
    page = await browser.new_page(viewport={"width": 1440, "height": 900})
    session = await page.context.new_cdp_session(page)
    await session.send("Performance.enable", {"timeDomain": "threadTicks"})  # processor time
    frames = Frames(page, session)
    for _ in range(ROUNDS):
        await page.goto("about:blank")
        await page.evaluate(_TEXT_A_SECOND)
        await frames.measure("one text, else nothing")
        await page.goto(url)
        await page.wait_for_selector(".node a")
        await frames.measure("the graph in sight")
        await page.locator("h2:text-is('Components')").scroll_into_view_if_needed()
        await page.mouse.move(700, 400)
        await page.mouse.wheel(0, 900)
        await frames.measure("the table in sight")
    await browser.close()
    return frames.found


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


def _three(found: Sequence[float]) -> str:
    """Low, median, high."""
    return ", ".join(f"{each:.1f}" for each in (min(found), statistics.median(found), max(found)))


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
        found = await loads(browsers, url)
        print(f"first paint  {_three([load.paint for load in found])} ms")
        print(f"first data   {_three([load.data for load in found])} ms")
        for what, used in (await frames(browsers, url)).items():
            everything, layout = zip(*used, strict=True)
            print(f"a frame      {_three(everything)} ms, style and layout {_three(layout)} ms: {what}")
        await running.kill(0)


if __name__ == "__main__":
    with asyncio.Runner() as runner:
        runner.run(main())
