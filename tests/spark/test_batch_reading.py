"""Reading a batch without Spark: errors, restarts, and jobs that are left in Spark."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from aiostorm.spark.batch.capacity import Capacity
from aiostorm.spark.batch.fetching import TooLargeError
from aiostorm.spark.batch.group_size import GroupSize
from aiostorm.spark.batch.options import BatchOptions
from aiostorm.spark.batch.partitions import Partitions
from aiostorm.spark.batch.readers import End, Piece
from aiostorm.spark.batch.reading import RETRIES, Reading
from aiostorm.spark.batch.spark_jobs import SparkJobs
from aiostorm.spark.batch.way_factory import WayFactory
from aiostorm.spark.batch.ways import FetchWay, cancel_quietly
from aiostorm.spark.calls import SparkCalls
from aiostorm.spark.connect import forget
from aiostorm.spark.errors import SparkJobError, SparkLostError, SparkSourceError

pytestmark = pytest.mark.sockets


@pytest.fixture
def calls() -> Any:
    made = SparkCalls(8, name="test")
    yield made
    made.close()
    assert made.join()


class Attempts:
    """Stands for the ways of a source: each attempt reads a partition more, and raises the next error."""

    jobs = SparkJobs("numbers", "group")

    def __init__(self, machine: Partitions, calls: SparkCalls, errors: list[Exception]) -> None:
        self.machine = machine
        self.calls = calls
        self.capacity = Capacity(machine, 10)
        self.errors = errors
        self.made: list[str] = []
        self.cancelled = 0

    def make(self, opened: Any) -> Attempts:
        self.made.append(opened.session)
        return self

    def cancel(self) -> None:
        self.cancelled += 1

    async def reason(self, error: Exception) -> Exception:
        return error

    async def close(self) -> None:
        """Nothing is open."""

    def streams(self) -> list[AsyncGenerator[Piece | End, None]]:
        return [self._items()]

    async def _items(self) -> AsyncGenerator[Piece | End, None]:
        while group := self.machine.claim_next(1):
            [partition] = group
            yield Piece(partition, 0, partition, 1, None)
            yield End(partition)
            if self.errors:
                raise self.errors.pop(0)

    def explain(self, error: Exception, opened: Any) -> Exception:
        return error

    def adapted(self, error: Exception, *, repeated: bool) -> Exception:
        return error


def reading(ways: Attempts, reopened: Callable[[], str] = lambda: "new") -> tuple[Reading, asyncio.Event]:
    changed = asyncio.Event()

    async def reopen(dead: Any) -> Any:
        return SimpleNamespace(session=reopened())

    opened: Any = SimpleNamespace(session="old")
    return Reading(opened, ways, reopen, changed.set), changed  # type: ignore[arg-type]


async def raised(one: Reading, changed: asyncio.Event, running: asyncio.Task[None]) -> list[str]:
    """What next_tuple raises until the reading has ended."""
    found: list[str] = []
    while not running.done():
        try:
            one.raise_error()
        except Exception as error:
            found.append(f"{type(error).__name__}: {error}")
        changed.clear()
        waiting = asyncio.ensure_future(changed.wait())
        await asyncio.wait((running, waiting), return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
    return found


async def test_it_goes_on_after_errors_where_it_was(calls: SparkCalls) -> None:
    machine = Partitions(4)
    ways = Attempts(machine, calls, [SparkJobError("a job"), TooLargeError([1, 2]), SparkLostError("the JVM")])
    one, changed = reading(ways)
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        running = group.create_task(one.run())
        errors = await raised(one, changed, running)
    assert errors == ["SparkJobError: a job", "SparkLostError: the JVM"]  # fewer partitions at a time is no error
    assert ways.made == ["old", "old", "old", "new"]
    assert ways.cancelled == 3
    assert [piece.partition for piece in one.ready] == [0, 1, 2, 3]
    assert machine.is_read


async def test_the_next_attempt_waits_until_the_error_was_raised(calls: SparkCalls) -> None:
    ways = Attempts(Partitions(2), calls, [SparkJobError("a job")])
    one, changed = reading(ways)
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        running = group.create_task(one.run())
        while not one._error:
            await changed.wait()
            changed.clear()
        for _ in range(10):
            await asyncio.sleep(0)
        assert ways.made == ["old"]
        with pytest.raises(SparkJobError):
            one.raise_error()
        await running
    assert ways.made == ["old", "old"]


@pytest.mark.parametrize(
    ("given", "reopens", "last"),
    [
        pytest.param([SparkSourceError("user")], True, "SparkSourceError: user", id="an error of the user"),
        pytest.param(
            [SparkJobError(f"job {n}") for n in range(9)],
            True,
            f"SparkSourceError: job {RETRIES}; given up after {RETRIES + 1} failures in a row",
            id="too many failures",
        ),
        pytest.param(
            [SparkLostError("lost")],
            False,
            "SparkSourceError: numbers: it could not be opened again: no server; "
            f"given up after {RETRIES + 1} failures in a row",
            id="a server that does not come back",
        ),
    ],
)
async def test_a_final_error_ends_it_and_is_raised_each_time(
    calls: SparkCalls, given: list[Exception], reopens: bool, last: str
) -> None:
    def reopened() -> str:
        if not reopens:
            raise ValueError("no server")
        return "new"

    one, changed = reading(Attempts(Partitions(20), calls, list(given)), reopened)
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        await raised(one, changed, group.create_task(one.run()))
    for _ in range(2):
        with pytest.raises(SparkSourceError) as caught:
            one.raise_error()
        assert f"SparkSourceError: {caught.value}" == last


async def test_partitions_that_do_not_come_are_an_error(calls: SparkCalls) -> None:
    ways = Attempts(Partitions(1), calls, [])
    ways.machine.claim_next(1)
    one, changed = reading(ways)
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        errors = await raised(one, changed, group.create_task(one.run()))
    assert errors == ["SparkJobError: Spark's job has ended, but not all of its partitions came"]
    assert [piece.partition for piece in one.ready] == [0]


# -- the way of the next attempt --------------------------------------------------------------------------------------

LOST, FAILED, SEVERAL, ONE = SparkLostError("lost"), SparkJobError("failed"), TooLargeError([1, 2]), TooLargeError([1])


@pytest.mark.parametrize(
    ("way", "error", "repeated", "pushes", "says"),
    [
        ("auto", LOST, False, False, "lost"),
        ("auto", LOST, True, True, "lost"),  # a partition may be too large for the JVM
        ("auto", FAILED, True, False, "failed"),
        ("auto", SEVERAL, True, False, "partitions 1 to 2 (2) are larger"),
        ("auto", ONE, False, True, "partitions 1 are larger"),
        ("fetch", LOST, True, False, "lost"),
        ("fetch", SEVERAL, False, False, "partitions 1 to 2 (2) are larger"),
        ("fetch", ONE, False, False, "use more partitions"),
    ],
)
async def test_executors_push_what_the_driver_cannot_fetch(
    calls: SparkCalls, way: Any, error: Exception, repeated: bool, pushes: bool, says: str
) -> None:
    options = BatchOptions(name=None, chunk_rows=None, ahead=1, max_pending=1, in_order=False, progress=None, way=way)
    ways = WayFactory(options, Attempts.jobs, Partitions(3), calls, can_reopen=True)
    ways._size.partitions = 256
    adapted = ways.adapted(error, repeated=repeated)
    assert says in str(adapted)
    assert isinstance(adapted, SparkSourceError) == (says == "use more partitions")
    assert (ways.pushes, ways._size.partitions) == (pushes, 1)


# -- jobs that are left ------------------------------------------------------------------------------------------------


def session(*, stopped: bool) -> Any:
    """As much of one as is asked whether it lives."""
    context = SimpleNamespace(_jsc=SimpleNamespace(sc=lambda: SimpleNamespace(isStopped=lambda: stopped)))
    return SimpleNamespace(sparkContext=context)


def way(calls: SparkCalls, cancel: Callable[[], None]) -> FetchWay:
    machine = Partitions(0)
    return FetchWay(machine, calls, Capacity(machine, 1), GroupSize(), pytest.fail, cancel, ahead=1, in_order=False)


@pytest.mark.parametrize("stopped", [False, True])
async def test_jobs_that_cannot_be_cancelled_are_reported(
    calls: SparkCalls, stopped: bool, caplog: pytest.LogCaptureFixture
) -> None:
    def cancel() -> None:
        raise ValueError("Spark says no")

    with caplog.at_level(logging.DEBUG, "aiostorm.spark"):
        lost = await asyncio.to_thread(cancel_quietly, way(calls, cancel), session(stopped=stopped), "flights[1]")
    assert lost is stopped
    [record] = caplog.records
    if stopped:
        assert (record.levelno, record.message) == (
            logging.DEBUG,
            "flights[1]: Spark was lost when its jobs were ended: Spark says no",
        )
    else:
        assert record.levelno == logging.WARNING
        assert "flights[1]: jobs left in Spark were not ended" in record.message
        assert "Spark says no" in record.message


async def test_jobs_that_are_cancelled_are_not_reported(calls: SparkCalls, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "aiostorm.spark"):
        await asyncio.to_thread(cancel_quietly, way(calls, lambda: None), session(stopped=False), "flights[1]")
    assert not caplog.records


def test_a_lost_connect_client_is_closed_without_waiting_for_its_retried_calls() -> None:
    """PySpark's `close` waits up to 10 s for them, and a client that is not closed calls its server at exit."""
    channel = SimpleNamespace(is_open=True)

    def close_channel() -> None:
        channel.is_open = False

    channel.close = close_channel
    client = SimpleNamespace(_channel=channel, is_closed=False)

    def close() -> None:
        assert not channel.is_open, "it would wait"
        client.is_closed = True

    client.close = close
    forget(SimpleNamespace(client=client))
    assert client.is_closed
