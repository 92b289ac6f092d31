"""The pages behind an ASGI server: a small driver here does what one does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from aiostorm import LocalCluster
from aiostorm.transport import ExposedError, Secret
from aiostorm.ui import asgi_app
from aiostorm.ui.asgi import BUFFER_BYTES, AsgiApp, Connection, request_of

from .parts import NAME, small

pytestmark = pytest.mark.sockets

ONE = f"/api/v1/topologies/{NAME}"
TOKEN = "t" * 32
LOOPBACK = {"server": ("127.0.0.1", 8000), "client": ("127.0.0.1", 50_000)}


class Client:
    """One request to an ASGI application, and what came."""

    def __init__(self, app: Any, path: str, method: str = "GET", **of: Any) -> None:
        self.sent: list[dict[str, Any]] = []
        self.came = asyncio.Event()
        self.left = asyncio.Event()
        self.reads = asyncio.Event()
        self.reads.set()
        self._body = list(of.pop("body", (b"",)))
        headers = {"host": "127.0.0.1:8000"} | of.pop("headers", {})
        scope: dict[str, Any] = {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "scheme": "http"}
        scope |= {"method": method, "path": path, "root_path": "", "query_string": b""}
        scope["headers"] = [(name.encode(), value.encode()) for name, value in headers.items()]
        self.scope = {**scope, **LOOPBACK, **of}
        self._app = app

    async def __call__(self) -> Client:
        await self._app(self.scope, self._receive, self._send)
        return self

    @property
    def status(self) -> int:
        return int(self.sent[0]["status"])

    @property
    def headers(self) -> dict[str, str]:
        return {name.decode(): value.decode() for name, value in self.sent[0]["headers"]}

    @property
    def body(self) -> bytes:
        return b"".join(message["body"] for message in self.sent[1:])

    def json(self) -> Any:
        return json.loads(self.body)

    async def _receive(self) -> dict[str, Any]:
        if self._body:
            body = self._body.pop(0)
            return {"type": "http.request", "body": body, "more_body": bool(self._body)}
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: dict[str, Any]) -> None:
        await self.reads.wait()
        if self.left.is_set():
            raise OSError("the client has left")
        self.sent.append(message)
        self.came.set()


@asynccontextmanager
async def pages(**options: Any) -> AsyncIterator[AsgiApp]:
    async with LocalCluster() as cluster:
        running = await cluster.submit(NAME, small())
        async with asgi_app(running, **options) as app:
            yield app
        await running.kill(0)


async def test_a_page_its_data_and_an_order() -> None:
    async with pages() as app:
        page = await Client(app, "/")()
        assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
        assert b"<!doctype html>" in page.body
        assert "default-src 'none'" in page.headers["content-security-policy"]
        assert page.headers.keys().isdisjoint({"date", "server", "connection", "transfer-encoding"})
        assert (await Client(app, ONE)()).json()["state"] == "ACTIVE"
        assert (await Client(app, "/nothing")()).status == 404
        assert (await Client(app, "/", "HEAD")()).body == b""
        order = await Client(app, f"{ONE}/deactivate", "POST", headers={"x-aiostorm": "1"})()
        assert (order.status, (await Client(app, ONE)()).json()["state"]) == (200, "INACTIVE")
        past = await Client(app, f"{ONE}/metrics", query_string=b"from=0&step=15")()
        assert past.json()["step_s"] == 15


@pytest.mark.parametrize("path", ["/storm", ""])
async def test_below_another_application_the_slash_is_added(path: str) -> None:
    async with pages() as app:
        answer = await Client(app, path, root_path="/storm")()
        assert (answer.status, answer.headers["location"]) == (308, "/storm/")


@pytest.mark.parametrize("before", ["/storm", ""], ids=["path with root", "path without"])
async def test_below_another_application(before: str) -> None:
    async with pages() as app:
        assert b"<!doctype html>" in (await Client(app, f"{before}/", root_path="/storm")()).body
        assert (await Client(app, before + ONE, root_path="/storm")()).json()["state"] == "ACTIVE"
        asset = await Client(app, f"{before}/static/app.js", root_path="/storm")()
        assert (asset.status, asset.headers["content-type"]) == (200, "text/javascript; charset=utf-8")
        again = await Client(
            app, f"{before}/static/app.js", root_path="/storm", headers={"if-none-match": asset.headers["etag"]}
        )()
        assert (again.status, again.body) == (304, b"")


async def test_a_stream_comes_as_it_is_made_and_ends_with_its_client() -> None:
    async with pages() as app, asyncio.TaskGroup() as group:
        client = Client(app, f"{ONE}/stream")
        answering = group.create_task(client())
        async with asyncio.timeout(10):
            while client.body.count(b"event: tick") < 2:
                client.came.clear()
                await client.came.wait()
        assert client.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert not answering.done()
        client.left.set()
        async with asyncio.timeout(10):
            await answering


async def test_a_stream_ends_with_the_topology_and_with_the_application() -> None:
    async with LocalCluster() as cluster, asyncio.TaskGroup() as group:
        running = await cluster.submit(NAME, small())
        app = asgi_app(cluster)
        first = Client(app, f"{ONE}/stream")
        task = group.create_task(first())
        await first.came.wait()
        await running.kill(0)
        async with asyncio.timeout(10):
            await task
        assert b"event: end" in first.body
        assert first.sent[-1] == {"type": "http.response.body", "body": b"", "more_body": False}
        await cluster.submit(NAME, small())
        second = Client(app, f"{ONE}/stream")
        task = group.create_task(second())
        await second.came.wait()
        await app.aclose()
        await app.aclose()
        async with asyncio.timeout(10):
            await task
        assert (await Client(app, "/")()).status == 503


async def test_a_page_that_ends_while_a_body_comes_refuses_the_request() -> None:
    sent, ended = list[dict[str, Any]](), asyncio.Event()

    async def receive() -> dict[str, Any]:
        await ended.wait()
        return {"type": "http.request", "body": b"{}", "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    async with pages() as app:
        answering = asyncio.create_task(app(Client(app, f"{ONE}/trace", "POST").scope, receive, send))
        await asyncio.sleep(0)
        await app.aclose()
        ended.set()
        await answering
    assert sent[0]["status"] == 503


async def test_a_client_that_does_not_read_delays_no_other_and_little_is_kept_for_it() -> None:
    async with pages() as app, asyncio.TaskGroup() as group:
        slow = Client(app, "/api/v1/openapi.json")
        slow.reads.clear()
        task = group.create_task(slow())
        assert (await Client(app, ONE)()).status == 200
        slow.reads.set()
        async with asyncio.timeout(10):
            await task
        assert (slow.status, len(slow.body)) == (200, int(slow.headers["content-length"]))


async def test_what_is_written_and_not_read_stops_the_writer() -> None:
    received = list[str]()

    class Writer(asyncio.Protocol):
        def pause_writing(self) -> None:
            received.append("pause")

        def resume_writing(self) -> None:
            received.append("resume")

    connection = Connection(Writer(), {"headers": [], **LOOPBACK})
    part = b"x" * (BUFFER_BYTES // 2)
    for _ in range(4):
        connection.write(part)
    assert received == ["pause"]
    assert await connection.read() == 4 * part
    assert received == ["pause", "resume"]
    connection.write(b"last")
    connection.close()
    connection.write(b"too late")
    assert (await connection.read(), await connection.read()) == (b"last", None)


# -- who may -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "of"),
    [
        (200, {}),
        (200, {"headers": {"host": "localhost:8000"}}),
        (200, {"headers": {"host": "[::1]:8000"}, "client": ("::1", 1), "server": ("::1", 8000)}),
        (403, {"client": ("192.0.2.1", 1)}),
        (403, {"client": None}),
        (403, {"server": None}),
        (403, {"server": ("/run/app.sock", None)}),
        (403, {"client": ("testclient", 1)}),
        (403, {"headers": {"x-forwarded-for": "127.0.0.1"}}),
        (403, {"headers": {"X-Forwarded-Host": "localhost:8000"}}),
        (403, {"headers": {"forwarded": "for=127.0.0.1"}}),
        (403, {"headers": {"via": "1.1 proxy"}}),
        (421, {"headers": {"host": "evil.example"}}),
        (421, {"headers": {"host": "127.0.0.1:9000"}}),
        (403, {"headers": {"origin": "http://evil.example"}}),
        (403, {"headers": {"sec-fetch-site": "cross-site"}}),
    ],
)
async def test_without_a_token_only_this_machine_may_ask(status: int, of: dict[str, Any]) -> None:
    async with pages() as app:
        assert (await Client(app, ONE, **of)()).status == status


async def test_with_a_token_others_may_ask_by_the_names_that_are_given() -> None:
    proxied = {"client": ("192.0.2.1", 1), "scheme": "https"}
    host = {"host": "storm.example", "x-forwarded-for": "192.0.2.1"}
    async with pages(token=Secret(TOKEN.encode()), hosts=["https://storm.example"], read_only=True) as app:
        allowed = {**host, "authorization": f"Bearer {TOKEN}"}
        assert (await Client(app, ONE, headers=allowed, **proxied)()).status == 200
        assert (await Client(app, ONE, headers=host, **proxied)()).status == 401
        assert (await Client(app, ONE, headers={**allowed, "host": "other.example"}, **proxied)()).status == 421
        origin = {**allowed, "origin": "https://storm.example", "x-aiostorm": "1"}
        order = await Client(app, f"{ONE}/deactivate", "POST", headers=origin, **proxied)()
        assert (order.status, b"read-only" in order.body) == (403, True)
    async with LocalCluster() as cluster:
        with pytest.raises(ExposedError, match="need a token"):
            asgi_app(cluster, hosts=["storm.example"])


async def test_an_order_needs_its_header() -> None:
    async with pages() as app:
        assert (await Client(app, f"{ONE}/deactivate", "POST")()).status == 403


# -- what is sent ------------------------------------------------------------------------------------------------------


async def test_a_body_comes_in_parts_and_is_bounded() -> None:
    async with pages() as app:
        headers = {"x-aiostorm": "1", "content-type": "application/json", "transfer-encoding": "chunked"}
        parts = [b'{"component": "none",', b' "timeout_s": 1}']
        answer = await Client(app, f"{ONE}/trace", "POST", headers=headers, body=parts)()
        assert (answer.status, b"no component 'none'" in answer.body) == (409, True)
        large = await Client(app, f"{ONE}/trace", "POST", headers=headers, body=[b"x" * BUFFER_BYTES, b"x"])()
        assert (large.status, b"65,536 bytes" in large.body) == (413, True)


@pytest.mark.parametrize(
    "of",
    [
        {"method": "GET / HTTP/1.1\r\nX: 1\r\n"},
        {"method": "get"},
        {"query_string": b"a=1 HTTP/1.1"},
        {"query_string": b"a\r\nX: 1"},
        {"headers": {"x": "1\r\nhost: localhost"}},
        {"headers": {"x y": "1"}},
        {"headers": {"x\r\ny": "1"}},
    ],
)
async def test_what_is_no_request_does_not_become_another(of: dict[str, Any]) -> None:
    async with pages() as app:
        assert (await Client(app, "/healthz", **of)()).status == 400


def test_a_path_is_quoted_whatever_it_is() -> None:
    scope = {"method": "GET", "path": "/a b\r\nX: 1?#%/é\udc80", "headers": [], "root_path": "/a"}
    request = request_of(scope, b"")
    assert request == b"GET /page/a%20b%0D%0AX:%201%3F%23%25/%C3%A9%ED%B2%80 HTTP/1.0\r\n\r\n"
    assert request_of({**scope, "path": "/abc"}, b"xy") == b"GET /page/abc HTTP/1.0\r\nContent-Length: 2\r\n\r\nxy"
    assert request_of({**scope, "path": "/a/b"}, b"") == b"GET /page/b HTTP/1.0\r\n\r\n"


async def test_a_client_that_leaves_before_the_answer_is_no_error() -> None:
    async with pages() as app:
        client = Client(app, ONE)
        client.left.set()
        await client()
        assert client.sent == []


async def test_the_lifespan_of_a_server_starts_and_ends_it() -> None:
    async with LocalCluster() as cluster:
        running = await cluster.submit(NAME, small())
        app, sent = asgi_app(running), list[str]()
        received = asyncio.Queue[str](2)

        async def receive() -> dict[str, Any]:
            return {"type": await received.get()}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message["type"])

        async with asyncio.TaskGroup() as group:
            group.create_task(app({"type": "lifespan"}, receive, send))
            received.put_nowait("lifespan.startup")
            assert (await Client(app, ONE)()).status == 200
            received.put_nowait("lifespan.shutdown")
        assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
        assert (await Client(app, ONE)()).status == 503
        await running.kill(0)


async def test_a_server_learns_that_the_page_cannot_start() -> None:
    async def fails(app: web.Application) -> None:
        raise OSError("no space")

    inner = web.Application()
    inner.on_startup.append(fails)
    sent = list[dict[str, Any]]()

    async def receive() -> dict[str, Any]:
        return {"type": "lifespan.startup"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await AsgiApp(inner)({"type": "lifespan"}, receive, send)
    assert [message["type"] for message in sent] == ["lifespan.startup.failed"]
    assert "no space" in sent[0]["message"]


async def test_what_is_still_being_started_is_ended_too() -> None:
    begun, goes_on, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def slow(app: web.Application) -> None:
        begun.set()
        await goes_on.wait()

    async def cleanup(app: web.Application) -> None:
        ended.set()

    inner = web.Application()
    inner.on_startup.append(slow)
    inner.on_cleanup.append(cleanup)
    page = AsgiApp(inner)
    async with asyncio.TaskGroup() as group:
        client = Client(page, ONE)
        group.create_task(client())
        await begun.wait()
        group.create_task(page.aclose())
        await asyncio.sleep(0)
        goes_on.set()
    assert ended.is_set()
    assert client.status == 503


async def test_other_scopes_are_refused() -> None:
    async with pages() as app:
        sent = list[Any]()

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        async def receive() -> dict[str, Any]:
            raise AssertionError("nothing is read")

        await app({"type": "websocket"}, receive, send)
        assert sent == [{"type": "websocket.close", "code": 1000}]
        with pytest.raises(ValueError, match="'mqtt'"):
            await app({"type": "mqtt"}, receive, send)
