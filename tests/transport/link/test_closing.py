"""Two links that close: each says what has arrived before it ends."""

from __future__ import annotations

import asyncio

import pytest

from aiostorm.testing import SimClock
from aiostorm.transport import Link

from .test_links import numbered, paired, send_all


@pytest.mark.parametrize("delay_s", [0.0, 0.0005, 0.001, 0.0015, 0.002, 1.0])
async def test_two_links_that_close_at_about_the_same_time_wait_for_no_timeout(
    sim_clock: SimClock, delay_s: float
) -> None:
    """Each has payloads that the other has received and not acknowledged yet."""

    async def later(link: Link) -> None:
        await asyncio.sleep(delay_s)
        assert await link.close() == 0

    async with paired() as pair:
        await sim_clock.run_until(lambda: pair.ab.established and pair.ba.established)
        await send_all(pair.ab, numbered(3))
        await send_all(pair.ba, numbered(3))
        await sim_clock.advance(0.5)
        assert pair.ab.unacked_frames + pair.ba.unacked_frames >= 3, "no heartbeat yet, and no request"
        began_s = sim_clock.monotonic()
        async with asyncio.TaskGroup() as group:
            group.create_task(later(pair.ab))
            assert await pair.ba.close() == 0
        assert sim_clock.monotonic() - began_s == pytest.approx(delay_s, abs=0.1)
