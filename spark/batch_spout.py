"""SparkBatchSpout: a DataFrame as a stream of Arrow chunks, each a message that is acked, replayed and remembered.

    Spark ── partitions, a few at a time ──► feed ──► ready ──► emit_arrow(chunk, (partition, chunk)) ──► acked
      ▲                                       ▲ room            └ failed: the framework emits it again     │
      └── opened again when it has died ──────┴─────────────────────── progress, kept in a folder ◄───────┘

1. Everything that Spark does is in threads: `next_tuple` takes what is there, or returns.
2. At most `max_pending` chunks are in Python: read and not yet acked. The rest waits in Spark.
3. A chunk is delivered at least once. It is the same rows in each run, or the run ends with an error.
4. Spark that has died is started again, at most RETRIES times in a row without a chunk in between; then the task fails.
   What a restart cannot mend fails at once. Nothing waits for ever.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, ClassVar, Final

from ..actors import LoopClock
from ..topology import Failure, Outputs, Progress, Spout, SpoutCollector, TimeRole, TopologyContext
from ..transport import TlsFiles
from .batch_feed import Feed
from .batch_loads import Piece
from .batch_openers import Openers
from .batch_progress import BatchProgress
from .batch_samples import compare_samples
from .batch_source import BatchSource, Opened, Way, chosen_way
from .calls import SparkCalls, heard
from .errors import SparkLostError, SparkSourceError
from .fetching import TooLargeError
from .group_size import GroupSize
from .partitions import Known, Partitions, merged
from .sessions import SessionSource, brief, use_here

log = logging.getLogger("aiostorm.spark")

RETRIES: Final = 5
SAVE_S: Final = 1.0
END_S: Final = 15.0
AGAIN_S: Final = 0.5


class SparkBatchSpout(Spout):
    """Brings a DataFrame in: record batches of `chunk_rows` rows for `execute_arrow` bolts, tuples for all others.

    Give one of: `source` (a DataFrame, or a function that makes one, called with the SparkSession if it takes an
    argument), `sql`, or `path` (with `format` and `options`, as for `spark.read`). A DataFrame has its fields; for the
    others `fields` names them, so that no Spark is needed where the topology is only built or drawn. A function is
    called in a thread, once in each process that runs a task.

    `session`: a function that makes the SparkSession, or settings of Spark's; default: the one of this process, else a
    local one. `name`: what chunks are called (`flights/7/3`); default: the component's id. `ahead`: partitions that
    Spark computes at a time. `max_pending`: chunks in this process that are not acked yet. `in_order`: each task emits
    its partitions in their order (never pushed). `progress`: a folder from which the next run goes on; it is of this
    source, and of one state of its data (which files, of what size and time; which versions of tables). `adaptive`: let
    Spark choose the number of partitions as it runs (then a run that goes on from `progress` may find another number,
    and is refused).

    `way`: "fetch" (partitions come through the driver), "push" (executors send them; for partitions larger than
    `spark.driver.maxResultSize`), or "auto": fetch, and push where that cannot be. `push_host`: where executors reach
    this process; default: loopback, which does if all of Spark is on this machine; any other needs `push_tls`.

    `lossy_windows`: with `progress`, incremental windows behind it may lose what they hold when the process ends (it is
    acked, and not emitted again); without it such a topology is refused.
    """

    on_driver = True
    default_max_retries: ClassVar[int | None] = 3

    _closing = True  # until it is open there is nothing to end
    _feed: Feed | None = None
    _machine: Partitions

    def __init__(
        self,
        source: Any = None,
        *,
        sql: str | None = None,
        path: str | Sequence[str] | None = None,
        format: str = "parquet",  # noqa: A002 - Spark's name
        options: Mapping[str, Any] | None = None,
        fields: Sequence[str] | str | None = None,
        name: str | None = None,
        session: SessionSource = None,
        chunk_rows: int = 10_000,
        ahead: int = 2,
        max_pending: int = 8,
        in_order: bool = False,
        progress: str | None = None,
        way: Way = "auto",
        adaptive: bool = False,
        push_host: str | None = None,
        push_tls: TlsFiles | None = None,
        lossy_windows: bool = False,
    ) -> None:
        given = [what for what in (source, sql, path) if what is not None]
        if len(given) != 1:
            raise SparkSourceError("give one of: a DataFrame or a function that makes one, sql=, path=")
        is_frame = hasattr(type(source), "schema") and hasattr(type(source), "columns")
        if source is not None and not is_frame and not callable(source):
            raise SparkSourceError(f"the source is a DataFrame or a function that makes one, not {source!r:.200}")
        names = [fields] if isinstance(fields, str) else None if fields is None else list(fields)
        if names is None and not is_frame:
            raise SparkSourceError(
                "fields= must name the columns, since only a DataFrame has them before Spark runs: fields=('id', …)"
            )
        for number, what in ((chunk_rows, "chunk_rows"), (ahead, "ahead"), (max_pending, "max_pending")):
            if type(number) is not int or number < 1:
                raise SparkSourceError(f"{what} is a whole number from 1 on, not {number!r}")
        self._source = BatchSource(
            frame=source if is_frame else None,
            make=None if is_frame else source,
            sql=sql,
            path=path,
            format=format,
            options=dict(options or {}),
            session=session,
            fields=names,
            chunk_rows=chunk_rows,
            adaptive=adaptive,
        )
        frame: Any = source  # names are given, or it is a DataFrame
        self._fields = tuple(frame.columns if names is None else names)
        self._name = name
        self._chunk_rows = chunk_rows
        self._ahead = ahead
        self._max_pending = max_pending
        self._folder = progress
        self._in_order = in_order
        self._way: Way = chosen_way(way, in_order=in_order)
        self._push_host = push_host
        self._push_tls = push_tls
        self._resumes = "" if progress is None or lossy_windows else "progress="

    @property
    def time_role(self) -> TimeRole:
        """See Component."""
        return TimeRole(tells=self.watermarks, resumes=self._resumes)

    def all_outputs(self, inputs: object = None) -> Outputs:
        """See Component."""
        return self._fields

    # -- life --------------------------------------------------------------------------------------------------------

    async def open(self, context: TopologyContext, collector: SpoutCollector) -> None:
        """Open the source, and read what was kept. SparkSourceError for what must be mended."""
        self._collector = collector
        self._clock = LoopClock()
        self._index, self._tasks = context.task_index, context.parallelism
        self._title = self._name or context.component
        self._group = f"aiostorm {context.topology} {context.component}[{context.task_id}]"
        self._calls = SparkCalls(2 * self._ahead + 4, name=f"spark-{context.component}[{context.task_id}]")
        self._kept: BatchProgress | None = None
        self._feed = None
        self._opened: Opened | None = None
        self._error: Exception | None = None
        self._recovering: asyncio.Future[Any] | None = None
        self._failures = 0
        self._saved_s = self._clock.monotonic()
        self._dirty = self._closing = False
        self._openers = self._new_openers()
        try:
            self._opened = await self._calls.run(self._source.open)
            known = own = merged(())
            if self._folder is not None:
                self._kept = BatchProgress(self._folder, self._index, self._header(self._opened), self._calls)
                known, own = await self._kept.open()
            self._known_rows = known.rows if self._index == 0 else 0
            self._begin(self._opened, known, own)
            await self._go_on(self._opened, known)
        except BaseException:
            await self._end()
            raise

    def _new_openers(self) -> Openers:
        return Openers(
            self._title,
            self._group,
            self._way,
            self._chunk_rows,
            self._ahead,
            GroupSize(),
            self._push_host,
            self._push_tls,
            pushes=self._way == "push",
        )

    def _begin(self, opened: Opened, known: Known, own: Known) -> None:
        self._machine = Partitions(opened.partitions, index=self._index, tasks=self._tasks, known=known, own=own)
        self._metadata = dict(opened.schema.metadata or {})
        self._before = self._machine.done
        self._note = ""

    async def _go_on(self, opened: Opened, known: Known) -> None:
        """Compare what an earlier run has finished, say how far it was, and begin to read."""
        machine = self._machine
        if self._kept is not None and self._before:
            samples = {p: digest for p, digest in known.samples.items() if p % self._tasks == self._index}
            await self._calls.run(self._compare, opened, samples)
            if machine.is_over:
                self._note = f"done by an earlier run ({self._kept.saved_at}); remove {self._folder} to run again"
            told = f"all were {self._note}" if self._note else "they are not run again"
            level = logging.WARNING if self._note else logging.INFO
            log.log(level, "%s: %d of %d partitions: %s", self._group, self._before, machine.total, told)
        self._feed = self._new_feed(opened)
        self._feed.begin()

    def _compare(self, opened: Opened, samples: Mapping[int, int]) -> None:
        """Are finished partitions what they were? Only asked of data that nothing else tells apart. Blocks."""
        if samples and not opened.data.known:
            use_here(opened.session)
            opened.session.sparkContext.setJobGroup(self._group, f"{self._title}: samples", False)
            compare_samples(opened.frame, opened.schema, self._chunk_rows, samples, self._title)

    def _header(self, opened: Opened) -> dict[str, Any]:
        return {
            "source": self._source.identity,
            "name": self._title,
            "plan": opened.data.plan,
            "data": opened.data.text,
            "columns": [f"{field.name} {field.type}" for field in opened.schema],
            "chunk_rows": self._chunk_rows,
            "partitions": opened.partitions,
        }

    async def close(self) -> None:
        """End what runs in Spark, keep what was acked."""
        if not self._closing:
            await self._end()

    async def _end(self) -> None:
        self._closing = True
        try:
            await self._end_feed()
            if self._kept is not None and self._feed is not None:
                await self._kept.save(self._state())
        finally:  # also if it is interrupted: threads do what they were asked before they end
            if self._feed is not None:
                self._calls.begin(self._feed.close).add_done_callback(heard)
            closing = self._calls.begin(self._source.close if self._opened is not None else bool)
            closing.add_done_callback(heard)
            self._calls.close()
            if self._kept is not None:
                await self._kept.close()
            await self._bounded(asyncio.shield(closing))

    async def _end_feed(self) -> None:
        feed = self._feed
        if feed is None:
            return
        feed.stop()

        async def end() -> None:
            while True:  # a job may begin just after those that ran were cancelled
                await self._calls.run(feed.close)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(AGAIN_S):
                        return await feed.ended()

        await self._bounded(end())

    async def _bounded(self, work: Awaitable[Any]) -> None:
        """What Spark is asked to do at the end: it may be dead, or stuck."""
        try:
            async with asyncio.timeout(END_S):
                await work
        except TimeoutError:
            log.warning("%s: Spark did not answer within %g s; its threads are left behind", self._group, END_S)
        except Exception as error:
            log.debug("%s: while it ended", self._group, exc_info=error)

    # -- emitting ----------------------------------------------------------------------------------------------------

    def next_tuple(self) -> Any:
        """Emit the next chunk, if one is there."""
        if self._error is not None:
            error, self._error = self._error, None
            if not getattr(error, "final", False):
                self._recover(error)
            else:
                self._error = error  # and again, should anybody ask again
            raise error
        feed = self._feed
        if feed is None:
            return None
        if feed.ready:
            self._emit(feed.ready.popleft())
        elif self._machine.is_over:
            return self._finish()
        if self._dirty and self._kept is not None and self._clock.monotonic() - self._saved_s >= SAVE_S:
            return self._save()
        return None

    def _emit(self, piece: Piece) -> None:
        chunk = f"{self._title}/{piece.partition}/{piece.number}"
        batch = piece.batch.replace_schema_metadata({**self._metadata, b"aiostorm.chunk": chunk.encode()})
        self._dirty = True
        self._failures = 0
        self._collector.emit_arrow(batch, (piece.partition, piece.number))

    def ack(self, message_id: Any) -> None:
        """A chunk is done."""
        self._machine.acked(*message_id)
        self._moved()

    def fail(self, message_id: Any, failure: Failure) -> None:
        """A chunk failed more often than `topology.max.retries` allows: this run goes on without it."""
        self._machine.given_up(*message_id)
        self._moved()

    def _moved(self) -> None:
        self._dirty = True
        if self._feed is not None:
            self._feed.pump()
        if self._machine.is_over:
            self._collector.wake()

    async def _save(self) -> None:
        assert self._kept is not None  # noqa: S101 - for the type checker
        self._dirty, self._saved_s = False, self._clock.monotonic()
        await self._kept.save(self._state())

    def _state(self) -> Mapping[str, Any]:
        opened = self._opened
        return self._machine.state(samples=opened is None or not opened.data.known)

    async def _finish(self) -> None:
        if self._kept is not None:
            await self._save()
        self._collector.finish()

    def progress(self) -> Progress | None:
        """Partitions done of all, and rows acked."""
        if self._feed is None:
            return None
        machine = self._machine
        rows = machine.rows + self._known_rows
        return Progress(machine.done, machine.total, "partitions", rows, self._before, self._note)

    # -- Spark fails -------------------------------------------------------------------------------------------------

    def _new_feed(self, opened: Opened) -> Feed:
        feed = Feed(
            self._machine,
            self._openers.make(opened, self._machine),
            self._calls,
            ahead=self._ahead,
            max_pending=self._max_pending,
            in_order=self._in_order,
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
            self._recovering = self._calls.begin(self._told, error, opened)
            self._recovering.add_done_callback(self._judged)
        self._collector.wake()

    def _told(self, error: Exception, opened: Opened) -> Exception:
        return self._openers.told(error, opened, can_reopen=self._source.can_reopen)

    def _judged(self, told: asyncio.Future[Exception]) -> None:
        self._recovering = None
        if self._closing or told.cancelled():
            return
        failure = told.exception()
        error: Exception = told.result() if failure is None else RuntimeError(repr(failure))
        self._openers.size.too_large()
        if isinstance(error, TooLargeError):
            if error.partitions > 1:
                self._recover(error)
                return
            if self._way == "auto":
                log.info("%s: a partition is larger than spark.driver.maxResultSize: executors push", self._title)
                self._openers.pushes = True
                self._recover(error)
                return
            error = SparkSourceError(
                f"{self._title}: a partition is larger than spark.driver.maxResultSize: use more partitions "
                '(df.repartition), or way="auto" without in_order'
            )
        self._failures += 1
        if self._failures > RETRIES and not getattr(error, "final", False):
            error = SparkSourceError(f"{error}; so it was {self._failures} times in a row: given up")
        self._error = error
        self._collector.wake()

    def _recover(self, error: Exception) -> None:
        """Go on from what is acked or open, with the source as it is or opened again."""
        lost, samples = isinstance(error, SparkLostError), self._machine.samples
        feed, opened = self._feed, self._opened
        assert feed is not None and opened is not None  # noqa: S101, PT018 - there was a feed that failed

        def again() -> Opened:
            try:
                feed.close()
            except Exception:
                log.debug("%s: what was left of it", self._group, exc_info=True)
            if not lost:
                return opened
            anew = self._source.open(opened)
            self._compare(anew, samples)
            return anew

        self._recovering = self._calls.begin(again)
        self._recovering.add_done_callback(self._recovered)

    def _recovered(self, again: asyncio.Future[Opened]) -> None:
        self._recovering = None
        if self._closing or again.cancelled():
            return
        failure = again.exception()
        if failure is not None:
            self._failures += 1
            error = failure if isinstance(failure, Exception) else RuntimeError(repr(failure))
            if self._failures > RETRIES and not getattr(error, "final", False):
                error = SparkSourceError(f"{self._title}: {error}; so it was {self._failures} times in a row: given up")
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
                f"{self._title}: opened again it is another source: {before} before, {now} now"
            )
            self._collector.wake()
            return
        self._opened = opened
        self._machine.lost()
        self._feed = self._new_feed(opened)
        self._feed.begin()
        self._collector.wake()
