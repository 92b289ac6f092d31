"""Serve a page whose topology is submitted again when it has ended: `python -m tests.ui.fuzzed`.

For tests that send any request, also `kill`. It prints its address, and ends with its standard input.
"""

from __future__ import annotations

import asyncio
import sys

from aiostorm.runtime import AiostormError

from .parts import NAME, served, small


async def _serve() -> None:
    over = asyncio.create_task(asyncio.to_thread(sys.stdin.read), name="standard input")
    async with served() as page:
        print(page.dashboard.url, flush=True)
        while not over.done():
            try:
                running = await page.cluster.submit(NAME, small())
            except AiostormError as error:  # killed while it started
                print(error, file=sys.stderr)
                continue
            ended = asyncio.create_task(running.wait_ended(), name="wait for its end")
            await asyncio.wait((over, ended), return_when=asyncio.FIRST_COMPLETED)
            await running.kill(0)
            try:
                await ended
            except AiostormError as error:
                print(error, file=sys.stderr)


if __name__ == "__main__":
    with asyncio.Runner() as loop:
        loop.run(_serve())
