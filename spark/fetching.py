"""Fetching: partitions of a DataFrame as Arrow, by number. What is internal to PySpark and Spark stands here only.

    planned ─► a session of its own ─► toArrowBatchRdd ─► collectPartitions ─► serveIterator ─► socket ─► read
                                        its partitions       a Spark job         in the JVM
                                        have numbers

1. The plan is made in a cloned session, whose settings are ours: the user's session is not touched. Adaptive execution
   is off there: with it the number of partitions follows from the sizes of what was shuffled (tried: an aggregate over
   8 shuffle partitions comes in 8 without it and in 1 with it, and calling toArrowBatchRdd runs its stages there and
   then). Without it the number follows from the plan and `spark.sql.shuffle.partitions`.
2. Shuffles are written once: each job reads what is there.
3. A result stays in the JVM until it is read: Python holds one batch at a time. Nothing is read ahead.
4. Everything here blocks.

From: pyspark.sql.pandas.conversion and PythonRDD.runJob, which forget which batch is of which partition.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any, Final

from .needs import load

_LENGTH: Final = struct.Struct(">i")


class GoneError(Exception):
    """This Spark does not have what is used here: another version, or Spark Connect."""


class TooLargeError(Exception):
    """So many partitions are more than the driver takes at once (spark.driver.maxResultSize)."""

    def __init__(self, partitions: Sequence[int]) -> None:
        self.partitions = len(partitions)
        super().__init__(f"partitions {_shown(partitions)} are larger than spark.driver.maxResultSize")


def planned(frame: Any, settings: Mapping[str, Any]) -> Any:
    """The same DataFrame, to be planned with other settings. GoneError over Spark Connect."""
    session = frame.sparkSession
    java = getattr(session, "_jsparkSession", None)
    if java is None:
        raise GoneError("Spark Connect has no session in a JVM of this process")
    try:
        clone = java.cloneSession()
        for key, value in settings.items():
            clone.conf().set(key, str(value))
        made = session._jvm.org.apache.spark.sql.classic.Dataset.ofRows(clone, frame._jdf.queryExecution().analyzed())
        return load("pyspark.sql.classic.dataframe").DataFrame(made, type(session)(session.sparkContext, clone))
    except (load("py4j.protocol").Py4JError, AttributeError, TypeError) as error:
        if _is_missing(error):
            raise GoneError(f"this Spark has no sessions that can be cloned: {error!s:.200}") from error
        raise


class Fetching:
    """A DataFrame that was `planned`, whose partitions can be had by number."""

    def __init__(self, frame: Any) -> None:
        self._context = frame.sparkSession.sparkContext
        try:
            self._rdd = frame._jdf.toArrowBatchRdd().toJavaRDD()
            self.partitions: int = self._rdd.getNumPartitions()
        except (load("py4j.protocol").Py4JError, AttributeError, TypeError) as error:
            if _is_missing(error):
                raise GoneError(f"this Spark has no toArrowBatchRdd: {error!s:.200}") from error
            raise

    def fetch(self, partitions: Sequence[int], group: str) -> Fetched:
        """Run a job for these partitions, in this job group. TooLargeError, or what Spark raises."""
        context = self._context
        jvm = context._jvm
        context.setJobGroup(group, f"partitions {_shown(partitions)}", False)
        numbers = context._gateway.new_array(jvm.int, len(partitions))
        for at, partition in enumerate(partitions):
            numbers[at] = partition
        try:
            lists = self._rdd.collectPartitions(numbers)
        except Exception as error:
            if "maxResultSize" in str(error):
                raise TooLargeError(partitions) from error
            raise
        sizes = [lists[at].size() for at in range(len(partitions))]
        whole = lists[0]
        if len(partitions) > 1:
            whole = jvm.java.util.ArrayList(sum(sizes))
            for at in range(len(partitions)):
                whole.addAll(lists[at])
        if not any(sizes):
            return Fetched(sizes, None)
        batches = jvm.scala.jdk.javaapi.CollectionConverters.asScala(whole.iterator())
        server = jvm.org.apache.spark.api.python.PythonRDD.serveIterator(batches, "aiostorm serves partitions")
        # Connected at once: the JVM waits for 15 s.
        return Fetched(sizes, load("pyspark.util").local_connect_and_auth(server[0], server[1]))


class Fetched:
    """The batches of some partitions, in order; `sizes` has how many each has. They are in the JVM until read."""

    def __init__(self, sizes: Sequence[int], connection: tuple[Any, Any] | None) -> None:
        self.sizes = sizes
        self._connection = connection
        if connection is not None:
            connection[1].settimeout(None)

    def read(self) -> bytes:
        """The next batch: an Arrow IPC message. EOFError if the JVM is gone."""
        if self._connection is None:
            raise EOFError("no batch is left")
        (length,) = _LENGTH.unpack(self._exactly(_LENGTH.size))
        return self._exactly(length)

    def close(self) -> None:
        """Also from another thread: a read that waits ends. Twice is once."""
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


def cancel(session: Any, group: str) -> None:
    """End the jobs of a group."""
    session.sparkContext.cancelJobGroup(group)


def _is_missing(error: BaseException) -> bool:
    """Does it say that there is no such class or method, or that nothing of the kind is callable?"""
    return isinstance(error, AttributeError | TypeError) or "does not exist" in str(error)


def _shown(partitions: Sequence[int]) -> str:
    if len(partitions) == 1:
        return str(partitions[0])
    return f"{partitions[0]} to {partitions[-1]} ({len(partitions)})"
