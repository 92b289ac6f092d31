"""Stream run: runs an open SparkStreamSpout: starts the query, emits its batches, checks the query, ends it.

    (no query) ─ start ─► waiting ─ a batch comes ─► emitting its chunks ─ fetched ─► waiting … all acked: Spark goes on
        ▲                    │ every POLL_S: status of the query      │ fetching failed: again, from the beginning
        └── raise: backoff ──┴──────── it has ended ──────────────────┘

1. All of it runs in `next_tuple`, except acks and fails: a complete batch is returned to Spark at once, also while the
   topology drains.
2. The event loop makes no calls of Spark. A cancelled call goes on in its thread; its effect is undone.
3. While the topology is deactivated no batch is started, and no chunk emitted.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator
from typing import Any, Final

from ...runtime import AiostormError
from ...topology import Failure, Progress, SpoutCollector
from ..batch.readers import Piece
from ..calls import SparkCalls
from ..errors import SparkLostError, SparkSourceError
from ..jvm_watch import JvmWatch
from ..sessions import brief, is_user_error
from .batches import BatchState, MicroBatch, StreamBatches
from .chunks import StreamChunks
from .foreach_batch import Delivery, ForeachBatch
from .query import QuerySpec, QueryState, QueryStatus, StreamQuery
from .session import StreamSession

log = logging.getLogger("aiostorm.spark")

POLL_S: Final = 0.5
"""The interval in which the query's status is checked."""

ANSWER_S: Final = 60.0
"""A JVM that does not answer for this time counts as dead."""

COMMIT_S: Final = 3.0
"""How long `end` waits for Spark to commit acked batches."""


class StreamRun:
    """The run of one open spout."""

    def __init__(
        self,
        spec: QuerySpec,
        session: Any,
        collector: SpoutCollector,
        *,
        chunk_rows: int,
        ahead: int,
        max_attempts: int,
    ) -> None:
        self._spec = spec
        self._collector = collector
        self._calls = SparkCalls(ahead + 2, name=f"spark-{spec.name}")
        self._watch = JvmWatch(self._calls.name)
        self._fetch = StreamChunks(self._calls, self._watch, spec.title, chunk_rows=chunk_rows, ahead=ahead)
        self._session = StreamSession(spec.source, session)
        self._batches = StreamBatches(spec.name, max_attempts)
        self._loop = asyncio.get_running_loop()
        self._wakeup = asyncio.Event()
        self._active = False
        self._finished = False
        self._query: StreamQuery | None = None
        self._next_delivery: Delivery | None = None  # brought by Spark, not started
        self._delivery: Delivery | None = None  # started, not settled
        self._dataframe: Any = None
        self._chunks: AsyncGenerator[Piece, None] | None = None
        self._chunk: Piece | None = None  # fetched, not emitted: the topology was deactivated
        self._last_done = -1

    # -- calls of the spout ------------------------------------------------------------------------------------------

    async def begin(self) -> None:
        """Make sure that there is a session: errors are reported when the topology is submitted."""
        await self._watch.during(self._calls.begin(self._session.get))

    async def next_tuple(self) -> None:
        """Wait for the next chunk and emit it; return without one if the query has ended or the spout is inactive."""
        while self._active and not self._finished:
            if self._query is None:
                await self._start()
            elif self._chunks is not None:
                if await self._emit_next(self._chunks):
                    return
            elif self._next_delivery is not None:
                self._begin_batch(self._next_delivery)
            else:
                await self._wait()

    def set_active(self, active: bool) -> None:
        """Activate or deactivate: while inactive a new batch waits, and Spark with it."""
        self._active = active
        self._wakeup.set()

    def acked(self, batch_id: int, partition: int, chunk: int) -> None:
        """A message is acked."""
        batch = self._batches.of(batch_id)
        if batch is not None:
            batch.acked(partition, chunk)
            self._settle(batch)

    def failed(self, batch_id: int, partition: int, chunk: int, failure: Failure) -> None:
        """A message has failed, and is not replayed again."""
        batch = self._batches.of(batch_id)
        if batch is not None:
            batch.failed(partition, chunk, _describe(failure))
            self._settle(batch)

    def progress(self) -> Progress:
        """The done batches of those that were brought."""
        done = self._batches.done
        return Progress(
            done, done + (self._delivery is not None or self._next_delivery is not None), "batches", self._batches.rows
        )

    def result(self) -> dict[str, Any]:
        """The summary at the end."""
        return {"batches": self._batches.done, "rows": self._batches.rows, "last_batch": self._last_done}

    async def end(self) -> None:
        """Stop the query and release the session. A waiting call of Spark is failed at once."""
        self._finished = True
        batch = self._batches.current
        if batch is not None:
            batch.abandon("the topology has ended")
            self._settle(batch)
        try:
            await self._drop_chunks()
            await self._committed()
        finally:
            query, self._query = self._query, None
            try:
                await self._calls.run(self._end_all, query)  # goes on in its thread if this task is cancelled
            finally:
                self._calls.close()
                self._watch.close()

    # -- the query ---------------------------------------------------------------------------------------------------

    async def _start(self) -> None:
        self._query = query = StreamQuery(self._spec, self._session.get, ForeachBatch(self._loop, self._on_delivery))
        try:
            await self._watch.during(self._calls.begin(query.start))
        except AiostormError as error:
            self._query = None
            raise self._final_if_repeated(error) from None

    def _on_delivery(self, delivery: Delivery) -> None:
        """Spark brings a batch."""
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
        if self._query is None:
            return
        try:
            async with asyncio.timeout(ANSWER_S):
                status = await self._calls.run(self._query.status)
        except TimeoutError:
            await self._query_ended(
                QueryStatus(QueryState.LOST, f"Spark has not answered for {ANSWER_S:g} s"), responds=False
            )
            return
        if status.state is QueryState.RUNNING:
            return
        batch = self._batches.current
        if status.state is QueryState.ENDED and self._spec.ends and (batch is None or batch.state is BatchState.ACKED):
            log.info("%s has ended: %d batches, %d rows", self._spec.name, self._batches.done, self._batches.rows)
            self._finished = True
            self._collector.finish()
            return
        await self._query_ended(status)

    async def _query_ended(self, status: QueryStatus, *, responds: bool = True) -> None:
        """Clean up after the query, and raise in next_tuple. A JVM that does not answer is not called again."""
        why = status.why or "it was stopped from outside"
        batch, query = self._batches.current, self._query
        if batch is not None:
            if batch.state is BatchState.FAILED:
                why = batch.why
            batch.abandon(why)
            self._settle(batch)
        self._query = self._next_delivery = None
        await self._drop_chunks()
        responds = responds or self._session.kill()
        if query is not None and responds:
            await self._calls.run(query.stop, why)
        kind = SparkSourceError if status.state is QueryState.FAILED else SparkLostError
        error = kind(f"the query of {self._spec.name!r} has ended: {why}")
        error.final = not responds  # else it resumes from the checkpoint
        raise self._final_if_repeated(error)

    def _final_if_repeated(self, error: AiostormError) -> AiostormError:
        """The error to raise; final if the query has failed too often."""
        if not error.final and self._batches.query_failed():
            error = type(error)(f"{error} (given up after too many failures in a row without a completed batch)")
            error.final = True
        return error

    # -- a batch -----------------------------------------------------------------------------------------------------

    def _begin_batch(self, delivery: Delivery) -> None:
        self._next_delivery = None
        try:
            batch = self._batches.begin(delivery.batch_id)
        except SparkSourceError as error:
            delivery.fail(str(error))
            raise
        self._delivery, self._dataframe = delivery, delivery.dataframe
        self._begin_pass(batch)

    def _begin_pass(self, batch: MicroBatch) -> None:
        batch.begin_pass()
        self._chunks = self._fetch.of(self._dataframe)

    async def _emit_next(self, chunks: AsyncGenerator[Piece, None]) -> bool:
        """Emit the next chunk of the batch, or handle its end. True: emitted."""
        batch = self._batches.current
        if batch is None or batch.settled:
            await self._drop_chunks()
            return False
        try:
            chunk = self._chunk or await anext(chunks, None)
        except SparkSourceError as error:
            batch.broken(str(error))
            self._settle(batch)
            await self._drop_chunks()
            raise
        except Exception as error:
            await self._drop_chunks()
            await self._check_query()  # raises if Spark has ended
            why, users = await self._calls.run(_diagnose, error)
            if users:  # a retry would fail too
                batch.broken(why)
                self._settle(batch)
                raise SparkSourceError(f"batch {batch.batch_id} of {self._spec.name!r}: {why}") from None
            if batch.pass_failed(why):
                log.warning("%s: batch %d is fetched again: %s", self._spec.name, batch.batch_id, why)
                self._begin_pass(batch)
            self._settle(batch)
            return False
        self._chunk = None
        if self._batches.of(batch.batch_id) is not batch:  # the batch has ended meanwhile
            return False
        if not self._active:
            self._chunk = chunk
            return False
        try:
            if chunk is None:
                batch.end_pass()
            elif batch.offer(chunk.partition, chunk.number, chunk.digest, chunk.rows):
                self._emit(batch.batch_id, chunk)
                return True
        except SparkSourceError as error:
            batch.broken(str(error))
            await self._drop_chunks()
            raise
        finally:
            self._settle(batch)
        if chunk is None:
            await self._drop_chunks()
        return False

    def _emit(self, batch_id: int, chunk: Piece) -> None:
        metadata = {
            b"aiostorm.chunk": f"{self._spec.name}/b{batch_id}/{chunk.partition}/{chunk.number}".encode(),
            b"aiostorm.batch": str(batch_id).encode(),
        }
        batch = chunk.batch.replace_schema_metadata({**(chunk.batch.schema.metadata or {}), **metadata})
        self._collector.emit_arrow(batch, (batch_id, chunk.partition, chunk.number))

    def _settle(self, batch: MicroBatch) -> None:
        """Return the batch to Spark if it has ended."""
        delivery = self._delivery
        if delivery is None or not batch.settled or batch is not self._batches.current:
            return
        self._delivery = self._dataframe = None
        if batch.state is BatchState.ACKED:
            self._batches.count(batch)
            self._last_done = batch.batch_id
            delivery.done()
        else:
            delivery.fail(batch.why)
        self._wakeup.set()

    async def _drop_chunks(self) -> None:
        chunks, self._chunks, self._chunk = self._chunks, None, None
        if chunks is not None:
            await chunks.aclose()

    # -- the end -----------------------------------------------------------------------------------------------------

    async def _committed(self) -> None:
        """Wait until Spark has committed the acked batch: otherwise it would come again after a restart."""
        query = self._query
        brought_next = self._next_delivery is not None and self._next_delivery.batch_id > self._last_done
        if query is None or self._last_done < 0 or brought_next:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(COMMIT_S):
                while True:
                    status = await self._calls.run(query.status)
                    if status.state is not QueryState.RUNNING or status.committed >= self._last_done:
                        return
                    await asyncio.sleep(0.02)

    def _end_all(self, query: StreamQuery | None) -> None:
        if query is not None:
            query.stop("the topology has ended")
        self._session.release()


def _diagnose(error: Exception) -> tuple[str, bool]:
    """The error's message, and whether user code or a row has failed. Blocks: it calls the JVM."""
    why = brief(error)
    return why, is_user_error(error, why)


def _describe(failure: Failure) -> str:
    what = "it was not processed in time" if failure.reason == "timeout" else (failure.error or failure.reason)
    where = f" in {failure.component}" if failure.component else ""
    return f"{what}{where}, after {failure.attempts} attempts"
