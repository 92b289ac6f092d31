"""`aiostorm ui`: the page of topologies that run in other programs."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aiostorm.cluster.coordination import open_coordination
from aiostorm.cluster.home import Home
from aiostorm.cluster.nimbus import make_folders
from aiostorm.runtime import LoopClock

from .conftest import JOBS, Command, Process

Start = Callable[..., Process]

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no unix sockets")


def get(url: str, path: str, method: str = "GET") -> Any:
    request = urllib.request.Request(f"{url}api/v1/topologies{path}", method=method, headers={"X-Aiostorm": "1"})  # noqa: S310 - http
    with urllib.request.urlopen(request, timeout=10) as response:  # noqa: S310
        return json.load(response)


def until_url(process: Process) -> str:
    process.until_err("The page is at ")
    return next(word for word in process.err.split() if word.startswith("http://"))


@pytest.mark.slow
@pytest.mark.sockets
def test_a_topology_of_another_program_is_shown_controlled_and_kept(start: Start) -> None:
    page = start("ui", "--ui", "0")
    url = until_url(page)
    assert "shows nothing yet: none runs" in page.err
    running = start("run", f"{JOBS}:endless", "-q", "-c", "topology.trace.one.in=1")
    page.until_err("is shown, too")
    running.until_out("under way")
    [found] = get(url, "")["topologies"]
    assert (found["name"], found["state"]) == ("endless", "ACTIVE")
    tick = get(url, "/endless")
    assert tick["components"][0]["counts"]["emitted"] > 0
    assert get(url, "/endless/graph")["nodes"]
    traced = get(url, "/endless/traces")
    assert (traced["one_in"], len(traced["traces"]) > 0) == (1, True)
    complete = next(each for each in traced["traces"] if each["outcome"] == "acked")
    assert len(get(url, f"/endless/traces/{complete['id']}")["spans"]) == complete["spans"]
    with pytest.raises(urllib.error.HTTPError) as refused:  # this process has another log
        get(url, "/endless/logs")
    assert (refused.value.code, b"in the program that runs it" in refused.value.read()) == (409, True)
    assert get(url, "/endless/deactivate", "POST")["state"] == "INACTIVE"
    running.send(signal.SIGINT)
    assert running.end().code == 130
    page.until_err("has ended; the page shows how it was last")
    last = get(url, "/endless")
    assert (last["state"], "has ended" in last["degraded"]) == ("KILLED", True)
    assert complete["id"] in [each["id"] for each in get(url, "/endless/traces")["traces"]]
    page.send(signal.SIGINT)
    ended = page.end()
    assert (ended.code, ended.out) == (130, "")
    assert "Traceback" not in ended.err


@pytest.mark.slow
@pytest.mark.sockets
def test_the_page_of_a_cluster(start: Start, short_path: Path) -> None:
    home = Home(short_path / "h")
    home.make()

    async def make_store() -> None:
        async with open_coordination(home.store_url, LoopClock()) as store:
            await make_folders(store)

    asyncio.run(make_store())
    page = start("ui", "--ui", "0", "--home", str(home.path))
    url = until_url(page)
    assert f"and the cluster of {home.store_url}" in page.err
    with urllib.request.urlopen(f"{url}api/v1/cluster", timeout=10) as response:  # noqa: S310 - http
        assert json.load(response)["store"] == home.store_url
    page.send(signal.SIGINT)
    assert page.end().code == 130


def test_what_cannot_be_shown_is_one_message(aiostorm: Command) -> None:
    outcome = aiostorm("ui", "orders")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err == (
        "Error: no topology 'orders' of yours runs here with `aiostorm run`; none does. One that was submitted to a "
        "cluster is asked on the node of its parent: `aiostorm show NAME` says which\n"
    )
    assert aiostorm("ui", "--ui", "0.0.0.0:0").code == 78
    assert aiostorm("ui", "--ui=99999").code == 2
    assert "--ui" in aiostorm("ui", "--help").out
