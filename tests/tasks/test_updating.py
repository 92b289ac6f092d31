"""Settings that a topology is given anew while it runs: they hold at once, and a component's own ones stay."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aiostorm import (
    BasicBolt,
    Bolt,
    BufferedWindowBolt,
    Config,
    ConfigError,
    Count,
    LocalCluster,
    TaskHook,
    Time,
    TopologyBuilder,
    Tumbling,
    WindowedBolt,
    bolt,
)
from aiostorm.testing import FeederSpout
from aiostorm.topology.config import UPDATABLE

from .parts import DoesRich, Notes, Numbers, line


async def test_more_may_be_pending_at_once(local_cluster: LocalCluster) -> None:
    hold, source = DoesRich(), Numbers(10)
    running = await local_cluster.submit("t", line(source, hold=hold), Config(max_spout_pending=2))
    await running.wait_still()
    assert len(hold.held) == 2
    await running.update({"topology.max.spout.pending": 5})
    await asyncio.sleep(1)
    assert len(hold.held) == 5
    assert running.config.max_spout_pending == 5
    await running.update({"max_spout_pending": None})
    await asyncio.sleep(1)
    assert len(hold.held) == 10


async def test_a_components_own_setting_stays(local_cluster: LocalCluster) -> None:
    hold = DoesRich()
    builder = TopologyBuilder()
    builder.set_spout("spout", Numbers(10)).set_config(max_spout_pending=3)
    builder.set_bolt("hold", hold).shuffle_grouping("spout")
    running = await local_cluster.submit("t", builder.create_topology())
    await running.update({"max_spout_pending": 7})
    await asyncio.sleep(1)
    assert len(hold.held) == 3


async def test_open_messages_get_the_new_timeout(local_cluster: LocalCluster) -> None:
    source = Numbers(1)
    config = Config(message_timeout_s=1000.0)
    running = await local_cluster.submit("t", line(source, hold=DoesRich()), config)
    await running.wait_still()
    await running.update({"message_timeout_s": 20.0})
    await asyncio.sleep(120)
    assert len(source.failed) == 1, "by the new one: a look every twentieth of the old one finds it"


class Ticks(BasicBolt):
    def prepare(self, context: Any) -> None:
        self.count = 0

    def execute(self, tup: Any, collector: Any) -> None:
        """Nothing to do."""

    def on_tick(self, collector: Any) -> None:
        self.count += 1

    def result(self) -> int:
        return self.count


async def test_ticks_begin_change_and_end(local_cluster: LocalCluster) -> None:
    running = await local_cluster.submit("t", line(Numbers(1), ticks=Ticks()))

    async def counted(seconds: float) -> int:
        before = (await running.results())["ticks"][0]
        await asyncio.sleep(seconds)
        return int((await running.results())["ticks"][0] - before)

    assert await counted(10) == 0
    await running.update({"topology.tick.tuple.freq.secs": 2})
    assert await counted(10.5) == 5
    await running.update({"topology.tick.tuple.freq.secs": 5})
    assert await counted(10.5) == 2
    await running.update({"topology.tick.tuple.freq.secs": None})
    assert await counted(10.5) == 0


class Keeps(BufferedWindowBolt):
    windows = Tumbling(10_000)
    timestamp = "n"

    def execute(self, window: Any) -> None:
        """Nothing to emit."""


async def test_a_change_that_would_make_windows_lose_tuples_is_refused(local_cluster: LocalCluster) -> None:
    running = await local_cluster.submit("t", line(Numbers(1), keeps=Keeps()), Config(message_timeout_s=60.0))
    with pytest.raises(ConfigError, match="keeps"):
        await running.update({"message_timeout_s": 5.0})
    assert running.config.message_timeout_s == 60.0
    with pytest.raises(ConfigError, match="max_retries cannot be changed while a topology runs; what can: "):
        await running.update({"max_retries": 7})


class BasicOne(BasicBolt):
    def execute(self, tup: Any, collector: Any) -> None:
        """Nothing to do."""


class AsyncOne(BasicBolt):
    async def execute(self, tup: Any, collector: Any) -> None:
        await asyncio.sleep(0.5)


class BlockingOne(BasicOne):
    blocking = True


class BatchOne(BasicBolt):
    def execute_batch(self, tuples: Any, collector: Any) -> None:
        """Nothing to do."""


class RichBatch(Bolt):
    def prepare(self, context: Any, collector: Any) -> None:
        self.collector = collector

    def execute_batch(self, tuples: Any) -> None:
        self.collector.ack(tuples)


class KeepsClock(Keeps):
    windows = Tumbling(1_000, time=Time.PROCESSING)


@bolt
def function(n: int) -> None:
    """Nothing to do."""


@bolt
async def async_function(n: int) -> None:
    await asyncio.sleep(0.5)


@bolt(outputs="n")
def generator(n: int) -> Iterator[int]:
    yield n


LOGS = {
    "basic": (BasicOne, True),
    "async": (AsyncOne, True),
    "blocking": (BlockingOne, True),
    "batch": (BatchOne, True),
    "rich batch": (RichBatch, True),
    "rich": (lambda: DoesRich(lambda tup, collector: collector.ack(tup)), True),
    "function": (function, True),
    "async function": (async_function, True),
    "generator": (generator, True),
    "window": (lambda: WindowedBolt(Tumbling(1_000, time=Time.PROCESSING), Count()), True),
    "buffered": (KeepsClock, True),
}


@pytest.mark.parametrize("kind", LOGS)
async def test_debug_logging_is_switched_on_and_off_while_a_topology_runs(
    local_cluster: LocalCluster, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    caplog.set_level(logging.INFO, "aiostorm.debug")
    feeder = FeederSpout("n")
    running = await local_cluster.submit("t", line(feeder, bolt=LOGS[kind][0]), Config(graceful_stop_s=5.0))

    async def lines(n: int) -> list[str]:
        del caplog.records[:]
        caplog.clear()
        await feeder.feed(n, n)
        await feeder.idle()
        return [record.getMessage() for record in caplog.records if record.name == "aiostorm.debug"]

    assert await lines(1) == []
    for n in (2, 4):
        await running.update({"topology.debug": True})
        await running.update({"topology.debug": True})
        said = await lines(n)
        for expected in (
            f"t: spout[1] emits ({n},) on 'default'",
            rf"t: bolt\[2\] executes .*{n}",
            rf"t: bolt\[2\] acks .*{n}",
            f"t: spout[1] gets ack of {n} after",
        ):
            found = [one for one in said if expected in one or re.match(expected, one)]
            assert len(found) == 1, (expected, said)
        await running.update({"topology.debug": False})
        assert await lines(n + 1) == []
    assert feeder.acked == [1, 2, 3, 4, 5]
    assert running.errors() == []


async def test_a_restarted_task_logs_as_configured(
    local_cluster: LocalCluster, caplog: pytest.LogCaptureFixture
) -> None:
    def fragile(tup: Any, collector: Any) -> None:
        if tup["n"] == 1:
            raise ValueError("once")
        collector.ack(tup)

    caplog.set_level(logging.INFO, "aiostorm.debug")
    feeder = FeederSpout("n")
    running = await local_cluster.submit("t", line(feeder, bolt=DoesRich(fragile)))
    await running.update({"debug": True})
    await feeder.feed(1)
    await feeder.idle()
    caplog.clear()
    await feeder.feed(2)
    await feeder.idle()
    assert sum("t: bolt[2] acks" in line for line in caplog.messages) == 1


async def test_hooks_of_its_own_go_on(local_cluster: LocalCluster, caplog: pytest.LogCaptureFixture) -> None:
    seen = Notes()

    class Sees(TaskHook):
        def bolt_execute(self, tup: Any, task_id: int, execute_latency_s: float) -> None:
            seen.append(tup["n"])

    class Hooked(BasicOne):
        def prepare(self, context: Any) -> None:
            context.add_task_hook(Sees())

    caplog.set_level(logging.INFO, "aiostorm.debug")
    feeder = FeederSpout("n")
    running = await local_cluster.submit("t", line(feeder, bolt=Hooked))
    for n, wanted in enumerate((False, True, False)):
        await running.update({"debug": wanted})
        await feeder.feed(n)
        await feeder.idle()
    assert seen == [0, 1, 2]
    assert sum("executes" in line for line in caplog.messages) == 1


async def test_a_components_own_debug_stays(local_cluster: LocalCluster, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "aiostorm.debug")
    feeder = FeederSpout("n")
    builder = TopologyBuilder()
    builder.set_spout("spout", feeder)
    builder.set_bolt("bolt", BasicOne, debug=False).shuffle_grouping("spout")
    running = await local_cluster.submit("t", builder.create_topology())
    await running.update({"debug": True})
    await feeder.feed(1)
    await feeder.idle()
    assert any("spout[1] emits" in line for line in caplog.messages)
    assert not any("bolt[2]" in line for line in caplog.messages)


def test_the_page_says_of_each_setting_whether_it_can_be_changed() -> None:
    page = (Path(__file__).parents[2] / "docs" / "storm.md").read_text()
    section = page.partition("### Settings that can be changed while it runs")[2].partition("\n## ")[0]
    for name in Config.model_fields:
        if not name.startswith("backpressure_"):
            assert f"`{name}`" in section, name
    changed = section.partition("cannot be changed")[0]
    assert all(f"`{name}`" in changed for name in UPDATABLE if not name.startswith("backpressure_"))
