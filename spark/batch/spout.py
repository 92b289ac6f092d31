"""SparkBatchSpout: a DataFrame as a stream of Arrow chunks, each a message that is acked, replayed and remembered.

Spark ── partitions, a few at a time ──► reading ──► ready ──► emit_arrow(chunk, (partition, chunk)) ──► acked
      ▲                                     ▲                      └ failed: the framework emits it again     │
      └── opened again when it has died ────┴──────────────────────────── progress, saved in a folder ◄──────┘

1. All calls of Spark are in threads: `next_tuple` emits a ready chunk, or returns.
2. At most `max_pending` chunks are in Python: read and not yet acked (with exactly-once: not yet emitted). The rest
   waits in Spark.
3. A chunk is delivered at least once; with snapshots (position.py) exactly once. It has the same rows in each run, or
   the run ends with an error.
4. Spark that has died is restarted, at most RETRIES times in a row without a chunk in between; then the task fails.
   Errors that a restart cannot correct fail the task at once. Nothing waits for ever.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from ...topology import Failure, Guarantee, Outputs, Progress, Spout, SpoutCollector, TimeRole, TopologyContext
from ..errors import SparkSourceError
from .options import BatchOptions
from .run import BatchRun
from .source import BatchSource, Way, chosen_way

if TYPE_CHECKING:
    from ...transport import TlsFiles
    from ..sessions import SessionSource


class SparkBatchSpout(Spout):
    """Reads a DataFrame: record batches of `chunk_rows` rows for `execute_arrow` bolts, tuples for all other bolts.

    Give one of: `source` (a DataFrame, or a function that makes one, called with the SparkSession if it takes an
    argument), `sql`, or `path` (with `format` and `options`, as for `spark.read`). A function is called in a thread,
    once in each process that runs a task.

    `fields`: the names of the columns. They may be left out for a DataFrame, and where a session runs already in this
    process: then Spark is asked here, and a function is called once more. Name them if the topology is built in worker
    processes, or drawn, where there is no Spark.

    `session`: a function that makes the SparkSession, or settings of Spark's; default: the one of this process, else a
    local one. `name`: what chunks are called (`flights/7/3`); default: the component's id. `ahead`: partitions that
    Spark computes at a time. `max_pending`: chunks in this process that are not acked yet. `in_order`: each task emits
    its partitions in their order (never pushed). `progress`: a folder from which the next run goes on; it is of this
    source, and of one state of its data (which files, of what size and time; which versions of tables). `adaptive`: let
    Spark choose the number of partitions as it runs; on, unless `progress` is given or it runs exactly once (a run that
    goes on may then find another number, and is refused) or executors push from the start. `chunk_rows`: 100,000, or
    fewer if rows are wide.

    `way`: "fetch" (partitions come through the driver), "push" (executors send them; for partitions larger than
    `spark.driver.maxResultSize`), or "auto": fetch, and push where that cannot be. `push_host`: where executors reach
    this process; default: loopback, which does if all of Spark is on this machine; any other needs `push_tls`.

    With exactly-once, snapshots contain which chunks were emitted, and take the place of `progress`.

    `lossy_windows`: with `progress`, incremental windows behind it may lose what they hold when the process ends (it is
    acked, and not emitted again); without it such a topology is refused.
    """

    on_driver = True
    default_max_retries: ClassVar[int | None] = 3

    _run: BatchRun | None = None

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
        chunk_rows: int | None = None,
        ahead: int = 2,
        max_pending: int = 8,
        in_order: bool = False,
        progress: str | None = None,
        way: Way = "auto",
        adaptive: bool | None = None,
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
        self._options = BatchOptions(
            name=name,
            chunk_rows=chunk_rows,
            ahead=ahead,
            max_pending=max_pending,
            in_order=in_order,
            progress=progress,
            way=chosen_way(way, in_order=in_order),
            push_host=push_host,
            push_tls=push_tls,
        )
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
            adaptive=adaptive if adaptive is not None or (progress is None and way != "push") else False,
        )
        self._fields = tuple(self._source.known_columns())
        if not is_frame:
            self._source.fields = self._fields  # a session made later must give the same
        self._resumes = "" if progress is None or lossy_windows else "progress="

    @property
    def spark_session(self) -> Any:
        """The settings of its session, or the function that makes one."""
        return self._source.session

    @property
    def time_role(self) -> TimeRole:
        return TimeRole(emits_watermarks=self.watermarks, resumes=self._resumes)

    def all_outputs(self, inputs: object = None) -> Outputs:
        return self._fields

    def refused(self, guarantee: Guarantee) -> list[str]:
        """Snapshots are the progress with exactly-once."""
        problems = super().refused(guarantee)
        if guarantee == "exactly-once" and self._options.progress is not None:
            problems.append(
                "progress= cannot be together with exactly-once, whose snapshots contain how far the source was read: "
                "leave out progress=, or use guarantee=at-least-once"
            )
        return problems

    async def open(self, context: TopologyContext, collector: SpoutCollector) -> None:
        """Open the source, and read the saved progress. SparkSourceError if the user must correct something."""
        run = BatchRun(self._source, self._options, context, collector)
        if self._source.adaptive is None:
            self._source.adaptive = not run.is_exact
        await run.begin()
        self._run = run

    def next_tuple(self) -> Any:
        """Emit the next chunk, if one is ready."""
        return self._opened.next_tuple()

    def ack(self, message_id: Any) -> None:
        """A chunk is acked."""
        self._opened.acked(*message_id)

    def fail(self, message_id: Any, failure: Failure) -> None:
        """A chunk failed more often than `topology.max.retries` allows: this run goes on without it."""
        self._opened.failed(*message_id)

    def snapshot(self) -> dict[str, Any] | None:
        """Which chunks were emitted, and of which data."""
        return self._opened.snapshot()

    async def restore(self, position: dict[str, Any] | None) -> None:
        """Continue after this position. SparkSourceError if it is of another source, or of other data."""
        await self._opened.restore(position)

    def committed(self, number: int) -> None:
        """Nothing is left to do: the snapshot has the position."""

    async def close(self) -> None:
        """End the jobs in Spark, and save the progress."""
        if self._run is not None:
            await self._run.end()

    def progress(self) -> Progress | None:
        """The finished partitions of all, and the acked rows."""
        return None if self._run is None else self._run.progress()

    @property
    def _opened(self) -> BatchRun:
        if self._run is None:
            raise RuntimeError("the spout is not open")
        return self._run
