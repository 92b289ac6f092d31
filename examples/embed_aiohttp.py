"""A topology inside an aiohttp application: lines come in by POST, counts go out by GET.

    python -m examples.embed_aiohttp             serve one request of its own on a free port of this machine, and end
    python -m examples.embed_aiohttp --port 8080 serve on 127.0.0.1 until Ctrl-C:
        curl -d 'the quick brown fox' http://127.0.0.1:8080/lines
        curl http://127.0.0.1:8080/top

A POST is answered when its line has been processed to the last word: the line's message id is a future that `ack` and
`fail` resolve.
"""

from __future__ import annotations

import argparse
import asyncio
import re
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from aiohttp import ClientSession, web

from aiostorm import (
    BasicBolt,
    BasicCollector,
    Failure,
    Fields,
    RunningTopology,
    Spout,
    SpoutCollector,
    Topology,
    TopologyBuilder,
    TopologyContext,
    TupleBatch,
    bolt,
    cleanup_ctx,
)


class Posted(NamedTuple):
    """A line, and the future of its request: the result is None, or the failure."""

    line: str
    done: asyncio.Future[Failure | None]


INBOX: web.AppKey[asyncio.Queue[Posted]] = web.AppKey("inbox", asyncio.Queue)
RUNNING: web.AppKey[RunningTopology] = web.AppKey("running", RunningTopology)


class Inbox(Spout):
    """Emits what was posted."""

    outputs = Fields("line")

    def __init__(self, inbox: asyncio.Queue[Posted]) -> None:
        self.inbox = inbox

    def open(self, context: TopologyContext, collector: SpoutCollector) -> None:
        """Remember where to emit."""
        self.collector = collector

    async def next_tuple(self) -> None:
        """Wait for a line."""
        posted = await self.inbox.get()
        self.collector.emit((posted.line,), message_id=posted.done)

    def ack(self, message_id: asyncio.Future[Failure | None]) -> None:
        """All words are counted."""
        if not message_id.done():  # the client may have disconnected
            message_id.set_result(None)

    def fail(self, message_id: asyncio.Future[Failure | None], failure: Failure) -> None:
        """Not all words could be counted, or not in time."""
        if not message_id.done():
            message_id.set_result(failure)


@bolt(outputs="word")
def split(line: str) -> Iterator[str]:
    """The words of a line."""
    yield from re.findall(r"\w+", line.lower())


class Count(BasicBolt):
    """Counts words."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def execute_batch(self, tuples: TupleBatch, collector: BasicCollector) -> None:
        """Count a batch at once."""
        self.counts.update(tuples.column("word"))

    def result(self) -> Counter[str]:
        """What was counted so far."""
        return self.counts


def word_counts(inbox: asyncio.Queue[Posted]) -> Topology:
    """Lines → words → counts."""
    builder = TopologyBuilder()
    builder.set_spout("inbox", lambda: Inbox(inbox))
    builder.set_bolt("split", split).shuffle_grouping("inbox")
    builder.set_bolt("count", Count, parallelism=2).fields_grouping("split", "word")
    return builder.create_topology("word-counts")


async def post_line(request: web.Request) -> web.Response:
    """Answered when the line is processed: 204, or 503 with the reason."""
    done: asyncio.Future[Failure | None] = asyncio.get_running_loop().create_future()
    # The inbox is bounded: clients wait while the topology cannot follow.
    await request.app[INBOX].put(Posted(await request.text(), done))
    failure = await done
    return web.Response(status=204) if failure is None else web.Response(status=503, text=f"{failure}\n")


async def get_top(request: web.Request) -> web.Response:
    """The ten most frequent words so far."""
    counts: Counter[str] = Counter()
    for part in (await request.app[RUNNING].results())["count"]:
        counts.update(part)
    return web.json_response(counts.most_common(10))


def make_app() -> web.Application:
    """An application; the topology starts and ends with it."""
    app = web.Application()
    app[INBOX] = asyncio.Queue(maxsize=100)
    app.cleanup_ctx.append(cleanup_ctx(word_counts(app[INBOX]), key=RUNNING))
    app.add_routes([web.post("/lines", post_line), web.get("/top", get_top)])
    return app


async def once() -> None:
    """Start the application on a free port, be its only client, and end it."""
    runner = web.AppRunner(make_app())
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        async with ClientSession(f"http://{host}:{port}") as client:
            async with client.post("/lines", data="to be or not to be") as response:
                print("POST /lines", response.status)
            async with client.get("/top") as response:
                print("GET /top", response.status, await response.json())
    finally:
        await runner.cleanup()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--port", type=int, help="serve there until Ctrl-C")
    parser.add_argument("--once", action="store_true", help="serve one request and end (the default)")
    options = parser.parse_args()
    if options.port is None or options.once:
        asyncio.run(once())
    else:
        web.run_app(make_app(), host="127.0.0.1", port=options.port)
