"""Sessions: one SparkSession for this process, shared by all components, made anew when its JVM has died.

    lease = sessions.lease(settings | function | session) ─► lease.get() ─► SparkSession     … lease.release()
                                    the first makes it, the last stops it, if this process made it

1. Everything here blocks: call it in a thread (SparkCalls). In the main thread PySpark would also replace the handler
   of SIGINT. (`make_session` may be called there: it uses another thread.)
2. A process has one Spark, since it has one JVM: requests for other values of fixed settings are refused.
3. A session that existed before is never stopped here.
4. Settings of the command line win over requested settings (session_settings.py).
5. Local masters: no port is open to other machines, and there is no web page unless requested.
6. With `spark.remote` (or SPARK_REMOTE) the session is one of Spark Connect: no JVM, no Java (connect.py).
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from . import connect
from .errors import SparkLostError, SparkUnavailableError
from .java import ensure_java
from .jvm_guard import JvmGuard
from .needs import require, require_jvm
from .resources import is_local
from .session_settings import overriding_settings, text_of

log = logging.getLogger("aiostorm.spark")

SessionSource = Mapping[str, Any] | Callable[[], Any] | None
"""The source of a session: settings, a function that makes it, or None: the existing one, or a local one."""

END_S: Final = 10.0

_LOCAL: Final = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
}
_TRACEBACK: Final = "Traceback (most recent call last):"
_USERS: Final = {
    "AnalysisException",
    "ArithmeticException",
    "ArrayIndexOutOfBoundsException",
    "DateTimeException",
    "IllegalArgumentException",
    "NumberFormatException",
    "ParseException",
    "PythonException",
    "SparkRuntimeException",
}
_USERS_STATE: Final = re.compile(
    r"SQLSTATE: (?:22|42|P0)|org\.apache\.spark\.api\.python\.PythonException"
    r"|Spark(?:Arithmetic|DateTime|NumberFormat|Runtime)Exception"
)
"""SQL standard classes of errors by a row, a statement or `raise_error`; and errors of Python functions."""
_ALWAYS: Final = {
    "spark.ui.showConsoleProgress": "false",
}


def make_session(
    conf: Mapping[str, Any] | None = None, *, master: str | None = None, app_name: str = "aiostorm"
) -> Any:
    """Make a SparkSession, or return the one of this process. Blocking, 10 s and more.

    `conf`: settings of Spark; they win over the defaults. `master`: default "local[*]", or `spark.master`.
    With `spark.remote` in `conf` ("sc://HOST:PORT"), or SPARK_REMOTE in the environment and no master: a session of
    that Spark Connect server, which needs no Java here.
    SparkUnavailableError if there is no PySpark, no Java, or Spark does not start.
    """
    given = {key: text_of(value) for key, value in (conf or {}).items()}
    if given.get(connect.REMOTE):
        return connect.connected(given)
    where = master or given.get("spark.master")
    if where is None and os.environ.get("SPARK_REMOTE"):
        return connect.connected({**given, connect.REMOTE: os.environ["SPARK_REMOTE"]})
    where = where or "local[*]"
    if where.startswith("sc://"):
        raise SparkUnavailableError(
            f"{where} is the address of a Spark Connect server, not of a master. SparkBatchSpout and "
            f'SparkTableSinkBolt take session={{"{connect.REMOTE}": "{where}"}}; streams and workers on executors need '
            "the address of the master itself"
        )
    if threading.current_thread() is threading.main_thread():
        # PySpark would replace the handler of Ctrl-C here: the session is made in another thread.
        return _make_in_thread(conf, master, app_name)
    require_jvm()
    sql = require("pyspark.sql")
    ensure_java()
    if is_local(where):
        # Executors of this machine run this Python, with its packages, and not another `python3`.
        os.environ.setdefault("PYSPARK_PYTHON", given.get("spark.pyspark.python", sys.executable))
    ours = {"spark.driver.maxResultSize": _share(given.get("spark.driver.memory", "1g"))}
    settings = {**_ALWAYS, **ours, **(_LOCAL if is_local(where) else {}), "spark.app.name": app_name, **given}
    builder = sql.SparkSession.builder.master(where)
    for key, value in settings.items():
        builder = builder.config(key, value)
    before = _active()
    if before is None:
        log.info("Spark is started on %s", where)
    try:
        return builder.getOrCreate()
    except Exception as error:
        why = brief(error)  # this calls the JVM
        if before is None:  # a session that existed before is not ended
            discard_jvm()
        raise SparkUnavailableError(f"Spark does not start on {where}: {why}") from error


def _make_in_thread(conf: Mapping[str, Any] | None, master: str | None, app_name: str) -> Any:
    outcome: list[Any] = []

    def make() -> None:
        try:
            outcome.append(make_session(conf, master=master, app_name=app_name))
        except BaseException as error:
            outcome.extend((None, error))

    thread = threading.Thread(target=make, name="spark-session", daemon=True)
    thread.start()
    thread.join()
    if len(outcome) > 1:
        raise outcome[1]
    activate_session(outcome[0])
    return outcome[0]


def _share(memory: str) -> str:
    """A quarter of the heap: a result has several copies there while it is fetched. "1g" if it cannot be parsed."""
    found = re.fullmatch(r"(\d+)([kmgt]?)b?", memory.strip().lower())
    if found is None:
        return "1g"
    units = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
    return f"{max(16, (int(found[1]) * units[found[2]] >> 20) // 4)}m"


@dataclass(slots=True)
class _SharedSession:
    """The session of this process, and its leases."""

    session: Any = None
    ours: bool = False
    leases: int = 0
    making: bool = False
    guard: JvmGuard | None = None


class SessionLease:
    """The right to this process' session, until `release`."""

    def __init__(self, sessions: Sessions, source: SessionSource) -> None:
        self._sessions = sessions
        self._source = source
        self._acquired = False

    def get(self) -> Any:
        """The session: made by the first call, and anew if it has ended. Blocking."""
        session = self._sessions.acquire(self._source, again=self._acquired)
        self._acquired = True
        return session

    def release(self) -> None:
        """Release it. Blocking: the last release stops a session that was made here."""
        if self._acquired:
            self._acquired = False
            self._sessions.release()


class Sessions:
    """All leases of one process."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._shared = _SharedSession()

    def lease(self, source: SessionSource = None) -> SessionLease:
        """A lease of the session. Does not block."""
        return SessionLease(self, source)

    def acquire(self, source: SessionSource, *, again: bool) -> Any:
        """The session; a session that has ended is replaced. `again`: the caller has a lease already."""
        wins = overriding_settings()
        if wins and not callable(source):
            source = {**(source or {}), **wins}
        with self._lock:
            shared = self._shared
            if shared.session is not None and not alive(shared.session):
                _drop(shared.session, source)
                shared.session = None
            if shared.session is None:
                active = _active()
                if active is not None and isinstance(source, Mapping):
                    _check_same(active, source)
                if active is not None and not callable(source):
                    shared.session, shared.ours = active, False
                else:
                    self._make(source)
                    shared.ours = shared.session is not active
                if wins and callable(source):
                    _check_same(shared.session, wins)
            elif isinstance(source, Mapping):
                _check_same(shared.session, source)
            if not again:
                shared.leases += 1
            return shared.session

    def _make(self, source: SessionSource) -> None:
        shared = self._shared
        before = _gateway()
        shared.making = before is None
        try:
            shared.session = _create(source)
        finally:
            shared.making = False
            gateway = _gateway()
            process = getattr(gateway, "proc", None)
            if gateway is not before and process is not None:
                self._unguard()
                shared.guard = JvmGuard(process.pid)

    def _unguard(self) -> None:
        guard, self._shared.guard = self._shared.guard, None
        if guard is not None:
            guard.done()

    def kill(self) -> bool:
        """Kill a JVM that does not answer, if it was started here: its waiting calls fail. Does not block."""
        process = getattr(_gateway(), "proc", None)
        if not (self._shared.ours or self._shared.making) or process is None:
            return False
        process.kill()
        return True

    def remote(self) -> Any:
        """The session of Spark Connect that this process uses, if there is one. Does not block."""
        session = self._shared.session
        return session if session is not None and connect.is_connect(session) else connect.active()

    def release(self) -> None:
        with self._lock:
            shared = self._shared
            shared.leases -= 1
            if shared.leases == 0:
                session, shared.session = shared.session, None
                ours, shared.ours = shared.ours, False  # or `kill` would end a later JVM, which is the user's
                if ours and session is not None:
                    stop_session(session)
                    self._unguard()


sessions: Final = Sessions()
"""The leases of this process."""


def _gateway() -> Any:
    """The gateway to this process' JVM. A PySpark that is only a Spark Connect client has none."""
    return getattr(getattr(require("pyspark"), "SparkContext", None), "_gateway", None)


def _drop(session: Any, source: SessionSource) -> None:
    """A session has ended. A final SparkLostError if the address of its server is not known."""
    if not connect.is_connect(session):
        log.warning("the Spark session has ended: a new one is made")
        discard_jvm()
        return
    if not callable(source) and connect.REMOTE not in (source or {}) and not os.environ.get("SPARK_REMOTE"):
        error = SparkLostError(
            "the Spark Connect session has ended, and the address of its server is not known: give "
            f'session={{"{connect.REMOTE}": "sc://HOST:PORT"}}, or a function that makes the session'
        )
        error.final = True
        raise error
    log.warning("the Spark Connect session has ended: a new one is made")


def alive(session: Any) -> bool:
    """Whether the session can still be used."""
    if connect.is_connect(session):
        return not connect.is_closed(session)
    try:
        context = session.sparkContext
        return context._jsc is not None and not context._jsc.sc().isStopped()
    except Exception:  # py4j has many errors for a missing JVM
        log.debug("no answer from Spark", exc_info=True)
        return False


def stop_session(session: Any) -> None:
    """Stop a session and its JVM in any state. Blocking, at most some seconds."""
    if connect.is_connect(session):
        connect.end(session)
        return
    with _logging_errors():
        session.stop()
    discard_jvm()


def discard_jvm() -> None:
    """End this process' JVM and remove it from PySpark, so that the next session starts a new one."""
    core = require("pyspark").SparkContext
    session = require("pyspark.sql").SparkSession
    with core._lock:
        context, gateway = core._active_spark_context, core._gateway
        core._active_spark_context = core._gateway = core._jvm = None
    session._instantiatedSession = session._activeSession = None
    if context is not None:
        with _logging_errors():
            context._jsc = None
            context.stop()  # stops the accumulator server of this process
    if gateway is None:
        return
    process = getattr(gateway, "proc", None)
    with _logging_errors():
        gateway.shutdown()
    if process is not None:
        with contextlib.suppress(OSError):
            process.stdin.close()  # the JVM ends when its standard input is closed
        try:
            process.wait(END_S)
        except Exception:  # the JVM hangs
            log.warning("Spark's JVM (pid %d) did not end within %g s: it is killed", process.pid, END_S)
            process.kill()
            process.wait()


def is_lost(error: BaseException, session: Any) -> bool:
    """Whether the cause is the end of the session or its JVM (so that a retry would fail)."""
    if connect.is_connect(session):
        return isinstance(error, SparkLostError) or connect.is_ended(error, session)
    return _is_broken_connection(error) or not alive(session)


def is_user_error(error: BaseException, message: str = "") -> bool:
    """Whether the query, the rows or the user's code cause the error, so that a retry would not help."""
    names = {kind.__name__ for kind in type(error).__mro__}
    return bool(names & _USERS) or _USERS_STATE.search(f"{message}\n{error}") is not None


def brief(error: BaseException) -> str:
    """Spark's message in a few lines, without Java's stack."""
    java = getattr(error, "java_exception", None)
    text = ""
    if java is not None:
        with _logging_errors():
            text = str(java.toString())
    lines = [line.strip() for line in _without_frames(text or str(error) or type(error).__name__)]
    kept = [
        line for line in lines if line and not line.startswith(("at ", "JVM stacktrace", "...")) and "\tat " not in line
    ]
    short = "; ".join(kept[:3])
    return short if len(short) <= 600 else short[:600] + " …"


def _without_frames(text: str) -> list[str]:
    """Reduce a Python traceback in the text to the exception and its place."""
    lines = text.splitlines()
    begins = [at for at, line in enumerate(lines) if line.endswith(_TRACEBACK)]
    if not begins:
        return lines
    after = begins[-1] + 1
    end = next((at for at in range(after, len(lines)) if lines[at][:1].strip()), len(lines))
    where = [line for line in lines[after:end] if line.lstrip().startswith("File ")]
    return [*lines[: begins[0]], lines[begins[0]].removesuffix(_TRACEBACK), *lines[end : end + 1], *where[-1:]]


def running_session() -> Any:
    """The session that runs in this process; None if there is none. Imports nothing."""
    return _active() if "pyspark.sql" in sys.modules else None


def activate_session(session: Any) -> None:
    """Make it this thread's active session: without it data sources are not found."""
    if not hasattr(session, "_jsparkSession"):  # Spark Connect has no active session of a thread
        return
    session._jvm.org.apache.spark.sql.SparkSession.setActiveSession(session._jsparkSession)


def _active() -> Any:
    """An existing session of this process."""
    session = getattr(require("pyspark.sql").SparkSession, "_instantiatedSession", None)
    return session if session is not None and alive(session) else connect.active()


def _create(source: SessionSource) -> Any:
    if callable(source):
        session = source()
        if not connect.is_connect(session) and not hasattr(session, "sparkContext"):
            raise SparkUnavailableError(
                f"the function that makes the session returned {type(session).__name__}, not a SparkSession"
            )
        return session
    return make_session(source)


def _check_same(session: Any, source: Mapping[str, Any]) -> None:
    """Raise SparkUnavailableError for settings that the running session lacks and cannot change."""
    if connect.is_connect(session):
        _refuse_other(connect.differing(session, {key: text_of(value) for key, value in source.items()}), source)
        return
    conf = session.sparkContext.getConf()
    other = {key: conf.get(key) for key, value in source.items() if not _has(key, conf.get(key), text_of(value))}
    for key in list(other):
        if session.conf.isModifiable(key):
            session.conf.set(key, text_of(source[key]))
            del other[key]
    _refuse_other(other, source)


def _refuse_other(other: Mapping[str, str | None], source: Mapping[str, Any]) -> None:
    if other:
        message = ", ".join(f"{key}={source[key]} (it has {value})" for key, value in other.items())
        raise SparkUnavailableError(
            f"this process has a Spark session already, with other settings than {message}: a process has one; give "
            "both the same settings, or run them in processes of their own"
        )


def _has(key: str, there: str | None, asked: str) -> bool:
    # Spark adds its own options before the given ones.
    return there is not None and (there == asked or (key.endswith("JavaOptions") and there.endswith(asked)))


@contextlib.contextmanager
def _logging_errors() -> Iterator[None]:
    """Log the errors of cleaning up: quietly if they say that the JVM is dead, which is expected then."""
    import warnings

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except Exception as error:
        level = logging.DEBUG if _is_broken_connection(error) else logging.WARNING
        log.log(level, "while Spark ended: %s", error, exc_info=True)


def _is_broken_connection(error: BaseException) -> bool:
    """Whether a call failed because the JVM at the other end of its connection has ended."""
    names = {kind.__name__ for kind in type(error).__mro__}
    return isinstance(error, SparkLostError | ConnectionError | EOFError) or "Py4JNetworkError" in names
