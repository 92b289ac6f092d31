"""Dispatcher: runs the turns of ready actors, several in one callback of the event loop.

Waking an asyncio task costs one iteration of the event loop. An actor that seldom waits (a bolt of plain functions) can
avoid this: it registers a step, and while its asyncio task sleeps, a message in its mailbox makes the step ready. Ready
steps run in the order in which they became ready. A message sent by one step may make the next one ready, so a tuple
goes through a whole chain of bolts in one round.

    offer ─► ready ─► [ step, step, step ] ─► the loop: sockets, timers, asyncio tasks ─► [ step … ]
              for TURN_S, or MAX_STEPS

1. A step runs as the actor's own asyncio task would: in its context, and as `asyncio.current_task()`. A step never runs
   inside another step, and never while the actor's task is running.
2. The event loop continues after `TURN_S` seconds or `MAX_STEPS` steps, whichever comes first.
3. A step must not raise: work that it cannot finish is left to the actor's asyncio task.
4. Work that can wait until the data has been sent (acks to the ackers) is done at the end of the round.

Akka: the dispatcher and its throughput setting. Running as a task is what asyncio documents for third-party task
implementations ("Extending": `_enter_task`, `_leave_task`).
"""

from __future__ import annotations

import asyncio
from asyncio.tasks import _enter_task, _leave_task  # pyright: ignore[reportPrivateUsage] - documented: "Extending"
from collections import deque
from collections.abc import Callable
from contextvars import Context
from typing import Final

enter_task: Final = _enter_task
leave_task: Final = _leave_task

TURN_S: Final = 0.002
"""The longest time of a round before the event loop continues."""
MAX_STEPS: Final = 64
"""The most steps of a round, whatever the clock says: in virtual time the clock stands still."""


class Dispatcher:
    """The ready steps of one event loop, in `queue`. `stopwatch` returns seconds, to measure how long steps take."""

    __slots__ = ("_after", "_loop", "_stopwatch", "queue", "scheduled")

    def __init__(self, loop: asyncio.AbstractEventLoop, stopwatch: Callable[[], float]) -> None:
        self._loop = loop
        self._stopwatch = stopwatch
        self.queue: deque[Stepper] = deque()
        self.scheduled = False
        self._after: list[Callable[[], None]] = []

    def after_round(self, work: Callable[[], None]) -> None:
        """Call `work` at the end of this round, or of the next one. It must not raise."""
        self._after.append(work)
        if not self.scheduled:
            self.schedule()

    def schedule(self) -> None:
        """Schedule a round."""
        self.scheduled = True
        self._loop.call_soon(self._run)

    def _run(self) -> None:
        queue, stopwatch = self.queue, self._stopwatch
        until_s = stopwatch() + TURN_S
        try:
            for _ in range(MAX_STEPS):
                if not queue:
                    return
                queue.popleft().call()
                if stopwatch() >= until_s:
                    return
        finally:  # also after a step that was interrupted by KeyboardInterrupt
            if self._after:
                after, self._after = self._after, []
                for work in after:
                    work()
            self.scheduled = False
            if queue or self._after:
                self.schedule()


class Stepper:
    """One actor's step. `waits` says whether the actor's asyncio task still sleeps: only then may the step run.

    `queued`: the step is ready and has not been called since.
    """

    __slots__ = ("_context", "_dispatcher", "_loop", "_step", "_task", "_waits", "queued")

    def __init__(
        self,
        dispatcher: Dispatcher,
        loop: asyncio.AbstractEventLoop,
        task: asyncio.Task[None],
        context: Context,
        waits: Callable[[], bool],
        step: Callable[[], None],
    ) -> None:
        self._dispatcher = dispatcher
        self._loop = loop
        self._task = task
        self._context = context
        self._waits = waits
        self._step = step
        self.queued = False

    def ready(self) -> None:
        """Queue the step once, and call it soon."""
        if not self.queued:
            self.queued = True
            dispatcher = self._dispatcher
            dispatcher.queue.append(self)
            if not dispatcher.scheduled:
                dispatcher.schedule()

    def call(self) -> None:
        """Run the step as the actor's asyncio task."""
        self.queued = False
        if self._waits():
            enter_task(self._loop, self._task)
            try:
                self._context.run(self._step)
            finally:
                leave_task(self._loop, self._task)
