"""JVM watch: does Spark's JVM still answer? Asked in a thread of its own, while others wait for it.

    every LOOK_S: ask ─► answered
                      └► not within ANSWER_S ─► hung: killed if it is ours, else an error

1. A JVM that hangs is noticed LOOK_S + ANSWER_S after it stopped: 50 s.
2. A question that fails is an answer: what has died is noticed by those who use it.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final, TypeVar

from ..runtime import LIVENESS, LoopClock
from .calls import SparkCalls, log_error
from .errors import SparkLostError
from .needs import require
from .sessions import sessions

log = logging.getLogger("aiostorm.spark")

T = TypeVar("T")

PING_S: Final = LIVENESS.jvm_heartbeat_s
ANSWER_S: Final = LIVENESS.jvm_timeout_s
END_S: Final = 5.0
"""How long those who wait for a JVM that was killed may take to hear of it."""


class JvmWatch:
    """Of one component. `close` when it ends."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._calls = SparkCalls(1, name=f"{name}-watch")
        self._pending: asyncio.Future[None] | None = None
        self._since_s = 0.0
        self._answered = False  # set in the thread: the loop may have been held up

    def is_hung(self, now_s: float) -> bool:
        """Has the JVM not answered for too long? Called often; never waits."""
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
        """It hangs: kill it, if it is ours. The error to raise: final if it is not."""
        self._pending = None
        killed = sessions.kill()
        what = "it is killed" if killed else "the session was given, so it is not ours to kill"
        error = SparkLostError(f"{self._name}: Spark's JVM has not answered for {ANSWER_S:g} s: {what}")
        error.final = not killed
        log.warning("%s", error)
        return error

    async def during(self, work: asyncio.Future[T]) -> T:
        """Wait for a call, as long as the JVM answers. SparkLostError if it does not."""
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
        """No more."""
        self._calls.close()

    def _ping(self) -> None:
        try:
            gateway: Any = getattr(getattr(require("pyspark"), "SparkContext", None), "_gateway", None)
            if gateway is not None:
                gateway.jvm.java.lang.System.nanoTime()
        finally:
            self._answered = True
