"""Profiles on the page: a bolt that hangs in a real worker is named with its line; profiles on demand."""

from __future__ import annotations

import asyncio
import sys
import time

import aiohttp
import pytest

from aiostorm import LocalCluster
from aiostorm.ui import Dashboard

from .parts import NAME, Served, served_numbers

pytestmark = pytest.mark.sockets

ONE = f"api/v1/topologies/{NAME}"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="a worker of ours listens at a unix socket")
async def test_a_bolt_that_hangs_is_named_with_its_line_on_the_page_within_two_seconds():
    dashboard = Dashboard("127.0.0.1:0")
    async with LocalCluster(workers=1, ui=dashboard) as cluster, aiohttp.ClientSession() as session:
        page = Served(cluster, dashboard, session)
        running = await cluster.submit("hangs", "tests.cluster.profile_jobs:hangs")
        path, begun_s, longest_s, found = "api/v1/topologies/hangs/profiles", time.monotonic(), 0.0, []
        async with asyncio.timeout(30):
            while not found:
                asked_s = time.monotonic()
                found = (await page.ask("GET", path)).json()["profiles"]
                await asyncio.sleep(0.02)
                longest_s = max(longest_s, time.monotonic() - asked_s)
        took_s = time.monotonic() - begun_s
        async with asyncio.timeout(30):
            while found[0]["samples"] < 20:
                found = (await page.ask("GET", path)).json()["profiles"]
        [profile] = found
        await running.kill(0)
    assert took_s < 2.0 + 5 * longest_s  # the machine may have been busy
    assert (profile["worker"], profile["blocked_s"] > 1) == ("worker-1", True)
    stack, _ = profile["stacks"][0]
    assert stack.startswith("hangs[2];Hangs.execute (profile_jobs.py:")
    assert int(stack.rpartition(":")[2].rstrip(")")) in (14, 15, 16)


async def test_a_profile_is_taken_on_demand():
    async with served_numbers() as (page, running):
        answer = await page.order("POST", f"{ONE}/profile", {"seconds": 0.3})
        assert answer.status == 200
        [profile] = answer.json()["profiles"]
        assert (profile["worker"], profile["blocked_s"]) == ("local", 0.0)
        assert (await page.ask("GET", f"{ONE}/profiles")).json()["profiles"] == [profile]
        assert (await page.order("POST", f"{ONE}/profile", {"seconds": 0.1, "component": "half"})).status == 200
        for wrong in ({"seconds": 0}, {"seconds": 31}, {"component": "nothing"}):
            assert (await page.order("POST", f"{ONE}/profile", wrong)).status == 422
        with pytest.raises(ValueError, match="at most 60 seconds"):
            await running.profile(61)
