"""Messages: what the parent of one topology holds and sends, by the sizes of its real messages, encoded.

Each worker has TASKS tasks, and a link to each other worker.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from aiostorm.cluster.messages import Connect, ImportTopology, StatusReport
from aiostorm.cluster.records import register
from aiostorm.metrics import TaskCounters, TaskMetrics, pack_task
from aiostorm.runtime import LIVENESS
from aiostorm.transport import pack_value

from .cluster import CONFIG

TASKS: Final = 10
BUCKETS: Final = 12
"""Of the histogram of a task that has run for a while."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Of one topology. Bytes of the messages to start it; links; and what the parent gets, in a second."""

    workers: int
    tasks: int
    import_bytes: int
    connect_bytes: int
    status_bytes: int

    @property
    def start_bytes(self) -> int:
        """What the parent sends until all workers have their tasks."""
        return self.workers * (self.import_bytes + self.connect_bytes)

    @property
    def links(self) -> int:
        """Of workers with each other."""
        return self.workers * (self.workers - 1) // 2

    @property
    def links_of_a_worker(self) -> int:
        """With the one to its parent: each is an open descriptor."""
        return self.workers

    @property
    def reports_a_second(self) -> float:
        """Answers to the parent's questions."""
        return self.workers / LIVENESS.worker_monitor_s

    @property
    def heartbeats_a_second(self) -> float:
        """On links over which nothing else goes, both ways."""
        return 2 * self.links / LIVENESS.link_heartbeat_s


def sizes_of(workers: int) -> Sizes:
    """The sizes for so many workers."""
    register()
    names = [f"worker-{index + 1}" for index in range(workers)]
    tasks = workers * TASKS
    placement = {task: names[task % workers] for task in range(tasks)}
    ordered = ImportTopology("orders", "jobs.orders:topology", (), CONFIG, placement, "0" * 64, "0" * 64, "0" * 64)
    addresses = {name: f"node-{index:04}.example:40000" for index, name in enumerate(names)}
    connect = Connect(addresses, {name: address.partition(":")[0] for name, address in addresses.items()})
    counters = TaskCounters("execute_latency", "process_latency")
    for timings in (counters.execute_latency, counters.process_latency):
        for number in range(BUCKETS):
            timings += (1e-5 * 2**number, 100_000)
    seen = {"fill": 10, "capacity": 1000, "streams": (("default", 10**6),), "edges": (("default", "count", 10**6),)}
    rows = tuple(pack_task(TaskMetrics.of(task, counters, **seen)) for task in range(TASKS))
    return Sizes(workers, tasks, *(len(pack_value(m)) for m in (ordered, connect, StatusReport(tasks=rows))))
