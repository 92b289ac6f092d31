"""Bolts with asyncio tasks of their own: what a restart leaves of them is not the topology's mistake."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aiostorm import Bolt, EmitError, Fields, TopologyBuilder
from aiostorm.testing.simulation import Simulation, world_loop


class Works(Bolt):
    """Does what comes in a task of its own, which `cleanup` ends. An instance that is replaced has no `cleanup`."""

    outputs = Fields("n")

    def prepare(self, context: Any, collector: Any) -> None:
        self.collector = collector
        self.queue: asyncio.Queue[Any] = asyncio.Queue()
        self.worker = asyncio.get_running_loop().create_task(self.work())

    async def work(self) -> None:
        try:
            while True:
                tup = await self.queue.get()
                await asyncio.sleep(0.1)
                self.collector.emit((tup["n"],), anchors=tup)
                self.collector.ack(tup)
        except EmitError:
            return  # it was replaced

    def execute(self, tup: Any) -> None:
        self.queue.put_nowait(tup)

    async def cleanup(self) -> None:
        self.worker.cancel()
        await asyncio.wait([self.worker])


@pytest.mark.parametrize("seed", range(6))
def test_asyncio_tasks_of_a_replaced_instance_are_not_reported(seed: int) -> None:
    loop = world_loop(seed)
    simulation = Simulation(loop.world, "error")

    async def main() -> None:
        source, sink = simulation.source(range(40), "n"), simulation.sink()
        builder = TopologyBuilder()
        builder.set_spout("source", source)
        builder.set_bolt("works", Works).shuffle_grouping("source")
        builder.set_bolt("sink", sink).shuffle_grouping("works")
        await simulation.run(builder.create_topology())
        assert {n for (n,) in sink.values} == set(range(40))

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(main())
