"""ForeachBatch: the function that Spark calls with each micro-batch, in a py4j thread. It returns when all is acked.

    Spark's stream thread ─► py4j ─► ForeachBatch(dataframe, batch_id) ──call_soon_threadsafe──► take(delivery)
    (event loop)
                                        │ waits                                             │
             commit ◄── returns ────────┤◄──────────── delivery.done() ◄── every tree acked ┘
     query fails    ◄── raises ─────────┘◄──────────── delivery.fail(why), close(why)

1. While it waits Spark runs no other batch: that is the backpressure to Spark.
2. It returns only when the batch is done: then Spark commits it. In all other cases it raises.
3. It raises one short error without a cause. (A py4j error that leaves such a function has ended the stream's thread in
   the JVM with a StackOverflowError.)
4. It never waits for a closed topology: when it is closed, or the event loop is closed, it raises at once, or within
   `POLL_S`.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import Any, Final

from ...runtime import AiostormError

POLL_S: Final = 0.5


class BatchNotDoneError(AiostormError):
    """A micro-batch was not acked: Spark must not commit it, and brings it again when the query is started again."""


class Delivery:
    """One batch, while Spark waits. `done` and `fail` may be called from any thread; the first one counts."""

    __slots__ = ("_lock", "_settled", "_why", "batch_id", "dataframe")

    def __init__(self, dataframe: Any, batch_id: int) -> None:
        self.dataframe = dataframe
        self.batch_id = batch_id
        self._settled = threading.Event()
        self._lock = threading.Lock()
        self._why: str | None = None

    def done(self) -> None:
        """Spark may commit it."""
        self._settle(None)

    def fail(self, why: str) -> None:
        """Spark must bring it again."""
        self._settle(why)

    def wait(self, loop_closed: Callable[[], bool]) -> str | None:
        """Wait until it is settled. Returns why it failed, or None. Blocking."""
        while not self._settled.wait(POLL_S):
            if loop_closed():
                self.fail("the event loop of the topology has ended")
        return self._why

    def _settle(self, why: str | None) -> None:
        with self._lock:
            if not self._settled.is_set():
                self._why = why
                self._settled.set()
        self.dataframe = None  # so that the JVM can free it


class ForeachBatch:
    """For `foreachBatch` of one run of a query. `take` is called in the event loop with each delivery."""

    def __init__(self, loop: asyncio.AbstractEventLoop, take: Callable[[Delivery], None]) -> None:
        logging.getLogger("py4j.clientserver").addFilter(_is_unexpected)
        self._loop = loop
        self._take = take
        self._lock = threading.Lock()
        self._waiting: Delivery | None = None
        self._closed_why: str | None = None

    def __call__(self, dataframe: Any, batch_id: int) -> None:
        delivery = Delivery(dataframe, batch_id)
        with self._lock:
            why = self._closed_why
            if why is None:
                self._waiting = delivery
        try:
            if why is None:
                self._loop.call_soon_threadsafe(self._take, delivery)
                why = delivery.wait(self._loop.is_closed)
        except RuntimeError:
            why = "the event loop of the topology has ended"
        finally:
            self._waiting = None
        if why is not None:
            raise BatchNotDoneError(f"batch {batch_id} was not processed: {why}") from None

    def close(self, why: str) -> None:
        """Fail the current call and all later ones. From any thread; does not block."""
        with self._lock:
            self._closed_why = self._closed_why or why
            waiting = self._waiting
        if waiting is not None:
            waiting.fail(why)


def _is_unexpected(record: logging.LogRecord) -> bool:
    """Drop py4j's log record of a BatchNotDoneError, which is reported elsewhere in short."""
    return record.exc_info is None or not isinstance(record.exc_info[1], BatchNotDoneError)
