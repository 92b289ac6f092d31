"""The tasks of all workers are ended and built again: nothing of the old ones reaches the new, whatever ends when."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from aiostorm.cluster import WorkerError
from aiostorm.cluster.idle_detection import IdleGoal
from aiostorm.cluster.parent.start_order import STEPS, StartOrder
from aiostorm.cluster.snapshots import SnapshotSetup

from .rebuilt import COUNT, TASKS, Driver, Seen, with_driver


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_tasks_are_built_again_in_the_same_processes(workers: int) -> None:
    async def story(driver: Driver) -> None:
        totals = [0]
        for generation in range(1, 5):
            await driver.some_rows()
            assert Seen.generation == generation
            totals.append(driver.total())
            await driver.rebuild()
            totals.append(driver.total())
            assert driver.runtime.mode == "active"
            began_s = driver.world.now_s
            await driver.some_rows(1)
            assert driver.world.now_s - began_s < 0.3, "its mode is sent at once"
        await driver.some_rows()
        assert totals == sorted(totals), "nothing that was counted is lost"
        assert Seen.opened == dict.fromkeys(range(1, 6), TASKS)
        assert not driver.lost
        assert not driver.gave_up

    assert set(with_driver(story, workers=workers).starts.values()) == {1}


def test_spouts_that_rest_rest_after_it() -> None:
    async def story(driver: Driver) -> None:
        await driver.some_rows()
        driver.runtime.set_mode("inactive")
        await driver.rebuild()
        await asyncio.sleep(10)
        assert not Seen.rows[2]
        driver.runtime.set_mode("active")
        await driver.some_rows()

    with_driver(story)


@pytest.mark.parametrize("victim", ["worker-1", "worker-2", "worker-3"])
def test_the_end_of_a_worker_is_reported_once_and_no_task_runs_before_the_rebuild(victim: str) -> None:
    async def story(driver: Driver) -> None:
        await driver.some_rows()
        Seen.generation = 99
        for _ in range(2):
            starts = driver.backend.starts[victim]
            driver.world.processes[victim].kill("is killed by the test")
            await driver.world.until(lambda starts=starts: driver.backend.starts[victim] > starts, 20, "another")  # type: ignore[misc]
            await asyncio.sleep(5)
        assert driver.lost == [f"{victim} has ended"]
        assert not Seen.opened[99], "a restarted worker waits"
        await driver.recover()
        assert not driver.lost
        await driver.some_rows()
        assert Seen.opened[2] == TASKS

    starts = with_driver(story, workers=3).starts
    assert starts == {f"worker-{n}": 3 if f"worker-{n}" == victim else 1 for n in (1, 2, 3)}


def at_step(step: str, build: int, monkeypatch: pytest.MonkeyPatch, act: Callable[[], None]) -> None:
    """Act once when worker-2 reaches this step of this build."""
    real = StartOrder.step
    left = [act]

    def stepped(self: StartOrder, worker: str, reached: str) -> None:
        if (worker, reached, self.build) == ("worker-2", step, build) and left:
            left.pop()()
        real(self, worker, reached)

    monkeypatch.setattr(StartOrder, "step", stepped)


@pytest.mark.parametrize(
    ("build", "step", "victim"),
    [(1, step, "worker-2") for step in STEPS] + [(2, step, f"worker-{n}") for step in STEPS for n in (1, 2, 3)],
)
def test_a_worker_may_end_at_any_step(build: int, step: str, victim: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(driver: Driver) -> None:
        def kill() -> None:
            driver.world.processes[victim].kill("is killed by the test")

        at_step(step, build, monkeypatch, kill)
        await driver.start()
        if build == 2:
            await driver.some_rows()
            await driver.rebuild()
        while driver.lost:
            await driver.recover()
        await driver.some_rows()
        assert Seen.opened[Seen.generation] >= TASKS
        attempts = driver.runtime._builds.current.build - Seen.generation
        assert (attempts > 0) == (step != "imported"), "others had tasks that were linked to it"

    starts = with_driver(story, "endless?", workers=3).starts
    assert starts == {f"worker-{n}": 2 if f"worker-{n}" == victim else 1 for n in (1, 2, 3)}


@pytest.mark.parametrize("after_s", [0.0, 0.0005, 0.002, 0.01, 0.05])
def test_a_rebuild_may_begin_while_another_is_under_way(after_s: float) -> None:
    async def story(driver: Driver) -> None:
        await driver.some_rows()
        async with asyncio.TaskGroup() as group:
            for _ in range(4):
                rebuilding = group.create_task(driver.rebuild())
                await asyncio.sleep(after_s)
        assert rebuilding.done()
        await driver.some_rows()
        assert Seen.generation == driver.incarnation == 5
        assert Seen.opened[5] == TASKS

    assert set(with_driver(story, workers=3).starts.values()) == {1}


def test_a_rebuild_that_is_cancelled_goes_on() -> None:
    async def story(driver: Driver) -> None:
        await driver.some_rows()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.001):
                await driver.rebuild()
        await driver.some_rows()
        assert Seen.opened[2] == TASKS

    with_driver(story)


def test_the_incarnation_grows() -> None:
    async def story(driver: Driver) -> None:
        with pytest.raises(ValueError, match="incarnation 1 comes after 1"):
            await driver.runtime.rebuild(SnapshotSetup(1, None, "place"))

    with_driver(story)


def test_a_newer_rebuild_ends_one_that_waits_for_user_code() -> None:
    async def story(driver: Driver) -> None:
        await driver.some_rows()
        Seen.hangs.add(2)
        first = asyncio.ensure_future(driver.rebuild())
        await driver.world.until(lambda: Seen.opened[2] > 2, 10, "the bolts")
        assert not first.done()
        began_s = driver.world.now_s
        await driver.rebuild()
        await first
        assert driver.world.now_s - began_s < 1.0
        await driver.some_rows()
        assert Seen.opened[3] == TASKS

    assert set(with_driver(story, workers=3).starts.values()) == {1}


def test_a_frozen_worker_is_killed_after_its_lease() -> None:
    async def story(driver: Driver) -> None:
        await driver.some_rows()
        driver.world.processes["worker-2"].pause(1000.0)
        began_s = driver.world.now_s
        await driver.rebuild()
        assert 3.0 < driver.world.now_s - began_s < 8.0
        assert not driver.lost, "the rebuild goes on with its next process"
        await driver.some_rows()

    assert with_driver(story, workers=3).starts == {"worker-1": 1, "worker-2": 2, "worker-3": 1}


def test_a_task_that_gives_up_is_reported_once_and_the_rebuild_returns() -> None:
    async def story(driver: Driver) -> None:
        await driver.some_rows()
        Seen.gives_up.add(2)
        await driver.rebuild()
        [(path, error)] = driver.gave_up
        assert "slow" in path or "last" in path
        assert "generation 2 cannot be prepared" in str(error)
        await asyncio.sleep(10)
        assert len(driver.gave_up) == 1
        assert not driver.lost
        await driver.rebuild()
        await driver.some_rows()

    assert set(with_driver(story, workers=3).starts.values()) == {1}


def test_a_rebuild_ends_with_the_topology() -> None:
    async def story(driver: Driver) -> None:
        await driver.some_rows()
        Seen.hangs.add(2)
        rebuilding = asyncio.ensure_future(driver.rebuild())
        await driver.world.until(lambda: Seen.opened[2] > 2, 10, "the bolts")
        await driver.runtime.kill()
        with pytest.raises(WorkerError, match="topology 'job' ends"):
            await rebuilding

    with_driver(story)


def test_a_worker_that_can_never_run_makes_the_rebuild_fail() -> None:
    async def story(driver: Driver) -> None:
        def importer(target: str, words: tuple[str, ...]) -> None:
            raise ImportError("not installed any more")

        await driver.some_rows()
        driver.backend.importer = importer  # type: ignore[assignment]
        driver.world.processes["worker-2"].kill("is killed by the test")
        await driver.world.until(lambda: bool(driver.lost), 20, "the loss")
        with pytest.raises(Exception, match="not installed any more"):
            await driver.rebuild()

    with_driver(story)


def test_who_waits_until_all_is_done_waits_for_the_new_tasks() -> None:
    async def story(driver: Driver) -> None:
        waiting = asyncio.ensure_future(driver.runtime.wait_quiet(IdleGoal(finished=True), lambda: None))
        await driver.some_rows(60)
        await driver.rebuild()
        assert not waiting.done()
        await driver.some_rows(60)
        driver.world.processes["worker-2"].kill("is killed by the test")
        await driver.recover()
        assert not waiting.done()
        await waiting
        assert Seen.rows[3] == 2 * COUNT, "all rows of both spouts, each once"

    with_driver(story, "finite", workers=3)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_workers_may_end_or_freeze_at_any_time(seed: int) -> None:
    async def story(driver: Driver) -> None:
        chance = driver.world.chance.stream("what the test does")
        recovering = asyncio.ensure_future(recover_always(driver))
        for _ in range(5):
            await asyncio.sleep(chance.random() * 0.6)
            alive = [p for name, p in driver.world.processes.items() if name.startswith("worker") and p.alive]
            if alive and chance.random() < 0.7:
                chance.choice(alive).kill("is killed by the test")
            elif alive:
                chance.choice(alive).pause(chance.choice([1.0, 30.0]))
        await driver.world.until(lambda: Seen.rows[driver.incarnation] > 100, 120, "rows")
        recovering.cancel()
        assert not driver.gave_up

    async def recover_always(driver: Driver) -> None:
        while True:
            if driver.lost:
                driver.lost.clear()
                await driver.rebuild()
            await asyncio.sleep(0.01)

    with_driver(story, workers=3, seed=seed)
