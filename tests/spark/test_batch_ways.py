"""The ways of reading a batch without Spark: order, capacity, readers that are closed, executors that push."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from aiostorm.spark.batch.capacity import Capacity
from aiostorm.spark.batch.group_size import GroupSize
from aiostorm.spark.batch.partitions import Partitions
from aiostorm.spark.batch.push_server import PushServer
from aiostorm.spark.batch.push_way import PushWay
from aiostorm.spark.batch.pushing import PushLocation, send_partition
from aiostorm.spark.batch.readers import End, Piece
from aiostorm.spark.batch.ways import FetchWay
from aiostorm.spark.calls import SparkCalls
from aiostorm.spark.errors import SparkLostError, SparkSourceError
from aiostorm.transport import TlsFiles
from tests.transport.net.test_tls import Ministry

pytestmark = pytest.mark.sockets

SCHEMA = pa.schema([("id", pa.int64())])


@pytest.fixture
def calls() -> Any:
    made = SparkCalls(8, name="test")
    yield made
    made.close()
    assert made.join()


class Fetched:
    """A reader of some partitions with two chunks each."""

    def __init__(self, partitions: list[int]) -> None:
        self.partitions = partitions
        self.size_bytes = 0
        self.closed = threading.Event()
        items = [(*(Piece(p, n, 10 * p + n, 1, None) for n in range(2)), End(p)) for p in partitions]
        self.items: deque[Piece | End] = deque(item for group in items for item in group)

    def read(self, most: int) -> tuple[list[Piece | End], bool]:
        items = [self.items.popleft() for _ in range(min(most, len(self.items)))]
        return items, bool(self.items)

    def close(self) -> None:
        self.closed.set()


class Jobs:
    """Spark's jobs, each of which ends when the test says so. `ends_before`: the end of one lets another one end."""

    def __init__(self, partitions: int, *, ended: Iterable[int] = ()) -> None:
        self.ends = [threading.Event() for _ in range(partitions)]
        self.ends_before: dict[int, threading.Event] = {}
        self.started: list[int] = []
        self.readers: list[Fetched] = []
        self.cancelled = False
        for partition in ended:
            self.ends[partition].set()

    def begin(self, group: list[int]) -> Fetched:
        self.started += group
        for partition in group:
            assert self.ends[partition].wait(10)
            self.ends_before.get(partition, self.ends[partition]).set()
        self.readers.append(Fetched(group))
        return self.readers[-1]

    def cancel(self) -> None:
        self.cancelled = True


class Alone(GroupSize):
    """Each partition is a job of its own."""

    def record(self, partitions: int, size_bytes: int) -> None:
        pass


def fetching(
    jobs: Jobs,
    machine: Partitions,
    calls: SparkCalls,
    *,
    max_pending: int = 100,
    ahead: int = 2,
    in_order: bool = False,
) -> tuple[FetchWay, Capacity]:
    capacity = Capacity(machine, max_pending)
    way = FetchWay(machine, calls, capacity, Alone(), jobs.begin, jobs.cancel, ahead=ahead, in_order=in_order)
    return way, capacity


def record(machine: Partitions, item: Piece | End) -> None:
    if isinstance(item, End):
        machine.end(item.partition)
    else:
        machine.chunk(item.partition, item.number, item.digest, item.rows)


@pytest.mark.parametrize("in_order", [True, False])
async def test_partitions_are_read_in_order_or_as_their_jobs_end(calls: SparkCalls, in_order: bool) -> None:
    machine, jobs = Partitions(4), Jobs(4, ended=(1, 2, 3))
    way, _ = fetching(jobs, machine, calls, ahead=2, in_order=in_order)
    ended: list[int] = []
    [stream] = way.streams()
    if in_order:
        jobs.ends_before[1] = jobs.ends[0]
    async with aclosing(stream):
        async for item in stream:
            record(machine, item)
            assert len(jobs.started) <= len(ended) + 2
            if isinstance(item, End):
                ended.append(item.partition)
                if len(ended) == 3:
                    jobs.ends[0].set()
    assert ended == ([0, 1, 2, 3] if in_order else [1, 2, 3, 0])
    assert machine.is_read


async def test_no_more_is_read_than_may_be_pending(calls: SparkCalls) -> None:
    machine, jobs = Partitions(3), Jobs(3, ended=range(3))
    way, capacity = fetching(jobs, machine, calls, max_pending=3)
    read: deque[Piece] = deque()
    most = 0

    async def consume() -> None:
        nonlocal most
        [stream] = way.streams()
        async with aclosing(stream):
            async for item in stream:
                record(machine, item)
                most = max(most, machine.open)
                if isinstance(item, Piece):
                    read.append(item)

    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        group.create_task(consume())
        while not machine.is_settled:
            await asyncio.sleep(0.001)
            if machine.open == 3 or machine.is_read:
                piece = read.popleft()
                machine.acked(piece.partition, piece.number)
                capacity.changed()
    assert most == 3
    assert machine.done == 3


async def test_readers_are_closed_when_reading_ends_early(calls: SparkCalls) -> None:
    """Also that of a job that ends only afterwards; and after `cancel` no job is started."""
    machine, jobs = Partitions(5), Jobs(5, ended=(0,))
    way, _ = fetching(jobs, machine, calls, ahead=2, in_order=True)
    [stream] = way.streams()
    assert await anext(stream) == Piece(0, 0, 0, 1, None)
    await stream.aclose()
    way.cancel()
    jobs.ends[1].set()
    async with asyncio.timeout(10):
        await calls.ended()
    await asyncio.sleep(0)
    assert jobs.started == [0, 1]
    assert [reader.closed.is_set() for reader in jobs.readers] == [True, True]
    with pytest.raises(EOFError):
        await calls.run(way._open, [2])
    assert jobs.started == [0, 1]


# -- executors push ----------------------------------------------------------------------------------------------------


@asynccontextmanager
async def pushing(
    calls: SparkCalls,
    machine: Partitions,
    job: Callable[[PushLocation], Any],
    *,
    certain: bool = True,
    ahead: int = 2,
    host: str = "127.0.0.1",
    tls: TlsFiles | None = None,
) -> AsyncIterator[tuple[PushWay, list[Piece | End]]]:
    """A way that has received all that the job sends."""
    server = PushServer("test", host, tls)
    capacity = Capacity(machine, 4)
    way = PushWay(machine, calls, capacity, server, job, lambda: None, schema=SCHEMA, ahead=ahead, certain=certain)
    items: list[Piece | End] = []

    async def take(stream: AsyncGenerator[Piece | End, None]) -> None:
        async with aclosing(stream):
            async for item in stream:
                record(machine, item)
                items.append(item)
                if isinstance(item, Piece):
                    machine.acked(item.partition, item.number)
                    capacity.changed()

    try:
        async with asyncio.timeout(20), asyncio.TaskGroup() as group:
            for stream in way.streams():
                group.create_task(take(stream))
    finally:
        await way.close()
    yield way, items


def sent(where: PushLocation, partition: int, batches: Any, rows: int = 2) -> int:
    """What an executor does."""
    return send_partition(iter(batches), partition, where, SCHEMA.serialize().to_pybytes(), rows)


def numbers(*ids: int) -> Any:
    return pa.record_batch([list(ids)], schema=SCHEMA)


async def test_executors_send_at_the_same_time_and_all_arrives(calls: SparkCalls) -> None:
    machine = Partitions(4)
    counts: dict[int, int] = {}

    def job(where: PushLocation) -> list[int]:
        def send(partition: int) -> None:
            counts[partition] = sent(where, partition, [numbers(*range(5))])

        threads = [threading.Thread(target=send, args=(partition,)) for partition in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return [0, 1, 2, 3]

    async with pushing(calls, machine, job) as (_, items):
        assert counts == dict.fromkeys(range(4), 3)
        for partition in range(4):
            own = [item for item in items if item.partition == partition]
            assert [item.number for item in own if isinstance(item, Piece)] == [0, 1, 2]
            assert isinstance(own[-1], End)
        assert machine.is_settled


@pytest.mark.parametrize("certain", [True, False])
async def test_partitions_that_are_not_certain_end_with_the_job(calls: SparkCalls, certain: bool) -> None:
    machine = Partitions(None)
    read: list[bool] = []

    def job(where: PushLocation) -> list[int]:
        sent(where, 0, [numbers(1, 2, 3)])
        read.append(0 in machine._unread)
        return [0]

    async with pushing(calls, machine, job, certain=certain) as (_, items):
        assert items[-1] == End(0)
        assert read == [not certain]  # recorded before the executor's task has ended
        assert machine.is_settled


async def test_a_small_partition_that_is_not_wanted_is_read_to_its_end(calls: SparkCalls) -> None:
    """Else Spark would not use that Python worker again. Of a large one only the first batches are computed."""
    left: list[int] = []

    def job(where: PushLocation) -> list[int]:
        for batches in (1, 9):
            given = iter([numbers(1)] * batches)
            assert sent(where, 0, given, 10) == 0
            left.append(len(list(given)))
        return []

    async with pushing(calls, Partitions(0), job) as (_, items):  # it wants none
        assert items == []
        assert left == [0, 5]


async def test_a_partition_that_is_being_read_is_refused_to_another_attempt(calls: SparkCalls) -> None:
    machine = Partitions(1)
    refused: list[str] = []

    def job(where: PushLocation) -> list[int]:
        def batches() -> Any:
            yield numbers(1, 2)
            try:
                sent(where, 0, [numbers(1, 2)])
            except SparkSourceError as error:
                refused.append(str(error))

        sent(where, 0, batches())
        return [0]

    async with pushing(calls, machine, job):
        assert refused == ["partition 0 is read from another attempt of this task"]
        assert machine.is_settled


async def test_a_job_that_fails_after_all_was_read_is_no_error(calls: SparkCalls) -> None:
    machine = Partitions(1)

    def job(where: PushLocation) -> list[int]:
        sent(where, 0, [numbers(1)])
        raise ValueError("cancelled")

    async with pushing(calls, machine, job):
        assert machine.is_settled
    with pytest.raises(ExceptionGroup) as caught:
        async with pushing(calls, Partitions(2), job):
            pass
    assert "cancelled" in str(caught.value.exceptions)


async def test_executors_send_over_tls_without_certificates(calls: SparkCalls, tmp_path: Path) -> None:
    """They check that the receiver's certificate is of the cluster's CA, and prove the token."""
    machine, ministry = Partitions(1), Ministry(tmp_path)
    tls = ministry.files("localhost")
    refused: list[str] = []

    def job(where: PushLocation) -> list[int]:
        for wrong in (
            replace(where, authority=None),
            replace(where, authority=ministry.foreign.certificate.decode()),
            replace(where, token=bytes(32)),
        ):
            try:
                sent(replace(wrong, patience_s=0.0), 0, [numbers(1)])
            except (SparkLostError, SparkSourceError) as error:
                refused.append(str(error))
        sent(where, 0, [numbers(1, 2, 3)])
        return [0]

    async with pushing(calls, machine, job, host="localhost", tls=tls) as (_, items):
        assert [type(item) for item in items] == [Piece, Piece, End]
    assert len(refused) == 3
    assert "certificate verify failed" in refused[1]
    assert "token" in refused[2]


async def test_a_receiver_whose_files_cannot_be_used_is_an_error_of_the_user(tmp_path: Path) -> None:
    server = PushServer("test", "127.0.0.1", TlsFiles(*3 * [str(tmp_path / "missing")]))
    with pytest.raises(SparkSourceError, match=r"executors cannot send partitions to 127\.0\.0\.1: .*missing"):
        await server.open()
    await server.close()
