"""Resources of a worker: opened before its tasks, closed after them, in reverse order, whatever goes wrong."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from aiostorm import (
    BasicBolt,
    Bolt,
    Config,
    LocalCluster,
    ResourceError,
    Topology,
    TopologyBuilder,
    TopologyFailedError,
    WorkerContext,
)

from .parts import Notes, Numbers


class Uses(BasicBolt):
    """Takes resources when it is prepared, and notes what it does."""

    def __init__(self, notes: Notes, *names: str, execute: Callable[[Any], Any] = lambda tup: None) -> None:
        self.notes, self.names, self.act = notes, names, execute

    def prepare(self, context: Any) -> None:
        self.notes.append(("prepare", *map(context.resource, self.names)))

    def execute(self, tup: Any, collector: Any) -> Any:
        return self.act(tup)

    def cleanup(self) -> None:
        self.notes.append("cleanup")


async def hangs_for_ever(tup: Any) -> None:
    await asyncio.Event().wait()


def noted(notes: Notes, name: str) -> Callable[[], AsyncIterator[str]]:
    """A resource that is its own name."""

    async def open_it() -> AsyncIterator[str]:
        notes.append(f"open {name}")
        await asyncio.sleep(1)
        yield name
        notes.append(f"close {name}")
        await asyncio.sleep(0.1)
        notes.append(f"closed {name}")

    return open_it


def job(bolt: Any, spout: Any = None, **resources: Any) -> Topology:
    builder = TopologyBuilder()
    for name, function in resources.items():
        builder.resource(name, function)
    builder.set_spout("spout", spout or Numbers(3))
    builder.set_bolt("bolt", bolt, 2).shuffle_grouping("spout")
    return builder.create_topology()


async def test_they_are_open_before_tasks_and_closed_after_them_in_reverse_order(local_cluster: LocalCluster) -> None:
    notes = Notes()
    topology = job(Uses(notes, "a", "b"), a=noted(notes, "a"), b=noted(notes, "b"))
    running = await local_cluster.submit("t", topology)
    assert notes == ["open a", "open b", ("prepare", "a", "b"), ("prepare", "a", "b")]
    await running.wait_finished()
    del notes[:]
    await running.kill()
    assert notes == ["cleanup", "cleanup", "close b", "closed b", "close a", "closed a"]
    assert running.errors() == []


async def test_at_once_they_are_closed_too(local_cluster: LocalCluster) -> None:
    notes = Notes()
    hang = Uses(notes, "a", execute=hangs_for_ever)
    running = await local_cluster.submit("t", job(hang, a=noted(notes, "a"), b=noted(notes, "b")))
    await asyncio.sleep(1)
    del notes[:]
    await running.kill(0)
    assert notes == ["cleanup", "cleanup", "close b", "closed b", "close a", "closed a"]


async def test_a_spout_has_them_too_and_a_resource_has_what_is_declared_before(local_cluster: LocalCluster) -> None:
    class Source(Numbers):
        def open(self, context: Any, collector: Any) -> None:
            super().open(context, collector)
            self.outcomes.append(context.resource("cache"))

    def cache(context: WorkerContext) -> Iterator[Any]:
        yield context.resource("db"), context.worker, context.topology, context.config.debug, context.tasks("bolt")

    source = Source(1)
    notes = Notes()
    await local_cluster.submit("t", job(Uses(notes, "db"), source, db=noted(notes, "db"), cache=cache))
    assert source.outcomes[0] == ("db", "local", "t", False, (2, 3))


async def test_a_task_that_is_started_again_finds_the_same(local_cluster: LocalCluster) -> None:
    notes = Notes()

    async def pool() -> AsyncIterator[object]:
        notes.append("open")
        yield object()

    class Fragile(Bolt):
        def prepare(self, context: Any, collector: Any) -> None:
            self.collector = collector
            notes.append(context.resource("pool"))

        def execute(self, tup: Any) -> None:
            if tup[0] == 0:
                raise ValueError("once")
            self.collector.ack(tup)

    await local_cluster.submit("t", job(Fragile, Numbers(1), pool=pool))
    await asyncio.sleep(5)
    opened, *given = notes
    assert opened == "open"
    assert len(given) == 3
    assert len(set(map(id, given))) == 1


async def test_a_blocking_component_has_them(local_cluster: LocalCluster) -> None:
    notes = Notes()

    class Blocks(Uses):
        blocking = True

    await local_cluster.submit("t", job(Blocks(notes, "a"), a=noted(notes, "a")))
    assert ("prepare", "a") in notes


async def test_one_that_cannot_be_opened_is_tried_again_and_those_before_stay_open(local_cluster: LocalCluster) -> None:
    notes = Notes()

    async def late() -> AsyncIterator[str]:
        notes.append("try")
        if notes.count("try") < 4:
            raise ConnectionRefusedError("the database starts")
        yield "late"

    running = await local_cluster.submit("t", job(Uses(notes, "late"), a=noted(notes, "a"), late=late))
    assert notes == ["open a", "try", "try", "try", "try", ("prepare", "late"), ("prepare", "late")]
    report = running.errors()[-1]
    assert (report.component, report.task, report.where) == ("resource 'late'", 0, "open")
    assert str(report) == "t: resource 'late' failed in open: ConnectionRefusedError: the database starts"


@pytest.mark.parametrize("decorated", [True, False])
async def test_one_that_can_never_be_opened_fails_the_start_and_those_before_are_closed(
    local_cluster: LocalCluster, decorated: bool
) -> None:
    notes = Notes()

    async def broken() -> AsyncIterator[str]:
        raise ConnectionRefusedError("no database")
        yield ""

    topology = job(
        Uses(notes), a=noted(notes, "a"), b=asynccontextmanager(broken) if decorated else broken, c=noted(notes, "c")
    )
    with pytest.raises(TopologyFailedError, match=r"resource 'b' was given up.*ConnectionRefusedError: no database"):
        await local_cluster.submit("t", topology)
    assert notes == ["open a", "close a", "closed a"]


async def test_so_does_what_is_no_context_manager_at_once(local_cluster: LocalCluster) -> None:
    async def connect() -> None:
        """Of a driver: awaited it is a connection."""

    began_s = asyncio.get_running_loop().time()
    with pytest.raises(TopologyFailedError, match=r"'db'.*type coroutine, not a context manager: let it yield"):
        await local_cluster.submit("t", job(Uses(Notes()), db=lambda: connect()))
    assert asyncio.get_running_loop().time() == began_s, "it is not tried again"


async def test_an_unknown_one_names_those_that_are_meant(local_cluster: LocalCluster) -> None:
    notes = Notes()
    with pytest.raises(TopologyFailedError, match="no resource 'pol' is declared; did you mean 'pool'"):
        await local_cluster.submit("t", job(Uses(notes, "pol"), pool=noted(notes, "pool"), b=noted(notes, "b")))
    assert notes[-1] == "closed pool"
    with pytest.raises(TopologyFailedError, match=r"no resource 'x' is declared: builder.resource.*, and resources="):
        await local_cluster.submit("u", job(Uses(notes, "x")))


async def test_bolts_that_cannot_be_prepared_leave_none_open(local_cluster: LocalCluster) -> None:
    class Broken(BasicBolt):
        def prepare(self, context: Any) -> None:
            raise LookupError("broken")

        def execute(self, tup: Any, collector: Any) -> None:
            """Never."""

    notes = Notes()
    with pytest.raises(TopologyFailedError, match="LookupError: broken"):
        await local_cluster.submit("t", job(Broken, a=noted(notes, "a")))
    assert notes == ["open a", "close a", "closed a"]


async def test_a_submit_that_is_cancelled_while_one_opens_closes_what_is_open(local_cluster: LocalCluster) -> None:
    notes = Notes()

    async def slow() -> AsyncIterator[None]:
        try:
            await asyncio.sleep(3600)
            yield
        finally:
            notes.append("slow was cancelled")

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(10):
            await local_cluster.submit("t", job(Uses(notes), a=noted(notes, "a"), slow=slow))
    assert notes == ["open a", "slow was cancelled", "close a", "closed a"]
    assert "t" not in local_cluster.topologies


async def test_one_that_cannot_be_closed_is_reported_and_the_others_are_closed(local_cluster: LocalCluster) -> None:
    notes = Notes()

    def broken() -> Iterator[None]:
        yield
        raise OSError("the disk is full")

    running = await local_cluster.submit("t", job(Uses(notes), a=noted(notes, "a"), broken=broken))
    await running.kill()
    assert notes[-2:] == ["close a", "closed a"]
    [report] = running.errors()
    assert (report.component, report.where, report.error) == (
        "resource 'broken'",
        "close",
        "OSError: the disk is full",
    )


@pytest.mark.parametrize("at_once", [True, False])
async def test_a_close_that_does_not_end_is_cancelled_and_named(local_cluster: LocalCluster, at_once: bool) -> None:
    notes = Notes()
    loop = asyncio.get_running_loop()

    async def hangs() -> AsyncIterator[None]:
        yield
        try:
            await asyncio.Event().wait()
        finally:
            notes.append("cancelled")

    topology = job(Uses(notes), a=noted(notes, "a"), hangs=hangs)
    running = await local_cluster.submit("t", topology, Config(graceful_stop_s=7.0))
    await running.wait_finished()
    began_s = loop.time()
    await running.kill(0 if at_once else None)
    took_s = loop.time() - began_s
    assert took_s == pytest.approx(1.1 if at_once else 8.1, abs=0.1)
    assert notes[-3:] == ["cancelled", "close a", "closed a"]
    [report] = running.errors()
    assert (report.component, report.where) == ("resource 'hangs'", "close")
    assert report.error == "TimeoutError: closing took too long and was cancelled"


async def test_a_second_kill_does_not_wait_for_a_close(local_cluster: LocalCluster) -> None:
    async def hangs() -> AsyncIterator[None]:
        yield
        await asyncio.Event().wait()

    running = await local_cluster.submit("t", job(Uses(Notes()), hangs=hangs), Config(graceful_stop_s=1000.0))
    await running.wait_finished()
    first = asyncio.create_task(running.kill())
    await asyncio.sleep(5)
    began_s = asyncio.get_running_loop().time()
    await running.kill(0)
    assert asyncio.get_running_loop().time() - began_s <= 1.3
    await first


async def test_a_close_that_swallows_its_cancel_does_not_hold_the_end_up() -> None:
    let_go = asyncio.Event()

    async def hangs() -> AsyncIterator[None]:
        yield
        while not let_go.is_set():
            try:
                await let_go.wait()
            except asyncio.CancelledError:
                continue

    async with LocalCluster() as cluster:
        running = await cluster.submit("t", job(Uses(Notes()), hangs=hangs))
        await running.kill(0)
        assert "cancelled, and does not end" in running.errors()[-1].error
        let_go.set()


async def test_a_task_group_of_theirs_that_fails_fails_the_topology(local_cluster: LocalCluster) -> None:
    notes = Notes()

    async def interval_timers() -> None:
        await asyncio.sleep(60)
        raise ConnectionResetError("the broker went away")

    async def client() -> AsyncIterator[str]:
        async with asyncio.TaskGroup() as group:
            group.create_task(interval_timers())
            yield "client"

    topology = job(Uses(notes, "client"), a=noted(notes, "a"), client=client)
    running = await local_cluster.submit("t", topology)
    with pytest.raises(TopologyFailedError, match=r"resource 'client' was given up.*unhandled errors in a TaskGroup"):
        await running.wait_ended()
    await running.kill()
    assert "ConnectionResetError: the broker went away" in running.errors()[-1].traceback


async def test_a_program_that_ends_leaves_none_open() -> None:
    notes = Notes()

    async def pool() -> AsyncIterator[None]:
        try:
            yield
        finally:
            notes.append("closed")

    async def program() -> None:
        async with LocalCluster() as cluster:
            await cluster.submit("t", job(Uses(notes), pool=pool))
            await asyncio.Event().wait()

    task = asyncio.create_task(program())
    await asyncio.sleep(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert notes[-1] == "closed"


async def test_a_resource_that_exits_is_an_error(local_cluster: LocalCluster) -> None:
    def leaves() -> Iterator[None]:
        raise SystemExit(3)
        yield

    with pytest.raises(TopologyFailedError, match=r"SystemExit\(3\)"):
        await local_cluster.submit("t", job(Uses(Notes()), leaves=leaves))


@pytest.mark.blocks_loop
async def test_two_topologies_have_their_own(local_cluster: LocalCluster) -> None:
    def slow() -> Iterator[object]:
        time.sleep(0.05)
        yield object()

    notes = Notes()
    for name in ("t", "u"):
        await local_cluster.submit(name, job(Uses(notes, "a"), a=slow))
    assert len({id(given) for _, given in notes if given is not None}) == 2


async def test_a_worker_context_says_what_there_is() -> None:
    context = WorkerContext("t", "w", Config(), {"bolt": (2,)}, {"db": 1})
    with pytest.raises(ResourceError, match=r"no resource 'dbs' is open yet .*did you mean 'db'"):
        context.resource("dbs")
    with pytest.raises(KeyError, match="no component 'blot'; there are: bolt"):
        context.tasks("blot")
