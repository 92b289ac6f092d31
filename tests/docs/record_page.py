"""Record the page of `aiostorm demo` in a browser, as the picture of docs/how-to/watch.md and the README.

    python -m tests.docs.record_page docs/images/aiostorm-page.png

The topology runs for some seconds, in real time, until its spout is slowed down. It needs a browser, as
tests/ui/browser.py says.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from aiostorm import LocalCluster
from aiostorm.cli.demo import topology
from aiostorm.ui import Dashboard

from ..ui.browser import LAUNCH

RUNS_S = 40.0
SIZE = {"width": 1200, "height": 760}


async def record(path: str) -> None:
    """Run it, and write the picture."""
    from playwright.async_api import async_playwright

    dashboard = Dashboard("127.0.0.1:0")
    async with LocalCluster(ui=dashboard) as cluster, async_playwright() as browsers:
        running = await cluster.submit("demo-shop", topology("600"))
        browser = await browsers.chromium.launch(**LAUNCH)
        page = await browser.new_page(viewport=SIZE, color_scheme="light", reduced_motion="reduce", timezone_id="UTC")
        await page.goto(f"{dashboard.url}#/t/demo-shop")
        await asyncio.sleep(RUNS_S)
        await page.wait_for_selector(".edge.hot")
        await page.screenshot(path=path)
        await browser.close()
        await running.kill(0)


def main(path: str) -> None:
    """Write it."""
    with asyncio.Runner() as runner:
        runner.run(record(str(Path(path).resolve())))


if __name__ == "__main__":
    main(sys.argv[1])
