"""Process metrics: what a process uses, how late its loop is; and nothing is left behind."""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from aiostorm import LocalCluster
from aiostorm.runtime import ProcessMetrics, look_at_process
from aiostorm.runtime import process_metrics as module
from aiostorm.testing import FixedSpout, Recorder

from ..tasks.parts import line, rows


@pytest.mark.sockets
@pytest.mark.blocks_loop
async def test_what_a_process_uses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PROBE_S", 0.01)
    monkeypatch.setattr(module, "LEASE_S", 0.2)
    callbacks = len(gc.callbacks)
    first = look_at_process()
    assert len(gc.callbacks) == callbacks + 1
    time.sleep(0.3)  # noqa: ASYNC251 - so the loop is late
    gc.collect()
    with (tmp_path / "open").open("w"):
        await asyncio.sleep(0.05)
        now = look_at_process()
    assert now.pid == first.pid > 0
    assert now.loop_lag_s > 0.25
    assert now.cpu_s >= first.cpu_s > 0
    assert now.gc_collections > first.gc_collections
    assert now.gc_pause_s > first.gc_pause_s == 0
    if sys.platform == "linux":
        assert now.rss_bytes is not None
        assert now.rss_bytes > 5_000_000
        assert (first.open_files, now.open_files) == (first.open_files, (first.open_files or 0) + 1)
    for _ in range(2000):
        await asyncio.sleep(0.01)
        if len(gc.callbacks) == callbacks:  # it stops after the last look
            break
    else:
        pytest.fail("it did not stop")


def test_a_loop_that_has_ended_takes_its_watch_with_it() -> None:
    async def looks() -> int:
        return look_at_process().pid

    callbacks = len(gc.callbacks)
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        assert runner.run(looks())
    del runner
    gc.collect()
    assert len(gc.callbacks) == callbacks
    assert look_at_process() == ProcessMetrics()


async def test_nothing_is_measured_in_virtual_time() -> None:
    assert look_at_process() == ProcessMetrics()


def test_another_system_does_not_tell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(module, "_PROC", tmp_path / "none")
    monkeypatch.setattr(module, "_STATM", tmp_path / "none" / "statm")
    assert (module._rss_bytes(), module._open_files()) == (None, None)


@pytest.mark.sockets
async def test_the_end_of_a_cluster_ends_the_watch() -> None:
    callbacks = len(gc.callbacks)
    async with LocalCluster() as cluster:
        running = await cluster.submit("t", line(FixedSpout(rows(range(3)), "n"), sink=Recorder()))
        await running.wait_finished()
        assert running.metrics().processes["local"].pid > 0
        assert len(gc.callbacks) == callbacks + 1
    assert len(gc.callbacks) == callbacks


def test_a_look_in_a_signal_handler_leaves_the_timers_alone() -> None:
    """A handler runs between two bytecodes, also while `heappush` compares timers: "list changed size" was raised in
    the spout that slept at the moment of a Ctrl-C."""

    class Loop(asyncio.SelectorEventLoop):
        timers = 0

        def call_at(self, *args: Any, **options: Any) -> asyncio.TimerHandle:
            self.timers += 1
            return super().call_at(*args, **options)

    async def looks() -> tuple[int, int]:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, Loop)
        look_at_process()
        at_once = loop.timers
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return at_once, loop.timers

    with asyncio.Runner(loop_factory=Loop) as runner:
        assert runner.run(looks()) == (0, 1)
