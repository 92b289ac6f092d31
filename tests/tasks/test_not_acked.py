"""A bolt that never acks is named: component, task, how many tuples, and how old the oldest of them is."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from aiostorm import Bolt, Config, LocalCluster, Topology, TopologyBuilder
from aiostorm.testing import FeederSpout

from .parts import DoesRich, line


class Forgets(Bolt):
    """Acks every second tuple."""

    def prepare(self, context: Any, collector: Any) -> None:
        self.collector = collector

    def execute(self, tup: Any) -> None:
        if tup["n"] % 2:
            self.collector.ack(tup)


def made(feeder: FeederSpout, bolt: Any) -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("source", feeder)
    builder.set_bolt("forgets", bolt).shuffle_grouping("source")
    return builder.create_topology(config=Config(message_timeout_s=30.0))


async def test_a_bolt_that_never_acks_is_named_once_a_minute(
    local_cluster: LocalCluster, caplog: pytest.LogCaptureFixture
) -> None:
    feeder = FeederSpout("n")
    with caplog.at_level(logging.ERROR, logger="aiostorm.component"):
        running = await local_cluster.submit("t", made(feeder, Forgets))
        for second in range(180):
            await feeder.feed((second,))
            await asyncio.sleep(1)
        reports = running.errors()
        assert [(report.component, report.task) for report in reports] == [("forgets", 2)] * 3
        assert "TuplesNotAckedError: " in reports[0].error
        assert "longer than 30 s, the oldest for about 37.5 s" in reports[0].error
        assert [int(report.error.split()[1]) for report in reports] == [4, 34, 64]
        assert sum("neither acked nor failed" in record.getMessage() for record in caplog.records) == 3


async def test_one_that_acks_late_is_not(local_cluster: LocalCluster) -> None:
    held: list[Any] = []

    def act(tup: Any, collector: Any) -> None:
        held.append(tup)
        if len(held) > 20:
            collector.ack(held.pop(0))

    feeder = FeederSpout("n")
    running = await local_cluster.submit("t", line(feeder, bolt=DoesRich(act)))
    for second in range(120):
        await feeder.feed((second,))
        await asyncio.sleep(1)
    assert running.errors() == []


async def test_the_next_instance_is_looked_at(local_cluster: LocalCluster) -> None:
    class Fails(Forgets):
        def execute(self, tup: Any) -> None:
            if tup["n"] == 5:
                raise ValueError("five")
            super().execute(tup)

    feeder = FeederSpout("n")
    running = await local_cluster.submit("t", made(feeder, Fails))
    await feeder.feed_all([(0,), (2,), (5,), (4,)])
    await asyncio.sleep(80)
    assert [report.error.partition(" tuple")[0] for report in running.errors()] == [
        "ValueError: five",
        "TuplesNotAckedError: 1",
    ]


async def test_checks_end(local_cluster: LocalCluster) -> None:
    """What is held and does not change is named for a while; then the task has no timer."""
    feeder = FeederSpout("n")
    running = await local_cluster.submit("t", made(feeder, Forgets))
    await feeder.feed((0,))
    await asyncio.sleep(3600)
    first = len(running.errors())
    assert 10 <= first <= 13
    await asyncio.sleep(3600)
    assert len(running.errors()) == first
    await feeder.feed((2,))
    await asyncio.sleep(120)
    assert len(running.errors()) > first
