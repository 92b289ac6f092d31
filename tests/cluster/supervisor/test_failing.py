"""The daemon names what does not stay alive on its node, in its record."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from aiostorm.cluster.nimbus import ASSIGNMENTS, SUPERVISORS, SupervisorRecord, path_of, unpack
from aiostorm.cluster.supervisor.failures import KEPT_S

from .test_supervisor import ON_A, WORKER_1, world


async def test_what_does_not_stay_alive_is_named_in_the_record() -> None:
    async with world() as made, made.supervised():

        async def named() -> list[tuple[str, str, int]]:
            node = await made.client.get(path_of(SUPERVISORS, "a"))
            assert node is not None
            found = unpack(SupervisorRecord, SUPERVISORS, node.value).failed
            return [(one.topology, one.process, one.generation) for one in found]

        await made.submit()
        for _ in range(4):
            made.machine.end(WORKER_1, 1)
            await asyncio.sleep(5.5)
        assert await named() == []
        made.machine.end(WORKER_1, 1)
        await asyncio.sleep(2)
        assert await named() == [("words", "worker-1", 1)]
        made.backends[-1].cut_off = True  # its next session says it, too
        await asyncio.sleep(20)
        made.backends[-1].cut_off = False
        await asyncio.sleep(5)
        assert await named() == [("words", "worker-1", 1)]
        await made.put(ASSIGNMENTS, "words", replace(ON_A, workers=("b", "a")))
        await asyncio.sleep(KEPT_S - 60)
        assert await named() == [("words", "worker-1", 1)]
        await asyncio.sleep(120)
        assert await named() == []


async def test_what_stays_alive_again_is_not_named() -> None:
    async with world() as made, made.supervised():
        await made.submit()
        for _ in range(5):
            made.machine.end(WORKER_1, 1)
            await asyncio.sleep(5.5)
        await asyncio.sleep(60)
        node = await made.client.get(path_of(SUPERVISORS, "a"))
        assert node is not None
        assert unpack(SupervisorRecord, SUPERVISORS, node.value).failed == ()
