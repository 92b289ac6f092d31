"""Record what `aiostorm top` shows of `aiostorm demo`, as the picture of docs/how-to/watch.md.

    python -m tests.docs.record_top docs/images/aiostorm-top.svg

The topology runs for some seconds, in real time; the lines are those of the command, drawn once, by rich.
"""

from __future__ import annotations

import asyncio
import io
import os
import sys
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.text import Text

from aiostorm import LocalCluster
from aiostorm.cli.demo import topology
from aiostorm.cli.top_view import Choice, Top, lines
from aiostorm.cluster import RemoteTopology, TopologySocket
from aiostorm.cluster.control.view import view_of
from aiostorm.transport import Security, open_network

from .record_demo import without_fonts

RUNS_S: Final = 20.0
WIDTH: Final = 100


async def record(runs_s: float) -> str:
    """The screen after so many seconds, as SVG."""
    loop = asyncio.get_running_loop()
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    async with LocalCluster() as cluster, open_network("client", Security()) as network:
        started_s, top, readings = loop.time(), Top(), []
        running = await cluster.submit("demo-shop", topology("60"))
        while loop.time() - started_s < runs_s:
            await asyncio.sleep(1.0)
            shown = RemoteTopology(network, TopologySocket("demo-shop", os.getpid(), ""), view_of(running))
            readings = top.take({"demo-shop": shown})
        text = Text(no_wrap=True, overflow="crop")
        for line, style in lines(readings, Choice(), WIDTH):
            text.append(line + "\n", style=style or None)
        console.print(text)
        await running.kill(wait_s=0)
    return without_fonts(console.export_svg(title="aiostorm top", unique_id="aiostorm-top"))


def main(path: str) -> None:
    """Write it."""
    with asyncio.Runner() as runner:
        Path(path).write_text(runner.run(record(RUNS_S)), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
