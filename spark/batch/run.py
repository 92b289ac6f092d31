"""Batch run: runs an open SparkBatchSpout: opens the source, emits its chunks, saves the progress, recovers from
errors.

    begin ─► source opened ─► progress read ─► finished partitions compared ─► feed ─► next_tuple: emit, save, finish
                 ▲                                                               │
                 └────────────── lost: opened again ◄── explained ◄──── error ───┘

1. All calls of Spark are in threads: `next_tuple` emits a ready chunk, or returns.
2. Spark that has died is restarted, at most RETRIES times in a row without a chunk in between; then the task fails.
   Errors that a restart cannot correct fail the task at once. Nothing waits for ever.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Mapping
from typing import Any, Final

from ...runtime import LoopClock
from ...topology import Progress, SpoutCollector, TopologyContext
from ..calls import SparkCalls, log_error
from ..connect import refuse
from ..errors import SparkLostError, SparkSourceError
from ..jvm_watch import JvmWatch
from ..sessions import brief
from .feed import Feed, close_quietly
from .fetching import TooLargeError
from .group_size import GroupSize
from .openers import OpenerFactory
from .options import BatchOptions
from .partitions import Partitions, SavedProgress, merged
from .progress import BatchProgress
from .readers import Piece
from .samples import compare_samples
from .source import BatchSource, OpenedSource

log = logging.getLogger("aiostorm.spark")

RETRIES: Final = 5
SAVE_S: Final = 1.0
END_S: Final = 15.0
AGAIN_S: Final = 0.5
_NO_PROGRESS: Final = (
    "the client cannot see which files and versions a plan reads, so the data of two days could be mixed. Leave out "
    "progress=, or give a session of a master"
)


class BatchRun:
    """The run of one open spout."""

    _machine: Partitions

    def __init__(
        self, source: BatchSource, options: BatchOptions, context: TopologyContext, collector: SpoutCollector
    ) -> None:
        self._source = source
        self._options = options
        self._collector = collector
        self._clock = LoopClock()
        self._index, self._tasks = context.task_index, context.parallelism
        self._title = options.name or context.component
        self._group = f"aiostorm {context.topology} {context.component}[{context.task_id}]"
        self._calls = SparkCalls(2 * options.ahead + 4, name=f"spark-{context.component}[{context.task_id}]")
        self._watch = JvmWatch(self._calls.name)
        self._progress_store: BatchProgress | None = None
        self._feed: Feed | None = None
        self._opened: OpenedSource | None = None
        self._error: Exception | None = None
        self._recovering: asyncio.Future[Any] | None = None
        self._failures = 0
        self._saved_s = self._clock.monotonic()
        self._dirty = self._closing = False
        self._openers = self._new_openers()

    async def begin(self) -> None:
        """Open the source, and read the saved progress. SparkSourceError if the user must correct something."""
        try:
            opened = await self._watch.during(self._calls.begin(self._source.open))
            self._opened = opened
            self._watch.watch_sessions(opened.session, opened.frame.sparkSession)
            known = own = merged(())
            folder = self._options.progress
            if folder is not None:
                refuse(opened.session, "progress=", _NO_PROGRESS)
                self._progress_store = BatchProgress(folder, self._index, self._header(opened), self._calls)
                known, own = await self._progress_store.open()
            self._known_rows = known.rows if self._index == 0 else 0
            self._begin(opened, known, own)
            await self._resume(opened, known)
        except BaseException:
            await self._end()
            raise

    def _new_openers(self) -> OpenerFactory:
        return OpenerFactory(
            self._title,
            self._group,
            self._options.way,
            self._options.ahead,
            GroupSize(),
            self._options.push_host,
            self._options.push_tls,
            pushes=self._options.way == "push",
        )

    def _begin(self, opened: OpenedSource, known: SavedProgress, own: SavedProgress) -> None:
        self._machine = Partitions(opened.partitions, index=self._index, tasks=self._tasks, known=known, own=own)
        self._metadata = dict(opened.schema.metadata or {})
        self._before = self._machine.done
        self._note = ""

    async def _resume(self, opened: OpenedSource, known: SavedProgress) -> None:
        """Compare partitions that an earlier run has finished, log its progress, and start to read."""
        machine = self._machine
        if self._progress_store is not None and self._before:
            samples = {p: digest for p, digest in known.samples.items() if p % self._tasks == self._index}
            await self._watch.during(self._calls.begin(self._compare, opened, samples))
            if machine.is_settled:
                saved_at = self._progress_store.saved_at
                self._note = f"done by an earlier run ({saved_at}); remove {self._options.progress} to run again"
            state = f"all were {self._note}" if self._note else "they are not run again"
            level = logging.WARNING if self._note else logging.INFO
            log.log(level, "%s: %d of %d partitions: %s", self._group, self._before, machine.total, state)
        self._feed = self._new_feed(opened)
        self._feed.begin()

    def _compare(self, opened: OpenedSource, samples: Mapping[int, int]) -> None:
        """Compare samples of finished partitions, for data without a known identity. Blocks."""
        if samples and not opened.data.is_known:
            self._openers.name_jobs(opened, "samples")
            compare_samples(opened, samples, self._title)

    def _header(self, opened: OpenedSource) -> dict[str, Any]:
        return {
            "source": self._source.identity,
            "name": self._title,
            "plan": opened.data.plan,
            "data": opened.data.text,
            "columns": [f"{field.name} {field.type}" for field in opened.schema],
            "chunk_rows": opened.chunk_rows,
            "partitions": opened.partitions,
        }

    async def end(self) -> None:
        """End the jobs in Spark, and save the progress."""
        if not self._closing:
            await self._end()

    async def _end(self) -> None:
        self._closing = True
        try:
            await self._end_feed()
            if self._progress_store is not None and self._feed is not None:
                await self._progress_store.save(self._state())
        finally:  # also if it is cancelled: threads finish their calls before they end
            if self._feed is not None:
                self._calls.begin(self._feed.close).add_done_callback(log_error)
            closing = self._calls.begin(self._source.close if self._opened is not None else bool)
            closing.add_done_callback(log_error)
            self._calls.close()
            self._watch.close()
            if self._progress_store is not None:
                await self._progress_store.close()
            await self._bounded(asyncio.shield(closing))

    async def _end_feed(self) -> None:
        feed = self._feed
        if feed is None:
            return
        feed.stop()

        async def end() -> None:
            while True:  # a job may start just after the running ones were cancelled
                await self._calls.run(feed.close)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(AGAIN_S):
                        return await feed.ended()

        await self._bounded(end())

    async def _bounded(self, work: Awaitable[Any]) -> None:
        """Wait for a last call of Spark, for a limited time: Spark may be dead, or hang."""
        try:
            async with asyncio.timeout(END_S):
                await work
        except TimeoutError:
            log.warning("%s: Spark did not answer within %g s; its threads are abandoned", self._group, END_S)
        except Exception as error:
            log.debug("%s: while it ended", self._group, exc_info=error)

    # -- emitting ----------------------------------------------------------------------------------------------------

    def next_tuple(self) -> Any:
        """Emit the next chunk, if one is ready."""
        if self._error is not None:
            error, self._error = self._error, None
            if not getattr(error, "final", False):
                self._recover(error)
            else:
                self._error = error  # raised again by the next call
            raise error
        feed = self._feed
        if feed is None:
            return None
        if not self._machine.is_read and self._watch.is_hung(self._clock.monotonic()):
            error = self._watch.end_jvm()  # its waiting calls fail, and it is started again
            if error.final:
                self._error = error
                raise error
        if feed.ready:
            self._emit(feed.ready.popleft())
        elif self._machine.is_settled:
            return self._finish()
        if self._dirty and self._progress_store is not None and self._clock.monotonic() - self._saved_s >= SAVE_S:
            return self._save()
        return None

    def _emit(self, piece: Piece) -> None:
        chunk = f"{self._title}/{piece.partition}/{piece.number}"
        batch = piece.batch.replace_schema_metadata({**self._metadata, b"aiostorm.chunk": chunk.encode()})
        self._dirty = True
        self._failures = 0
        self._collector.emit_arrow(batch, (piece.partition, piece.number))

    def acked(self, partition: int, number: int) -> None:
        """A chunk is acked."""
        self._machine.acked(partition, number)
        self._on_progress()

    def failed(self, partition: int, number: int) -> None:
        """A chunk failed more often than `topology.max.retries` allows: this run goes on without it."""
        self._machine.given_up(partition, number)
        self._on_progress()

    def _on_progress(self) -> None:
        self._dirty = True
        if self._feed is not None:
            self._feed.pump()
        if self._machine.is_settled:
            self._collector.wake()

    async def _save(self) -> None:
        assert self._progress_store is not None  # noqa: S101 - for the type checker
        self._dirty, self._saved_s = False, self._clock.monotonic()
        await self._progress_store.save(self._state())

    def _state(self) -> Mapping[str, Any]:
        opened = self._opened
        return self._machine.state(samples=opened is None or not opened.data.is_known)

    async def _finish(self) -> None:
        if self._progress_store is not None:
            await self._save()
        self._collector.finish()

    def progress(self) -> Progress | None:
        """The finished partitions of all, and the acked rows."""
        if self._feed is None:
            return None
        machine = self._machine
        rows = machine.rows + self._known_rows
        return Progress(machine.done, machine.total, "partitions", rows, self._before, self._note)

    # -- Spark fails -------------------------------------------------------------------------------------------------

    def _new_feed(self, opened: OpenedSource) -> Feed:
        feed = Feed(
            self._machine,
            self._openers.make(opened, self._machine),
            self._calls,
            ahead=self._options.ahead,
            max_pending=self._options.max_pending,
            in_order=self._options.in_order,
            changed=self._changed,
        )
        if self._feed is not None:
            feed.ready = self._feed.ready
        return feed

    def _changed(self) -> None:
        feed = self._feed
        if feed is not None and feed.error is not None and self._recovering is None and not self._closing:
            opened = self._opened
            assert opened is not None  # noqa: S101 - there is a feed
            error = feed.error
            self._recovering = self._calls.begin(self._explain, error, opened)
            self._recovering.add_done_callback(self._on_explained)
        self._collector.wake()

    def _explain(self, error: Exception, opened: OpenedSource) -> Exception:
        return self._openers.explain(error, opened, can_reopen=self._source.can_reopen)

    def _on_explained(self, explained: asyncio.Future[Exception]) -> None:
        self._recovering = None
        if self._closing or explained.cancelled():
            return
        failure = explained.exception()
        error: Exception = explained.result() if failure is None else RuntimeError(repr(failure))
        self._openers.size.too_large()
        if isinstance(error, TooLargeError):
            if error.partitions > 1:
                self._recover(error)
                return
            if self._options.way == "auto":
                log.info("%s: a partition is larger than %s: executors push", self._title, error.than)
                self._openers.pushes = True
                self._recover(error)
                return
            error = SparkSourceError(
                f"{self._title}: a partition is larger than {error.than}: use more partitions "
                '(df.repartition), or way="auto" without in_order'
            )
        if isinstance(error, SparkLostError) and self._failures and self._options.way == "auto":
            self._openers.pushes = True  # lost twice without a chunk: the JVM may be too small for a partition
        self._failures += 1
        if self._failures > RETRIES and not getattr(error, "final", False):
            error = SparkSourceError(f"{error}; given up after {self._failures} failures in a row")
        self._error = error
        self._collector.wake()

    def _recover(self, error: Exception) -> None:
        """Resume from the acked and open chunks, with the same source or a new one."""
        lost, samples = isinstance(error, SparkLostError), self._machine.samples
        feed, opened = self._feed, self._opened
        assert feed is not None and opened is not None  # noqa: S101, PT018 - there was a feed that failed

        def again() -> OpenedSource:
            ended = close_quietly(feed, opened.session, self._group)
            if not lost and not ended:
                return opened
            anew = self._source.open(opened)
            self._compare(anew, samples)
            return anew

        self._recovering = self._calls.begin(again)
        self._recovering.add_done_callback(self._on_recovered)

    def _on_recovered(self, again: asyncio.Future[OpenedSource]) -> None:
        self._recovering = None
        if self._closing or again.cancelled():
            return
        failure = again.exception()
        if failure is not None:
            self._failures += 1
            error = failure if isinstance(failure, Exception) else RuntimeError(repr(failure))
            if self._failures > RETRIES and not getattr(error, "final", False):
                error = SparkSourceError(f"{self._title}: {error}; given up after {self._failures} failures in a row")
            elif not isinstance(error, SparkSourceError | SparkLostError):
                error = SparkLostError(f"{self._title}: it could not be opened again: {brief(error)}")
            self._error = error
            self._collector.wake()
            return
        opened = again.result()
        assert self._opened is not None  # noqa: S101 - it was opened before
        before, now = self._header(self._opened), self._header(opened)
        if before != now:
            self._error = SparkSourceError(
                f"{self._title}: the source has changed when it was opened again: {before} before, {now} now"
            )
            self._collector.wake()
            return
        self._opened = opened
        self._watch.watch_sessions(opened.session, opened.frame.sparkSession)
        self._machine.source_lost()
        self._feed = self._new_feed(opened)
        self._feed.begin()
        self._collector.wake()
