"""The data source's classes for PySpark, thin. Imported only with PySpark; executors import it by name.

    driver: schema, is the topology running? ─► executors: write, read ─► driver: commit, abort

1. `write` returns when the topology has processed every chunk; its commit message has their number.
2. A chunk's identity is name/partition/chunk, for streams name/b<batch>/partition/chunk: the same when Spark retries a
   task or a batch. Without option `name` it is a query's id (which is kept in its checkpoint), or new for each batch
   write.
3. Spark calls a stream's `latestOffset` after it has recorded a batch as done: chunks before its start are committed.
   Spark's own `commit` comes only with the next batch, which may never come if the log is full.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

from ...runtime import SystemRng
from ..digests import digest_of
from ..errors import SparkSourceError, SparkUnavailableError
from ..executors.client import ChunkReader, ChunkWriter, ServerClient
from ..executors.messages import ROLE_EGRESS, ROLE_INGRESS, LogState, Offer
from ..needs import require, version
from .chunks import batch_of, cut, empty_of
from .format import FORMAT, ReadOptions, WriteOptions, reading, writing
from .schemas import cast, chosen

if TYPE_CHECKING:
    from ..executors.location import ServerLocation

STREAMS_IN: Final = (4, 1)
STREAMS_OUT: Final = (4, 2)
"""The first PySpark whose streams can be written (it gives Arrow), and read (it says where a query is)."""

api: Any = require("pyspark.sql.datasource")
streaming: Any = require("pyspark.sql.streaming.datasource") if version() >= STREAMS_OUT else None
_StreamWriterApi: Any = getattr(api, "DataSourceStreamArrowWriter", object)
_StopsAtEnd: Any = object if streaming is None else streaming.SupportsTriggerAvailableNow

CONSUMER: Final = "spark"
_BATCH_ID: Final = "streaming.sql.batchId"
_QUERY_ID: Final = "sql.streaming.queryId"


class AiostormDataSource(api.DataSource):  # type: ignore[misc]
    """`format("aiostorm")`."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return FORMAT

    def schema(self) -> Any:
        """The schema of the topology's output; for reading."""
        options = reading(self.options, ROLE_EGRESS, CONSUMER)
        with ServerClient(options.where, 0) as client:
            shape = client.shape()
        if not shape:
            raise SparkSourceError(
                "nothing has come out of the topology yet, so its columns are not known: give .schema(...) here, or "
                "schema= to the bolt"
            )
        return spark_schema(chosen(batch_of(shape), options.fields).schema)

    def reader(self, schema: Any) -> Any:
        return BatchReader(schema, reading(self.options, ROLE_EGRESS, CONSUMER))

    def streamReader(self, schema: Any) -> Any:  # noqa: N802 - PySpark's name
        _since(STREAMS_OUT, "readStream", 'Read the output in batches, .read.format("aiostorm")')
        return StreamReader(schema, reading(self.options, ROLE_EGRESS, CONSUMER))

    def writer(self, schema: Any, overwrite: bool) -> Any:
        return BatchWriter(schema, overwrite, writing(self.options, ROLE_INGRESS))

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:  # noqa: N802 - PySpark's name
        _since(STREAMS_IN, "writeStream", 'Use foreachBatch with .write.format("aiostorm") in it, or SparkStreamSpout')
        return StreamWriter(schema, overwrite, writing(self.options, ROLE_INGRESS))


# -- in ----------------------------------------------------------------------------------------------------------------


class Written(api.WriterCommitMessage):  # type: ignore[misc]
    """The output of a Spark task. `stream`: the stream of its batch."""

    def __init__(self, stream: str, chunks: int, rows: int) -> None:
        self.stream = stream
        self.chunks = chunks
        self.rows = rows


class _WriterBase:
    """Base class of both writers."""

    def __init__(self, schema: Any, overwrite: bool, options: WriteOptions) -> None:
        if overwrite:
            raise SparkSourceError(
                'rows that a topology has processed cannot be overwritten: use .mode("append"), or outputMode'
            )
        self._options = options
        self._shape = empty_of(arrow_schema(schema))
        with ServerClient(options.where, 0, self._shape) as client:
            client.tasks()  # checks that the topology runs and accepts these columns

    def _write(self, batches: Iterator[Any], name: str, stream: str, number: int, partition: int) -> Written:
        rows = 0

        def offers() -> Iterator[tuple[Offer, bytes]]:
            nonlocal rows
            at = 0
            for batch in batches:
                for part, data in cut(batch, self._options.chunk_rows):
                    if part.num_rows:
                        of = f"{name}/b{number}" if number >= 0 else name
                        chunk = f"{of}/{partition}/{at}"
                        yield Offer(0, stream, number, chunk, part.num_rows, digest_of(part), len(data)), data
                        rows += part.num_rows
                        at += 1

        with ServerClient(self._options.where, partition, self._shape) as client:
            chunks = ChunkWriter(client, self._options.ahead).write(offers())
        return Written(stream, chunks, rows)


class BatchWriter(_WriterBase, api.DataSourceArrowWriter):  # type: ignore[misc]
    """`df.write`."""

    def __init__(self, schema: Any, overwrite: bool, options: WriteOptions) -> None:
        super().__init__(schema, overwrite, options)
        self._name = options.name or f"write-{SystemRng().token_bytes(12).hex()}"

    def write(self, iterator: Iterator[Any]) -> Written:
        """Write all rows of a partition, in an executor."""
        context = require("pyspark").TaskContext.get()
        return self._write(iterator, self._name, "", -1, context.partitionId())


class StreamWriter(_WriterBase, _StreamWriterApi):  # type: ignore[misc]
    """`df.writeStream`."""

    def write(self, iterator: Iterator[Any]) -> Written:
        """Write all rows of a partition of a batch, in an executor."""
        context = require("pyspark").TaskContext.get()
        number, query = context.getLocalProperty(_BATCH_ID), context.getLocalProperty(_QUERY_ID)
        if number is None or query is None:
            raise SparkSourceError("this version of Spark does not give its tasks the ids of query and batch")
        return self._write(iterator, self._options.name or query, query, int(number), context.partitionId())

    def commit(self, messages: list[Written | None], batchId: int) -> None:  # noqa: N803 - PySpark's name
        """The batch is complete, in the driver."""
        streams = {message.stream for message in messages if message is not None and message.chunks}
        for stream in streams:
            for index in range(task_count(self._options.where)):
                with ServerClient(self._options.where, index) as client:
                    ChunkWriter(client).commit(stream, batchId)

    def abort(self, messages: list[Written | None], batchId: int) -> None:  # noqa: N803 - PySpark's name
        """Nothing: processed chunks remain processed, and the batch comes again with the same identities."""


# -- out ---------------------------------------------------------------------------------------------------------------


class ChunkRange(api.InputPartition):  # type: ignore[misc]
    """A range of chunks of one task."""

    def __init__(self, task: int, log: str, begin: int, end: int) -> None:
        self.task = task
        self.log = log
        self.begin = begin
        self.end = end


class _ReaderBase:
    """Base class of both readers."""

    def __init__(self, schema: Any, options: ReadOptions) -> None:
        self._schema = schema
        self._options = options

    def read(self, partition: Any) -> Iterator[Any]:
        """Read a range of chunks in an executor, as Arrow in Spark's schema."""
        if not isinstance(partition, ChunkRange):  # PySpark's own, for an empty read
            return
        wanted = arrow_schema(self._schema)
        with ServerClient(self._options.where, partition.task) as client:
            reader = ChunkReader(client, self._options.consumer)
            for data in reader.fetch(partition.log, partition.begin, partition.end):
                batch = cast(chosen(batch_of(data), self._options.fields), wanted)
                yield batch.from_arrays(batch.columns, schema=wanted)


class BatchReader(_ReaderBase, api.DataSourceReader):  # type: ignore[misc]
    """`spark.read`: reads the current contents. It commits nothing."""

    def partitions(self) -> list[ChunkRange]:
        """The current range of each task, in the driver."""
        found = []
        for index in range(task_count(self._options.where)):
            with ServerClient(self._options.where, index) as client:
                state = ChunkReader(client, "").query()
            if state.first < state.end:
                found.append(ChunkRange(index, state.log, state.first, state.end))
        return found


class StreamReader(_ReaderBase, api.DataSourceStreamReader, _StopsAtEnd):  # type: ignore[misc]
    """`spark.readStream`. An offset has, for each task, a log and a chunk number."""

    def __init__(self, schema: Any, options: ReadOptions) -> None:
        super().__init__(schema, options)
        self._clients: dict[str, ServerClient] = {}
        self._target: dict[str, Any] | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - PySpark's name
        """Start after the chunks that the consumer has committed."""
        return {}

    def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:  # noqa: N802 - PySpark's name
        """The end of the available chunks after `start`; also commits all before `start` (see the module)."""
        tasks = self._tasks()
        max_rows, max_bytes = getattr(limit, "max_rows", 0), getattr(limit, "max_bytes", 0)
        end, has_new = dict(start), False
        for task in tasks:
            state = self._query(task, start, -(-max_rows // len(tasks)), -(-max_bytes // len(tasks)))
            upto = state.upto
            if self._target is not None and self._target.get(task, {"log": ""})["log"] == state.log:
                upto = max(state.committed, min(upto, self._target[task]["chunk"]))
            has_new = has_new or upto > state.committed
            end[task] = {"log": state.log, "chunk": upto}
        return end if has_new else start

    def getDefaultReadLimit(self) -> Any:  # noqa: N802 - PySpark's name
        """The limit of the options."""
        if self._options.max_rows:
            return streaming.ReadMaxRows(self._options.max_rows)
        if self._options.max_bytes:
            return streaming.ReadMaxBytes(self._options.max_bytes)
        return streaming.ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - PySpark's name
        """Read up to the current end only."""
        states = {task: self._query(task, {}, 0, 0) for task in self._tasks()}
        self._target = {task: {"log": state.log, "chunk": state.end} for task, state in states.items()}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[ChunkRange]:
        """The ranges to read, by task, in the driver."""
        found = []
        for task, upto in end.items():
            begin = start.get(task)
            first = begin["chunk"] if begin is not None else self._query(task, {}, 0, 0).committed
            if first < upto["chunk"]:
                found.append(ChunkRange(int(task), upto["log"], first, upto["chunk"]))
        return found

    def commit(self, end: dict[str, Any]) -> None:
        """Commit all chunks before `end`, in the driver."""
        for task, upto in end.items():
            self._reader(task).trim(upto["log"], upto["chunk"])

    def stop(self) -> None:
        """The query has ended: close the connections."""
        with ExitStack() as stack:
            for client in self._clients.values():
                stack.callback(client.close)
        self._clients = {}

    def _tasks(self) -> list[str]:
        return [str(index) for index in range(self._client("0").tasks())]

    def _query(self, task: str, start: dict[str, Any], max_rows: int, max_bytes: int) -> LogState:
        begin = start.get(task)
        log, at = ("", -1) if begin is None else (begin["log"], begin["chunk"])
        return self._reader(task).query(log, at, done=begin is not None, max_rows=max_rows, max_bytes=max_bytes)

    def _reader(self, task: str) -> ChunkReader:
        return ChunkReader(self._client(task), self._options.consumer)

    def _client(self, task: str) -> ServerClient:
        if task not in self._clients:
            self._clients[task] = ServerClient(self._options.where, int(task))
        return self._clients[task]


def _since(first: tuple[int, int], what: str, instead: str) -> None:
    """Raise SparkUnavailableError if this PySpark is older than `first`."""
    if version() < first:
        needed, found = (".".join(map(str, numbers)) for numbers in (first, version()))
        raise SparkUnavailableError(
            f'{what}.format("{FORMAT}") needs PySpark {needed} or newer, and this is {found}. {instead}'
        )


def task_count(where: ServerLocation) -> int:
    """The number of tasks of the component."""
    with ServerClient(where, 0) as client:
        return client.tasks()


# -- Spark's types -----------------------------------------------------------------------------------------------------


def arrow_schema(schema: Any) -> Any:
    """Spark's schema as the Arrow schema that it uses with Python. SparkSourceError for a type without one."""
    types = require("pyspark.sql.pandas.types")
    errors = require("pyspark.errors")
    try:
        zone = {"timezone": "UTC"} if version() >= (4, 2) else {}  # the older ones take UTC
        return types.to_arrow_schema(schema, **zone).remove_metadata()
    except errors.PySparkException as error:
        raise SparkSourceError(f"a column's type has no form in Arrow: {error}. Cast it to a plain one") from error


def spark_schema(schema: Any) -> Any:
    """An Arrow schema as a Spark schema."""
    types = require("pyspark.sql.pandas.types")
    errors = require("pyspark.errors")
    try:
        return types.from_arrow_schema(schema, prefer_timestamp_ntz=True)  # as from 4.2 on
    except errors.PySparkException as error:
        raise SparkSourceError(
            f"a column's type has none in Spark: {error}. Give the bolt schema= with others"
        ) from error
