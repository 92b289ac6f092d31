"""Pacing: how a spout task waits for its pace."""

from __future__ import annotations

from ..backpressure import SpoutPace
from ..runtime import Clock
from .wakeup import SpoutWakeup


async def wait_for_pace(pace: SpoutPace, wakeup: SpoutWakeup, clock: Clock) -> bool:
    """Wait until the next tuple is due, or the wakeup fires: an order may have come. False if it may be emitted now.

    The time waited is counted: a pace that delays nothing has no effect.
    """
    begun_s = clock.monotonic()
    delay_s = pace.pacer.delay_s(begun_s)
    if not delay_s:
        return False
    await wakeup.wait(delay_s)
    pace.pacer.delayed_s += clock.monotonic() - begun_s
    return True
