"""Steps: the turns of a task, run by the dispatcher while the task's asyncio task sleeps.

    asyncio task: run ─► control, waiting, what a step could not finish ─► wait_steps ┐
    dispatcher:                                              _step ─► _turn ─► _step ─┴► …

1. A step is one turn (`_turn`), run without its asyncio task. Most steps finish without waiting.
2. A turn that has to wait is handed to the asyncio task and continues there. So is an error.
3. While anything sent waits for capacity, no step runs.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

from ..actors import Stepper
from ..topology import ComponentSpec, Config, Segment, TaskSpec
from .drive import resume
from .environment import Environment
from .event_time.driver import EventTimeDriver
from .task import TaskActor


class SteppingTask(TaskActor):
    """A task whose turns may be steps. `_inbox`: the segments that were taken from the mailbox and are not done.

    `_time`: handles event time; None: the task has nothing to do with it.
    """

    def __init__(self, env: Environment, task: TaskSpec, spec: ComponentSpec, config: Config) -> None:
        super().__init__(env, task, spec, config)
        self._box = env.mailboxes[task.task_id]
        self._inbox: deque[Segment] = deque()
        self._time: EventTimeDriver | None = None
        self._stopping = False
        self._open_turn: Coroutine[Any, Any, None] | None = None  # begun in a step, now waits for `_waited`
        self._waited: Any = None
        self._raised: BaseException | None = None
        self._in_step = False
        self._stepper: Stepper
        self._after_round: Callable[[Callable[[], None]], None]

    @property
    def fires(self) -> bool:
        """Are there windows to fire?"""
        return self._time is not None and self._time.firing

    async def _turn(self) -> None:
        raise NotImplementedError

    def _waits(self) -> None:
        """A turn may wait, or a step has to wait in the middle of one."""

    def _begin_steps(self) -> None:
        """In the asyncio task, before its first wait."""
        self._stepper = self.stepper(self._step)
        self._after_round = self.system.dispatcher.after_round

    async def _wait_steps(self, *, ready: bool) -> None:
        """Sleep while steps do the work; then finish what a step could not."""
        thrown: asyncio.CancelledError | None = None
        try:
            await self.mailbox.wait_steps(self._stepper, ready=ready)
        except asyncio.CancelledError as cancelled:
            if isinstance(self._raised, Exception):
                self._raised = None  # the task ends anyway, and the error was reported
            if self._open_turn is None and self._raised is None:
                raise
            thrown = cancelled  # it may be meant for what user code awaits in that turn
        turn, self._open_turn = self._open_turn, None
        waited, self._waited = self._waited, None
        if turn is not None:
            self._waits()
            await resume(turn, waited, thrown)
        if self._raised is not None:
            error, self._raised = self._raised, None
            try:
                raise error
            finally:
                del error  # its traceback holds this frame

    def _step(self) -> None:
        """A turn, called by the dispatcher. Most turns finish without waiting."""
        box, time = self._box, self._time
        if self.outbox.blocked:
            return  # `_on_unblock` makes it ready again
        worked = bool(self._inbox or box.fill or (time is not None and time.firing))
        if worked:
            turn = self._turn()
            self._in_step = True
            try:
                waited = turn.send(None)
            except StopIteration:
                pass
            except BaseException as error:
                self._raised = error
                box.wake()
                return
            else:
                self._open_turn, self._waited = turn, waited
                box.wake()
                return
            finally:
                self._in_step = False
        if self.outbox.blocked > 0:
            return
        if self._inbox or box.fill or (time is not None and time.firing):
            self._stepper.ready()
        elif self._stopping:
            box.wake()
        elif not worked:  # else the turn calls it at the end of the round, after its post to the ackers
            self.env.on_idle()

    def _on_unblock(self) -> None:
        if self._box.takes_steps() and not self.emitter.dirty:  # dirty: lost segments, perhaps no turn
            self._stepper.ready()
        else:
            self._box.wake()
