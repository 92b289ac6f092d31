"""Record the table that `aiostorm demo` shows on a terminal, as the picture of the README.

    python -m tests.docs.record_demo docs/images/aiostorm-demo.svg

The topology runs for some seconds, in real time; the table is the one of the command, drawn once, by rich.
"""

from __future__ import annotations

import asyncio
import io
import re
import sys
from pathlib import Path

from rich.console import Console

from aiostorm import Config, LocalCluster
from aiostorm.cli.demo import topology
from aiostorm.cli.pressure import paced_text
from aiostorm.cli.progress import Rates, live_table

RUNS_S = 8.0
WIDTH = 84


async def record(runs_s: float) -> str:
    """The table after so many seconds, as SVG."""
    loop = asyncio.get_running_loop()
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    async with LocalCluster() as cluster:
        started_s = loop.time()
        running = await cluster.submit("demo-shop", topology("60"))
        rates = Rates(started_s)
        while loop.time() - started_s < runs_s:
            await asyncio.sleep(0.25)
            snapshot = rates.snapshot(running.metrics(), loop.time(), paced_text(running.backpressure()))
        console.print(live_table(snapshot, "demo-shop", Config().mailbox_high_mark))
        await running.kill(wait_s=0)
    return without_fonts(console.export_svg(title="aiostorm demo", unique_id="aiostorm-demo"))


def without_fonts(drawn: str) -> str:
    """The picture without the fonts that a browser would load from another server: the reader's own will do."""
    return re.sub(r"@font-face \{.*?\}\s*", "", drawn, flags=re.DOTALL)


def main(path: str) -> None:
    """Write it."""
    with asyncio.Runner() as runner:
        Path(path).write_text(runner.run(record(RUNS_S)), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
