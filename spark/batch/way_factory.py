"""Way factory: chooses the way of reading an open source, and explains the errors of reading.

    OpenedSource ─► fetch | push ─► Way              error ─► explain: lost, a failed job, or an error of the user

1. Partitions are fetched unless they are too large for the driver, or this Spark cannot give them by number.
2. An error is explained without Java's stack. This may call Spark, and blocks.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..connect import forget, is_connect
from ..errors import SparkJobError, SparkLostError, SparkSourceError
from ..executors.by_value import register_by_value
from ..sessions import activate_session, brief, is_lost, is_user_error
from .capacity import Capacity
from .fetching import TooLargeError
from .group_size import GroupSize
from .over_connect import released
from .partitions import Partitions, ReplayError
from .push_server import PushServer
from .push_way import PushWay, is_cut_off
from .pushing import MODULES, pusher
from .readers import FetchedReader, WholeBatches
from .ways import FetchWay, Way

if TYPE_CHECKING:
    from ..calls import SparkCalls
    from .options import BatchOptions
    from .pushing import PushLocation
    from .source import OpenedSource
    from .spark_jobs import SparkJobs

log = logging.getLogger("aiostorm.spark")


@dataclass
class WayFactory:
    """Makes the ways of one task. `pushes`: executors send the partitions, as far as that is decided."""

    options: BatchOptions
    jobs: SparkJobs
    machine: Partitions
    calls: SparkCalls
    can_reopen: bool
    pushes: bool = False
    capacity: Capacity = field(init=False)
    _size: GroupSize = field(default_factory=GroupSize)

    def __post_init__(self) -> None:
        self.capacity = Capacity(self.machine, self.options.max_pending)

    def make(self, opened: OpenedSource) -> Way:
        """The way for this source. SparkSourceError if it is not possible."""
        fetching, way = opened.fetching, self.options.way
        if fetching is None and way == "fetch":
            raise SparkSourceError(f'{self.jobs.title}: {opened.missing}; leave out way="fetch" and in_order=True')
        if way == "auto" and fetching is not None and not self.pushes and fetching.is_large:
            log.info("%s: partitions are large for the memory of Spark's JVM: executors push", self.jobs.title)
            self.pushes = True
        self.pushes = self.pushes or way == "push" or fetching is None
        return self._push(opened) if self.pushes else self._fetch(opened)

    def _fetch(self, opened: OpenedSource) -> Way:
        def begin(partitions: list[int]) -> FetchedReader:
            activate_session(opened.session)
            assert opened.fetching is not None  # noqa: S101 - for the type checker
            fetched = opened.fetching.fetch(partitions, self.jobs.group, bounded=self.options.way == "auto")
            return FetchedReader(partitions, WholeBatches(fetched, opened.schema), opened.chunk_rows)

        return FetchWay(
            self.machine,
            self.calls,
            self.capacity,
            self._size,
            begin,
            lambda: self.jobs.cancel(opened),
            ahead=self.options.ahead,
            in_order=self.options.in_order,
        )

    def _push(self, opened: OpenedSource) -> Way:
        host, tls = self.options.push_host or "127.0.0.1", self.options.push_tls

        def job(where: PushLocation) -> list[int]:
            self.jobs.describe(opened, "push")
            register_by_value(*MODULES)
            function = pusher(where, opened.schema.serialize().to_pybytes(), opened.chunk_rows)
            if opened.fetching is not None:
                rows: Sequence[Any] = opened.fetching.run(self.machine.unread(), function, opened.schema)
            else:
                rows = opened.frame.mapInArrow(function, "partition int, chunks long").collect()
            return [row["partition"] for row in rows]

        return PushWay(
            self.machine,
            self.calls,
            self.capacity,
            PushServer(self.jobs.title, host, tls),
            job,
            lambda: self.jobs.cancel(opened),
            schema=opened.schema,
            ahead=self.options.ahead,
            certain=opened.fetching is not None,
        )

    def adapted(self, error: Exception, *, repeated: bool) -> Exception:
        """Choose the way of the next attempt after an explained error. `repeated`: no chunk came since the last one.

        TooLargeError if the next attempt is different, else the error to report.
        """
        self._size.too_large()
        is_auto = self.options.way == "auto"
        if isinstance(error, TooLargeError) and error.partitions == 1:
            if not is_auto:
                return SparkSourceError(
                    f"{self.jobs.title}: a partition is larger than {error.than}: use more partitions "
                    '(df.repartition), or way="auto" without in_order'
                )
            log.info("%s: a partition is larger than %s: executors push", self.jobs.title, error.than)
            self.pushes = True
        elif isinstance(error, SparkLostError) and repeated and is_auto:
            self.pushes = True  # lost twice without a chunk: the JVM may be too small for a partition
        return error

    def explain(self, error: Exception, opened: OpenedSource) -> Exception:
        """The error to report, with an explanation. Blocks: it calls Spark."""
        title = self.jobs.title
        if isinstance(error, ReplayError):
            return SparkSourceError(
                f"{title}: {error}. Spark computes a partition again in any order it likes behind a shuffle: "
                "sort it before, df.sort('a unique column'), or write it to Parquet first and read that"
            )
        if isinstance(error, TooLargeError | SparkSourceError):
            return error
        if self.pushes and is_cut_off(error):
            return SparkJobError(f"{title}: a partition was cut off ({brief(error)})")
        if is_lost(error, opened.session):
            if is_connect(opened.session):
                forget(opened.session)
                released(opened.frame, opened.session)
            if not self.can_reopen:
                return SparkSourceError(
                    f"{title}: the session of this DataFrame has ended ({brief(error)}): give a function that "
                    "makes the DataFrame (with fields=), then it is made again in a new session"
                )
            return SparkLostError(f"{title}: Spark was lost ({brief(error)}); it is started again")
        message = brief(error)
        if "OutOfMemoryError" in f"{message} {error}" and not self.pushes:
            return TooLargeError([0], "the memory of Spark's JVM (spark.driver.memory)")
        if is_user_error(error, message):  # a retry would fail too
            return SparkSourceError(f"{title}: {message}")
        return SparkJobError(f"{title}: {message}")
