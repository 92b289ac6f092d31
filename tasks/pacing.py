"""Pacing: how a spout task waits for its pace."""

from __future__ import annotations

from ..backpressure import SpoutPace
from ..runtime import Clock
from .wakeup import Wakeup


async def wait_for_pace(pace: SpoutPace, wakeup: Wakeup, clock: Clock) -> bool:
    """Wait until the next tuple may go, or the wakeup rings: an order may have come. False if it may go now.

    What was waited counts: a pace that holds nobody back is no pace.
    """
    begun_s = clock.monotonic()
    delay_s = pace.pacer.delay_s(begun_s)
    if not delay_s:
        return False
    await wakeup.wait(delay_s)
    pace.pacer.held_s += clock.monotonic() - begun_s
    return True
