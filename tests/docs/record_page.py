"""Record the page of `aiostorm demo`, and its report, in a browser, as pictures of docs/how-to/watch.md and the README.

    python -m tests.docs.record_page docs/images

aiostorm-page.png            the overview, light
aiostorm-page-component.png  a component, dark
aiostorm-report.png          what `aiostorm run --report` writes

The topology runs for some seconds, in real time, until its spout is slowed down. It needs a browser, as
tests/ui/browser.py says.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from aiostorm import LocalCluster
from aiostorm.cli.demo import topology
from aiostorm.ui import Dashboard

from ..ui.browser import LAUNCH

RUNS_S: Final = 40.0

PICTURES: Final = (
    ("aiostorm-page", "t/demo-shop", "light", {"width": 1200, "height": 760}),
    ("aiostorm-page-component", "t/demo-shop/c/payments", "dark", {"width": 1200, "height": 860}),
)

REPORT: Final[Any] = {"width": 1000, "height": 1500}


async def record(folder: Path) -> None:
    """Run it, and write the pictures."""
    from playwright.async_api import async_playwright

    dashboard = Dashboard("127.0.0.1:0")
    async with LocalCluster(ui=dashboard) as cluster, async_playwright() as browsers:
        running = await cluster.submit("demo-shop", topology("600"))
        browser = await browsers.chromium.launch(**LAUNCH)
        pages: list[tuple[str, Any]] = []
        for name, path, theme, size in PICTURES:
            page = await browser.new_page(viewport=size, color_scheme=theme, reduced_motion="reduce", timezone_id="UTC")
            await page.goto(f"{dashboard.url}#/{path}")
            pages.append((name, page))
        with tempfile.TemporaryDirectory() as place:
            report = Path(place) / "run.html"
            async with running.report(report):
                await asyncio.sleep(RUNS_S)
            page = await browser.new_page(viewport=REPORT, color_scheme="light")
            await page.goto(report.as_uri())
            await page.screenshot(path=folder / "aiostorm-report.png")
        await pages[0][1].wait_for_selector(".edge.hot")
        for name, page in pages:
            await page.screenshot(path=folder / f"{name}.png")
        await browser.close()
        await running.kill(0)


def main(folder: str) -> None:
    """Write them."""
    with asyncio.Runner() as runner:
        runner.run(record(Path(folder).resolve()))


if __name__ == "__main__":
    main(sys.argv[1])
