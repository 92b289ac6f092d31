"""JVM watch: checks whether Spark's JVM still answers, in a thread of its own, while other threads wait for it.

    every PING_S: a call ─► answered
                      └► not within ANSWER_S ─► hung: killed if this process started it, else an error
                                                Spark Connect: its clients are closed, and a session is made again

1. A JVM that hangs is detected PING_S + ANSWER_S after it stopped: 50 s.
2. A call that fails counts as an answer: the callers that use a dead JVM notice it. PySpark repeats calls to a server
   of Spark Connect that is away: that is no answer, and the server counts as lost.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final, TypeVar

from ..runtime import LIVENESS, LoopClock
from . import connect
from .calls import SparkCalls, log_error
from .errors import SparkLostError
from .needs import require
from .sessions import sessions

log = logging.getLogger("aiostorm.spark")

T = TypeVar("T")

PING_S: Final = LIVENESS.jvm_heartbeat_s
ANSWER_S: Final = LIVENESS.jvm_timeout_s
END_S: Final = 5.0
"""How long calls of a killed JVM may take to fail."""


class JvmWatch:
    """The watch of one component. `close` it at the end."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._calls = SparkCalls(2, name=f"{name}-watch")  # one may hang
        self._remote: tuple[Any, ...] = ()
        self._pending: asyncio.Future[None] | None = None
        self._since_s = 0.0
        self._answered = False  # set in the thread: the loop may have been blocked

    def watch_sessions(self, *used: Any) -> None:
        """The sessions in use, the first of which is asked. Needed only for Spark Connect: a process has one JVM."""
        self._remote = tuple(session for session in used if connect.is_connect(session))

    def is_hung(self, now_s: float) -> bool:
        """Whether the JVM has not answered for too long. Call it often; it never waits."""
        pending = self._pending
        if pending is None or pending.done():
            if pending is None or now_s - self._since_s >= PING_S:
                self._since_s = now_s
                self._answered = False
                self._pending = self._calls.begin(self._ping)
                self._pending.add_done_callback(log_error)
            return False
        return not self._answered and now_s - self._since_s >= ANSWER_S

    def end_jvm(self) -> SparkLostError:
        """The JVM hangs: kill it if this process started it. Returns the error to raise; final if it was not killed.

        A server of Spark Connect is left alone: its clients are closed. Whether the session can be made again is known
        to its user, so the error is not final.
        """
        self._pending = None
        remote = self._remote_sessions()
        if remote:
            self._calls.begin(_forget_all, remote).add_done_callback(log_error)
            error = SparkLostError(f"{self._name}: the Spark Connect server has not answered for {ANSWER_S:g} s")
            log.warning("%s", error)
            return error
        killed = sessions.kill()
        what = "it is killed" if killed else "it is not killed, since the session was given"
        error = SparkLostError(f"{self._name}: Spark's JVM has not answered for {ANSWER_S:g} s: {what}")
        error.final = not killed
        log.warning("%s", error)
        return error

    async def during(self, work: asyncio.Future[T]) -> T:
        """Wait for a call as long as the JVM answers. SparkLostError if it does not."""
        clock = LoopClock()
        try:
            while not work.done():
                await asyncio.wait((work,), timeout=min(1.0, PING_S))
                if not work.done() and self.is_hung(clock.monotonic()):
                    error = self.end_jvm()
                    await asyncio.wait((work,), timeout=END_S)
                    raise error
        except BaseException:
            work.add_done_callback(log_error)
            raise
        return work.result()

    def close(self) -> None:
        self._calls.close()

    def _remote_sessions(self) -> tuple[Any, ...]:
        """The sessions of Spark Connect in use; while a component opens its source, the one of this process."""
        known = self._remote or (sessions.remote(),)
        return tuple(session for session in known if session is not None and not connect.is_closed(session))

    def _ping(self) -> None:
        try:
            for session in self._remote_sessions()[:1]:
                connect.ping(session)
                return
            gateway: Any = getattr(getattr(require("pyspark"), "SparkContext", None), "_gateway", None)
            if gateway is not None:
                gateway.jvm.java.lang.System.nanoTime()
        finally:
            self._answered = True


def _forget_all(remote: tuple[Any, ...]) -> None:
    for session in remote:
        connect.forget(session)
