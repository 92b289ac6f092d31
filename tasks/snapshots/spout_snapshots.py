"""SpoutSnapshots: how a spout task takes part in snapshots.

    TAKE_SNAPSHOT ─ between two turns ─► position = snapshot() ─► what was emitted is sent ─► barrier n ─► state frozen
    COMMIT_SNAPSHOT ─► committed(n)

The position and the barrier are taken in one step of the event loop, so the rows before the barrier are exactly those
before the position. (Of a blocking spout: the position in its thread, where no call of `next_tuple` runs then.)
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from ...state import StateError
from ..drive import USER_ERRORS, user_error
from .barriers import BarrierEmitter
from .messages import AbortSnapshot, Aligned, CommitSnapshot, TakeSnapshot
from .saved import TASK, RestoredTask
from .task_saver import TaskSaver

if TYPE_CHECKING:
    from ...topology import Spout
    from ..task import TaskActor
    from .agent import SnapshotAgent

POSITION: Final = "position"


class SpoutSnapshots:
    """The snapshots of one spout task. `send`: sends what was emitted. `own`: small values that are saved with it."""

    __slots__ = ("_agent", "_send", "_task", "barriers", "own", "restored", "saver")

    def __init__(self, task: TaskActor, agent: SnapshotAgent, send: Callable[[], None]) -> None:
        env, spec = task.env, task.task
        self._agent = agent
        self._send = send
        self._task = task
        receivers = env.barrier_receivers(spec.component)
        self.barriers = BarrierEmitter(spec, task.emitter, task.outbox.outlets, receivers)
        self.saver = TaskSaver(agent, spec, env.clock, lambda work, name: task.system.guard(work, name=name))
        self.own: Callable[[], dict[str, Any]] = dict
        self.restored: RestoredTask | None = None

    async def restore(self) -> None:
        """Load what the task had saved."""
        self.restored = await self._agent.restored(self._task.task)

    def saved(self) -> dict[str, Any]:
        """The small values that the task had saved."""
        return {} if self.restored is None else self.restored.sections.get(TASK, {}).get(None, {})

    async def restore_spout(self, spout: Spout) -> None:
        """Give the spout its position."""
        saved = self.saved()
        if POSITION in saved:
            await self._task.user.restore(spout.restore, saved[POSITION], end="close")

    async def on_control(self, message: TakeSnapshot | CommitSnapshot | AbortSnapshot | Aligned, spout: Spout) -> None:
        """A message about a snapshot."""
        if isinstance(message, TakeSnapshot):
            await self._take(message.number, spout)
        elif isinstance(message, Aligned):
            self.barriers.aligned(message)
        elif isinstance(message, CommitSnapshot):
            await self._task.user.notify("committed", spout.committed, message.number)
            self.saver.commit(message.number)
            self._agent.committed(self._task.task.task_id, message.number)
        else:
            self.barriers.abort(message.number)
            self.saver.abort(message.number)

    def stop(self) -> None:
        """The task ends."""
        self.saver.stop()

    async def _take(self, number: int, spout: Spout) -> None:
        task = self._task
        try:
            if task.user.thread is not None:
                position = await task.user.in_thread(spout.snapshot)
            else:
                position = spout.snapshot()
                if inspect.isawaitable(position):
                    raise TypeError(f"{type(spout).__name__}.snapshot must be `def`: rows could be emitted meanwhile")
        except USER_ERRORS as raised:
            error = user_error(raised)
            task.report("snapshot", error)
            self.saver.fail(number, error)
            return
        self._send()
        try:
            self.saver.freeze(number, {POSITION: position, **self.own()}, None)
        except StateError as error:
            self.saver.fail(number, error)
        self.barriers.send(number)
