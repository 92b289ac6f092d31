"""The routes of traces: the list, one tree, and the order to trace the next one."""

from __future__ import annotations

import pytest

from aiostorm import Config

from .parts import NAME, served, served_numbers, small, until

pytestmark = pytest.mark.sockets

ONE = f"api/v1/topologies/{NAME}"


async def test_trees_are_listed_and_one_is_shown():
    async with served_numbers(Config(trace_one_in=1)) as (page, running):
        await until(lambda: any(trace.complete_s is not None for trace in running.traces()))
        listed = (await page.ask("GET", f"{ONE}/traces")).json()
        assert (listed["untraced"], listed["one_in"]) == ("", 1)
        row = next(row for row in listed["traces"] if row["outcome"] == "acked")
        one = (await page.ask("GET", f"{ONE}/traces/{row['id']}")).json()
        assert one["id"] == row["id"]
        assert {span["component"] for span in one["spans"]} <= {"half", "ignore"}
        assert sum(step["seconds"] for step in one["path"]) == pytest.approx(one["complete_s"])
        assert (await page.ask("GET", f"{ONE}/traces/123")).status == 404
        assert (await page.ask("GET", f"{ONE}/traces/../config")).status in (200, 404)


async def test_the_next_tree_is_traced_on_demand():
    async with served_numbers(Config(trace_one_in=0)) as (page, _):
        assert (await page.ask("GET", f"{ONE}/traces")).json()["traces"] == []
        answer = await page.order("POST", f"{ONE}/trace", {"component": "ignore"})
        assert answer.status == 200
        assert "ignore" in [span["component"] for span in answer.json()["spans"]]
        assert (await page.order("POST", f"{ONE}/trace")).status == 200
        wrong = await page.order("POST", f"{ONE}/trace", {"component": "ignor"})
        assert (wrong.status, "did you mean 'ignore'?" in wrong.json()["error"]) == (409, True)
        for timeout_s in (0, -1, 31, "NaN"):
            assert (await page.order("POST", f"{ONE}/trace", {"timeout_s": timeout_s})).status == 422


async def test_a_topology_without_trees_says_why():
    async with served() as page:
        running = await page.cluster.submit(NAME, small(), Config(guarantee="at-most-once"))
        listed = (await page.ask("GET", f"{ONE}/traces")).json()
        assert listed["untraced"].startswith("with at-most-once tuples are in no tree")
        assert (await page.order("POST", f"{ONE}/trace")).status == 409
        await running.kill(0)
