"""The server: what it answers, to whom, and with which headers. Over real sockets."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

import aiostorm
from aiostorm import Config, LocalCluster, State, TopologyBuilder, spout
from aiostorm.cluster.access import Role
from aiostorm.transport import ExposedError, NetworkError, Secret
from aiostorm.ui import Dashboard, subapp
from aiostorm.ui.app import ROUTES
from aiostorm.ui.assets import assets
from aiostorm.ui.guard import HEADERS

from .parts import NAME, Served, ignore, served, served_numbers, small, until

pytestmark = pytest.mark.sockets

TOKEN = Secret(b"0123456789abcdef0123456789abcdef")
ONE = f"api/v1/topologies/{NAME}"


def path_of(path: str) -> str:
    """A path that fits a route."""
    path = path.replace("{name:[^/]+}", NAME).replace("{component:[^/]+}", "half")
    path = path.replace("{trace:[0-9a-f]+}", "0").replace("{node:[^/]+}", "n").replace("{process:[^/]+}", "parent")
    return re.sub(r"\{file:.*\}", "static/app.js", path).lstrip("/")


QUICK = [route for route in ROUTES if not route.path.endswith("/stream")]


async def test_every_route_answers_and_has_the_headers():
    async with served_numbers() as (page, _):
        for route in QUICK:
            if route.role is Role.OPERATOR:
                continue
            answer = await page.ask(route.method, path_of(route.path))
            # No tree is traced, and this page is not of a cluster.
            known = (404,) if re.search(r"{trace|/cluster|/nodes", route.path) else (200, 308)
            assert answer.status in known, (route.path, answer.body)
            assert {name: answer.headers.get(name) for name in HEADERS} == dict(HEADERS), route.path


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Host": "evil.example", "X-Aiostorm": "1"}, 421),
        ({"Origin": "http://evil.example", "X-Aiostorm": "1"}, 403),
        ({"Origin": "null", "X-Aiostorm": "1"}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors", "X-Aiostorm": "1"}, 403),
    ],
    ids=str,
)
async def test_every_route_refuses_what_is_not_from_here(headers, status):
    async with served_numbers() as (page, running):
        for route in ROUTES:
            answer = await page.ask(route.method, path_of(route.path), headers)
            assert answer.status == status, (route.method, route.path)
            assert {name: answer.headers.get(name) for name in HEADERS} == dict(HEADERS)
            assert not [name for name in answer.headers if name.lower().startswith("access-control-")]
        assert running.state is State.ACTIVE


async def test_every_order_needs_the_header():
    async with served_numbers() as (page, running):
        for route in ROUTES:
            if route.role is Role.OPERATOR:
                answer = await page.ask(route.method, path_of(route.path), json={})
                assert (answer.status, "X-Aiostorm" in answer.json()["error"]) == (403, True)
        assert running.state is State.ACTIVE


@pytest.mark.parametrize("authorization", [None, "Bearer wrong", "Basic 0123456789abcdef0123456789abcdef"])
async def test_every_route_with_data_needs_the_token(authorization):
    headers = {"X-Aiostorm": "1"} | ({} if authorization is None else {"Authorization": authorization})
    async with served_numbers(token=TOKEN) as (page, running):
        for route in ROUTES:
            answer = await page.ask(route.method, path_of(route.path), headers)
            if route.role is Role.PUBLIC:
                assert answer.status in (200, 308)
                assert NAME.encode() not in answer.body
            else:
                assert (answer.status, answer.headers["WWW-Authenticate"]) == (401, "Bearer"), route.path
        assert running.state is State.ACTIVE
        good = {"Authorization": f"Bearer {TOKEN.reveal().decode()}"}
        assert (await page.ask("GET", "api/v1/topologies", good)).status == 200


async def test_read_only_refuses_every_order():
    async with served_numbers(read_only=True) as (page, running):
        for route in ROUTES:
            if route.role is Role.OPERATOR:
                answer = await page.order(route.method, path_of(route.path), {})
                assert (answer.status, answer.json()["error"]) == (403, "this page is read-only")
        assert (await page.ask("GET", "api/v1/topologies")).json()["read_only"] is True
        assert running.state is State.ACTIVE


async def test_methods_without_a_route_are_refused():
    async with served_numbers() as (page, _):
        for method in ("PUT", "DELETE", "OPTIONS", "POST", "HEAD"):
            answer = await page.ask(method, f"{ONE}/graph", {"X-Aiostorm": "1"})
            assert answer.status == 405
            assert {name: answer.headers.get(name) for name in HEADERS} == dict(HEADERS)


@pytest.mark.parametrize(
    "path",
    [
        "static/../app.py",
        "static/%2e%2e/app.py",
        "static/..%2fapp.py",
        "static/__init__.py",
        "vendor/vendor.json",
        "static/",
        "static/index.html%00.js",
        "etc/passwd",
        "api/v1/topologies/..%2f..%2fetc",
        "api/v1/topologies/%00",
        f"{ONE}/components/..%2fhalf",
        f"{ONE}/components/nothing",
        f"{ONE}/nothing",
    ],
)
async def test_no_name_becomes_a_path(path):
    async with served_numbers() as (page, _):
        url = aiohttp.client.URL(page.dashboard.url + path, encoded=True)
        async with page.session.get(url) as answer:
            assert answer.status == 404
            assert "error" in await answer.json()
            assert {name: answer.headers.get(name) for name in HEADERS} == dict(HEADERS)


async def test_says_what_runs():
    async with served_numbers() as (page, running):
        await until(lambda: running.metrics()["ignore"].acked >= 5)
        [row] = (await page.ask("GET", "api/v1/topologies")).json()["topologies"]
        assert (row["name"], row["state"], row["spouts"], row["bolts"], row["tasks"]) == (NAME, "ACTIVE", 1, 2, 4)
        tick = (await page.ask("GET", ONE)).json()
        by_name = {c["component"]: c for c in tick["components"]}
        assert set(by_name) == {"numbers", "half", "ignore"}
        assert by_name["ignore"]["counts"]["acked"] >= 5
        assert by_name["numbers"]["execute_s"] is None
        graph = (await page.ask("GET", f"{ONE}/graph")).json()
        assert [(e["source"], e["target"], e["grouping"], e["fields"]) for e in graph["edges"]] == [
            ("numbers", "half", "shuffle", []),
            ("half", "ignore", "fields", ["n"]),
        ]
        detail = (await page.ask("GET", f"{ONE}/components/half")).json()
        assert [task["task_id"] for task in detail["tasks"]] == [2, 3]
        assert detail["inputs"] == ["numbers, shuffle"]
        text = (await page.ask("GET", f"{ONE}.txt")).body.decode()
        assert text.startswith(f"{NAME} ACTIVE")
        assert re.search(r"^half +2 ", text, re.MULTILINE)
        assert (await page.ask("GET", "readyz")).status == 200


async def test_errors_are_grouped():
    async with served_numbers() as (page, running):
        await until(lambda: len(running.errors()) > 1)
        [group] = (await page.ask("GET", f"{ONE}/errors")).json()["groups"]
        assert (group["component"], group["count"] >= 2) == ("half", True)
        assert group["error"].endswith("is <img src=x onerror=alert(1)>")


async def test_an_unknown_topology_is_not_found():
    async with served() as page:
        answer = await page.ask("GET", "api/v1/topologies/none/graph")
        assert answer.status == 404
        assert "no topology with this name" in answer.json()["error"]
        assert (await page.ask("GET", "readyz")).status == 503


async def test_spouts_are_deactivated_and_activated(caplog: pytest.LogCaptureFixture):
    async with served_numbers() as (page, running):
        with caplog.at_level(logging.INFO, "aiostorm.ui"):
            assert (await page.order("POST", f"{ONE}/deactivate")).json()["state"] == "INACTIVE"
            assert running.state is State.INACTIVE
            assert (await page.order("POST", f"{ONE}/activate")).json()["state"] == "ACTIVE"
        assert f"{NAME}: activated (asked by 127.0.0.1)" in caplog.text


async def test_kill_ends_it():
    async with served_numbers() as (page, running):
        answer = await page.order("POST", f"{ONE}/kill", {"wait_s": 0})
        assert answer.json() == {"state": "KILLED", "message": "has ended"}
        assert (await page.ask("GET", "api/v1/topologies")).json()["topologies"] == []
        await running.wait_ended()


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"wait_s": -1}, 422),
        ({"wait_s": "soon"}, 422),
        ({"wait_s": False}, 422),
        ({"wait_s": "0"}, 422),
        ({"wait_s": 1e9}, 422),
        ([1], 422),
    ],
)
async def test_a_wrong_body_is_refused(body, status):
    async with served_numbers() as (page, running):
        answer = await page.order("POST", f"{ONE}/kill", body)
        assert (answer.status, "error" in answer.json()) == (status, True)
        assert running.state is State.ACTIVE


async def test_a_body_is_json_and_small():
    async with served_numbers() as (page, _):
        headers = {"X-Aiostorm": "1", "Content-Type": "text/plain"}
        assert (await page.ask("PATCH", f"{ONE}/config", headers, data="{}")).status == 415
        headers["Content-Type"] = "application/json"
        assert (await page.ask("PATCH", f"{ONE}/config", headers, data=" " * 70_000)).status == 413
        assert (await page.ask("PATCH", f"{ONE}/config", headers, data='{"settings": ')).status == 422


async def test_settings_are_changed():
    async with served_numbers() as (page, running):
        before = (await page.ask("GET", f"{ONE}/config")).json()["tag"]
        changed = {"settings": {"topology.max.spout.pending": 7}}
        answer = await page.order("PATCH", f"{ONE}/config", changed, **{"If-Match": f'"{before}"'})
        assert answer.status == 200
        assert running.config.max_spout_pending == 7
        assert answer.headers["ETag"] == f'"{answer.json()["tag"]}"' != f'"{before}"'
        stale = await page.order("PATCH", f"{ONE}/config", changed, **{"If-Match": f'"{before}"'})
        assert stale.status == 412


@pytest.mark.parametrize(
    "settings", [{"workers": 3}, {"topology.wokers": 3}, {"max_spout_pending": 0}, {}, {"debug": [1]}]
)
async def test_settings_that_cannot_be_changed_are_refused(settings):
    async with served_numbers() as (page, running):
        before = running.config
        answer = await page.order("PATCH", f"{ONE}/config", {"settings": settings})
        assert (answer.status, "error" in answer.json()) == (422, True)
        assert running.config == before


async def test_snapshots_need_exactly_once():
    async with served_numbers() as (page, _):
        assert (await page.ask("GET", f"{ONE}/snapshots")).json()["available"] is False
        answer = await page.order("POST", f"{ONE}/snapshot")
        assert (answer.status, "only exactly-once has snapshots" in answer.json()["error"]) == (409, True)


@spout(outputs="n", repeatable=True)
def hundred() -> Iterator[int]:
    yield from range(100)


async def test_snapshots_are_taken_and_listed(tmp_path: Path):
    builder = TopologyBuilder()
    builder.set_spout("hundred", hundred)
    builder.set_bolt("ignore", ignore).shuffle_grouping("hundred")
    async with served() as page:
        config = Config(guarantee="exactly-once", state_dir=str(tmp_path))
        running = await page.cluster.submit(NAME, builder.create_topology(), config)
        done = (await page.order("POST", f"{ONE}/snapshot")).json()
        assert re.fullmatch(r"savepoint \d+ is committed", done["message"])
        found = (await page.ask("GET", f"{ONE}/snapshots")).json()
        savepoints = [each for each in found["snapshots"] if each["savepoint"]]
        assert (found["available"], [each["problem"] for each in savepoints]) == (True, [""])
        assert f"savepoint {savepoints[0]['number']} is" in done["message"]
        await running.kill(0)


async def events(page: Served, count: int, **headers: str) -> list[tuple[str, int, Any]]:
    """The first events of the stream."""
    found: list[tuple[str, int, Any]] = []
    async with page.session.get(page.dashboard.url + f"{ONE}/stream", headers=headers) as answer:
        assert answer.content_type == "text/event-stream"
        fields: dict[str, str] = {}
        async for line in answer.content:
            name, _, value = line.decode().rstrip("\n").partition(": ")
            if name:
                fields[name] = value
                continue
            found.append((fields["event"], int(fields.get("id", 0)), json.loads(fields["data"])))
            fields = {}
            if len(found) == count:
                break
    return found


async def test_the_stream_ticks_and_replays():
    async with served_numbers() as (page, _):
        past, first, second = await events(page, 3)
        assert past[0] == "past"
        assert past[2]["components"] == ["numbers", "half", "ignore"]
        assert (first[0], second[0], second[1]) == ("tick", "tick", first[1] + 1)
        replayed, _ = await events(page, 2, **{"Last-Event-ID": str(first[1])})
        assert second[2]["at_s"] in [at_s for at_s, _ in replayed[2]["points"]]
        assert first[2]["at_s"] not in [at_s for at_s, _ in replayed[2]["points"]]


async def test_the_stream_ends_with_the_topology():
    async with (
        served_numbers() as (page, running),
        page.session.get(page.dashboard.url + f"{ONE}/stream") as answer,
    ):
        await answer.content.readuntil(b"event: tick")
        await running.kill(0)
        assert b"event: end" in await answer.content.read()


async def test_the_end_of_the_cluster_does_not_wait_for_a_page():
    loop = asyncio.get_running_loop()
    async with served_numbers() as (page, _):
        answer = await page.session.get(page.dashboard.url + f"{ONE}/stream")
        await answer.content.readuntil(b"event: tick")
        began = loop.time()
    assert loop.time() - began < 5
    answer.close()


async def test_openapi_describes_every_route():
    async with served_numbers() as (page, _):
        document = (await page.ask("GET", "api/v1/openapi.json")).json()
    assert document["openapi"] == "3.1.0"
    described = {(method.upper(), path) for path, found in document["paths"].items() for method in found}
    routes = {(r.method, re.sub(r"\{(\w+)[^}]*\}", r"{\1}", r.path)) for r in ROUTES if "/api/" in r.path}
    assert described == routes
    names = set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(document)))
    assert names <= set(document["components"]["schemas"])


async def test_as_a_part_of_another_application():
    async with LocalCluster() as cluster:
        running = await cluster.submit(NAME, small())
        app = web.Application()
        app.add_subapp("/storm", subapp(running))
        runner = web.AppRunner(app)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            base = "http://{}:{}".format(*runner.addresses[0][:2])
            async with aiohttp.ClientSession() as session:
                async with session.get(f"{base}/storm", allow_redirects=False) as answer:
                    assert (answer.status, answer.headers["Location"]) == (308, "/storm/")
                async with session.get(f"{base}/storm/") as answer:
                    assert "<!doctype html>" in await answer.text()
                async with session.get(f"{base}/storm/{ONE}") as answer:
                    assert (await answer.json())["state"] == "ACTIVE"
                async with session.get(f"{base}/storm/{ONE}", headers={"Host": "evil.example"}) as answer:
                    assert answer.status == 421
        finally:
            await runner.cleanup()
        await running.kill(0)


async def test_a_route_without_a_role_fails_the_start():
    async with LocalCluster() as cluster:
        app = subapp(cluster)

        async def handler(request: web.Request) -> web.Response:
            return web.Response(text="everything")

        app.router.add_get("/secret", handler)
        with pytest.raises(RuntimeError, match="routes without a role"):
            await web.AppRunner(app).setup()


async def test_other_machines_need_tls_and_a_token():
    with pytest.raises(ExposedError, match="needs TLS and a token"):
        async with LocalCluster(ui=Dashboard("0.0.0.0:0")):
            pass
    with pytest.raises(ExposedError, match="needs TLS\\."):
        async with LocalCluster(ui=Dashboard("0.0.0.0:0", token=TOKEN)):
            pass
    async with LocalCluster() as cluster:
        with pytest.raises(ExposedError, match="need a token"):
            subapp(cluster, hosts=["storm.example"])


async def test_a_port_that_is_taken_is_one_clear_line():
    async with served() as page:
        address = page.dashboard.url.removeprefix("http://").rstrip("/")
        with pytest.raises(NetworkError, match=r"no page: cannot listen at 127.0.0.1 port .* choose another port"):
            async with LocalCluster(ui=Dashboard(address)):
                pass


HOSTILE = [
    '"><img/src=x>'.replace("/", ""),
    "<script>alert(1)<script>",
    "'onmouseover='alert(1)'",
    "{{7*7}}",
    "${alert(1)}",
    "javascript:alert(1)",
    "%3Cscript%3E",
    "a?b#c&d=e",
    "&lt;b&gt;",
    "𝒳-ünïcödé-💥",
]


@pytest.mark.parametrize("name", HOSTILE)
async def test_hostile_names_are_data(name):
    async with served() as page:
        running = await page.cluster.submit(name, small(), Config(**{"x.<script>": "<img src=x>"}))
        [row] = (await page.ask("GET", "api/v1/topologies")).json()["topologies"]
        assert row["name"] == name
        url = aiohttp.client.URL(f"{page.dashboard.url}api/v1/topologies/").joinpath(name)
        async with page.session.get(url) as answer:
            assert (answer.status, answer.content_type) == (200, "application/json")
        await running.kill(0)


def test_the_page_makes_no_markup_of_texts():
    folder = Path(aiostorm.__file__).parent / "ui/static"
    words = ("innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval(", "new Function", "http:", "https:")
    for file in folder.iterdir():
        text = file.read_text().replace("http://www.w3.org/2000/svg", "")
        assert [word for word in words if word in text] == [], file.name
        assert file.suffix != ".js" or text.count("\n") <= 200, file.name


def test_the_page_is_small():
    bodies = [asset.body for asset in assets().values()]
    assert sum(map(len, bodies)) <= 160_000
    assert sum(len(gzip.compress(body)) for body in bodies) <= 55_000
