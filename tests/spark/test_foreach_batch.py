"""What Spark calls with a batch: it waits for the event loop, and never for a closed one. No Spark is needed."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Any

import pytest

from aiostorm.spark.stream.foreach_batch import POLL_S, BatchNotDoneError, Delivery, ForeachBatch
from aiostorm.spark.stream.query import reason_of

pytestmark = pytest.mark.sockets  # threads

LIMIT_S = 20 * POLL_S


class CallbackThread:
    """A thread that calls the hand, as py4j does."""

    def __init__(self, foreach_batch: ForeachBatch, batch_id: int = 7) -> None:
        self.raised: BaseException | None = None
        self._thread = threading.Thread(target=self._call, args=(foreach_batch, batch_id))
        self._thread.start()

    def _call(self, foreach_batch: ForeachBatch, batch_id: int) -> None:
        try:
            foreach_batch("a DataFrame", batch_id)
        except BaseException as error:
            self.raised = error

    def join(self) -> BaseException | None:
        """What it raised."""
        self._thread.join(LIMIT_S)
        assert not self._thread.is_alive(), "it still waits"
        return self.raised


def in_loop(use: Any) -> Any:
    """Run `use(foreach_batch, deliveries)` in an event loop that is closed then."""

    async def main() -> Any:
        deliveries: asyncio.Queue[Delivery] = asyncio.Queue(1)
        return await use(ForeachBatch(asyncio.get_running_loop(), deliveries.put_nowait), deliveries)

    return asyncio.run(main())


def test_foreach_batch_returns_when_the_batch_is_done() -> None:
    async def use(foreach_batch: ForeachBatch, deliveries: asyncio.Queue[Delivery]) -> CallbackThread:
        thread = CallbackThread(foreach_batch)
        delivery = await deliveries.get()
        assert (delivery.dataframe, delivery.batch_id) == ("a DataFrame", 7)
        delivery.done()
        delivery.fail("too late: the first one counts")
        return thread

    assert in_loop(use).join() is None


def test_foreach_batch_raises_one_short_error_when_the_batch_failed() -> None:
    async def use(foreach_batch: ForeachBatch, deliveries: asyncio.Queue[Delivery]) -> CallbackThread:
        thread = CallbackThread(foreach_batch)
        delivery = await deliveries.get()
        delivery.fail("a bolt said no")
        delivery.done()
        return thread

    error = in_loop(use).join()
    assert type(error) is BatchNotDoneError
    assert str(error) == "batch 7 was not processed: a bolt said no"
    assert error.__cause__ is None
    assert error.__context__ is None


def test_waiting_and_later_calls_are_refused_after_the_end() -> None:
    async def use(foreach_batch: ForeachBatch, deliveries: asyncio.Queue[Delivery]) -> list[CallbackThread]:
        first = CallbackThread(foreach_batch)
        await deliveries.get()
        foreach_batch.close("the topology has ended")
        return [first, CallbackThread(foreach_batch, 8)]

    for thread, batch_id in zip(in_loop(use), (7, 8), strict=True):
        assert str(thread.join()) == f"batch {batch_id} was not processed: the topology has ended"


def test_foreach_batch_does_not_wait_for_a_closed_loop() -> None:
    async def use(
        foreach_batch: ForeachBatch, deliveries: asyncio.Queue[Delivery]
    ) -> tuple[ForeachBatch, CallbackThread]:
        thread = CallbackThread(foreach_batch)
        await deliveries.get()
        return foreach_batch, thread  # without an outcome

    foreach_batch, thread = in_loop(use)
    for late in (thread, CallbackThread(foreach_batch)):
        assert "the event loop of the topology has ended" in str(late.join())


def test_py4j_does_not_log_errors_that_the_batch_reports(caplog: pytest.LogCaptureFixture) -> None:
    in_loop(lambda foreach_batch, deliveries: asyncio.sleep(0))
    logger = logging.getLogger("py4j.clientserver")
    for error in (BatchNotDoneError("reported"), ValueError("news")):
        try:
            raise error
        except (BatchNotDoneError, ValueError):
            logger.exception("in the Python proxy")
    assert [record.exc_info[0] for record in caplog.records if record.exc_info] == [ValueError]


def test_a_reason_is_a_line_of_two_hundred() -> None:
    java = (
        "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Job aborted due to stage failure: Task 0 "
        "failed\n\nDriver stacktrace: SQLSTATE: XXKST\n=== Streaming Query ===\nIdentifier: [id = 1]\nLogical Plan:\n"
        + "x\n"
        * 200
    )
    assert reason_of(ValueError(java)) == "Job aborted due to stage failure: Task 0 failed"
    python = (
        "[STREAM_FAILED] Query [id = 1] terminated with exception: [FOREACH_BATCH_USER_FUNCTION_ERROR] Return Message: "
        'Traceback (most recent call last):\n  File "a.py", line 1\nValueError: no\n SQLSTATE: 39000 SQLSTATE: XXKST\n'
        "=== Streaming Query ===\n"
    )
    assert reason_of(ValueError(python)) == "ValueError: no"
    assert len(reason_of(ValueError("y" * 5000))) < 700
