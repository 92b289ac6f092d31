"""Query runner: starts, checks and stops the query of one spout, in threads and as long as the JVM answers.

1. The event loop makes no calls of Spark. A cancelled call goes on in its thread; its effect is undone.
2. A JVM that does not answer (jvm_watch.py) counts as lost. If it cannot be killed, it is not called again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any, Final

from .. import jvm_watch
from ..calls import SparkCalls
from ..sessions import brief, is_user_error
from .foreach_batch import Delivery, ForeachBatch
from .query import QuerySpec, QueryState, QueryStatus, StreamQuery
from .session import StreamSession

COMMIT_S: Final = 3.0
"""How long `committed` waits for Spark to commit acked batches."""


class QueryRunner:
    """The query of one spout, again and again. `threads`: the calls that may run at once."""

    def __init__(self, spec: QuerySpec, session: Any, threads: int) -> None:
        self.calls = SparkCalls(threads, name=f"spark-{spec.name}")
        self.watch = jvm_watch.JvmWatch(self.calls.name)
        self._spec = spec
        self._session = StreamSession(spec.source, session)
        self._query: StreamQuery | None = None

    @property
    def is_started(self) -> bool:
        """Whether there is a query, which may have ended."""
        return self._query is not None

    async def open(self) -> None:
        """Make sure that there is a session: errors are reported when the topology is submitted."""
        await self.watch.during(self.calls.begin(self._session.get))

    async def start(self, take: Callable[[Delivery], None]) -> None:
        """Start the query, which brings its batches to `take`. SparkSourceError, SparkLostError."""
        self._query = StreamQuery(self._spec, self._session.get, ForeachBatch(asyncio.get_running_loop(), take))
        try:
            await self.watch.during(self.calls.begin(self._query.start))
        except Exception:
            self._query = None
            raise

    async def status(self) -> QueryStatus:
        """The status of the query. `final`: the JVM does not answer, and cannot be killed."""
        if self._query is None:
            return QueryStatus(QueryState.LOST, "it was never started")
        try:
            async with asyncio.timeout(jvm_watch.ANSWER_S):
                return await self.calls.run(self._query.status)
        except TimeoutError:
            why = f"Spark has not answered for {jvm_watch.ANSWER_S:g} s"
            return QueryStatus(QueryState.LOST, why, final=not self._session.kill())

    async def stop(self, status: QueryStatus, why: str) -> None:
        """Stop the query, whose status this is; the next `start` makes another."""
        query, self._query = self._query, None
        if query is not None and not status.final:
            await self.calls.run(query.stop, why)

    async def diagnose(self, error: Exception) -> tuple[str, bool]:
        """The message of an error of Spark, and whether user code or a row has caused it."""
        return await self.calls.run(_diagnose, error)

    async def committed(self, batch_id: int) -> None:
        """Wait until Spark has committed this batch: otherwise it would come again after a restart."""
        query = self._query
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(COMMIT_S):
                while query is not None:
                    status = await self.calls.run(query.status)
                    if status.state is not QueryState.RUNNING or status.committed >= batch_id:
                        return
                    await asyncio.sleep(0.02)

    async def close(self) -> None:
        """Stop the query and release the session. A waiting call of Spark is failed at once."""
        query, self._query = self._query, None
        try:
            await self.calls.run(self._end_all, query)  # goes on in its thread if this task is cancelled
        finally:
            self.calls.close()
            self.watch.close()

    def _end_all(self, query: StreamQuery | None) -> None:
        if query is not None:
            query.stop("the topology has ended")
        self._session.release()


def _diagnose(error: Exception) -> tuple[str, bool]:
    why = brief(error)  # this calls the JVM
    return why, is_user_error(error, why)
