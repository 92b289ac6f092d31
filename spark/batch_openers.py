"""Batch openers: how the loads of a batch come: fetched by the driver, or pushed by executors; and what went wrong.

    Opened ─► fetch | push ─► Opener           error ─► told: lost, a job that failed, or what the user must mend

1. Fetched, as long as partitions are not too large for the driver, and this Spark can give them by number.
2. An error is told in words, without Java's stack. Telling it may ask Spark, and blocks.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..actors import SystemRng
from ..transport import TlsFiles
from .batch_feed import FetchOpener, Opener
from .batch_loads import FetchedLoad, Load
from .batch_source import Opened, Way
from .errors import SparkJobError, SparkLostError, SparkSourceError
from .fetching import TooLargeError, cancel
from .group_size import GroupSize
from .partitions import Partitions, ReplayError
from .push_server import PushOpener, PushServer
from .sessions import brief, is_lost, use_here


@dataclass
class Openers:
    """Of one task. `title`: what chunks are called; `group`: of Spark's jobs; `pushes`: executors send partitions."""

    title: str
    group: str
    way: Way
    chunk_rows: int
    ahead: int
    size: GroupSize
    push_host: str | None = None
    push_tls: TlsFiles | None = None
    pushes: bool = False

    def make(self, opened: Opened, machine: Partitions) -> Opener:
        """The way in. SparkSourceError if it is not to be had."""
        if opened.fetching is None and self.way == "fetch":
            raise SparkSourceError(f'{self.title}: {opened.missing}; use way="auto" or "push"')
        if self.pushes or opened.fetching is None:
            return self._push(opened, machine)

        def begin(partitions: list[int]) -> Load:
            use_here(opened.session)
            assert opened.fetching is not None  # noqa: S101 - for the type checker
            fetched = opened.fetching.fetch(partitions, self.group)
            return FetchedLoad(partitions, fetched, opened.schema, self.chunk_rows)

        return FetchOpener(machine, begin, self.size, lambda: cancel(opened.session, self.group))

    def _push(self, opened: Opened, machine: Partitions) -> Opener:
        server = PushServer(self.push_host or "127.0.0.1", self.push_tls, SystemRng().token_bytes)

        def job(server: PushServer) -> None:
            use_here(opened.session)
            opened.session.sparkContext.setJobGroup(self.group, f"{self.title}: push", False)
            function = server.function(opened.schema, self.chunk_rows)
            opened.frame.mapInArrow(function, "partition int, chunks long").collect()

        return PushOpener(
            machine,
            server,
            opened.schema,
            readers=self.ahead,
            job=job,
            cancel=lambda: cancel(opened.session, self.group),
        )

    def told(self, error: Exception, opened: Opened, *, can_reopen: bool) -> Exception:
        """What has happened, in words. Blocks: it asks Spark."""
        if isinstance(error, ReplayError):
            return SparkSourceError(
                f"{self.title}: {error}. Spark computes a partition again in any order it likes behind a shuffle: "
                "sort it before, df.sort('a unique column'), or write it to Parquet first and read that"
            )
        if isinstance(error, TooLargeError | SparkSourceError):
            return error
        if self.pushes and isinstance(error, EOFError | ConnectionError):  # an executor or its task has gone
            return SparkJobError(f"{self.title}: a partition was cut off ({error})")
        if is_lost(error, opened.session):
            if not can_reopen:
                return SparkSourceError(
                    f"{self.title}: the session of this DataFrame has ended ({brief(error)}): give a function that "
                    "makes the DataFrame (with fields=), then it is made again in a new session"
                )
            return SparkLostError(f"{self.title}: Spark was lost ({brief(error)}); it is started again")
        return SparkJobError(f"{self.title}: {brief(error)}")
