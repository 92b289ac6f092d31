"""Deadlines: one timer for many waits, and each wait ends when it would with a timer of its own."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiostorm.actors.deadlines import Deadlines
from aiostorm.testing import VirtualTimeLoop

WAITS = st.lists(
    st.tuples(
        st.floats(0, 4),  # after the one before
        st.floats(0, 10),  # over by itself after so long, if that is before the limit
    ),
    max_size=25,
)


@given(timeout_s=st.floats(0.001, 8), waits=WAITS)
def test_each_wait_is_late_when_a_timer_of_its_own_would_say_so(
    timeout_s: float, waits: list[tuple[float, float]]
) -> None:
    async def work() -> None:
        loop = asyncio.get_running_loop()
        late: dict[int, float] = {}
        deadlines = Deadlines(loop, timeout_s, lambda wait, about, limit_s: late.update({about: loop.time()}))
        added: list[float] = []
        for number, (pause_s, over_s) in enumerate(waits):
            await asyncio.sleep(pause_s)
            wait = loop.create_future()
            deadlines.add(wait, number)
            added.append(loop.time())
            loop.call_later(over_s, deadlines.discard, wait)
            live = [handle for handle in loop._scheduled if handle._callback == deadlines._due]  # type: ignore[attr-defined]
            assert sum(not handle.cancelled() for handle in live) == 1
        await asyncio.sleep(20)
        assert not len(deadlines)
        for number, (_, over_s) in enumerate(waits):
            if over_s > timeout_s + 1e-3:
                assert late[number] == pytest.approx(added[number] + timeout_s, abs=1e-5)
            elif over_s < timeout_s - 1e-3:
                assert number not in late
        await asyncio.sleep(20)
        assert deadlines._timer is None

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(work())


async def test_close_leaves_no_timer_and_no_waiting_caller() -> None:
    loop = asyncio.get_running_loop()
    late: list[str] = []
    deadlines = Deadlines(loop, 5, lambda wait, about, limit_s: late.append(about))
    over, hangs = loop.create_future(), loop.create_future()
    deadlines.add(over, "over")
    deadlines.discard(over)
    deadlines.close()
    assert deadlines._timer is None
    deadlines.add(hangs, "hangs")
    deadlines.close()
    await asyncio.sleep(6)
    assert late == ["hangs"]


@pytest.mark.sockets
async def test_in_real_time_on_either_loop() -> None:
    loop = asyncio.get_running_loop()
    begun_s = loop.time()
    done: asyncio.Future[float] = loop.create_future()
    deadlines = Deadlines(loop, 0.0125, lambda wait, about, limit_s: done.set_result(loop.time()))
    deadlines.add(loop.create_future(), "late")
    async with asyncio.timeout(60):
        assert await done - begun_s >= 0.01
