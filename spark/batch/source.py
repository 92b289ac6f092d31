"""Batch source: the source of a batch spout, opened once for all tasks of a process.

    DataFrame | function | sql | path ─► session ─► planned ─► Opened: schema, partitions, how to fetch them

1. All tasks of a process share it: a deep copy for a task is the same object.
2. Errors of the user (a wrong query, a type, a path) are SparkSourceErrors when it is opened.
3. A function, SQL or a path can be opened again in a new session; a DataFrame ends with its own session.
4. Everything here blocks: call it in threads.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from ..connect import is_connect
from ..errors import SparkJobError, SparkLostError, SparkSourceError
from ..needs import require
from ..sessions import SessionLease, SessionSource, activate_session, alive, brief, running_session, sessions
from ..types import arrow_schema, check_fields, row_bytes, rows_that_fit
from .data_identity import DataIdentity, identify_data
from .fetching import Fetching, UnsupportedSparkError, planned
from .over_connect import NOT_HERE, lost_or_failed, released, steady

_USERS: Final = "SQLSTATE: 42"  # the SQL standard's class of what is written wrong, or names what is not there
_SETTINGS: Final = {
    "spark.sql.execution.arrow.maxBytesPerBatch": 16 * 1024 * 1024,
    "spark.sql.debug.maxToStringFields": 100_000,
}

Way = Literal["auto", "fetch", "push"]


@dataclass(slots=True)
class OpenedSource:
    """An open source. `fetching`: None if partitions can only be pushed; then `missing` is the reason.

    `partitions`: None if their number is known only when the job has ended. `data`: the identity of the data.
    """

    session: Any
    frame: Any
    schema: Any
    partitions: int | None
    fetching: Fetching | None
    missing: str = ""
    data: DataIdentity = field(default_factory=DataIdentity)
    chunk_rows: int = 10_000
    users: int = 0


@dataclass(eq=False)
class BatchSource:
    """A source: one of `frame`, `make`, `sql` and `path`. `fields`: its required columns.

    `adaptive`: None until it is decided when the source is opened.
    """

    frame: Any = None
    make: Callable[..., Any] | None = None
    sql: str | None = None
    path: str | Sequence[str] | None = None
    format: str = "parquet"
    options: Mapping[str, Any] = field(default_factory=dict)
    session: SessionSource = None
    fields: Sequence[str] | None = None
    chunk_rows: int | None = None
    adaptive: bool | None = None
    _lock: Any = field(default_factory=threading.Lock, init=False, repr=False)
    _opened: OpenedSource | None = field(default=None, init=False, repr=False)
    _lease: SessionLease | None = field(default=None, init=False, repr=False)

    def __deepcopy__(self, memo: object) -> BatchSource:
        return self

    def __reduce__(self) -> Any:
        if self.frame is None:
            return super().__reduce__()
        raise SparkSourceError(
            "a DataFrame cannot go to another process: give SparkBatchSpout a function that makes it (with fields=)"
        )

    @property
    def can_reopen(self) -> bool:
        """Whether it can be opened again in a new session."""
        return self.frame is None

    def __str__(self) -> str:
        if self.frame is not None:
            return "the DataFrame"
        if self.sql is not None:
            return f"the query {self.sql!r:.200}"
        if self.path is not None:
            return f"{self.format} {self.path!r:.200}"
        return f"the DataFrame of {getattr(self.make, '__qualname__', 'the function')}"

    @property
    def identity(self) -> str:
        """Its name in a progress folder."""
        if self.sql is not None:
            return f"sql: {self.sql}"
        return "a DataFrame" if self.path is None else f"{self.format}: {self.path}"

    def header(self, opened: OpenedSource, title: str) -> dict[str, Any]:
        """What must be the same in each run with one progress folder, and when the source is opened again."""
        return {
            "source": self.identity,
            "name": title,
            "plan": opened.data.plan,
            "data": opened.data.text,
            "columns": [f"{field.name} {field.type}" for field in opened.schema],
            "chunk_rows": opened.chunk_rows,
            "partitions": opened.partitions,
        }

    def known_columns(self) -> list[str]:
        """The columns: as given, of the DataFrame, or as the running session says. SparkSourceError if there is none.

        Blocks if it asks the session: Spark analyses the query, and reads the schema of files; a function is called.
        """
        if self.fields is not None or self.frame is not None:
            return list(self.frame.columns if self.fields is None else self.fields)
        session = None if callable(self.session) else running_session()
        if session is None:
            raise SparkSourceError(
                f"the columns of {self} are not known before Spark runs: name them, fields=('id', …), or make the "
                "session before the spout (aiostorm.spark.make_session)"
            )
        frame, _ = self._checked(session)
        return list(frame.columns)

    def open(self, dead: OpenedSource | None = None) -> OpenedSource:
        """Open it, or share it if it is open and not `dead`. Must be closed as often as it was opened."""
        with self._lock:
            users = 0 if self._opened is None else self._opened.users
            if self._opened is None or self._opened is dead:
                self._opened = self._open()
                if dead is not None:
                    released(dead.frame, dead.session)
            self._opened.users = users + (dead is None)
            return self._opened

    def close(self) -> None:
        """One user has closed it."""
        with self._lock:
            if self._opened is None:
                return
            self._opened.users -= 1
            if self._opened.users <= 0:
                released(self._opened.frame, self._opened.session)
                self._opened = None
                lease, self._lease = self._lease, None
                if lease is not None:
                    lease.release()

    def _open(self) -> OpenedSource:
        try:
            return self._made()
        except BaseException:
            if self._opened is None and self._lease is not None:  # `close` will not be called
                self._lease.release()
                self._lease = None
            raise

    def _made(self) -> OpenedSource:
        require("numpy")  # emitting needs it with pyarrow: imported here, it does not block the loop
        require("pyarrow")
        frame, session = self._frame()
        columns = list(frame.columns)
        if self.fields is not None:
            check_fields(columns, self.fields, str(self))
        schema = arrow_schema(frame.schema, str(self))
        try:
            return self._planned(frame, session, schema)
        except UnsupportedSparkError as error:
            raise SparkSourceError(f"{self} cannot be read: {error}") from error
        except Exception as error:
            raise self._explained(error, session) from error

    def _planned(self, frame: Any, session: Any, schema: Any) -> OpenedSource:
        rows = self.chunk_rows or rows_that_fit(schema)
        if is_connect(session):
            own = steady(frame, {"spark.sql.execution.arrow.maxRecordsPerBatch": rows})
            return OpenedSource(session, own, schema, None, None, NOT_HERE, chunk_rows=rows)
        settings = {
            **_SETTINGS,
            "spark.sql.execution.arrow.maxRecordsPerBatch": rows,
            "spark.sql.adaptive.enabled": str(bool(self.adaptive)).lower(),
        }
        own = planned(frame, settings)
        data = self._data(own, session)
        try:
            fetching = Fetching(own, row_bytes(schema))
        except UnsupportedSparkError as error:
            return OpenedSource(session, own, schema, own.rdd.getNumPartitions(), None, str(error), data, rows)
        return OpenedSource(session, own, schema, fetching.partitions, fetching, "", data, rows)

    def _data(self, own: Any, session: Any) -> DataIdentity:
        activate_session(own.sparkSession)  # its setting for the length of a plan's text
        try:
            return identify_data(own)
        finally:
            activate_session(session)

    def _frame(self) -> tuple[Any, Any]:
        if self.frame is not None:
            session = self.frame.sparkSession
            if not alive(session):
                raise SparkSourceError(
                    "the session of this DataFrame has been stopped: give a function that makes the DataFrame (with "
                    "fields=), then it is made again in a new session"
                )
            activate_session(session)
            return self.frame, session
        if self._lease is None:
            self._lease = sessions.lease(self.session)
        return self._checked(self._lease.get())

    def _checked(self, session: Any) -> tuple[Any, Any]:
        activate_session(session)
        try:
            frame = self._read(session)
        except Exception as error:
            raise self._explained(error, session) from error
        if not hasattr(frame, "columns") or not hasattr(frame, "schema"):
            raise SparkSourceError(
                f"{getattr(self.make, '__qualname__', 'the function')} returned {type(frame).__name__}, not a DataFrame"
            )
        return frame, session

    def _read(self, session: Any) -> Any:
        if self.sql is not None:
            return session.sql(self.sql)
        if self.path is not None:
            paths = self.path if isinstance(self.path, str) else list(self.path)
            return session.read.format(self.format).options(**dict(self.options)).load(paths)
        assert self.make is not None  # noqa: S101 - one of the four is given
        return self.make(session) if takes_session(self.make) else self.make()

    def _explained(self, error: Exception, session: Any) -> Exception:
        """A SparkSourceError for errors of the user; other errors, which a restart may correct, stay as they are."""
        if isinstance(error, SparkSourceError):
            return error
        errors = require("pyspark.errors")
        if isinstance(error, errors.AnalysisException | errors.IllegalArgumentException):
            return SparkSourceError(f"{self} cannot be read: {brief(error)}")
        if self.frame is None and not alive(session):
            return SparkLostError(f"the session ended while {self} was opened: {brief(error)}")
        if is_connect(session):
            return lost_or_failed(error, session, f"{self} cannot be read: {brief(error)}")
        if hasattr(error, "java_exception"):  # without Java's stack
            message = f"{self} cannot be read: {brief(error)}"
            return SparkSourceError(message) if _USERS in message else SparkJobError(message)
        return error


def chosen_way(way: Way, *, in_order: bool) -> Way:
    """The way of reading partitions: in order only through the driver."""
    if way not in ("auto", "fetch", "push"):
        raise SparkSourceError(f'way is "auto", "fetch" or "push", not {way!r}')
    if in_order and way == "push":
        raise SparkSourceError('partitions that executors push come as they like: leave out in_order or way="push"')
    return "fetch" if in_order else way


def takes_session(make: Callable[..., Any]) -> bool:
    """Whether the function takes the SparkSession."""
    try:
        parameters = inspect.signature(make).parameters.values()
    except (TypeError, ValueError):  # a builtin that does not say
        return False
    return any(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.VAR_POSITIONAL) for p in parameters)
