"""Serve a recorded feed: `python -m tests.ui.replay FILE`. It prints its address, and ends with its standard input.

The files and the headers are those of the real server. The stream sends the past and all ticks at once, then nothing:
the page shows the same whenever it is looked at.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from aiohttp import web

from aiostorm.ui.guard import HEADERS
from aiostorm.ui.routes import page


async def _serve(feed: dict[str, Any]) -> None:
    over = asyncio.Event()

    async def api(request: web.Request) -> web.StreamResponse:
        parts = [unquote(part) for part in request.rel_url.raw_path.split("/")[4:]]
        if not parts:
            return web.json_response(feed["topologies"])
        if parts[1:] == ["stream"]:
            return await stream(request)
        document = feed["documents"].get("/".join(parts[1:])) if parts[1:] else feed["ticks"][-1]
        if document is None:
            return web.json_response({"error": "not recorded"}, status=404)
        return web.json_response(document)

    async def cluster(request: web.Request) -> web.StreamResponse:
        path = "/".join(unquote(part) for part in request.rel_url.raw_path.split("/")[3:])
        document = feed.get("cluster", {}).get(path)
        if document is None:
            return web.json_response({"error": "not recorded"}, status=404)
        if "text" in document and "from" in request.query:
            document = document | {"text": "", "skipped": 0}
        return web.json_response(document)

    async def stream(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for kind, data in [("past", feed["past"]), *(("tick", tick) for tick in feed["ticks"])]:
            number = f"id: {data['second']}\n" if kind == "tick" else ""
            await response.write(f"{number}event: {kind}\ndata: {json.dumps(data)}\n\n".encode())
        await over.wait()
        return response

    async def add_headers(request: web.Request, response: web.StreamResponse) -> None:
        response.headers.update(HEADERS)

    app = web.Application()
    app.router.add_get("/", page)
    app.router.add_get("/{file:(static|vendor)/.*}", page)
    app.router.add_get("/api/v1/topologies{rest:.*}", api)
    app.router.add_get("/api/v1/{rest:(cluster|nodes).*}", cluster)
    app.on_response_prepare.append(add_headers)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print("http://{}:{}/".format(*runner.addresses[0][:2]), flush=True)
    await asyncio.to_thread(sys.stdin.read)
    over.set()
    await runner.cleanup()


if __name__ == "__main__":
    with asyncio.Runner() as loop:
        loop.run(_serve(json.loads(Path(sys.argv[1]).read_text("utf-8"))))
