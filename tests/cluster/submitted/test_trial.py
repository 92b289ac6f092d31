"""The trial of a plan: it is kept or taken back, also when the next one begins meanwhile."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from aiostorm.cluster.coordination import Coordination, Create, MemoryStore, Put
from aiostorm.cluster.nimbus import TOPOLOGIES, TopologyRecord, make_folders, pack, path_of, unpack
from aiostorm.cluster.nimbus.orders import next_plan
from aiostorm.cluster.submitted.trial import Trial
from aiostorm.runtime import LoopClock
from aiostorm.testing.simulation import World
from aiostorm.testing.simulation.process import Process

from ...simulation.cluster.ways import Ways
from ...simulation.worlds import in_world

PATH = path_of(TOPOLOGIES, "words")


async def stored(client: Coordination) -> TopologyRecord:
    node = await client.get(PATH)
    assert node is not None
    return unpack(TopologyRecord, PATH, node.value)


def test_a_trial_that_begins_while_the_one_before_is_confirmed_goes_on() -> None:
    async def story(world: World) -> None:
        ways = Ways(world, MemoryStore(LoopClock()), at_once=False, delay_s=0.1)

        async def program(process: Process) -> None:
            async with ways.client(process) as client:
                await make_folders(client)
                second = next_plan(TopologyRecord("words:topology"))
                third = next_plan(replace(second, former=None))
                await client.commit([Create(PATH, pack(second))])
                trial = Trial(client, LoopClock(), "words")
                trial.begin(second, 2)
                async with asyncio.TaskGroup() as group:
                    group.create_task(trial.look("ACTIVE", ""))
                    await asyncio.sleep(0)
                    trial.begin(third, 3)
                await client.commit([Put(PATH, pack(third))])
                await trial.look("ACTIVE", "")
                record = await stored(client)
                assert (record.generation, record.former) == (3, None)

        parent = world.process("parent", program)
        parent.start()
        await world.until(lambda: not parent.runs, 60, "the end of the parent")

    in_world(story)
