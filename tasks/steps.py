"""Steps: the turns of a task, run by the dispatcher while the task's asyncio task sleeps.

    asyncio task: run ─► control, waiting, what a step could not finish ─► wait ─┐
    dispatcher:                                             step ─► turn ─► step ─┴► …

1. A step is one turn, run without its asyncio task. Most steps finish without waiting.
2. A turn that has to wait is handed to the asyncio task and continues there. So is an error.
3. While anything sent waits for capacity, no step runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from ..actors import Mailbox, Stepper
from .bolt_time import BoltTime
from .drive import resume
from .in_flight import Taken
from .task import TaskActor


class Steps:
    """The steps of one task. `turn()` is one turn of it, `waits()` is called before a turn is continued.

    `in_step`: does the dispatcher run a turn now? `raised`: by a step, for the asyncio task. `stopping`: the task ends
    when it has nothing to do.
    """

    __slots__ = (
        "_box",
        "_taken",
        "_task",
        "_time",
        "_turn",
        "_waits",
        "after_round",
        "in_step",
        "open_turn",
        "raised",
        "stepper",
        "stopping",
    )

    def __init__(
        self,
        task: TaskActor,
        box: Mailbox,
        taken: Taken,
        time: BoltTime,
        turn: Callable[[], Coroutine[Any, Any, None]],
        waits: Callable[[], None],
    ) -> None:
        self._task = task
        self._box = box
        self._taken = taken
        self._time = time
        self._turn = turn
        self._waits = waits
        self.in_step = False
        self.raised: BaseException | None = None
        self.stopping = False
        self.open_turn: tuple[Coroutine[Any, Any, None], Any] | None = None  # begun in a step, and what it waits for
        self.stepper: Stepper
        self.after_round: Callable[[Callable[[], None]], None]

    def begin(self) -> None:
        """In the asyncio task, before its first wait."""
        self.stepper = self._task.stepper(self._step)
        self.after_round = self._task.system.dispatcher.after_round

    async def wait(self, *, ready: bool) -> None:
        """Sleep while steps do the work; then finish what a step could not."""
        thrown: asyncio.CancelledError | None = None
        try:
            await self._box.wait_steps(self.stepper, ready=ready)
        except asyncio.CancelledError as cancelled:
            if isinstance(self.raised, Exception):
                self.raised = None  # the task ends anyway, and the error was reported
            if self.open_turn is None and self.raised is None:
                raise
            thrown = cancelled  # it may be meant for what user code awaits in that turn
        turn, self.open_turn = self.open_turn, None
        if turn is not None:
            self._waits()
            await resume(*turn, thrown)
        if self.raised is not None:
            error, self.raised = self.raised, None
            try:
                raise error
            finally:
                del error  # its traceback holds this frame

    def _step(self) -> None:
        """A turn, called by the dispatcher. Most turns finish without waiting."""
        box, taken, outbox, time = self._box, self._taken.segments, self._task.outbox, self._time.driver
        if outbox.blocked:
            return  # `unblocked` makes it ready again
        worked = bool(taken or box.gate.fill or (time is not None and time.firing))
        if worked:
            turn = self._turn()
            self.in_step = True
            try:
                waited = turn.send(None)
            except StopIteration:
                pass
            except BaseException as error:
                self.raised = error
                box.wake()
                return
            else:
                self.open_turn = turn, waited
                box.wake()
                return
            finally:
                self.in_step = False
        if outbox.blocked > 0:
            return
        if taken or box.gate.fill or (time is not None and time.firing):
            self.stepper.ready()
        elif self.stopping:
            box.wake()
        elif not worked and self._task.env.bolts_matter:
            # After a turn, the turn calls it: at the end of the round, after its post to the ackers.
            self._task.env.on_idle()

    def unblocked(self) -> None:
        """The task may send again."""
        if self._box.takes_steps() and not self._task.emitter.dirty:  # dirty: lost segments, perhaps no turn
            self.stepper.ready()
        else:
            self._box.wake()
