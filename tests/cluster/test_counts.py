"""What is counted of workers that have ended: it is kept, and nothing is held against the instance that begins anew."""

from __future__ import annotations

from collections import Counter
from typing import Any, ClassVar

from aiostorm import BasicBolt, BasicCollector, Config, LocalCluster, Spout, Topology, TopologyBuilder, Tuple
from aiostorm.cli.report import RunReport
from aiostorm.testing.simulation import World

from .sim_workers import SimBackend, with_workers

COUNT = 60


class Patient(Spout):
    """0 to COUNT - 1; an instance never emits anything again. What is acked survives its worker."""

    outputs = "n"
    acked: ClassVar[Counter[int]] = Counter()

    def open(self, context: Any, collector: Any) -> None:
        self.collector = collector
        self.left = [n for n in range(COUNT) if n not in self.acked]

    def next_tuple(self) -> None:
        if self.left:
            n = self.left.pop()
            self.collector.emit((n,), n)
        elif len(self.acked) == COUNT:
            self.collector.finish()

    def ack(self, message_id: int) -> None:
        self.acked[message_id] += 1


class Refuses(BasicBolt):
    """Every third number, the first time."""

    seen: ClassVar[Counter[int]] = Counter()

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        self.seen[tup["n"]] += 1
        if tup["n"] % 3 == 0 and self.seen[tup["n"]] == 1:
            raise ValueError("not yet")


def topology() -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("numbers", Patient)
    builder.set_bolt("refuses", Refuses, 2).shuffle_grouping("numbers")
    return builder.create_topology(config=Config(message_timeout_s=1000.0))


def test_messages_that_a_dead_worker_had_not_reported_are_not_given_up() -> None:
    Patient.acked, Refuses.seen = Counter(), Counter()

    async def story(world: World, cluster: LocalCluster, backend: SimBackend) -> None:
        running = await cluster.submit("numbers", "tests.cluster.test_counts:topology")
        await world.until(lambda: running.metrics()["numbers"].failed == COUNT // 3, 30, "the failures")
        [task] = running.plan.tasks_of["numbers"]
        victim = next(worker.name for worker in running.workers() if task in worker.tasks)
        world.processes[victim].kill("is killed by the test")
        await running.wait_finished(100)
        found = running.metrics()["numbers"]
        assert set(Patient.acked) == set(range(COUNT))
        assert (found.failed, found.replayed, found.forgotten) == (COUNT // 3, 0, COUNT // 3)
        report = RunReport("numbers", "finished", 1.0, running.metrics())
        assert report.messages["given_up"] == 0
        assert report.lost() == []

    with_workers(story)
