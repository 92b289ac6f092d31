"""Exactly once on workers that end and freeze: every row counts once, and is committed once."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from pathlib import Path

import pytest

from aiostorm import ConfigError, LocalCluster, RunningTopology
from aiostorm.testing.simulation import World

from ..sim_workers import SimBackend, with_workers
from .exact import HERE, KEYS, Committed, expected


def written() -> Counter[tuple[int, int]]:
    return Counter(row for rows in Committed.rows.values() for row in rows)


async def all_is_right(running: RunningTopology, count: int) -> None:
    await running.wait_finished(300)
    found = (await running.results())["count"]
    assert {key: n for part in found for key, n in part.items()} == dict.fromkeys(range(KEYS), 2 * count // KEYS)


@pytest.fixture(autouse=True)
def _fresh() -> None:
    Committed.rows.clear()


async def submit(cluster: LocalCluster, count: int) -> RunningTopology:
    settings = {"topology.state.dir": "memory://exact"}  # any URL: the world opens its own store
    return await cluster.submit("exact", f"{HERE}:counted", settings, arguments=("", str(count)))


@pytest.mark.parametrize("workers", [1, 3])
def test_every_row_counts_once(workers: int) -> None:
    async def story(world: World, cluster: LocalCluster, backend: SimBackend) -> None:
        await all_is_right(await submit(cluster, 400), 400)

    assert set(with_workers(story, workers=workers).starts.values()) == {1}
    assert written() == expected(400)


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_workers_may_end_or_freeze_at_any_time(seed: int) -> None:
    count = 4000

    async def story(world: World, cluster: LocalCluster, backend: SimBackend) -> None:
        running = await submit(cluster, count)
        chance = world.chance.stream("what the test does")
        for _ in range(5):
            await asyncio.sleep(chance.random() * 0.3)
            alive = [p for name, p in world.processes.items() if name.startswith("worker") and p.alive]
            if alive and chance.random() < 0.8:
                chance.choice(alive).kill("is killed by the test")
            elif alive:
                chance.choice(alive).pause(chance.choice([1.0, 30.0]))
        await all_is_right(running, count)

    backend = with_workers(story, workers=3, seed=seed)
    assert sum(backend.starts.values()) > 3
    assert written() == expected(count)


def test_a_worker_that_made_progress_is_restarted_at_once() -> None:
    waits: list[float] = []

    async def story(world: World, cluster: LocalCluster, backend: SimBackend) -> None:
        running = await submit(cluster, 400)
        for starts in (2, 3, 4, 5):
            await running.snapshot()
            began_s = asyncio.get_running_loop().time()
            world.processes["worker-2"].kill("is killed by the test")
            await world.until(lambda starts=starts: backend.starts["worker-2"] == starts, 30, "another worker-2")  # type: ignore[misc]
            waits.append(asyncio.get_running_loop().time() - began_s)
        await running.kill(0)

    with_workers(story, workers=3)
    assert max(waits) <= waits[0] + 0.01, waits


def test_a_worker_that_is_asked_to_end_loses_nothing() -> None:
    async def story(world: World, cluster: LocalCluster, backend: SimBackend) -> None:
        running = await submit(cluster, 4000)
        await world.until(lambda: bool(Committed.rows), 10, "a commit")
        process = world.processes["worker-2"]
        assert process.current.on_terminate is not None
        process.loop.call_soon(process.current.on_terminate)
        await world.until(lambda: backend.starts["worker-2"] == 2, 20, "another worker-2")
        await all_is_right(running, 4000)

    with_workers(story, workers=3)
    assert written() == expected(4000)


@pytest.mark.parametrize("end", [RunningTopology.drain, RunningTopology.kill])
@pytest.mark.parametrize("seed", [2, 3, 5])
def test_what_a_worker_loses_in_a_drain_comes_in_the_next_run(
    caplog: pytest.LogCaptureFixture, end: Callable[[RunningTopology, float], Coroutine[None, None, None]], seed: int
) -> None:
    count = 1000

    async def story(world: World, cluster: LocalCluster, backend: SimBackend) -> None:
        chance = world.chance.stream("what the test does")
        running = await submit(cluster, count)
        await asyncio.sleep(0.1 * chance.random())
        ending = asyncio.create_task(end(running, 600))
        await asyncio.sleep(0.01 * chance.random() * seed)
        world.processes["worker-2"].kill("is killed by the test")
        await ending
        if not running.state.endswith("KILLED"):
            await running.kill(0)
        await all_is_right(await submit(cluster, count), count)

    with_workers(story, workers=3, seed=seed)
    assert "its spouts have ended: the rows after it come in the next run" in caplog.text
    assert written() == expected(count)


def test_a_folder_is_refused_if_a_worker_is_on_another_machine() -> None:
    async def story(world: World, cluster: LocalCluster, backend: SimBackend) -> None:
        for settings in ({}, {"topology.state.dir": "somewhere"}):
            with pytest.raises(ConfigError, match="a URL that all machines reach"):
                await cluster.submit("exact", f"{HERE}:counted", settings)
        assert not cluster.topologies

    with_workers(story, workers=1, remote=1)


@pytest.mark.slow
@pytest.mark.sockets
@pytest.mark.skipif(sys.platform == "win32", reason="a worker of ours listens at a unix socket")
def test_real_workers_that_are_killed_lose_and_repeat_nothing(tmp_path: Path) -> None:
    asyncio.run(killed(tmp_path))


async def killed(tmp_path: Path) -> None:
    folder, count = tmp_path / "out", 60_000
    folder.mkdir()
    async with LocalCluster(workers=2) as cluster:
        settings = {"topology.state.dir": str(tmp_path / "state")}
        running = await cluster.submit("exact", f"{HERE}:counted", settings, arguments=(str(folder), str(count)))
        for _ in range(2):
            files = len(list(folder.iterdir()))
            await until(lambda files=files: len(list(folder.iterdir())) > files)  # type: ignore[misc]
            victim = running.workers()[1]
            os.kill(victim.pid, signal.SIGKILL)
            await until(lambda victim=victim: running.workers()[1].restarts > victim.restarts)  # type: ignore[misc]
        await all_is_right(running, count)
    rows = [tuple(row) for file in folder.iterdir() for row in json.loads(file.read_text())]
    assert Counter(rows) == expected(count)


async def until(ready: Callable[[], bool], within_s: float = 40.0) -> None:
    limit_s = time.monotonic() + within_s
    while not ready():
        assert time.monotonic() < limit_s, "it did not come"
        await asyncio.sleep(0.01)
