"""Links that are ended from outside, at moments at which something else ends, too."""

from __future__ import annotations

import asyncio

import pytest

from aiostorm.testing import SimClock

from ..parts import MemoryNetwork, Process


class MineError(Exception):
    pass


@pytest.mark.parametrize("dials", [True, False])
async def test_a_cancel_that_comes_as_the_connection_ends_is_not_lost(sim_clock: SimClock, dials: bool) -> None:
    """Found by seed 21 of tests/simulation: the link waited for another connection, for ever."""
    network = MemoryNetwork()
    async with asyncio.TaskGroup() as group:

        async def fails(process: Process, peer: str) -> None:
            async with process:
                await process.listen(process.name)
                link = process.open(peer, peer if process.name < peer else None)
                await sim_clock.run_until(lambda: link.established)
                network.cut()
                raise MineError

        async def ends() -> None:
            with pytest.raises(ExceptionGroup, match="unhandled errors"):
                await fails(Process(mine, network), other)

        async def lives(process: Process, peer: str) -> None:
            async with process:
                await process.listen(process.name)
                process.open(peer, peer if process.name < peer else None)
                await asyncio.sleep(1)

        mine, other = ("a", "b") if dials else ("b", "a")
        group.create_task(lives(Process(other, network), mine))
        group.create_task(ends())
