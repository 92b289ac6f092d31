"""Calls in threads: results, errors, a bound, and none that holds up the end."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from aiostorm.spark import SparkCalls

pytestmark = pytest.mark.sockets


@pytest.fixture
def calls() -> Iterator[SparkCalls]:
    made = SparkCalls(2, name="test")
    yield made
    made.close()
    assert made.join()


async def test_a_call_returns_and_raises_what_the_function_does(calls: SparkCalls):
    assert await calls.run(divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        await calls.run(divmod, 7, 0)
    assert await calls.run(lambda: threading.current_thread().name) == "test-1"


async def test_exceptions_that_end_a_thread_or_a_future_are_raised_to_the_caller(calls: SparkCalls):
    with pytest.raises(RuntimeError, match="StopIteration"):
        await calls.run(next, iter(()))
    with pytest.raises(asyncio.CancelledError):
        await calls.run(_raise, asyncio.CancelledError())
    assert await calls.run(int, "7") == 7


def _raise(error: BaseException) -> None:
    raise error


async def test_no_more_at_once_than_threads(calls: SparkCalls):
    at_once: list[int] = []
    running = 0
    lock = threading.Lock()
    both = threading.Barrier(2, timeout=10)

    def call() -> None:
        nonlocal running
        with lock:
            running += 1
            at_once.append(running)
        both.wait()
        with lock:
            running -= 1
        both.wait()

    await asyncio.gather(*(calls.run(call) for _ in range(6)))
    assert max(at_once) == 2


async def test_an_abandoned_call_goes_on_and_does_not_delay_the_next_one(calls: SparkCalls):
    go, done = threading.Event(), threading.Event()

    def stuck() -> None:
        go.wait(10)
        done.set()

    task = asyncio.ensure_future(calls.run(stuck))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await calls.run(lambda: 5) == 5
    go.set()
    assert done.wait(10)


async def test_after_the_end_there_are_no_calls(calls: SparkCalls):
    calls.close()
    with pytest.raises(RuntimeError, match="have ended"):
        await calls.run(int)


@pytest.mark.slow
def test_a_call_that_is_stuck_does_not_hold_up_the_end_of_the_process():
    program = (
        "import asyncio, threading\n"
        "from aiostorm.spark import SparkCalls\n"
        "async def main():\n"
        "    calls = SparkCalls()\n"
        "    task = asyncio.ensure_future(calls.run(threading.Event().wait))\n"
        "    await asyncio.sleep(0.1)\n"
        "    task.cancel()\n"
        "asyncio.run(main())\n"
    )
    assert subprocess.run([sys.executable, "-c", program], timeout=30, check=False).returncode == 0
