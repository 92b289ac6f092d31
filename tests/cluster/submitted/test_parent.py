"""The parent of a submitted topology: it follows the store, ends in order or leaves, and says how the topology is."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from aiostorm.cluster.coordination import Delete
from aiostorm.cluster.nimbus import ParentRecord, path_of

from ...simulation.cluster import topology as numbers
from ..test_workers import COUNT, Numbers, Sum
from .stage import NAME, Stage, on_stage

ALL = Counter(range(COUNT))


@pytest.fixture(autouse=True)
def _fresh() -> None:
    Numbers.acked, Numbers.failures, Numbers.endless = Counter(), [], False
    Sum.seen = Counter()


async def some_work(stage: Stage) -> None:
    await stage.world.until(lambda: len(Numbers.acked) > 40, 10, "some work")


def test_a_topology_that_has_finished_is_taken_out_of_the_cluster() -> None:
    async def story(stage: Stage) -> None:
        await stage.submit()
        processes = stage.start()
        await stage.wait_state("ACTIVE")
        record = await stage.parent_record()
        started_s, address = record.started_s, "parent:1"
        assert record == ParentRecord("s", 1, 1, "host", "ACTIVE", started_s=started_s, address=address)
        await stage.until_ended(*processes)
        assert (await stage.stored()).wanted == "KILLED"
        assert await stage.parent_record() is None

    stage = on_stage(story)
    assert Sum.seen == ALL
    assert sorted(stage.codes) == [("parent", 0), ("worker-1", 0), ("worker-2", 0)]


def test_it_begins_inactive_and_is_activated_and_deactivated() -> None:
    async def story(stage: Stage) -> None:
        Numbers.endless = True
        await stage.submit(wanted="INACTIVE")
        processes = stage.start()
        await stage.wait_state("INACTIVE")
        await asyncio.sleep(10)
        assert not Sum.seen, "its spouts have emitted"
        await stage.change(wanted="ACTIVE")
        await stage.wait_state("ACTIVE")
        await some_work(stage)
        await stage.change(wanted="INACTIVE")
        await stage.wait_state("INACTIVE")
        await stage.change(wanted="ACTIVE")
        await stage.world.until(lambda: len(Numbers.acked) == COUNT, 20, "all the work")
        await stage.change(wanted="KILLED")
        await stage.until_ended(*processes)

    on_stage(story)
    assert Sum.seen == ALL


def test_what_is_killed_is_drained() -> None:
    async def story(stage: Stage) -> None:
        await stage.submit()
        processes = stage.start()
        await some_work(stage)
        await stage.change(wanted="KILLED")
        await stage.until_ended(*processes)
        assert await stage.parent_record() is None

    stage = on_stage(story)
    assert not Numbers.failures
    assert set(Sum.seen) == set(Numbers.acked), "what was emitted was processed"
    assert {code for _, code in stage.codes} == {0}


def test_what_is_killed_within_no_time_is_not_drained() -> None:
    async def story(stage: Stage) -> None:
        await stage.submit()
        processes = stage.start()
        await some_work(stage)
        before_s = stage.world.now_s
        await stage.change(wanted="KILLED", wait_s=0.0)
        await stage.until_ended(*processes)
        assert stage.world.now_s - before_s < 3

    on_stage(story)


def test_a_topology_that_cannot_start_is_shown_until_it_is_killed() -> None:
    async def story(stage: Stage) -> None:
        await stage.submit(target="tests.cluster.test_workers:nothing")
        processes = stage.start()
        await stage.wait_state("FAILED")
        await asyncio.sleep(60)
        record = await stage.parent_record()
        assert record is not None
        assert "has no attribute 'nothing'" in record.degraded
        await stage.change(wanted="KILLED")
        await stage.until_ended(processes[0])
        for worker in processes[1:]:
            worker.kill("has nothing to do")

    stage = on_stage(story)
    assert ("parent", 0) in stage.codes


def test_a_topology_that_fails_says_why_and_its_errors_outlive_it() -> None:
    target = "tests.cluster.test_workers:not_prepared"

    async def story(stage: Stage) -> None:
        await stage.submit()
        processes = stage.start()
        await stage.wait_state("FAILED")
        record = await stage.parent_record()
        assert record is not None
        assert "ValueError: it cannot be prepared" in record.degraded
        await stage.change(wanted="KILLED")
        await stage.until_ended(*processes)
        errors = await stage.errors()
        assert errors is not None
        assert {error.text for error in errors.errors} == {"ValueError: it cannot be prepared"}
        assert {error.where.partition("[")[0] for error in errors.errors} == {"broken"}

    on_stage(story, target)


@pytest.mark.parametrize("is_killed", [False, True])
def test_one_whose_snapshots_cannot_be_written_now_is_started_again(is_killed: bool) -> None:
    target = numbers.TARGETS["exact"].first
    done = numbers.begin()["exact"]

    async def story(stage: Stage) -> None:
        disk = stage.world.disk(numbers.PLACE)
        disk.full = True
        done.offered = 20
        await stage.submit()
        processes = stage.start()
        await stage.wait_state("FAILED")
        record = await stage.parent_record()
        assert record is not None
        assert "the disk is full" in record.degraded
        if not is_killed:
            disk.full = False
            await stage.wait_state("ACTIVE")
            await stage.world.until(lambda: len(done.acked) == 20, 20, "all of it")
            record = await stage.parent_record()
            assert record is not None
            assert not record.degraded
        await stage.change(wanted="KILLED")
        await stage.until_ended(processes[0])
        for worker in processes[1:]:
            worker.kill("has nothing to do")

    stage = on_stage(story, target)
    assert ("parent", 0) in stage.codes
    assert not done.twice


def test_another_assignment_ends_it_in_order() -> None:
    async def story(stage: Stage) -> None:
        Numbers.endless = True
        await stage.submit()
        processes = stage.start()
        await some_work(stage)
        await stage.assign(generation=2)
        await stage.until_ended(*processes)
        assert (await stage.stored()).wanted == "ACTIVE"
        assert not Numbers.failures
        processes = stage.start()
        await stage.wait_state("ACTIVE")
        record = await stage.parent_record()
        assert record is not None
        assert record.generation == 2
        await stage.world.until(lambda: len(Numbers.acked) == COUNT, 20, "all the work")
        await stage.change(wanted="KILLED")
        await stage.until_ended(*processes)

    on_stage(story)
    assert set(Sum.seen) == set(ALL)


@pytest.mark.parametrize("why", ["no topology", "no assignment", "elsewhere", "killed"])
def test_what_is_not_its_own_is_not_begun(why: str) -> None:
    async def story(stage: Stage) -> None:
        await stage.submit(wanted="KILLED" if why == "killed" else "ACTIVE")
        if why == "no topology":
            await stage.client.commit([Delete(path_of("/topologies", NAME))])
        elif why == "no assignment":
            await stage.client.commit([Delete(path_of("/assignments", NAME))])
        elif why == "elsewhere":
            await stage.assign(parent="t")
        parent = stage.parent()
        parent.start()
        await stage.until_ended(parent)
        assert await stage.parent_record() is None

    assert on_stage(story).codes == [("parent", 0)]


def test_two_never_run_one_topology() -> None:
    async def story(stage: Stage) -> None:
        Numbers.endless = True
        await stage.submit()
        first, *workers = stage.start()
        await some_work(stage)
        second = stage.parent("second")
        second.start()
        await asyncio.sleep(5)
        record = await stage.parent_record()
        assert record is not None
        assert record.state == "ACTIVE"
        await stage.change(wanted="KILLED")
        await stage.until_ended(first, second, *workers)

    stage = on_stage(story)
    assert stage.codes.count(("second", 0)) == 1
    assert set(Sum.seen) == set(Numbers.acked)


def test_the_session_is_lost_and_it_leaves_at_once() -> None:
    async def story(stage: Stage) -> None:
        Numbers.endless = True
        await stage.submit()
        parent, *workers = stage.start()
        await stage.wait_state("ACTIVE")
        stage.ways.by_process["parent"].cut_until_s = float("inf")
        await asyncio.sleep(20)
        assert parent.alive, "whether its session has ended is not known from here"
        stage.ways.by_process["parent"].cut_until_s = 0.0
        await stage.world.until(lambda: not parent.alive, 20, "the end of the parent")
        assert all(worker.alive for worker in workers), "its workers go on"
        await stage.until_ended(*workers, within_s=80)

    stage = on_stage(story)
    assert stage.codes[0] == ("parent", 69)
    assert sorted(stage.codes[1:]) == [("worker-1", 69), ("worker-2", 69)], "after their lease"


def test_the_store_is_away_and_the_topology_runs_on() -> None:
    async def story(stage: Stage) -> None:
        Numbers.endless = True
        await stage.submit()
        parent, *workers = stage.start()
        await stage.wait_state("ACTIVE")
        stage.store.away = True
        await stage.world.until(lambda: len(Numbers.acked) == COUNT, 20, "all the work")
        await asyncio.sleep(120)
        assert parent.alive
        stage.store.away = False  # it has forgotten all sessions: another parent could begin
        await stage.until_ended(parent)
        assert all(worker.alive for worker in workers)
        await stage.change_in_a_new_session(wanted="KILLED")
        parent.start()
        await stage.until_ended(parent)
        assert all(worker.incarnation == 1 for worker in workers)
        for worker in workers:
            worker.kill("its topology is not there any more")

    assert on_stage(story).codes == [("parent", 69), ("parent", 0)]


def test_sigterm_leaves_the_workers_to_the_next_parent() -> None:
    async def story(stage: Stage) -> None:
        await stage.submit()
        parent, *workers = stage.start()
        await some_work(stage)
        stage.terminate(parent)
        await stage.until_ended(parent)
        assert all(worker.alive for worker in workers)
        parent.start()
        await stage.until_ended(parent, *workers)
        assert [worker.incarnation for worker in workers] == [1, 1]

    stage = on_stage(story)
    assert stage.codes[0] == ("parent", 143)
    assert {code for _, code in stage.codes[1:]} == {0}
    assert Sum.seen == ALL


def test_a_killed_parent_is_followed_by_another_one_and_no_worker_notices() -> None:
    async def story(stage: Stage) -> None:
        Numbers.endless = True
        await stage.submit()
        parent, *workers = stage.start()
        await stage.wait_state("ACTIVE")
        for _ in range(3):
            parent.kill("is killed by the test")
            await asyncio.sleep(0.3)
            parent.start()
            await stage.wait_state("ACTIVE")
        assert [worker.incarnation for worker in workers] == [1, 1]
        await stage.world.until(lambda: len(Numbers.acked) == COUNT, 20, "all the work")
        await stage.change(wanted="KILLED")
        await stage.until_ended(parent, *workers)

    on_stage(story)
    assert Sum.seen == ALL
    assert not Numbers.failures
