"""Batch run: runs an open SparkBatchSpout: opens the source, emits its chunks, saves the progress.

    begin ─► source opened ─► progress read ─► finished partitions compared ─► Reading.run, a task of its own
    next_tuple ─► raise its error, or emit a ready chunk, or finish; save the progress          end ─► cancel it, save

    exactly once: begin ─► source opened      restore(position), or the first next_tuple ─► compared ─► Reading.run

1. All calls of Spark are in threads: `next_tuple` emits a ready chunk, or returns.
2. Nothing waits for ever: a JVM that hangs is detected in `next_tuple`, and `end` waits for a limited time.
3. With exactly-once a chunk is done when it is emitted, in the same step of the event loop: so the state of the machine
   is the position, and `max_pending` bounds the chunks that were read and not emitted.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Mapping
from typing import TYPE_CHECKING, Any, Final

from ...runtime import LoopClock
from ...topology import Progress, SpoutCollector, TopologyContext
from ..calls import SparkCalls, log_error
from ..connect import refuse
from ..errors import SparkSourceError
from ..jvm_watch import JvmWatch
from .partitions import Partitions, SavedProgress, merged
from .position import BatchPosition
from .progress import BatchProgress, Earlier
from .reading import Reading
from .samples import compare_samples
from .spark_jobs import SparkJobs
from .way_factory import WayFactory

if TYPE_CHECKING:
    from .options import BatchOptions
    from .readers import Piece
    from .source import BatchSource, OpenedSource

log = logging.getLogger("aiostorm.spark")

END_S: Final = 15.0
AGAIN_S: Final = 0.5
_NO_PROGRESS: Final = (
    "the client cannot see which files and versions a plan reads, so the data of two days could be mixed. Leave out "
    "progress=, or give a session of a master"
)
_NO_SNAPSHOT: Final = (
    "the client cannot see which files and versions a plan reads, so a snapshot could be continued with other data. "
    "Use at-least-once, or give a session of a master"
)


class BatchRun:
    """The run of one open spout."""

    _opened: OpenedSource | None = None
    _reading: Reading | None = None
    _store: BatchProgress | None = None
    _position: BatchPosition | None = None

    def __init__(
        self, source: BatchSource, options: BatchOptions, context: TopologyContext, collector: SpoutCollector
    ) -> None:
        self._source = source
        self._options = options
        self._context = context
        self._collector = collector
        self._jobs = SparkJobs(
            options.name or context.component,
            f"aiostorm {context.topology} {context.component}[{context.task_id}]",
        )
        self._calls = SparkCalls(2 * options.ahead + 4, name=f"spark-{context.component}[{context.task_id}]")
        self._watch = JvmWatch(self._calls.name)
        self._earlier = Earlier()

    async def begin(self) -> None:
        """Open the source, and read the saved progress. SparkSourceError if the user must correct something."""
        try:
            opened = await self._watch.during(self._calls.begin(self._source.open))
        except BaseException:
            self._calls.close()
            self._watch.close()
            raise
        self._opened = opened
        try:
            self._watch.watch_sessions(opened.session, opened.frame.sparkSession)
            if self.is_exact:
                refuse(opened.session, 'guarantee="exactly-once"', _NO_SNAPSHOT)
            else:
                await self._begin(opened)
        except BaseException:
            await self.end()
            raise

    @property
    def is_exact(self) -> bool:
        """Whether snapshots have the position, and no acks come."""
        return self._context.config.guarantee == "exactly-once"

    def snapshot(self) -> dict[str, Any] | None:
        """The position; None: nothing was emitted."""
        return None if self._position is None or self._reading is None else self._position.of(self._state())

    async def restore(self, position: dict[str, Any] | None) -> None:
        """Begin after this position. SparkSourceError if it is of another source, or of other data."""
        if self._opened is None:
            raise RuntimeError("the source is not open")
        self._position = BatchPosition(self._source.header(self._opened, self._jobs.title), self._jobs.title)
        known = merged(()) if position is None else self._position.restored(position)
        await self._read(self._opened, known, known, "in the restored snapshot; begin with an empty state_dir")

    async def _begin(self, opened: OpenedSource) -> None:
        if self._options.progress is None:
            await self._read(opened, merged(()), merged(()), "")
            return
        refuse(opened.session, "progress=", _NO_PROGRESS)
        header = self._source.header(opened, self._jobs.title)
        self._store = store = BatchProgress(self._options.progress, self._context.task_index, header, self._calls)
        known, own = await store.open()
        await self._read(
            opened, known, own, f"done by an earlier run ({store.saved_at}); remove {self._options.progress}"
        )

    async def _read(self, opened: OpenedSource, known: SavedProgress, own: SavedProgress, done: str) -> None:
        """Begin to read what is not `known`. `done`: says of known partitions why they are not read."""
        index, tasks = self._context.task_index, self._context.parallelism
        machine = Partitions(opened.partitions, index=index, tasks=tasks, known=known, own=own)
        note = ""
        if machine.done:
            samples = {p: digest for p, digest in known.samples.items() if p % tasks == index}
            await self._watch.during(self._calls.begin(self._compare, opened, samples))
            note = self._note(machine, f"{done} to run again")
        self._earlier = Earlier(machine.done, known.rows if index == 0 or self.is_exact else 0, note)
        ways = WayFactory(self._options, self._jobs, machine, self._calls, can_reopen=self._source.can_reopen)
        self._reading = Reading(opened, ways, self._reopened, self._collector.wake)
        await self._reading.start(f"{self._calls.name}: reading")

    def _note(self, machine: Partitions, done: str) -> str:
        """A note for the user if all partitions were done before."""
        if machine.is_settled:
            log.warning("%s: %d of %d partitions: all were %s", self._jobs.group, machine.done, machine.total, done)
            return done
        log.info("%s: %d of %d partitions: they are not run again", self._jobs.group, machine.done, machine.total)
        return ""

    def _compare(self, opened: OpenedSource, samples: Mapping[int, int]) -> None:
        """Compare samples of finished partitions, for data without a known identity. Blocks."""
        if samples and not opened.data.is_known:
            self._jobs.describe(opened, "samples")
            compare_samples(opened, samples, self._jobs.title)

    async def _reopened(self, dead: OpenedSource) -> OpenedSource:
        """Open the source again. SparkSourceError if it is other data now."""
        opened = await self._calls.run(self._source.open, dead)
        if self._reading is not None:
            await self._calls.run(self._compare, opened, self._reading.machine.samples)
        before, now = (self._source.header(one, self._jobs.title) for one in (dead, opened))
        if before != now:
            raise SparkSourceError(
                f"{self._jobs.title}: the source has changed when it was opened again: {before} before, {now} now"
            )
        self._watch.watch_sessions(opened.session, opened.frame.sparkSession)
        return opened

    async def end(self) -> None:
        """End the jobs in Spark, and save the progress."""
        try:
            if self._reading is not None:
                await self._bounded(self._end_reading(self._reading))
                if self._store is not None:
                    await self._store.save(self._state())
        finally:  # also if it is cancelled: threads finish their calls before they end
            if self._reading is not None:
                self._calls.begin(self._reading.cancel).add_done_callback(log_error)
            closing = self._calls.begin(self._source.close)
            closing.add_done_callback(log_error)
            self._calls.close()
            self._watch.close()
            if self._store is not None:
                await self._store.close()
            await self._bounded(asyncio.shield(closing))

    async def _end_reading(self, reading: Reading) -> None:
        await reading.stop()
        while True:  # a job may start just after the running ones were cancelled
            await self._calls.run(reading.cancel)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(AGAIN_S):
                    return await self._calls.ended()

    async def _bounded(self, work: Awaitable[Any]) -> None:
        """Wait for a last call of Spark, for a limited time: Spark may be dead, or hang."""
        try:
            async with asyncio.timeout(END_S):
                await work
        except TimeoutError:
            log.warning("%s: Spark did not answer within %g s; its threads are abandoned", self._jobs.group, END_S)
        except Exception as error:
            log.debug("%s: while it ended", self._jobs.group, exc_info=error)

    # -- emitting ----------------------------------------------------------------------------------------------------

    def next_tuple(self) -> Any:
        """Emit the next chunk, if one is ready."""
        reading, store = self._reading, self._store
        if reading is None:
            return self.restore(None)
        reading.raise_error()
        now_s = LoopClock().monotonic()
        if not reading.machine.is_read and self._watch.is_hung(now_s):
            error = self._watch.end_jvm()  # its waiting calls fail, and it is started again
            if error.final:
                reading.fail(error)
                raise error
        if reading.ready:
            reading.failures = 0
            self._emit(reading.ready.popleft(), reading.opened.schema)
        elif reading.machine.is_settled:
            return self._finish()
        return store.save(self._state()) if store is not None and store.is_due(now_s) else None

    def _emit(self, piece: Piece, schema: Any) -> None:
        chunk = f"{self._jobs.title}/{piece.partition}/{piece.number}"
        batch = piece.batch.replace_schema_metadata({**(schema.metadata or {}), b"aiostorm.chunk": chunk.encode()})
        if self._store is not None:
            self._store.changed()
        self._collector.emit_arrow(batch, (piece.partition, piece.number))
        if self.is_exact:
            self.acked(piece.partition, piece.number)

    def acked(self, partition: int, number: int) -> None:
        """A chunk is acked."""
        if self._reading is not None:
            self._reading.machine.acked(partition, number)
            self._on_settled(self._reading)

    def failed(self, partition: int, number: int) -> None:
        """A chunk failed more often than `topology.max.retries` allows: this run goes on without it."""
        if self._reading is not None:
            self._reading.machine.given_up(partition, number)
            self._on_settled(self._reading)

    def _on_settled(self, reading: Reading) -> None:
        if self._store is not None:
            self._store.changed()
        reading.settled()
        if reading.machine.is_settled:
            self._collector.wake()

    def _state(self) -> Mapping[str, Any]:
        assert self._reading is not None  # noqa: S101 - it has begun
        return self._reading.machine.state(samples=not self._reading.opened.data.is_known)

    async def _finish(self) -> None:
        if self._store is not None:
            await self._store.save(self._state())
        self._collector.finish()

    def progress(self) -> Progress | None:
        """The finished partitions of all, and the acked rows."""
        if self._reading is None:
            return None
        machine, earlier = self._reading.machine, self._earlier
        rows = machine.rows + earlier.rows
        return Progress(machine.done, machine.total, "partitions", rows, earlier.partitions, earlier.note)
