"""A topology inside an asyncio service that has other things to do as well.

    python -m examples.embed_asyncio

Sensors report into a queue; a topology in the same event loop averages what they say. The topology has no loop, thread
or signal handler of its own: it lives in the service's, and ends with its block.
"""

from __future__ import annotations

import asyncio

from aiostorm import (
    BasicBolt,
    BasicCollector,
    Fields,
    LocalCluster,
    Spout,
    SpoutCollector,
    Topology,
    TopologyBuilder,
    TopologyContext,
    Tuple,
)

Reading = tuple[str, float]


class Readings(Spout):
    """Emits what the service puts into a queue. `next_tuple` may wait as long as it likes: nothing polls."""

    outputs = Fields("sensor", "value")

    def __init__(self, queue: asyncio.Queue[Reading]) -> None:
        self.queue = queue

    def open(self, context: TopologyContext, collector: SpoutCollector) -> None:
        """Remember where to emit."""
        self.collector = collector
        self.number = 0

    async def next_tuple(self) -> None:
        """Emit the next reading."""
        reading = await self.queue.get()
        self.number += 1
        self.collector.emit(reading, message_id=self.number)


class Average(BasicBolt):
    """The mean of each sensor's readings."""

    def __init__(self) -> None:
        self.values: dict[str, list[float]] = {}

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        """Remember one reading."""
        self.values.setdefault(tup["sensor"], []).append(tup["value"])

    def result(self) -> dict[str, float]:
        """Sensor → mean."""
        return {sensor: sum(values) / len(values) for sensor, values in self.values.items()}


def averages(queue: asyncio.Queue[Reading]) -> Topology:
    """Readings → averages, on two tasks."""
    builder = TopologyBuilder()
    # A factory: an instance would be copied for its task, and with it the queue.
    builder.set_spout("readings", lambda: Readings(queue))
    builder.set_bolt("average", Average, parallelism=2).fields_grouping("readings", "sensor")
    return builder.create_topology("averages")


async def sense(queue: asyncio.Queue[Reading], sensor: str, base: float) -> None:
    """A sensor. The queue is bounded: a topology that cannot follow makes its sensors wait."""
    for step in range(100):
        await queue.put((sensor, base + step % 10))
        await asyncio.sleep(0.001)


async def main() -> None:
    """The service."""
    queue: asyncio.Queue[Reading] = asyncio.Queue(maxsize=50)
    async with LocalCluster() as cluster:
        topology = await cluster.submit("averages", averages(queue))
        async with asyncio.TaskGroup() as sensors:
            for sensor, base in (("cellar", 10.0), ("kitchen", 20.0), ("roof", 5.0)):
                sensors.create_task(sense(queue, sensor, base))
        await topology.wait_idle(quiet_s=0.1)
        for part in (await topology.results())["average"]:
            for sensor, mean in part.items():
                print(f"{sensor:8} {mean:5.1f}")
        print("readings processed:", topology.metrics()["readings"].acked)


if __name__ == "__main__":
    asyncio.run(main())
