"""A simulated world: processes, time, crashes, clocks."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from aiostorm.runtime import LoopClock
from aiostorm.testing import DeadlockError, TimeLimitError
from aiostorm.testing.simulation import World, world_loop

Test = Callable[[World], Coroutine[Any, Any, Any]]


def run(test: Test, seed: int = 0, **options: Any) -> World:
    loop = world_loop(seed, **options)
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(test(loop.world))
    return loop.world


def test_an_hour_is_instant_and_two_processes_share_it() -> None:
    ended: list[tuple[str, float]] = []

    async def program(process: Any) -> None:
        await asyncio.sleep(3600)
        ended.append((process.name, process.world.now_s))

    async def test(world: World) -> None:
        for name in ("a", "b"):
            world.process(name, program).start()
        await asyncio.sleep(3601)

    assert not run(test).problems
    assert sorted(ended) == [("a", 3600.0), ("b", 3600.0)]


def test_a_task_that_had_not_begun_at_the_end_still_runs_its_finally() -> None:
    notes: list[str] = []

    async def child(ended: asyncio.Event) -> None:
        try:
            await asyncio.sleep(10)
        finally:
            ended.set()

    async def program(process: Any) -> None:
        ended = asyncio.Event()
        process.spawn(child(ended), "child", background=True)
        process.crash()
        try:
            await asyncio.sleep(10)
        finally:
            await ended.wait()
            notes.append("it has ended")

    async def test(world: World) -> None:
        world.process("a", program).start()
        await asyncio.sleep(1)

    assert not run(test).problems
    assert notes == ["it has ended"]


def test_what_a_dead_process_still_runs_at_the_end_has_no_effect() -> None:
    """Code outside asks the current process: it was the test, which is alive."""
    asked: list[tuple[str, bool]] = []

    async def program(process: Any) -> None:
        world = process.world
        asyncio.get_running_loop().call_soon(lambda: asked.append((world.current.name, world.current.effect())))
        process.crash()  # before that callback has run

    async def test(world: World) -> None:
        world.process("a", program).start()
        await asyncio.sleep(1)
        assert not asked

    run(test, order="fifo")
    assert asked == [("a", False)]


def test_a_crash_runs_no_finally_and_a_restart_is_a_new_incarnation() -> None:
    notes: list[str] = []

    async def program(process: Any) -> None:
        incarnation = process.incarnation
        try:
            notes.append(f"begins {incarnation}")
            await asyncio.sleep(10)
        except BaseException as error:
            notes.append(f"except {incarnation} {type(error).__name__}")
            raise
        finally:
            notes.append(f"finally {incarnation}")

    async def test(world: World) -> None:
        process = world.process("a", program)
        process.start()
        await asyncio.sleep(1)
        process.crash()
        assert not process.alive
        await asyncio.sleep(1)
        process.start()
        await asyncio.sleep(11)
        assert notes == ["begins 1", "begins 2", "finally 2"]

    assert not run(test).problems


def test_objects_of_a_dead_process_are_not_collected() -> None:
    notes: list[str] = []

    async def forgotten() -> None:
        try:
            await asyncio.get_running_loop().create_future()  # no other reference to it, nor to the asyncio task
        finally:
            notes.append("finally")

    async def program(process: Any) -> None:
        asyncio.get_running_loop().create_task(forgotten()).add_done_callback(lambda _: None)
        await asyncio.sleep(10)

    async def test(world: World) -> None:
        process = world.process("a", program)
        process.start()
        await asyncio.sleep(1)
        gc.collect()  # live ones are not collected either
        process.crash()
        await asyncio.sleep(1)
        gc.collect()
        assert not notes

    assert not run(test).problems


def test_calls_that_a_dead_process_had_begun_have_no_effect() -> None:
    async def program(process: Any) -> None:
        await asyncio.sleep(1)
        assert process.effect()
        process.crash_at_effect = True
        process.effect_done()  # killed here; the callback runs to its end
        assert not process.effect()

    async def test(world: World) -> None:
        process = world.process("a", program)
        process.start()
        await asyncio.sleep(2)
        assert not process.alive
        with pytest.raises(Exception, match="does not run"):
            await process.call(lambda: asyncio.sleep(0))

    assert not run(test).problems


def test_a_frozen_process_is_late_and_goes_on() -> None:
    ticks: list[float] = []

    async def program(process: Any) -> None:
        for _ in range(4):
            await asyncio.sleep(1)
            ticks.append(process.world.now_s)

    async def test(world: World) -> None:
        process = world.process("a", program)
        process.start()
        await asyncio.sleep(1.5)
        process.pause(10)
        await asyncio.sleep(20)

    assert not run(test).problems
    assert ticks == [1.0, 11.5, 12.5, 13.5]


def test_a_slow_processor_takes_time() -> None:
    took: dict[float, float] = {}

    async def program(process: Any) -> None:
        begun_s = process.world.now_s
        for _ in range(100):
            await asyncio.sleep(0)
        took[process.processor.slowness] = process.world.now_s - begun_s

    async def test(world: World) -> None:
        for name, slowness in (("a", 1.0), ("b", 10.0)):
            process = world.process(name, program)
            process.processor.handle_cost_s, process.processor.slowness = 0.001, slowness
            process.start()
        await asyncio.sleep(60)

    run(test)
    assert took[1.0] == pytest.approx(0.1, rel=0.05)
    assert took[10.0] == pytest.approx(1.0, rel=0.05)


def test_clocks_drift_and_wall_clocks_jump_and_time_never_goes_back() -> None:
    async def program(process: Any) -> None:
        clock = LoopClock()
        before_s, wall_s = clock.monotonic(), clock.now()
        process.clock.set_rate(2.0, process.world.now_s)
        await asyncio.sleep(10)
        assert process.world.now_s == pytest.approx(5)
        assert clock.monotonic() - before_s == pytest.approx(10)
        process.clock.wall_offset_s -= 3600
        assert clock.now() - wall_s == pytest.approx(10 - 3600)
        assert clock.monotonic() - before_s == pytest.approx(10)

    async def test(world: World) -> None:
        process = world.process("a", program)
        process.start()
        await asyncio.sleep(6)
        assert not process.alive

    assert not run(test).problems


@pytest.mark.parametrize("order", ["shuffle", "random"])
def test_ready_callbacks_run_in_the_order_of_the_seed(order: str) -> None:
    def ran(seed: int) -> list[int]:
        numbers: list[int] = []

        async def note(number: int) -> None:
            numbers.append(number)

        async def program(process: Any) -> None:
            await asyncio.gather(*(note(number) for number in range(8)))

        async def test(world: World) -> None:
            world.process("a", program).start()
            await asyncio.sleep(1)

        run(test, seed, order=order)
        return numbers

    assert ran(1) == ran(1)
    assert len({tuple(ran(seed)) for seed in range(5)}) > 1
    assert sorted(ran(1)) == list(range(8))


def test_a_set_of_asyncio_tasks_is_in_the_order_of_their_creation() -> None:
    # A TaskGroup that ends cancels its tasks in the order of a set: by address, elsewhere.
    ended: list[int] = []

    async def wait(number: int) -> None:
        try:
            await asyncio.sleep(100)
        finally:
            ended.append(number)

    async def program(process: Any) -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(50):
                group.create_task(wait(number), name=str(number))
            await asyncio.sleep(1)
            group.create_task(asyncio.sleep(0)).add_done_callback(lambda _: None)
            raise ZeroDivisionError

    async def test(world: World) -> None:
        world.on_process_ended = lambda process, error: None
        world.process("a", program).start()
        await asyncio.sleep(2)

    run(test, order="fifo")
    assert ended == list(range(50))


def test_work_for_threads_is_done_in_the_order_of_the_seed() -> None:
    def work() -> str:
        with pytest.raises(RuntimeError):
            asyncio.get_running_loop()  # as in a thread
        return "done"

    async def program(process: Any) -> None:
        assert await asyncio.to_thread(work) == "done"
        with pytest.raises(ZeroDivisionError):
            await asyncio.to_thread(lambda: 1 // 0)

    async def test(world: World) -> None:
        world.process("a", program).start()
        await asyncio.sleep(1)

    assert not run(test).problems


def test_a_deadlock_is_an_error_that_names_the_waiting_tasks() -> None:
    async def program(process: Any) -> None:
        await asyncio.get_running_loop().create_future()

    async def test(world: World) -> None:
        world.process("stuck", program).start()
        await asyncio.get_running_loop().create_future()

    with pytest.raises(DeadlockError, match=r"in stuck:\n.*waits at"):
        run(test)


def test_polling_for_ever_is_an_error() -> None:
    async def program(process: Any) -> None:
        for _ in range(1_000_000):
            await asyncio.sleep(0)

    async def test(world: World) -> None:
        world.process("busy", program).start()
        await asyncio.sleep(1)

    with pytest.raises(TimeLimitError, match="polls"):
        run(test, max_steps=1_000)


def test_errors_that_asyncio_logs_are_problems() -> None:
    async def program(process: Any) -> None:
        asyncio.get_running_loop().call_soon(lambda: 1 // 0)
        await asyncio.sleep(1)

    async def test(world: World) -> None:
        world.process("a", program).start()
        await asyncio.sleep(2)

    [problem] = run(test).problems
    assert "ZeroDivisionError" in problem


def test_an_asyncio_task_that_outlives_its_program_is_a_problem() -> None:
    async def program(process: Any) -> None:
        process.left = asyncio.get_running_loop().create_task(asyncio.sleep(100), name="forgotten")

    async def test(world: World) -> None:
        world.process("a", program).start()
        await asyncio.sleep(2)

    [problem] = run(test).problems
    assert "forgotten" in problem
