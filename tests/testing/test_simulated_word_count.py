"""A simulated test of our own, under the guards of this project: nothing is left behind in any world."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from aiostorm.testing.simulation import Simulation
from aiostorm.topology import TopologyBuilder, bolt


@bolt(outputs="word")
def split(line: str) -> object:
    yield from line.split()


@pytest.mark.simulate(seeds=5)
@pytest.mark.parametrize("parallelism", [1, 3])
async def test_no_word_is_lost(simulation: Simulation, parallelism: int) -> None:
    lines, words = simulation.source(["the cat", "the dog"] * 20, "line"), simulation.sink()
    builder = TopologyBuilder()
    builder.set_spout("lines", lines)
    builder.set_bolt("split", split, parallelism=parallelism).shuffle_grouping("lines")
    builder.set_bolt("words", words).shuffle_grouping("split")
    outcome = await simulation.run(builder.create_topology(), faults_s=30)
    assert (outcome.acked, outcome.seed) == (40, simulation.seed)
    counted = Counter(word for (word,) in words.values)
    assert counted["the"] >= 40
    assert min(counted["cat"], counted["dog"]) >= 20, "at least once"


@pytest.mark.simulate(seeds=2, faults="none")
class TestInAClass:
    async def test_each_has_its_world(self, simulation: Simulation) -> None:
        assert asyncio.get_running_loop() is simulation.world.driver.loop
        await asyncio.sleep(3600)
        assert simulation.world.now_s >= 3600
