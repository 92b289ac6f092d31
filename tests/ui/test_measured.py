"""The server: what is measured, logged, and exported for Prometheus. Over real sockets."""

from __future__ import annotations

import logging
import re

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families as plain_families

from aiostorm.metrics import OPENMETRICS, PLAIN_TEXT

from .parts import NAME, served_numbers, until

pytestmark = pytest.mark.sockets

ONE = f"api/v1/topologies/{NAME}"


async def test_says_what_is_measured():
    async with served_numbers() as (page, running):
        await until(lambda: running.metrics()["ignore"].acked >= 5)
        tick = (await page.ask("GET", ONE)).json()
        assert tick["latency_s"] is None  # the first look: since the start
        assert set(tick["processes"]) == {"local"}
        assert tick["snapshots"] is None
        by_name = {c["component"]: c for c in tick["components"]}
        [(stream, target, sent)] = by_name["numbers"]["edges"]
        assert (stream, target, sent > 0) == ("default", "half", True)
        assert set(by_name["numbers"]["latencies"]) == {"complete"}
        assert set(by_name["half"]["latencies"]) == {"execute", "process"}
        process = by_name["half"]["latencies"]["process"]
        assert 0 < process["p50_s"] <= process["p99_s"]
        assert {"busy_s", "blocked_s", "idle_s"} <= set(by_name["half"]["counts"])
        detail = (await page.ask("GET", f"{ONE}/components/half")).json()
        values = {(each["name"], tuple(each["labels"].items())): each for each in detail["own"]}
        assert values["halved", ()]["value"] >= 5
        assert values["halved", ()]["rate"] is None
        assert 0 <= values["results", ()]["p50"] <= values["results", ()]["p99"]
        assert values["state", (("of", "task"),)]["value"] is None  # a gauge that is not finite
        text = (await page.ask("GET", f"{ONE}.txt")).body.decode()
        assert re.search(r"^half .* (µs|ms|s) ", text, re.MULTILINE)


@pytest.mark.parametrize(
    ("accept", "kind"), [("", PLAIN_TEXT), ("application/openmetrics-text;version=1.0.0, */*;q=0.1", OPENMETRICS)]
)
async def test_prometheus_reads_the_metrics(accept: str, kind: str):
    async with served_numbers() as (page, running):
        await until(lambda: running.metrics()["ignore"].acked >= 5)
        answer = await page.ask("GET", "metrics", {"Accept": accept})
        assert (answer.status, answer.headers["Content-Type"], answer.headers["Vary"]) == (200, kind, "Accept")
        text = answer.body.decode()
        parse = openmetrics_families if kind == OPENMETRICS else plain_families
        found = {family.name: family for family in parse(text)}
        values = {s.labels["component"]: s.value for s in found["aiostorm_tuples_executed"].samples}
        assert values["ignore"] >= 5
        assert {s.labels["topology"] for s in found["aiostorm_tasks"].samples} == {NAME}


async def test_logs_are_shown_and_levels_are_changed():
    logger = logging.getLogger("aiostorm.ui")
    before = logger.level
    try:
        async with served_numbers() as (page, _):
            order = {"logger": "aiostorm.ui", "level": "INFO"}
            done = await page.order("POST", f"{ONE}/log-level", order)
            assert done.json()["message"] == "logs aiostorm.ui at INFO"
            await page.order("POST", f"{ONE}/deactivate")
            found = (await page.ask("GET", f"{ONE}/logs")).json()
            assert found["levels"]["aiostorm.ui"] == "INFO"
            assert "aiostorm.cluster" in found["loggers"]
            last = found["lines"][-1]
            assert last["text"].startswith(f"{NAME}: deactivated")
            assert (await page.ask("GET", f"{ONE}/logs?from={last['number']}")).json()["lines"] == []
            assert (await page.ask("GET", f"{ONE}/logs?from=-1")).status == 400
            await page.order("POST", f"{ONE}/log-level", {"logger": "aiostorm.ui", "level": ""})
            assert logger.level == logging.NOTSET
    finally:
        logger.setLevel(before)


@pytest.mark.parametrize(
    ("order", "words"),
    [
        ({"logger": "aiostorm.clutser", "level": "INFO"}, "did you mean aiostorm.cluster?"),
        ({"logger": "", "level": ""}, "the root logger has none above it"),
        ({"logger": "aiostorm", "level": "LOUD"}, "level"),
        ({"logger": "aiostorm"}, "level"),
        ({"logger": 3, "level": "INFO"}, "logger"),
    ],
)
async def test_wrong_levels_are_refused(order, words):
    async with served_numbers() as (page, _):
        answer = await page.order("POST", f"{ONE}/log-level", order)
        assert (answer.status, words in answer.json()["error"]) == (422, True), answer.body
