"""Outlets: what stands between two tasks is made when it is first used, so a start costs by tasks, not by pairs."""

from __future__ import annotations

import gc
import tracemalloc

from aiostorm import LocalCluster, RunningTopology, Topology, TopologyBuilder, direct
from aiostorm.actors import Mailbox
from aiostorm.tasks.emit.outbox import Outbox
from aiostorm.testing import FeederSpout, Recorder

from .parts import Does


def chain(feeder: FeederSpout, tasks: int, *, straight: bool = False) -> Topology:
    """A spout, a bolt that passes rows on and a sink of so many tasks each, by shuffle and (or) by direct streams."""
    outputs = {"default": "n", "straight": direct("n")}
    builder = TopologyBuilder()
    builder.set_spout("spout", feeder)
    pass_on = Does(lambda tup, collector: collector.emit(tup.values), outputs)
    if straight:  # task 1 is the spout, then come those of "one"
        pass_on = Does(lambda tup, collector: collector.emit_direct(tasks + 2, tup.values, stream="straight"), outputs)
    builder.set_bolt("one", pass_on, tasks).shuffle_grouping("spout")
    sink = builder.set_bolt("two", Recorder(), tasks).fields_grouping("one", "n")
    if straight:
        sink.direct_grouping("one", stream="straight")
    return builder.create_topology()


def outlets(running: RunningTopology) -> int:
    """How many there are."""
    boxes = [task.outbox for task in running._task_set.tasks]
    return sum(len(box.outlets) + len(box.feedback) for box in boxes)


async def test_a_start_makes_no_outlet_and_a_row_makes_those_on_its_way(local_cluster: LocalCluster) -> None:
    for straight in (False, True):
        feeder = FeederSpout("n")
        running = await local_cluster.submit(f"straight-{straight}", chain(feeder, 20, straight=straight))
        assert outlets(running) == 0
        await feeder.feed_all([1])
        await feeder.idle()
        assert outlets(running) == 2  # spout ─► one of 20 ─► one of 20
        await feeder.feed_all(range(1000))
        await feeder.idle()
        assert outlets(running) == 20 + 20 if straight else 40 < outlets(running) <= 20 + 20 * 20
        await running.kill(0)


async def test_a_task_takes_no_more_memory_among_many(local_cluster: LocalCluster) -> None:
    async def bytes_a_task(tasks: int) -> float:
        gc.collect()
        tracemalloc.start()
        running = await local_cluster.submit(f"of-{tasks}", chain(FeederSpout("n"), tasks))
        gc.collect()
        found = tracemalloc.get_traced_memory()[0] / (2 * tasks)
        tracemalloc.stop()
        await running.kill(0)
        return found

    await bytes_a_task(5)  # what is made once
    few, many = await bytes_a_task(20), await bytes_a_task(160)
    assert many < 1.1 * few, (few, many)


async def test_asking_for_free_rows_makes_no_outlet() -> None:
    boxes = {1: Mailbox(10), 2: Mailbox(20)}
    asked: list[int] = []

    def mailbox_of(target: int) -> Mailbox:
        asked.append(target)
        return boxes[target]

    outbox = Outbox(lambda: None, lambda segment, error: None, lambda: 1, lambda pack, piece: [piece], mailbox_of)
    assert [outbox.outlets.free_rows(target) for target in (1, 2)] == [boxes[1].gate.limit, boxes[2].gate.limit]
    assert not outbox.outlets
    boxes[1].gate.close()
    assert outbox.outlets.free_rows(1) == 0
    assert outbox.outlets[2] is outbox.outlets[2]
    assert outbox.outlets[2] is not outbox.feedback[2]
    assert outbox.outlets.free_rows(2) == boxes[2].gate.limit
    assert asked == [1, 2, 1, 2, 2]
