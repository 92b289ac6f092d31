"""Settings that a topology is given anew while it runs: they hold at once, and a component's own ones stay."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from aiostorm import BasicBolt, BufferedWindowBolt, Config, ConfigError, LocalCluster, TopologyBuilder, Tumbling
from aiostorm.topology.config import UPDATABLE

from .parts import DoesRich, Numbers, line


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


async def test_what_would_let_windows_lose_their_tuples_is_refused(local_cluster: LocalCluster) -> None:
    running = await local_cluster.submit("t", line(Numbers(1), keeps=Keeps()), Config(message_timeout_s=60.0))
    with pytest.raises(ConfigError, match="keeps"):
        await running.update({"message_timeout_s": 5.0})
    assert running.config.message_timeout_s == 60.0
    with pytest.raises(ConfigError, match="debug cannot be changed while a topology runs; what can: "):
        await running.update({"debug": True})


def test_the_page_says_of_each_setting_whether_it_can_be_changed() -> None:
    page = (Path(__file__).parents[2] / "docs" / "storm.md").read_text()
    section = page.partition("### Settings that can be changed while it runs")[2].partition("\n## ")[0]
    for name in Config.model_fields:
        if not name.startswith("backpressure_"):
            assert f"`{name}`" in section, name
    changed = section.partition("Not so")[0]
    assert all(f"`{name}`" in changed for name in UPDATABLE if not name.startswith("backpressure_"))
