"""TimedWakeup: no `set` is lost, no time is missed, and an early timer does no harm."""

from __future__ import annotations

import asyncio

from aiostorm.testing import SimClock
from aiostorm.transport.link.timed_wakeup import TimedWakeup


async def waits(wakeup: TimedWakeup, clock: SimClock, due_s: float) -> float:
    began_s = clock.monotonic()
    await wakeup.wait_until(began_s + due_s, began_s)
    return clock.monotonic() - began_s


async def test_a_ring_before_counts_until_it_is_cleared(sim_clock: SimClock) -> None:
    wakeup = TimedWakeup()
    wakeup.set()
    assert await waits(wakeup, sim_clock, 5.0) == 0.0
    await wakeup.wait()
    wakeup.clear()
    assert await waits(wakeup, sim_clock, 5.0) == 5.0
    wakeup.cancel()


async def test_a_waiter_is_woken_at_once(sim_clock: SimClock) -> None:
    wakeup = TimedWakeup()
    asyncio.get_running_loop().call_later(1.5, wakeup.set)
    assert await waits(wakeup, sim_clock, float("inf")) == 1.5


async def test_an_earlier_time_counts_and_a_later_one_wakes_too_early_at_worst(sim_clock: SimClock) -> None:
    wakeup = TimedWakeup()
    waiting = asyncio.ensure_future(waits(wakeup, sim_clock, 5.0))
    await asyncio.sleep(1.0)
    wakeup.set()
    assert await waiting == 1.0
    wakeup.clear()
    assert await waits(wakeup, sim_clock, 2.0) == 2.0
    wakeup.clear()
    waiting = asyncio.ensure_future(waits(wakeup, sim_clock, 3.0))
    await asyncio.sleep(1.0)
    wakeup.set()
    await waiting
    wakeup.clear()
    assert await waits(wakeup, sim_clock, 9.0) == 2.0, "the timer that was left: woken in vain"
    wakeup.clear()
    assert await waits(wakeup, sim_clock, 7.0) == 7.0


async def test_what_is_due_is_waited_for_a_trifle(sim_clock: SimClock) -> None:
    assert 0.0009 < await waits(TimedWakeup(), sim_clock, -1.0) < 0.0011


async def test_nothing_is_left(sim_clock: SimClock) -> None:
    wakeup = TimedWakeup()
    waiting = asyncio.ensure_future(waits(wakeup, sim_clock, 5.0))
    await asyncio.sleep(1.0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    wakeup.cancel()
    wakeup.set()
    await wakeup.wait()
