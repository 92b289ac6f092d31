"""Threads: what a thread does for the loop is not held up by a busy loop, and the loop is seldom interrupted for it."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from aiostorm.runtime import in_thread, loop_factory, thread_works
from aiostorm.runtime import threads as module

CALLS = 60
"""Of the system: after each of them the thread needs the GIL again."""


def write() -> int:
    """Many short calls of the system."""
    for _ in range(CALLS):
        os.stat("/")
        time.sleep(1e-4)
    return threading.get_ident()


async def beside_a_busy_loop(work: Callable[[], int]) -> tuple[int, float]:
    """What the work returns, and how long it took while the loop was never idle."""
    done = False

    async def busy() -> None:
        while not done:
            sum(range(3_000))
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as group:
        group.create_task(busy())
        began_s = time.perf_counter()
        found = await in_thread(work)
        took_s = time.perf_counter() - began_s
        done = True
    return found, took_s


@pytest.mark.parametrize("choice", ["asyncio", "uvloop"])
def test_a_busy_loop_does_not_hold_up_a_thread(choice: str) -> None:
    if choice == "uvloop":
        pytest.importorskip("uvloop", reason="uvloop is not installed: the loop of asyncio is tested")
    with asyncio.Runner(loop_factory=loop_factory(choice)) as runner:
        thread, took_s = runner.run(beside_a_busy_loop(write))
    assert thread != threading.get_ident()
    assert took_s < CALLS * 0.03, "without the moments it takes about 0.1 s for each call"


async def test_it_returns_and_raises_what_the_work_does() -> None:
    with ThreadPoolExecutor(1, thread_name_prefix="mine") as executor:
        assert (await in_thread(lambda: threading.current_thread().name, executor)).startswith("mine")
        with pytest.raises(ZeroDivisionError):
            await in_thread(lambda: 1 // 0, executor)


class Moments:
    """When the loop slept. `busy`: which share of the time it uses the processor."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.began_s = loop.time()
        self.at_s: list[float] = []
        self.looks = 0
        self.busy = 1.0
        self._time = self.perf_counter = loop.time

    def thread_time(self) -> float:
        self.looks += 1
        return self._time() * self.busy

    def sleep(self, seconds: float) -> None:
        assert seconds == module.MOMENT_S
        self.at_s.append(round(self._time() - self.began_s, 6))


@pytest.fixture
def moments(monkeypatch: pytest.MonkeyPatch) -> Callable[[], Moments]:
    def make() -> Moments:
        made = Moments(asyncio.get_running_loop())
        monkeypatch.setattr(module, "time", made)
        monkeypatch.setattr(module, "is_virtual", lambda loop: False)
        return made

    return make


async def test_moments_become_rare_while_nothing_happens_and_end_with_the_work(
    moments: Callable[[], Moments],
) -> None:
    loop = asyncio.get_running_loop()
    slept, future = moments(), loop.create_future()
    thread_works(loop, future)
    await asyncio.sleep(0.2)
    assert slept.at_s[:4] == [0.001, 0.0025, 0.00475, 0.008125]
    waits_s = [round(after - before, 6) for before, after in zip(slept.at_s[10:], slept.at_s[11:], strict=False)]
    assert set(waits_s) == {module.MOST_S}
    future.set_result(None)
    count = len(slept.at_s)
    await asyncio.sleep(1)
    assert len(slept.at_s) == count


async def test_moments_are_near_again_when_another_work_begins_or_ends(moments: Callable[[], Moments]) -> None:
    loop = asyncio.get_running_loop()
    slept, long, short = moments(), loop.create_future(), loop.create_future()
    thread_works(loop, long)
    await asyncio.sleep(0.1)
    before = len(slept.at_s)
    thread_works(loop, short)
    await asyncio.sleep(0.1)
    assert slept.at_s[before] == 0.101
    before = len(slept.at_s)
    short.set_result(None)
    await asyncio.sleep(0.1)
    assert slept.at_s[before] == 0.201
    long.cancel()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    count = len(slept.at_s)
    await asyncio.sleep(1)
    assert len(slept.at_s) == count


async def test_a_loop_that_waits_sleeps_never_and_seldom_looks(moments: Callable[[], Moments]) -> None:
    loop = asyncio.get_running_loop()
    slept = moments()
    slept.busy = 0.4
    thread_works(loop, loop.create_future())
    await asyncio.sleep(2)
    assert not slept.at_s
    assert slept.looks < 55
    slept.busy = 1.0
    slept.began_s = loop.time()
    await asyncio.sleep(0.2)
    assert slept.at_s[0] <= module.IDLE_S + 1e-6
    assert round(slept.at_s[-1] - slept.at_s[-2], 6) == module.MOST_S


async def test_many_works_at_once_share_the_moments(moments: Callable[[], Moments]) -> None:
    loop = asyncio.get_running_loop()
    slept, futures = moments(), [loop.create_future() for _ in range(50)]
    for future in futures:
        thread_works(loop, future)
    await asyncio.sleep(0.001)
    await asyncio.sleep(0.0005)
    assert slept.at_s == [0.001]
    for future in futures:
        future.set_result(None)
    await asyncio.sleep(0.1)
    assert len(slept.at_s) == 1


async def test_in_virtual_time_the_loop_does_not_sleep(monkeypatch: pytest.MonkeyPatch) -> None:
    slept = Moments(asyncio.get_running_loop())
    monkeypatch.setattr(module, "time", slept)
    thread_works(asyncio.get_running_loop(), asyncio.get_running_loop().create_future())
    await asyncio.sleep(1)
    assert not slept.at_s
