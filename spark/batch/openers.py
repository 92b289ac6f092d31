"""Batch openers: open partitions through the driver or through executors, and explain errors.

    OpenedSource ─► fetch | push ─► Opener           error ─► explain: lost, a failed job, or an error of the user

1. Partitions are fetched unless they are too large for the driver, or this Spark cannot give them by number.
2. An error is explained without Java's stack. This may call Spark, and blocks.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from ...runtime import SystemRng
from ...transport import TlsFiles
from ..connect import forget, is_connect
from ..errors import SparkJobError, SparkLostError, SparkSourceError
from ..sessions import activate_session, brief, is_lost, is_user_error
from .feed import FetchOpener, Opener
from .fetching import TooLargeError, cancel
from .group_size import GroupSize
from .over_connect import interrupt, tag_jobs
from .partitions import Partitions, ReplayError
from .push_server import PushOpener, PushServer
from .readers import FetchedReader, PartitionReader
from .source import OpenedSource, Way

log = logging.getLogger("aiostorm.spark")

_CUT_OFF: Final = re.compile(
    "pushed partition closed|was cut off|from another attempt|Connection(?:Refused|Reset)Error|BrokenPipe"
)

REASON_WAIT_S: Final = 5.0
"""How long to wait for the job's error after a connection broke."""


@dataclass
class OpenerFactory:
    """Makes the openers of one task. `title`: the name of chunks; `group`: of Spark jobs; `pushes`: executors send."""

    title: str
    group: str
    way: Way
    ahead: int
    size: GroupSize
    push_host: str | None = None
    push_tls: TlsFiles | None = None
    pushes: bool = False
    _server: PushServer | None = None

    def make(self, opened: OpenedSource, machine: Partitions) -> Opener:
        """The opener for this source. SparkSourceError if it is not possible."""
        if opened.fetching is None and self.way == "fetch":
            raise SparkSourceError(f'{self.title}: {opened.missing}; leave out way="fetch" and in_order=True')
        if self.way == "auto" and opened.fetching is not None and not self.pushes and opened.fetching.is_large:
            log.info("%s: partitions are large for the memory of Spark's JVM: executors push", self.title)
            self.pushes = True
        if self.pushes or opened.fetching is None:
            return self._push(opened, machine)

        def begin(partitions: list[int]) -> PartitionReader:
            activate_session(opened.session)
            assert opened.fetching is not None  # noqa: S101 - for the type checker
            fetched = opened.fetching.fetch(partitions, self.group, bounded=self.way == "auto")
            return FetchedReader(partitions, fetched, opened.schema, opened.chunk_rows)

        return FetchOpener(machine, begin, self.size, lambda: self._cancel(opened))

    def name_jobs(self, opened: OpenedSource, what: str) -> None:
        """Set the name of jobs that this thread runs. Blocks."""
        activate_session(opened.session)
        if is_connect(opened.session):
            tag_jobs(opened.frame, self.group)
        else:
            opened.session.sparkContext.setJobGroup(self.group, f"{self.title}: {what}", False)

    def _cancel(self, opened: OpenedSource) -> None:
        if is_connect(opened.session):
            interrupt(opened.frame, self.group)
        else:
            cancel(opened.session, self.group)

    def _push(self, opened: OpenedSource, machine: Partitions) -> Opener:
        self.pushes = True
        self._server = server = PushServer(self.push_host or "127.0.0.1", self.push_tls, SystemRng().token_bytes)

        def job(server: PushServer) -> list[int]:
            self.name_jobs(opened, "push")
            function = server.function(opened.schema, opened.chunk_rows)
            if opened.fetching is not None:
                rows: Sequence[Any] = opened.fetching.run(machine.unread(), function, opened.schema)
            else:
                rows = opened.frame.mapInArrow(function, "partition int, chunks long").collect()
            return [row["partition"] for row in rows]

        return PushOpener(
            machine,
            server,
            opened.schema,
            readers=self.ahead,
            job=job,
            cancel=lambda: self._cancel(opened),
            certain=opened.fetching is not None,
        )

    def explain(self, error: Exception, opened: OpenedSource, *, can_reopen: bool) -> Exception:
        """The error to report, with an explanation. Blocks: it calls Spark."""
        if isinstance(error, ReplayError):
            return SparkSourceError(
                f"{self.title}: {error}. Spark computes a partition again in any order it likes behind a shuffle: "
                "sort it before, df.sort('a unique column'), or write it to Parquet first and read that"
            )
        if isinstance(error, TooLargeError | SparkSourceError):
            return error
        if self.pushes and _is_cut_off(error):  # an executor was lost, or the job has the reason
            job = None if self._server is None else self._server.failure(REASON_WAIT_S)
            if not isinstance(job, Exception) or _is_cut_off(job):
                return SparkJobError(f"{self.title}: a partition was cut off ({brief(error)})")
            error = job
        if is_lost(error, opened.session):
            if is_connect(opened.session):
                forget(opened.session)
            if not can_reopen:
                return SparkSourceError(
                    f"{self.title}: the session of this DataFrame has ended ({brief(error)}): give a function that "
                    "makes the DataFrame (with fields=), then it is made again in a new session"
                )
            return SparkLostError(f"{self.title}: Spark was lost ({brief(error)}); it is started again")
        message = brief(error)
        if "OutOfMemoryError" in f"{message} {error}" and not self.pushes:
            return TooLargeError([0], "the memory of Spark's JVM (spark.driver.memory)")
        if is_user_error(error, message):  # a retry would fail too
            return SparkSourceError(f"{self.title}: {message}")
        return SparkJobError(f"{self.title}: {message}")


def _is_cut_off(error: BaseException) -> bool:
    return isinstance(error, EOFError | ConnectionError) or _CUT_OFF.search(str(error)) is not None
