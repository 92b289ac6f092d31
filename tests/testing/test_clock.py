"""SimClock: time passes as far as a test says, and everything that is due happens."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from aiostorm.runtime import AiostormError
from aiostorm.testing import SimClock, VirtualTimeLoop, WaitTimeoutError


def run(work: Callable[[SimClock], Coroutine[Any, Any, Any]]) -> Any:
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(work(SimClock()))


def test_advance_runs_everything_up_to_and_at_its_end() -> None:
    async def work(clock: SimClock) -> None:
        seen: list[float] = []

        async def tick() -> None:
            while True:
                await asyncio.sleep(10)
                await asyncio.sleep(0)
                await asyncio.sleep(0)
                seen.append(clock.monotonic())

        ticker = asyncio.get_running_loop().create_task(tick())
        await clock.advance(25)
        assert seen == [1_010.0, 1_020.0]
        assert clock.monotonic() == 1_025.0
        await clock.advance(5)
        assert seen == [1_010.0, 1_020.0, 1_030.0]
        ticker.cancel()

    run(work)


def test_advance_to_takes_wall_clock_seconds() -> None:
    async def work(clock: SimClock) -> None:
        start_s = clock.now()
        await clock.advance_to(start_s + 90.5)
        assert clock.monotonic() == 1_090.5
        assert clock.now() == start_s + 90.5
        with pytest.raises(ValueError, match="time does not go back"):
            await clock.advance_to(start_s)

    run(work)


def test_time_does_not_go_back() -> None:
    async def work(clock: SimClock) -> None:
        with pytest.raises(ValueError, match="time does not go back"):
            await clock.advance(-1)
        await clock.advance(0)
        assert clock.monotonic() == 1_000.0

    run(work)


def test_run_until_stops_at_the_instant() -> None:
    async def work(clock: SimClock) -> None:
        seen: list[int] = []
        loop = asyncio.get_running_loop()
        for n in range(100):
            loop.call_later(n + 1, seen.append, n)
        await clock.run_until(lambda: len(seen) >= 7)
        assert seen == [0, 1, 2, 3, 4, 5, 6]
        assert clock.monotonic() == 1_007.0
        await clock.run_until(lambda: True)
        assert clock.monotonic() == 1_007.0

    run(work)


def test_run_until_is_bounded() -> None:
    async def work(clock: SimClock) -> None:
        with pytest.raises(WaitTimeoutError, match=r"(?s)still false after 60 virtual seconds.*Pending"):
            await clock.run_until(lambda: False, timeout_s=60)
        assert clock.monotonic() == 1_060.0

    run(work)


def test_settle_moves_no_time() -> None:
    async def work(clock: SimClock) -> None:
        done: list[str] = []

        async def chain() -> None:
            for _ in range(10):
                await asyncio.sleep(0)
            done.append(await asyncio.to_thread(str, "x"))

        async with asyncio.TaskGroup() as group:
            group.create_task(chain())
            await clock.settle()
            assert done == ["x"]
        assert clock.monotonic() == 1_000.0

    run(work)


def test_a_real_loop_is_refused_with_the_remedy() -> None:
    async def work() -> None:
        with pytest.raises(AiostormError, match="needs a virtual loop"):
            await SimClock().advance(1)

    with asyncio.Runner() as runner:
        runner.run(work())
