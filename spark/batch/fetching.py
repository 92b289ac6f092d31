"""Fetching: partitions of a DataFrame as Arrow, by number. Only this module uses internals of PySpark and Spark.

    planned ─► a session of its own ─► toArrowBatchRdd ─► collectPartitions ─► serveIterator ─► socket ─► read
                                        its partitions       a Spark job         in the JVM
                                        have numbers

1. The plan is made in a cloned session with its own settings: the user's session is not changed. Adaptive execution is
   off there: with it the number of partitions depends on the sizes of shuffled data (tested: an aggregate over 8
   shuffle partitions has 8 without it and 1 with it, and toArrowBatchRdd runs its stages immediately). Without it the
   number depends on the plan and `spark.sql.shuffle.partitions`.
2. Shuffles are written once: each job reads the existing files.
3. A result stays in the JVM until it is read: Python has one batch at a time. Nothing is read ahead.
4. Data too large for the JVM is never fetched: a limit on top of the plan gives at most one row more than `most_rows`
   of a partition. It changes neither partitions nor order, and shares shuffles. A caller that gets the extra row lets
   executors send the partition, by a function (`run`).
5. Everything here blocks.

From: pyspark.sql.pandas.conversion and PythonRDD.runJob, which do not keep which batch is of which partition.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ..needs import require, version

HEAP_SHARE: Final = 20
"""A partition of more than 1/20 of the heap is pushed: while it is fetched, the JVM has three copies of it."""

COMPRESSED: Final = 3
"""The assumed ratio of the size of rows to that of their files."""

LEAST_ROWS: Final = 10_000
MOST_ROWS: Final = 2_000_000_000

UNKNOWN_BYTES: Final = 1 << 60
"""Estimates from here on mean that Spark has none."""

_LENGTH: Final = struct.Struct(">i")


class UnsupportedSparkError(Exception):
    """This Spark lacks an internal that is used here: another version, or Spark Connect."""


class TooLargeError(Exception):
    """The partitions are more than the driver accepts at once (spark.driver.maxResultSize)."""

    def __init__(self, partitions: Sequence[int], than: str = "spark.driver.maxResultSize") -> None:
        self.partitions = len(partitions)
        self.than = than
        super().__init__(f"partitions {_shown(partitions)} are larger than {than}")


def planned(frame: Any, settings: Mapping[str, Any]) -> Any:
    """The same DataFrame, planned with other settings. UnsupportedSparkError over Spark Connect."""
    session = frame.sparkSession
    java = getattr(session, "_jsparkSession", None)
    if java is None:
        raise UnsupportedSparkError("Spark Connect has no session in a JVM of this process")
    try:
        clone = java.cloneSession()
        for key, value in settings.items():
            clone.conf().set(key, str(value))
        sql, analyzed = session._jvm.org.apache.spark.sql, frame._jdf.queryExecution().analyzed()
        dataset = sql.classic.Dataset if version() >= (4, 0) else sql.Dataset
        return type(frame)(dataset.ofRows(clone, analyzed), type(session)(session.sparkContext, clone))
    except (require("py4j.protocol").Py4JError, AttributeError, TypeError) as error:
        if _is_missing(error):
            raise UnsupportedSparkError(f"this Spark has no sessions that can be cloned: {error!s:.200}") from error
        raise


class Fetching:
    """Fetches partitions, by number, of a DataFrame that was `planned`."""

    def __init__(self, frame: Any, row_bytes: int = 0) -> None:
        self._frame = frame
        self._context = frame.sparkSession.sparkContext
        jvm = self._context._jvm
        self._heap: int = jvm.java.lang.Runtime.getRuntime().maxMemory()
        self.most_rows = max(LEAST_ROWS, min(MOST_ROWS - 1, self._heap // HEAP_SHARE // max(1, row_bytes)))
        try:
            self._rdd = frame._jdf.toArrowBatchRdd().toJavaRDD()
            self._limited = _between(frame, 0, self.most_rows + 1).toJavaRDD()
            self.partitions: int = self._rdd.getNumPartitions()
        except (require("py4j.protocol").Py4JError, AttributeError, TypeError) as error:
            if _is_missing(error):
                raise UnsupportedSparkError(f"this Spark has no toArrowBatchRdd: {error!s:.200}") from error
            raise
        self._estimate = _bytes_read(frame)

    @property
    def is_large(self) -> bool:
        """Whether a partition is too large for the JVM, by Spark's estimate."""
        return self._estimate // max(1, self.partitions) > self._heap // HEAP_SHARE

    def run(self, partitions: Sequence[int], function: Any, schema: Any) -> list[dict[str, Any]]:
        """Call a function (as for `mapInArrow`) with these partitions only, with the same numbers as for `fetch`."""
        if not partitions:
            return []
        rdd = require("pyspark").RDD(self._rdd, self._context, _whole_or_not_at_all())
        called = rdd.mapPartitions(_on_batches(function, schema.serialize().to_pybytes()))
        found: list[dict[str, Any]] = self._context.runJob(called, list, list(partitions))
        return found

    def fetch(self, partitions: Sequence[int], group: str, *, bounded: bool = True) -> Fetched:
        """Run a job for these partitions, in this job group. Raises TooLargeError, or Spark's errors.

        `bounded`: at most `most_rows` and one of each; else all rows, even if the JVM runs out of memory.
        """
        if bounded:
            return self._fetched(self._limited, self.most_rows, partitions, group)
        return self._fetched(self._rdd, MOST_ROWS, partitions, group)

    def piece(self, partition: int, begin: int, rows: int, group: str) -> Fetched:
        """Run a job for `rows` rows of a partition from number `begin` on, or fewer at its end."""
        rdd = _between(self._frame, begin, begin + rows).toJavaRDD()
        return self._fetched(rdd, rows, [partition], group)

    def _fetched(self, rdd: Any, most: int, partitions: Sequence[int], group: str) -> Fetched:
        context = self._context
        jvm = context._jvm
        context.setJobGroup(group, f"partitions {_shown(partitions)}", False)
        numbers = context._gateway.new_array(jvm.int, len(partitions))
        for at, partition in enumerate(partitions):
            numbers[at] = partition
        try:
            lists = rdd.collectPartitions(numbers)
        except Exception as error:
            if "maxResultSize" in str(error) or "OutOfMemoryError" in str(error):
                raise TooLargeError(partitions) from error
            raise
        sizes = [lists[at].size() for at in range(len(partitions))]
        whole = lists[0]
        if len(partitions) > 1:
            whole = jvm.java.util.ArrayList(sum(sizes))
            for at in range(len(partitions)):
                whole.addAll(lists[at])
        if not any(sizes):
            return Fetched(sizes, None, most)
        if version() >= (4, 0):
            batches = jvm.scala.jdk.javaapi.CollectionConverters.asScala(whole.iterator())
        else:  # Scala 2.12
            batches = jvm.scala.collection.JavaConverters.asScalaIteratorConverter(whole.iterator()).asScala()
        server = jvm.org.apache.spark.api.python.PythonRDD.serveIterator(batches, "aiostorm serves partitions")
        # Connected at once: the JVM waits for 15 s.
        connect = require("pyspark.util" if version() >= (4, 0) else "pyspark.java_gateway").local_connect_and_auth
        return Fetched(sizes, connect(server[0], server[1]), most)


class Fetched:
    """The batches of some partitions, in order; `sizes`: the number of batches of each. They stay in the JVM until
    read.

    A partition of more than `most_rows` is not complete.
    """

    def __init__(self, sizes: Sequence[int], connection: tuple[Any, Any] | None, most_rows: int) -> None:
        self.sizes = sizes
        self.most_rows = most_rows
        self._connection = connection
        if connection is not None:
            connection[1].settimeout(None)

    def read(self) -> bytes:
        """The next batch: an Arrow IPC message. EOFError if the JVM has ended."""
        if self._connection is None:
            raise EOFError("no batch is left")
        (length,) = _LENGTH.unpack(self._exactly(_LENGTH.size))
        return self._exactly(length)

    def close(self) -> None:
        """Close the connection, also from another thread: a waiting read ends. May be called twice."""
        connection, self._connection = self._connection, None
        if connection is not None:
            _, sock = connection
            try:
                sock.shutdown(2)
            except OSError:
                pass  # the JVM has closed it
            finally:
                sock.close()

    def _exactly(self, count: int) -> bytes:
        connection = self._connection
        data: bytes = b"" if connection is None else connection[0].read(count)
        if len(data) != count:
            raise EOFError("Spark's JVM closed the connection in the middle of a partition")
        return data


def checkpointed(frame: Any) -> Any:
    """The same rows in the same partitions, computed once and stored on the disks of executors.

    Rows lost with an executor are not computed again, since their order might differ: a job fails.
    """
    if version() >= (4, 0):
        return frame.localCheckpoint(storageLevel=require("pyspark").StorageLevel.DISK_ONLY)
    return frame.localCheckpoint()


def _between(frame: Any, begin: int, end: int) -> Any:
    """The same partitions, with the rows from number `begin` to before `end` of each."""
    session = frame.sparkSession
    sessions = session._jvm.org.apache.spark.sql.SparkSession
    before = sessions.getActiveSession()
    sessions.setActiveSession(session._jsparkSession)  # a part of a plan belongs to the active session of its thread
    try:
        plan = frame._jdf.queryExecution().executedPlan()
        parts = session._jvm.org.apache.spark.sql.execution
        limited = parts.GlobalLimitExec(end, plan, begin) if begin else parts.LocalLimitExec(end, plan)
        return frame._jdf.toArrowBatchRdd(limited)
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()


def _whole_or_not_at_all() -> Any:
    """A serializer for a Python worker's input that distinguishes its end from an interruption.

    PySpark's own do not: if an earlier step fails, they end as if all rows had arrived.
    """
    serializers = require("pyspark.serializers")

    base: Any = serializers.NoOpSerializer

    class Whole(base):  # type: ignore[misc] # a local class is pickled by value
        def load_stream(self, stream: Any) -> Any:
            import struct

            while True:
                head = stream.read(4)
                length = struct.unpack(">i", head)[0] if len(head) == 4 else None
                if length == -1:  # SpecialLengths.END_OF_DATA_SECTION
                    return
                data = b"" if length is None else stream.read(length)
                if length is None or len(data) < length:
                    raise RuntimeError("the input of this task was cut off: an earlier step of its job has failed")
                yield data

    return Whole()


def _on_batches(function: Any, schema: bytes) -> Any:
    """The function for a partition of Arrow messages. It is pickled by value, and refers to nothing of aiostorm."""

    def call(messages: Any) -> Any:
        import pyarrow as pa

        declared = pa.ipc.read_schema(pa.py_buffer(schema))
        for batch in function(pa.ipc.read_record_batch(pa.py_buffer(data), declared) for data in messages):
            yield from batch.to_pylist()

    return call


def _bytes_read(frame: Any) -> int:
    """The bytes that the plan reads, by Spark's estimate. Inputs without an estimate count as 0."""
    leaves = frame._jdf.queryExecution().optimizedPlan().collectLeaves()
    total = 0
    for at in range(leaves.size()):
        leaf = leaves.apply(at)
        size = int(str(leaf.stats().sizeInBytes()))  # py4j returns an int or a BigInt
        if size < UNKNOWN_BYTES:
            total += size * (COMPRESSED if leaf.getClass().getSimpleName() == "LogicalRelation" else 1)
    return total


def cancel(session: Any, group: str) -> None:
    """Cancel the jobs of a group."""
    session.sparkContext.cancelJobGroup(group)


def _is_missing(error: BaseException) -> bool:
    """Whether the error says that a class or method does not exist."""
    return isinstance(error, AttributeError | TypeError) or "does not exist" in str(error)


def _shown(partitions: Sequence[int]) -> str:
    if len(partitions) == 1:
        return str(partitions[0])
    return f"{partitions[0]} to {partitions[-1]} ({len(partitions)})"
