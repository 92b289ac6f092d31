"""The loop whose time jumps: what moves time, what does not, and how a hang ends."""

from __future__ import annotations

import asyncio
import signal
import socket
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiostorm.testing import DeadlockError, TimeLimitError, VirtualTimeLoop


def run(work: Callable[[], Coroutine[Any, Any, Any]], **bounds: Any) -> Any:
    with asyncio.Runner(loop_factory=lambda: VirtualTimeLoop(**bounds)) as runner:
        return runner.run(work())


def now() -> float:
    return asyncio.get_running_loop().time()


# -- time --------------------------------------------------------------------------------------------------------------


def test_a_day_of_seconds_is_instant() -> None:
    async def tick() -> int:
        ticks = 0
        while ticks < 86_400:
            await asyncio.sleep(1)
            ticks += 1
        assert now() == 1_000.0 + 86_400
        return ticks

    before = time.monotonic()
    assert run(tick) == 86_400
    assert time.monotonic() - before < 20


def test_time_stands_still_while_anything_is_ready() -> None:
    async def work() -> None:
        for _ in range(1000):
            await asyncio.sleep(0)
        assert now() == 1_000.0

    run(work)


def test_a_sleep_longer_than_asyncio_selects_at_once() -> None:
    async def work() -> None:
        await asyncio.sleep(400 * 86_400)
        assert now() == pytest.approx(1_000.0 + 400 * 86_400, abs=1e-6)

    run(work)


def test_timeouts_fire_at_their_time() -> None:
    async def work() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3600):
                await asyncio.Event().wait()
        assert now() == 4_600.0

    run(work)


@given(st.lists(st.floats(min_value=0, max_value=1e6, allow_nan=False), max_size=30))
def test_timers_fire_in_order_and_at_their_time(delays: list[float]) -> None:
    fired: list[tuple[float, float]] = []

    async def work() -> None:
        loop = asyncio.get_running_loop()
        for delay in delays:
            when = loop.time() + delay
            loop.call_at(when, lambda when=when: fired.append((when, loop.time())))
        await asyncio.sleep(1e6 + 1)

    run(work)
    assert [when for when, _ in fired] == sorted(1_000.0 + delay for delay in delays)
    assert all(abs(at - when) < 1e-8 for when, at in fired)


def test_two_runs_read_the_same_times() -> None:
    async def work() -> list[float]:
        seen: list[float] = []

        async def walk(step: float) -> None:
            for _ in range(50):
                await asyncio.sleep(step)
                seen.append(now())

        async with asyncio.TaskGroup() as group:
            for step in (0.1, 0.3, 7.0):
                group.create_task(walk(step))
        return seen

    assert run(work) == run(work)


def test_the_loop_says_that_it_is_virtual() -> None:
    async def work() -> bool:
        return getattr(asyncio.get_running_loop(), "virtual", False)

    assert run(work) is True


# -- standing still ----------------------------------------------------------------------------------------------------


async def wait_for_ever(event: asyncio.Event) -> None:
    await event.wait()  # here


def test_a_deadlock_is_an_error_that_names_the_waiting_tasks_and_lines() -> None:
    async def work() -> None:
        never = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(wait_for_ever(never), name="patient")

    with pytest.raises(DeadlockError) as caught:
        run(work)
    text = str(caught.value)
    assert "patient waits at" in text
    assert "in wait_for_ever: await event.wait()  # here" in text
    assert "in work: async with asyncio.TaskGroup() as group" in text


def test_a_deadlocked_loop_still_cleans_up() -> None:
    cleaned: list[float] = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(5)
            cleaned.append(now())

    with pytest.raises(DeadlockError):
        run(work)
    assert cleaned == [1_005.0]


def test_many_pending_tasks_are_counted_not_printed() -> None:
    async def work() -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(150):
                group.create_task(wait_for_ever(asyncio.Event()))

    with pytest.raises(DeadlockError, match=r"… and 51 more"):
        run(work)


def test_polling_forever_is_an_error() -> None:
    async def work() -> None:
        while True:  # noqa: ASYNC110
            await asyncio.sleep(0.01)  # poll

    with pytest.raises(TimeLimitError, match=r"(?s)moved 1,000 times.*max_jumps.*sleep\(0.01\)  # poll"):
        run(work, max_jumps=1000)


def test_polling_without_letting_time_pass_is_an_error() -> None:
    async def work() -> None:
        while True:  # noqa: ASYNC110
            await asyncio.sleep(0)

    with pytest.raises(TimeLimitError, match=r"made 1,000 iterations without time moving"):
        run(work, max_steps=1000)


def test_virtual_time_can_be_limited() -> None:
    async def work() -> None:
        while True:  # noqa: ASYNC110
            await asyncio.sleep(600)

    with pytest.raises(TimeLimitError, match=r"may take 3,600 virtual seconds"):
        run(work, limit_s=3600)


def test_a_bound_that_was_hit_starts_anew_for_the_clean_up() -> None:
    cleaned: list[str] = []

    async def work() -> None:
        try:
            while True:  # noqa: ASYNC110
                await asyncio.sleep(1)
        finally:
            for _ in range(5):
                await asyncio.sleep(1)
            cleaned.append("yes")

    with pytest.raises(TimeLimitError):
        run(work, max_jumps=10)
    assert cleaned == ["yes"]


# -- outside -----------------------------------------------------------------------------------------------------------


def test_time_stands_still_while_a_thread_works() -> None:
    async def work() -> None:
        started, go = threading.Event(), threading.Event()

        def block() -> str:
            started.set()
            go.wait(10)
            return "done"

        loop = asyncio.get_running_loop()
        fired: list[float] = []
        loop.call_later(0.5, lambda: fired.append(loop.time()))
        waiting = loop.run_in_executor(None, block)
        threading.Thread(target=lambda: (started.wait(10), go.set())).start()
        assert await waiting == "done"
        assert now() == 1_000.0
        assert fired == []
        await asyncio.sleep(1)
        assert fired == [1_000.5]

    run(work)


def test_to_thread_and_its_errors() -> None:
    async def work() -> None:
        with pytest.raises(ZeroDivisionError):
            await asyncio.to_thread(lambda: 1 // 0)
        assert await asyncio.gather(*(asyncio.to_thread(pow, 2, n) for n in range(50))) == [2**n for n in range(50)]
        assert now() == 1_000.0
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await asyncio.Event().wait()

    run(work)


def test_work_cancelled_before_it_started_is_not_waited_for() -> None:
    async def work() -> None:
        from concurrent.futures import ThreadPoolExecutor

        loop = asyncio.get_running_loop()
        go = threading.Event()
        with ThreadPoolExecutor(1) as pool:
            first = loop.run_in_executor(pool, go.wait, 10)
            second = loop.run_in_executor(pool, time.monotonic)
            second.cancel()
            go.set()
            assert await first is True
        with pytest.raises(asyncio.CancelledError):
            await second
        await asyncio.sleep(60)
        assert now() == 1_060.0

    run(work)


def test_a_thread_that_was_announced_is_waited_for() -> None:
    async def work() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualTimeLoop)
        answer: asyncio.Future[int] = loop.create_future()
        with loop.outside_work():
            threading.Timer(0.01, lambda: loop.call_soon_threadsafe(answer.set_result, 42)).start()
            assert await answer == 42
        assert now() == 1_000.0

    run(work)


def test_waiting_for_a_thread_is_bounded() -> None:
    go = threading.Event()

    async def work() -> None:
        asyncio.get_running_loop().call_later(1, go.set)  # can never happen: time stands still
        await asyncio.to_thread(go.wait, 10)

    with asyncio.Runner(loop_factory=lambda: VirtualTimeLoop(outside_wait_s=0.05)) as runner:
        try:
            with pytest.raises(TimeLimitError, match=r"waited 0\.05 real seconds for a thread"):
                runner.run(work())
        finally:
            go.set()


def test_time_goes_at_its_real_pace_while_a_socket_is_open() -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readline())
        await writer.drain()
        writer.close()

    async def work() -> None:
        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"hello\n")
        assert await reader.readline() == b"hello\n"
        before = time.monotonic()
        await asyncio.sleep(0.05)
        assert time.monotonic() - before >= 0.04
        writer.close()
        await writer.wait_closed()
        server.close()
        await server.wait_closed()
        before = time.monotonic()
        await asyncio.sleep(3600)
        assert time.monotonic() - before < 5

    run(work)


def test_waiting_for_a_descriptor_is_bounded() -> None:
    async def work() -> None:
        loop = asyncio.get_running_loop()
        left, right = socket.socketpair()
        with left, right:
            loop.add_reader(left, lambda: None)
            try:
                await asyncio.Event().wait()
            finally:
                loop.remove_reader(left)

    with pytest.raises(TimeLimitError, match=r"waited 0\.05 real seconds for a socket"):
        run(work, outside_wait_s=0.05)


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="no SIGUSR1 here")
def test_a_signal_comes_before_a_jump() -> None:
    async def work() -> None:
        loop = asyncio.get_running_loop()
        came: asyncio.Future[float] = loop.create_future()
        loop.add_signal_handler(signal.SIGUSR1, lambda: came.set_result(loop.time()))
        loop.call_later(10, signal.raise_signal, signal.SIGUSR1)
        try:
            assert await came == 1_010.0
        finally:
            loop.remove_signal_handler(signal.SIGUSR1)

    run(work)


def test_debug_mode_works() -> None:
    async def work() -> None:
        await asyncio.sleep(60)
        await asyncio.to_thread(len, "")

    with asyncio.Runner(loop_factory=VirtualTimeLoop, debug=True) as runner:
        runner.run(work())


# -- quiet and moved ---------------------------------------------------------------------------------------------------


def test_quiet_waits_for_everything_at_this_instant() -> None:
    async def work() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualTimeLoop)
        steps: list[int] = []

        async def busy() -> None:
            for n in range(20):
                await asyncio.sleep(0)
                steps.append(n)
            steps.append(await asyncio.to_thread(int, "20"))
            await asyncio.sleep(1)
            steps.append(21)

        async with asyncio.TaskGroup() as group:
            group.create_task(busy())
            await loop.quiet()
            assert steps == list(range(21))
            assert now() == 1_000.0
            await loop.moved()
            assert now() == 1_001.0

    run(work)


def test_a_cancelled_quiet_is_forgotten() -> None:
    async def work() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualTimeLoop)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await loop.quiet()
        await loop.quiet()
        await asyncio.sleep(1)

    run(work)
