"""Stream run: runs an open SparkStreamSpout: starts the query, emits its batches, checks the query, ends it.

    (no query) ─ start ─► waiting ─ a batch comes ─► emitting its chunks ─ fetched ─► waiting … all acked: Spark goes on
        ▲                    │ every POLL_S: status of the query      │ fetching failed: again, from the beginning
        └── raise: backoff ──┴──────── it has ended ──────────────────┘

1. All of it runs in `next_tuple`, except acks and fails: a complete batch is returned to Spark at once, also while the
   topology drains.
2. While the topology is deactivated no batch is started, and no chunk emitted.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from ...runtime import AiostormError
from ...topology import Failure, Progress, SpoutCollector
from ..errors import SparkLostError, SparkSourceError
from .batches import BatchState, StreamBatches
from .chunks import StreamChunks
from .micro_batch_reader import MicroBatchReader
from .query import QuerySpec, QueryState, QueryStatus
from .query_runner import QueryRunner

if TYPE_CHECKING:
    from ..batch.readers import Piece
    from .foreach_batch import Delivery

log = logging.getLogger("aiostorm.spark")

POLL_S: Final = 0.5
"""The interval in which the query's status is checked."""


@dataclass(frozen=True, slots=True)
class StreamLimits:
    """The limits of a spout, as in SparkStreamSpout. ValueError if one is less than 1."""

    chunk_rows: int
    ahead: int
    max_pending: int
    max_batch_attempts: int

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if value < 1:
                raise ValueError(f"{name} is 1 or more, not {value}")


class StreamRun:
    """The run of one open spout."""

    def __init__(
        self, spec: QuerySpec, session: Any, collector: SpoutCollector, limits: StreamLimits, *, exact: bool
    ) -> None:
        self._spec = spec
        self._collector = collector
        self._query = query = QueryRunner(spec, session, limits.ahead + 2)
        self._batches = StreamBatches(spec.name, limits.max_batch_attempts, exact=exact)
        chunks = StreamChunks(query.calls, query.watch, spec.title, chunk_rows=limits.chunk_rows, ahead=limits.ahead)
        self._reader = MicroBatchReader(self._batches, chunks)
        self._next_delivery: Delivery | None = None  # brought by Spark, not begun
        self._wakeup = asyncio.Event()
        self._active = False
        self._finished = False

    # -- calls of the spout ------------------------------------------------------------------------------------------

    async def begin(self) -> None:
        await self._query.open()

    async def next_tuple(self) -> None:
        """Wait for the next chunk and emit it; return without one if the query has ended or the spout is inactive."""
        while self._active and not self._finished:
            if not self._query.is_started:
                await self._start()
            elif self._reader.chunk is not None:
                self._emit(self._reader.chunk)
                return
            elif self._reader.is_reading:
                await self._fetch()
            elif self._next_delivery is not None:
                delivery, self._next_delivery = self._next_delivery, None
                self._reader.begin(delivery)
            else:
                await self._wait()

    def set_active(self, active: bool) -> None:
        """Activate or deactivate: while inactive a new batch waits, and Spark with it."""
        self._active = active
        self._wakeup.set()

    def acked(self, batch_id: int, partition: int, chunk: int) -> None:
        if (batch := self._batches.of(batch_id)) is not None:
            batch.acked(partition, chunk)
            self._reader.return_batch()

    def failed(self, batch_id: int, partition: int, chunk: int, failure: Failure) -> None:
        """A message has failed, and is not replayed again."""
        if (batch := self._batches.of(batch_id)) is not None:
            batch.failed(partition, chunk, _describe(failure))
            self._reader.return_batch()

    def snapshot(self) -> dict[str, Any] | None:
        """The position (exactly once)."""
        return self._batches.snapshot()

    def restore(self, position: dict[str, Any] | None) -> None:
        """Continue after a position, before the first batch. SparkSourceError if it is none."""
        self._batches.restore(position)

    def committed(self) -> None:
        """The last snapshot is durable: Spark may commit a batch that is in it."""
        if self._batches.positions is not None:
            self._batches.positions.committed()
            self._reader.return_batch()

    def progress(self) -> Progress:
        done = self._batches.done
        brought = self._reader.has_batch or self._next_delivery is not None
        return Progress(done, done + brought, "batches", self._batches.rows)

    def result(self) -> dict[str, Any]:
        return {"batches": self._batches.done, "rows": self._batches.rows, "last_batch": self._batches.last_done}

    async def end(self) -> None:
        """Stop the query and release the session. A waiting call of Spark is failed at once."""
        self._finished = True
        self._reader.abandon("the topology has ended")
        try:
            await self._reader.drop()
            last_done, waiting = self._batches.last_done, self._next_delivery
            # Spark has committed the last one if it has brought the next one.
            if last_done >= 0 and (waiting is None or waiting.batch_id <= last_done):
                await self._query.committed(last_done)
        finally:
            await self._query.close()

    # -- the query ---------------------------------------------------------------------------------------------------

    async def _start(self) -> None:
        try:
            await self._query.start(self._on_delivery)
        except AiostormError as error:
            raise self._final_if_repeated(error) from None

    def _on_delivery(self, delivery: Delivery) -> None:
        if self._finished:
            delivery.fail("the topology has ended")
            return
        self._next_delivery = delivery
        self._wakeup.set()

    async def _wait(self) -> None:
        """Wait for a batch; after POLL_S check the query."""
        self._wakeup.clear()
        try:
            async with asyncio.timeout(POLL_S):
                await self._wakeup.wait()
        except TimeoutError:
            await self._check_query()

    async def _check_query(self) -> None:
        """Check the query's status; raises if it has ended unexpectedly."""
        status = await self._query.status()
        if status.state is QueryState.RUNNING:
            return
        batch = self._batches.current
        if status.state is QueryState.ENDED and self._spec.ends and (batch is None or batch.state is BatchState.ACKED):
            log.info("%s has ended: %d batches, %d rows", self._spec.name, self._batches.done, self._batches.rows)
            self._finished = True
            self._collector.finish()
            return
        raise await self._query_ended(status)

    async def _query_ended(self, status: QueryStatus) -> AiostormError:
        """Clean up after a query that has ended unexpectedly. Returns the error to raise."""
        batch = self._batches.current
        why = status.why or "it was stopped from outside"
        if batch is not None and batch.state is BatchState.FAILED:
            why = batch.why
        self._reader.abandon(why)
        self._next_delivery = None
        await self._reader.drop()
        await self._query.stop(status, why)
        kind = SparkSourceError if status.state is QueryState.FAILED else SparkLostError
        error = kind(f"the query of {self._spec.name!r} has ended: {why}")
        error.final = status.final  # else it resumes from the checkpoint
        return self._final_if_repeated(error)

    def _final_if_repeated(self, error: AiostormError) -> AiostormError:
        """The error to raise; final if the query has failed too often."""
        if not error.final and self._batches.query_failed():
            error = type(error)(f"{error} (given up after too many failures in a row without a completed batch)")
            error.final = True
        return error

    # -- a batch -----------------------------------------------------------------------------------------------------

    async def _fetch(self) -> None:
        """Fetch the next chunk. After an error of Spark the batch is fetched again, or has failed."""
        try:
            await self._reader.fetch()
        except SparkSourceError:
            raise
        except Exception as error:
            await self._check_query()  # raises if Spark has ended
            why, is_users = await self._query.diagnose(error)
            if not is_users:
                self._reader.retry(why)
                return
            self._reader.fail(why)
            batch = self._batches.last_id
            raise SparkSourceError(f"batch {batch} of {self._spec.name!r}: {why}") from None

    def _emit(self, chunk: Piece) -> None:
        self._reader.chunk = None
        batch_id = self._batches.last_id
        metadata = {
            b"aiostorm.chunk": f"{self._spec.name}/b{batch_id}/{chunk.partition}/{chunk.number}".encode(),
            b"aiostorm.batch": str(batch_id).encode(),
        }
        batch = chunk.batch.replace_schema_metadata({**(chunk.batch.schema.metadata or {}), **metadata})
        self._collector.emit_arrow(batch, (batch_id, chunk.partition, chunk.number))
        self._batches.emitted(chunk.partition, chunk.number)


def _describe(failure: Failure) -> str:
    what = "it was not processed in time" if failure.reason == "timeout" else (failure.error or failure.reason)
    where = f" in {failure.component}" if failure.component else ""
    return f"{what}{where}, after {failure.attempts} attempts"
