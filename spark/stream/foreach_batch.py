"""Stream hand: what Spark calls with each micro-batch, in a thread of py4j's. It returns when all is acked.

    Spark's stream thread ─► py4j ─► ForeachBatch(dataframe, batch_id) ──call_soon_threadsafe──► take(delivery)
    (event loop)
                                        │ waits                                             │
             commit ◄── returns ────────┤◄──────────── delivery.done() ◄── every tree acked ┘
     query fails    ◄── raises ─────────┘◄──────────── delivery.fail(why), shut(why)

1. As long as it waits Spark runs no other batch: backpressure reaches Spark by that alone.
2. It returns only when it was told that the batch is done: Spark commits it then. In all other cases it raises.
3. What it raises is one short error without a cause. (An error of py4j's that leaves such a function has ended the
   stream's thread in the JVM with a StackOverflowError.)
4. It never waits for somebody who has gone: when the hand is shut, or the event loop was closed, it raises at once, or
   within `LOOK_S`.
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
        """Until it is settled; why it failed, or None. Blocking."""
        while not self._settled.wait(POLL_S):
            if loop_closed():
                self.fail("the event loop of the topology has ended")
        return self._why

    def _settle(self, why: str | None) -> None:
        with self._lock:
            if not self._settled.is_set():
                self._why = why
                self._settled.set()
        self.dataframe = None  # the JVM need not keep it


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
        """Called by Spark."""
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
        """Whoever waits, and whoever comes, is sent away. From any thread; does not block."""
        with self._lock:
            self._closed_why = self._closed_why or why
            waiting = self._waiting
        if waiting is not None:
            waiting.fail(why)


def _is_unexpected(record: logging.LogRecord) -> bool:
    """py4j logs what a function raises that the JVM has called. What the hand raises is told by others, and shorter."""
    return record.exc_info is None or not isinstance(record.exc_info[1], BatchNotDoneError)
