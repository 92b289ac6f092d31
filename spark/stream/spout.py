"""SparkStreamSpout: a streaming query of Spark as a source of columns. A micro-batch is committed when it is acked.

    Spark: batch n ─► ForeachBatch ─► next_tuple: fetch, emit chunk after chunk ─► acks … all ─► returns ─► batch n+1
                                        │ fetching failed: again             └ a chunk failed for good ─► raises:
                                        └ …                                    the query fails, and is restarted

1. At least once: Spark commits a batch when all its trees are acked. After a crash it brings the same batch again, with
   the same id and the same chunks: a message's id is (batch id, partition, chunk), and is sent with the columns.
2. A chunk that fails is replayed by the framework, `max_batch_attempts` times in all; then the batch has failed.
3. A query that fails, is stopped from outside, or whose JVM dies, is restarted from its checkpoint, with backoff. After
   `MAX_FAILURES` in a row without a completed batch, and if a restart cannot help, the topology fails.
4. One query, so one task.
5. With exactly-once a snapshot contains what was emitted (positions.py): Spark commits a batch when a durable snapshot
   contains all of it, and a batch that comes again is not emitted again.
6. At the end, Spark's waiting call is failed; a batch that is not acked by then comes again at the next start.

From: Spark's foreachBatch; Storm's Trident (batches with transaction ids).
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

from ...topology import DEFAULT_STREAM, Failure, Fields, Progress, Spout, SpoutCollector, TimeRole, TopologyContext
from ..errors import SparkSourceError
from .query import QuerySpec
from .run import StreamLimits, StreamRun
from .session import known_columns


class SparkStreamSpout(Spout):
    """A Structured Streaming query as a spout: `SparkStreamSpout(lambda spark: …, "/data/checkpoint", fields=[…])`.

    `source`: a streaming DataFrame, or a function that makes one, called with the SparkSession if it takes an argument
    (in a thread, and again after each failure). `fields`: the names of the columns. They may be left out for a
    DataFrame, and where a session runs already in this process: then the function is called once more, here. Name them
    if the topology is built in worker processes, or drawn, where there is no Spark. `checkpoint`: a folder of this
    query's own, on any file system that Spark knows. `name`: in ids of chunks (the component's id).
    `session`: a SparkSession, a function that makes one, or settings for one; without it the one of this process, or a
    local one. `trigger`: as of `DataStreamWriter.trigger`: {"processingTime": "1 second"}, {"availableNow": True}; with
    the latter the spout finishes. `output_mode`: as of `DataStreamWriter.outputMode`. `chunk_rows`: rows of a message,
    at most; `ahead`: groups of partitions that are computed at once; `max_pending`: chunks that may be under way.
    `max_batch_attempts`: how often a chunk is emitted, and a batch's data fetched, before the batch has failed.
    `lossy_windows`: incremental windows behind it may lose what they hold when the process ends (Spark has committed
    it); without it such a topology is refused.
    """

    on_driver = True

    def __init__(
        self,
        source: Any,
        checkpoint: str,
        *,
        fields: Sequence[str] | str | None = None,
        name: str | None = None,
        session: Any = None,
        trigger: Mapping[str, Any] | None = None,
        output_mode: str | None = None,
        chunk_rows: int = 10_000,
        ahead: int = 2,
        max_pending: int = 8,
        max_batch_attempts: int = 3,
        lossy_windows: bool = False,
    ) -> None:
        limits = StreamLimits(chunk_rows, ahead, max_pending, max_batch_attempts)
        if not checkpoint or not isinstance(checkpoint, str):
            raise ValueError(f"checkpoint is the folder where Spark keeps how far the query is, not {checkpoint!r}")
        if trigger is not None and not isinstance(trigger, Mapping):
            raise ValueError(f'trigger is a mapping, as {{"processingTime": "10 seconds"}}, not {trigger!r}')
        if not callable(source):
            if not hasattr(source, "isStreaming"):
                raise TypeError(f"source is a streaming DataFrame or a function that makes one, not {source!r:.200}")
            if session is not None:
                raise ValueError("a DataFrame has its session already: leave session= out, or make source a function")
            fields = source.columns if fields is None else fields
        if fields is None:
            fields = known_columns(source, session)
        names = Fields(*((fields,) if isinstance(fields, str) else fields))
        # Declared per class elsewhere; here each spout has its own.
        self.outputs = {DEFAULT_STREAM: names}  # type: ignore[misc]
        self.config = {"max_spout_pending": max_pending, "max_retries": max_batch_attempts - 1}  # type: ignore[misc]
        self._spec = QuerySpec(name or "", "", source, names.names, checkpoint, dict(trigger or {}), output_mode)
        self._session = session
        self._limits = limits
        self._resumes = "" if lossy_windows else "a checkpoint"
        self._run: StreamRun | None = None

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return copy.copy(self)  # for one task; a session or a DataFrame cannot be copied

    @property
    def spark_session(self) -> Any:
        """The settings of its session, or the function that makes one."""
        return self._session

    @property
    def time_role(self) -> TimeRole:
        return TimeRole(emits_watermarks=self.watermarks, resumes=self._resumes)

    async def open(self, context: TopologyContext, collector: SpoutCollector) -> None:
        if context.parallelism > 1:
            raise SparkSourceError(
                f"{context.component!r} has parallelism {context.parallelism}: a streaming query has one task, since "
                "Spark brings one batch at a time. Give the bolts behind it more tasks, or use a second query"
            )
        name, title = self._spec.name or context.component, f"{context.topology}/{context.component}"
        spec = replace(self._spec, name=name, title=title)
        exact = context.config.guarantee == "exactly-once"
        self._run = StreamRun(spec, self._session, collector, self._limits, exact=exact)
        try:
            await self._run.begin()
        except BaseException:
            await self._run.end()
            raise

    async def next_tuple(self) -> None:
        await self._opened.next_tuple()

    def ack(self, message_id: Any) -> None:
        batch_id, partition, chunk = message_id
        self._opened.acked(batch_id, partition, chunk)

    def fail(self, message_id: Any, failure: Failure) -> None:
        batch_id, partition, chunk = message_id
        self._opened.failed(batch_id, partition, chunk, failure)

    def snapshot(self) -> dict[str, Any] | None:
        """What of the last batch was emitted."""
        return self._opened.snapshot()

    def restore(self, position: dict[str, Any] | None) -> None:
        """Continue after this position. SparkSourceError if it is none."""
        self._opened.restore(position)

    def committed(self, number: int) -> None:
        """Spark may commit a batch that is in the snapshot."""
        self._opened.committed()

    def activate(self) -> None:
        self._opened.set_active(True)

    def deactivate(self) -> None:
        self._opened.set_active(False)

    async def close(self) -> None:
        if self._run is not None:
            await self._run.end()

    def progress(self) -> Progress | None:
        return None if self._run is None else self._run.progress()

    def result(self) -> dict[str, Any] | None:
        return None if self._run is None else self._run.result()

    @property
    def _opened(self) -> StreamRun:
        if self._run is None:
            raise RuntimeError("the spout is not open")
        return self._run
