"""Backpressure over workers: it is seen where the bolt is, and the spout waits where it is."""

from __future__ import annotations

import asyncio
from typing import Any

from aiostorm import BasicBolt, Config, Spout, TopologyBuilder

from .hosted import Workers


class Endless(Spout):
    outputs = "n"

    def open(self, context: Any, collector: Any) -> None:
        self.collector = collector

    def next_tuple(self) -> None:
        self.collector.emit((1,))


class Slow(BasicBolt):
    async def execute(self, tup: Any, collector: Any) -> None:
        await asyncio.sleep(0.01)


async def test_a_slow_bolt_in_a_worker_without_spouts_triggers_backpressure() -> None:
    builder = TopologyBuilder()
    builder.set_spout("spout", Endless())
    builder.set_bolt("slow", Slow()).shuffle_grouping("spout")
    config = Config(acker_executors=0, backpressure_check_interval_ms=100)
    async with Workers(builder.create_topology(), config) as workers:
        assert {n: [t.task.component for t in w.task_set.tasks] for n, w in workers.living.items()} == {
            "w0": ["spout"],
            "w1": ["slow"],
        }
        await asyncio.sleep(1.0)
        (spout,) = workers.living["w0"].task_set.tasks.spouts
        assert spout.pace.wait_us
