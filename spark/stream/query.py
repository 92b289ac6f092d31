"""Stream query: one run of a streaming query with a ForeachBatch. Everything here blocks: call it in threads.

    start  ─► session ─► source(session) ─► checked ─► checkpoint claimed ─► foreachBatch(…).start()
    status ─► running | ended | failed: why | lost: why
    stop   ─► the ForeachBatch is closed, the query is stopped

1. `start` and `stop` exclude each other: a query that is stopped while it starts is stopped when it has started.
2. The ForeachBatch is closed before the query is stopped: the JVM's thread that waits in it cannot be interrupted.
3. Spark's messages are shortened: of two hundred lines of Java, the reason and the exception are kept.
"""

from __future__ import annotations

import enum
import logging
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ..batch.source import takes_session
from ..errors import SparkLostError, SparkSourceError, SparkUnavailableError
from ..sessions import activate_session, alive, brief, is_lost
from ..types import arrow_schema, check_fields
from .checkpoint import claim, query_identity

if TYPE_CHECKING:
    from .foreach_batch import ForeachBatch

log = logging.getLogger("aiostorm.spark")

FINITE: Final = ("availableNow", "once")
"""Triggers with which a query ends by itself."""

_REASON: Final = re.compile(
    r"terminated with exception: (.*?)(?:\s*SQLSTATE: \w+)?\s*(?:=== Streaming Query ===|\Z)", re.S
)


class QueryState(enum.Enum):
    """The state of a query."""

    RUNNING = "running"
    ENDED = "ended"
    FAILED = "failed"
    LOST = "lost"


class QueryStatus(NamedTuple):
    """The state of a query and its reason. `committed`: the last batch known to be committed; -1: none.

    `final`: a restart would not help.
    """

    state: QueryState
    why: str = ""
    committed: int = -1
    final: bool = False


@dataclass(frozen=True, slots=True)
class QuerySpec:
    """The query to run."""

    name: str
    title: str
    source: Any
    fields: tuple[str, ...]
    checkpoint: str
    trigger: Mapping[str, Any]
    output_mode: str | None

    @property
    def ends(self) -> bool:
        """Whether the query ends by itself."""
        return any(kind in self.trigger for kind in FINITE)


class StreamQuery:
    """One run of a query."""

    def __init__(self, spec: QuerySpec, get_session: Callable[[], Any], foreach_batch: ForeachBatch) -> None:
        self._spec = spec
        self._get_session = get_session
        self._foreach_batch = foreach_batch
        self._lock = threading.Lock()
        self._stopped = False
        self._session: Any = None
        self._query: Any = None

    def start(self) -> None:
        """Start the query. SparkSourceError if the user must correct something, SparkLostError if Spark has ended."""
        with self._lock:
            if self._stopped:
                return
            try:
                self._session = self._get_session()
                self._query = self._started(self._session)
            except (SparkSourceError, SparkUnavailableError, SparkLostError):
                raise
            except Exception as error:
                if self._session is not None and is_lost(error, self._session):
                    raise SparkLostError(f"Spark has ended while {self._spec.name!r} was started") from None
                log.debug("start of %s", self._spec.name, exc_info=True)
                why = _describe(error)
                raise SparkSourceError(f"the stream {self._spec.name!r} cannot be started: {why}") from None

    def status(self) -> QueryStatus:
        query, session = self._query, self._session
        if query is None:
            return QueryStatus(QueryState.LOST, "it was never started")
        if not alive(session):
            return QueryStatus(QueryState.LOST, "the Spark session was stopped, or its JVM has died")
        try:
            committed = _committed(query)
            if query.isActive:
                return QueryStatus(QueryState.RUNNING, committed=committed)
            error = query.exception()
        except Exception as raised:
            why = "the JVM of Spark has died" if is_lost(raised, session) else brief(raised)
            return QueryStatus(QueryState.LOST, why)
        if error is None:
            return QueryStatus(QueryState.ENDED, committed=committed)
        return QueryStatus(QueryState.FAILED, reason_of(error), committed)

    def stop(self, why: str) -> None:
        """Stop the query in any state. Afterwards no call waits in its ForeachBatch."""
        self._foreach_batch.close(why)
        with self._lock:
            self._stopped = True
            query, self._query, self._session = self._query, None, None
        if query is not None:
            try:
                query.stop()
            except Exception:  # the query or its JVM has ended already
                log.debug("stop of %s", self._spec.name, exc_info=True)

    def _started(self, session: Any) -> Any:
        spec = self._spec
        activate_session(session)
        dataframe: Any = spec.source
        if callable(dataframe):
            dataframe = dataframe(session) if takes_session(dataframe) else dataframe()
        check_streaming(dataframe, spec)
        arrow_schema(dataframe.schema, f"the stream {spec.name!r}")
        claim(session, spec.checkpoint, query_identity(spec.name, dataframe))
        writer = dataframe.writeStream.foreachBatch(self._foreach_batch).queryName(spec.title)
        writer = writer.option("checkpointLocation", spec.checkpoint)
        if spec.output_mode is not None:
            writer = writer.outputMode(spec.output_mode)
        if spec.trigger:
            writer = writer.trigger(**spec.trigger)
        return writer.start()


def check_streaming(dataframe: Any, spec: QuerySpec) -> None:
    """Raise SparkSourceError if it is no streaming DataFrame with these columns."""
    if not hasattr(dataframe, "isStreaming"):
        raise SparkSourceError(
            f"the source of {spec.name!r} gave {type(dataframe).__name__}, not a DataFrame: return what "
            "spark.readStream gives"
        )
    if not dataframe.isStreaming:
        raise SparkSourceError(
            f"the source of {spec.name!r} is not a stream: read it with spark.readStream, or use SparkBatchSpout"
        )
    check_fields(dataframe.columns, spec.fields, f"the stream {spec.name!r}")


def reason_of(error: BaseException) -> str:
    """The reason of a query's failure, in a line or two."""
    text = str(error)
    found = _REASON.search(text)
    if found is not None:
        text = found.group(1)
    if "Return Message: Traceback" in text:  # a Python function that Spark called: the last line has the reason
        lines = [line.strip() for line in text.splitlines() if line.strip() and not line.strip().startswith("SQLSTATE")]
        text = lines[-1]
    elif "Traceback (most recent call last):" in text:  # a source written in Python
        text = brief(RuntimeError(text))
    else:
        text = text.partition("Driver stacktrace:")[0]
        text = "; ".join(line.strip() for line in text.splitlines()[:3] if line.strip())
    return text if len(text) <= 600 else text[:600] + " …"


def _describe(error: Exception) -> str:
    """The message of an error of the source or of Spark; with the type for Python's errors."""
    by_spark = any(kind.__name__ in ("PySparkException", "Py4JError") for kind in type(error).__mro__)
    return brief(error) if by_spark else f"{type(error).__name__}: {brief(error)}"


def _committed(query: Any) -> int:
    progress = query._jsq.lastProgress()
    return -1 if progress is None else int(progress.batchId())
