"""Stream session: the SparkSession of a streaming query, and whether it can be made anew. Blocking."""

from __future__ import annotations

import threading
from typing import Any, Final

from ..batch.source import takes_session
from ..connect import is_connect, refuse
from ..errors import SparkLostError, SparkSourceError
from ..sessions import activate_session, alive, brief, running_session, sessions

_INSTEAD: Final = (
    "its foreachBatch runs functions on the server, not here. Let the query write into the topology: "
    '.writeStream.format("aiostorm") and a SparkIngressSpout (docs/spark.md), or give a session of a master'
)


class StreamSession:
    """The session of one spout. `source`: its streaming DataFrame, or the function that makes one."""

    def __init__(self, source: Any, session: Any) -> None:
        self._given: Any = None
        self._what = ""
        if not callable(source):
            self._given, self._what = source.sparkSession, "source"
        elif _is_session(session):
            self._given, self._what = session, "session"
        self._lease = None if self._given is not None else sessions.lease(session)
        self._lock = threading.Lock()
        self._released = False

    def get(self) -> Any:
        """The session; made, or made anew, if it was not given. SparkLostError if it was given and has ended."""
        with self._lock:
            if self._released:
                raise SparkLostError("the topology has ended")
            if self._lease is not None:
                session = self._lease.get()
                refuse(session, "SparkStreamSpout", _INSTEAD)
                return session
        refuse(self._given, "SparkStreamSpout", _INSTEAD)
        if not alive(self._given):
            thing = "a DataFrame" if self._what == "source" else "a session"
            error = SparkLostError(
                f"the Spark session was stopped, or its JVM has died, and {thing} cannot be made anew: give a function "
                f"as {self._what}= (it is called again), and the query goes on from its checkpoint"
            )
            error.final = True
            raise error
        return self._given

    def kill(self) -> bool:
        """Kill its JVM, which does not answer. False if the session was given. Does not block."""
        return self._given is None and sessions.kill()

    def release(self) -> None:
        """Release it: a session that was made here ends with its last lease."""
        with self._lock:
            self._released = True
            if self._lease is not None:
                self._lease.release()


def known_columns(source: Any, session: Any) -> list[str]:
    """The columns of the stream that this function makes, in the given session or the one that runs in this process.

    ValueError if there is none; SparkSourceError if the function fails. Blocks.
    """
    if not _is_session(session):
        session = None if callable(session) else running_session()
    if session is None:
        raise ValueError(
            "name the columns of the stream: fields=['word', 'count'], or make the session "
            "before the spout (aiostorm.spark.make_session)"
        )
    activate_session(session)
    try:
        frame = source(session) if takes_session(source) else source()
        return list(frame.columns)
    except Exception as error:
        raise SparkSourceError(
            f"the columns of the stream are not known: {type(error).__name__}: {brief(error)}"
        ) from error


def _is_session(thing: Any) -> bool:
    return is_connect(thing) or hasattr(thing, "sparkContext")
