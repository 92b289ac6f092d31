"""The detector in a web service: log lines come in by POST, attacks go out by GET.

python service.py
python sample_log.py | curl --data-binary @- http://127.0.0.1:8080/log
curl http://127.0.0.1:8080/attacks
"""

from __future__ import annotations

import asyncio

from aiohttp import web
from detector import detector

from aiostorm import Failure, Fields, RunningTopology, Spout, SpoutCollector, TopologyContext, cleanup_ctx


class Posted:
    """The lines of one request. `done` becomes None, or the first failure, when all of them are processed."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines
        self.open = len(lines)
        self.failure: Failure | None = None
        self.done: asyncio.Future[Failure | None] = asyncio.get_running_loop().create_future()

    def processed(self, failure: Failure | None = None) -> None:
        """One line is."""
        self.open -= 1
        self.failure = self.failure or failure
        if not self.open and not self.done.done():  # the client may have disconnected
            self.done.set_result(self.failure)


INBOX: web.AppKey[asyncio.Queue[Posted]] = web.AppKey("inbox", asyncio.Queue)
RUNNING: web.AppKey[RunningTopology] = web.AppKey("running", RunningTopology)


class Lines(Spout):
    """Emits the lines that were posted. The message id says to which request a line belongs."""

    outputs = Fields("line")

    def __init__(self, inbox: asyncio.Queue[Posted]) -> None:
        self.inbox = inbox

    def open(self, context: TopologyContext, collector: SpoutCollector) -> None:
        """Remember where to emit."""
        self.collector = collector

    async def next_tuple(self) -> None:
        """Wait for a request, and emit its lines."""
        posted = await self.inbox.get()
        for line in posted.lines:
            self.collector.emit((line,), message_id=posted)

    def ack(self, message_id: Posted) -> None:
        """A line is in its windows."""
        message_id.processed()

    def fail(self, message_id: Posted, failure: Failure) -> None:
        """A line could not be processed, or not in time. The client is notified, and may post it again."""
        message_id.processed(failure)


async def post_log(request: web.Request) -> web.Response:
    """204 when all lines are in their windows, 503 with the reason if one is not. At most 1 MiB in a request."""
    if lines := (await request.text()).splitlines():
        posted = Posted(lines)
        await request.app[INBOX].put(posted)  # bounded: clients wait while the topology cannot follow
        if failure := await posted.done:
            return web.Response(status=503, text=f"{failure}\n")
    return web.Response(status=204)


async def get_attacks(request: web.Request) -> web.Response:
    """The attacks so far."""
    [attacks] = (await request.app[RUNNING].results())["alerts"]
    return web.json_response(attacks)


def make_app() -> web.Application:
    """The application. The topology starts and ends with it."""
    app = web.Application()
    inbox: asyncio.Queue[Posted] = asyncio.Queue(maxsize=100)
    app[INBOX] = inbox
    app.cleanup_ctx.append(cleanup_ctx(detector(lambda: Lines(inbox)), key=RUNNING))
    app.add_routes([web.post("/log", post_log), web.get("/attacks", get_attacks)])
    return app


if __name__ == "__main__":
    web.run_app(make_app(), host="127.0.0.1", port=8080)  # of this machine only, until Ctrl-C
