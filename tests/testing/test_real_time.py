"""The same kit on real loops: asyncio's, and uvloop where it is installed."""

from __future__ import annotations

import time

import pytest

from aiostorm.cluster import LocalCluster
from aiostorm.testing import FeederSpout, FixedSpout, Recorder, complete_topology
from aiostorm.topology import TopologyBuilder, bolt

pytestmark = pytest.mark.sockets


@bolt(outputs="word")
def split(line: str) -> object:
    yield from line.split()


async def test_complete_topology() -> None:
    builder = TopologyBuilder()
    builder.set_spout("lines", FixedSpout([], "line"))
    builder.set_bolt("split", split, parallelism=2).shuffle_grouping("lines")
    result = await complete_topology(builder.create_topology(), {"lines": ["a b"] * 100})
    assert (result.acked, len(result["split"])) == (100, 200)


async def test_an_idle_feeder_is_woken_at_once(local_cluster: LocalCluster) -> None:
    feeder, recorder = FeederSpout("n"), Recorder()
    builder = TopologyBuilder()
    # A spout that were polled, after a minute each time, would not be in time.
    builder.set_spout("in", feeder, spout_wait_ms=60_000, spout_wait_max_ms=60_000)
    builder.set_bolt("out", recorder).shuffle_grouping("in")
    running = await local_cluster.submit("t", builder.create_topology())
    await running.wait_idle()
    before_s = time.monotonic()
    for n in range(10):
        await feeder.feed(n)
        await recorder.wait(n + 1, timeout_s=30)
    assert time.monotonic() - before_s < 20
