"""Alarm: no ring is lost, no time is missed, and a timer that goes off early harms nobody."""

from __future__ import annotations

import asyncio

from aiostorm.testing import SimClock
from aiostorm.transport.link.alarm import Alarm


async def waits(alarm: Alarm, clock: SimClock, due_s: float) -> float:
    began_s = clock.monotonic()
    await alarm.wait_until(began_s + due_s, began_s)
    return clock.monotonic() - began_s


async def test_a_ring_before_counts_until_it_is_cleared(sim_clock: SimClock) -> None:
    alarm = Alarm()
    alarm.set()
    assert await waits(alarm, sim_clock, 5.0) == 0.0
    await alarm.wait()
    alarm.clear()
    assert await waits(alarm, sim_clock, 5.0) == 5.0
    alarm.cancel()


async def test_who_waits_is_woken_at_once(sim_clock: SimClock) -> None:
    alarm = Alarm()
    asyncio.get_running_loop().call_later(1.5, alarm.set)
    assert await waits(alarm, sim_clock, float("inf")) == 1.5


async def test_an_earlier_time_counts_and_a_later_one_wakes_too_early_at_worst(sim_clock: SimClock) -> None:
    alarm = Alarm()
    waiting = asyncio.ensure_future(waits(alarm, sim_clock, 5.0))
    await asyncio.sleep(1.0)
    alarm.set()
    assert await waiting == 1.0
    alarm.clear()
    assert await waits(alarm, sim_clock, 2.0) == 2.0
    alarm.clear()
    waiting = asyncio.ensure_future(waits(alarm, sim_clock, 3.0))
    await asyncio.sleep(1.0)
    alarm.set()
    await waiting
    alarm.clear()
    assert await waits(alarm, sim_clock, 9.0) == 2.0, "the timer that was left: woken in vain"
    alarm.clear()
    assert await waits(alarm, sim_clock, 7.0) == 7.0


async def test_what_is_due_is_waited_for_a_trifle(sim_clock: SimClock) -> None:
    assert 0.0009 < await waits(Alarm(), sim_clock, -1.0) < 0.0011


async def test_nothing_is_left(sim_clock: SimClock) -> None:
    alarm = Alarm()
    waiting = asyncio.ensure_future(waits(alarm, sim_clock, 5.0))
    await asyncio.sleep(1.0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    alarm.cancel()
    alarm.set()
    await alarm.wait()
