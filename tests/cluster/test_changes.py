"""Changes: every caller that waits is woken, and none is woken for what happened before."""

from __future__ import annotations

import asyncio
import math
from typing import Any

from aiostorm.cluster.changes import LEAST_WAIT_S, Changes, left_until
from aiostorm.testing import SimClock


async def started(*waits: Any) -> list[asyncio.Task[Any]]:
    """Tasks that wait."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    await asyncio.sleep(0)
    return tasks


async def test_all_that_wait_are_woken_and_later_ones_are_not(sim_clock: SimClock) -> None:
    changes = Changes()
    changes.notify()
    first, second = await started(changes.wait(), changes.wait())
    await sim_clock.advance(1)
    assert not first.done()
    changes.notify()
    [later] = await started(changes.wait(timeout_s=5.0))
    await asyncio.gather(first, second)
    await sim_clock.advance(4.9)
    assert not later.done()
    await sim_clock.advance(0.1)
    await later


async def test_a_cancelled_wait_does_not_disturb_the_others() -> None:
    changes = Changes()
    cancelled, waiting = await started(changes.wait(timeout_s=7.0), changes.wait())
    cancelled.cancel()
    changes.notify()  # before the cancelled task has run
    await waiting
    await asyncio.wait((cancelled,))
    assert cancelled.cancelled()
    changes.notify()


async def test_a_caller_waits_for_other_events_too(sim_clock: SimClock) -> None:
    changes, event = Changes(), asyncio.get_running_loop().create_future()
    by_change, by_event = await started(changes.wait(event), Changes().wait(event, timeout_s=9.0))
    changes.notify()
    await by_change
    await sim_clock.advance(2)
    assert not by_event.done()
    event.set_result(None)
    await by_event


async def test_a_change_is_noticed_during_other_work() -> None:
    changes = Changes()
    with changes.next() as changed:
        await asyncio.sleep(0)
        assert not changed.done()
        changes.notify()
        assert changed.done()


def test_a_deadline_that_is_over_is_not_waited_for_and_another_one_for_a_moment_at_least() -> None:
    assert left_until(5.0, 5.0) == left_until(5.0, 7.0) == 0.0
    assert left_until(7.5, 5.0) == 2.5
    due_s = 1_000_049.505741
    before_s = math.nextafter(due_s, 0.0)
    assert before_s + left_until(due_s, before_s) > due_s  # the difference alone may not move the time
    assert left_until(due_s, before_s) == LEAST_WAIT_S
