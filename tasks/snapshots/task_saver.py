"""TaskSaver: the saved state of one task: restored at its start, packed and written with each snapshot.

    restored ─► context.state … freeze(n): captures ─► packed in slices, between other work ─► blobs ─► Done(n)
                                                         commit(n): the next snapshot may be a delta to this one
                                                         abort(n):  what was captured is in the next one, too

1. The content is that of the freeze: rows that are executed while it is packed are not in it (see state.deltas).
2. One snapshot at a time: the coordinator begins the next one after this one is committed or given up.
3. A key or value that cannot be saved is found within the first rows, if they contain it, and with each snapshot.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from ...state import (
    BlobChain,
    Capture,
    Done,
    Failed,
    PackedChunk,
    SavedTask,
    SaveError,
    State,
    StateError,
    UnsavableError,
    Value,
    ValueState,
    check_savable,
    pack_single,
    save_task,
)
from .handles import HandleCapture
from .saved import STATE, TASK
from .strict import Mirror

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine, Mapping

    from ...runtime import Clock
    from ...state import Captured
    from ...topology import StateDeclaration, StateValue, TaskSpec
    from .agent import SnapshotAgent

FIRST_ROWS: Final = 100
"""After so many rows it is checked that the state can be saved."""

FEW_KEYS: Final = 10_000
"""Captured in less than 0.2 ms."""


class Tables(Protocol):
    """What a task saves by key besides its state: its windows."""

    def counts(self) -> tuple[int, int]:
        """About how many keys have changed since the last snapshot that counts, and how many there are."""
        ...

    def capture(self, number: int, since: int | None) -> Captured:
        """Everything (`since` None), or what has changed since that snapshot."""
        ...

    def committed(self, number: int) -> None:
        """The snapshot counts."""
        ...

    def check_first_rows(self) -> None:
        """UnsavableError if some of it cannot be saved."""
        ...


class TaskSaver:
    """The saved state of one task. `state`: what the component gets as `context.state`.

    `start(work, name)` runs a coroutine as an asyncio task that is watched.
    """

    __slots__ = (
        "_agent",
        "_chain",
        "_clock",
        "_committed",
        "_mirror",
        "_pending",
        "_start",
        "_task",
        "state",
        "tables",
    )

    def __init__(
        self,
        agent: SnapshotAgent,
        task: TaskSpec,
        clock: Clock,
        start: Callable[[Coroutine[Any, Any, None], str], asyncio.Task[None]],
    ) -> None:
        self._agent = agent
        self._task = task
        self._clock = clock
        self._start = start
        self._chain = BlobChain()
        self._pending: _Pending | None = None
        self._committed: int | None = None  # the last snapshot of this incarnation that counts
        self._mirror: Mirror | None = None
        self.state: StateValue = None
        self.tables: Tables | None = None

    def begin(self, declared: StateDeclaration | None, content: Mapping[Any, Any]) -> None:
        """Make the state that the component declares, with this content."""
        self.state = state = new_state(declared, content)
        if not isinstance(state, State):
            return
        if self._agent.strict:
            self._mirror = Mirror(f"component {self._task.component!r}, task {self._task.task_id}")
        else:
            state.expect_all()  # the first snapshot of an incarnation is full

    def check_first_rows(self) -> None:
        """UnsavableError if the state cannot be saved."""
        if isinstance(self.state, State):
            check_savable(self.state, self._task.component, self._task.task_id)
        elif isinstance(self.state, Value):
            pack_single(self.state.value, self._task.component, self._task.task_id, STATE)
        if self.tables is not None:
            self.tables.check_first_rows()

    async def may_freeze(self) -> None:
        """Wait for the turn of this task if it captures so much that others must not do so in the same round."""
        keys = 0 if self.tables is None else self.tables.counts()[1]
        if keys + (len(self.state) if isinstance(self.state, State) else 0) > FEW_KEYS:
            await self._agent.turns.next()

    def freeze(self, number: int, own: Mapping[str, Any], handle: Any) -> None:
        """Capture what the task has now, and begin to write it. `own`: small values of the task; `handle`: of a sink.

        StateError if it cannot be saved; nothing is captured then.
        """
        name, task = self._task.component, self._task.task_id
        began_s = self._clock.stopwatch()
        singles: dict[int, PackedChunk] = {}
        if own:
            singles[TASK] = pack_single(own, name, task, TASK)
        if isinstance(self.state, Value):
            singles[STATE] = pack_single(self.state.value, name, task, STATE)
        pending = self._pending = _Pending(number, self._captures(number, handle))
        frozen_s = self._clock.stopwatch() - began_s
        pending.work = self._start(self._write(pending, singles, frozen_s), f"snapshot {number} of {name}[{task}]")

    def fail(self, number: int, error: Exception, *, lost: bool = False) -> None:
        """The snapshot cannot be taken, for this reason."""
        task, incarnation = self._task.task_id, self._agent.incarnation
        final, stored = isinstance(error, StateError) and error.final, isinstance(error, SaveError)
        self._agent.failed(Failed(number, task, incarnation, str(error), lost=lost, final=final, stored=stored))

    def commit(self, number: int) -> None:
        """The snapshot counts."""
        pending = self._pending
        if pending is not None and pending.number == number and pending.saved is not None:
            self._chain.committed(pending.saved.blobs, full=pending.saved.full)
            self._committed, self._pending = number, None
            if self.tables is not None:
                self.tables.committed(number)

    def abort(self, number: int) -> bool:
        """The snapshot has failed. Was it frozen?"""
        pending = self._pending
        if pending is None or pending.number > number:
            return False
        self._pending = None
        if pending.work is not None:
            pending.work.cancel()
        pending.give_back()
        return True

    def stop(self) -> None:
        """The task ends."""
        if self._pending is not None and self._pending.work is not None:
            self._pending.work.cancel()

    def _captures(self, number: int, handle: Any) -> list[Captured]:
        state, tables = self.state, self.tables
        touched, keys = (0, 0) if tables is None else tables.counts()
        by_key = state if isinstance(state, State) else None
        if by_key is not None:
            touched, keys = touched + len(by_key.touched_keys), keys + len(by_key)
        full = self._chain.next_is_full(touched, keys) or (by_key is not None and by_key.everything)
        captures: list[Captured] = []
        if by_key is not None:
            if self._mirror is not None:
                self._mirror.check(by_key)
            rows, known = by_key.rows, not by_key.everything
            captures.append(Capture(by_key, self._task.component, self._task.task_id, full=full))
            if not self._chain.touch_next(touched, keys, rows, known=known) and self._mirror is None:
                by_key.expect_all()
        if tables is not None:
            captures.append(tables.capture(number, None if full else self._committed))
        if handle is not None:
            captures.append(HandleCapture(handle, number, self._task, full=full))
        return captures

    async def _write(self, pending: _Pending, singles: dict[int, PackedChunk], frozen_s: float) -> None:
        number, task, chain = pending.number, self._task.task_id, self._chain
        saved = SavedTask((), {}, 0, full=True, loop_s=0.0)  # nothing to save
        try:
            if singles or pending.captures:
                saved = await save_task(self._agent, task, number, pending.captures, self._agent.turns, singles)
        except (UnsavableError, SaveError) as error:
            pending.give_back()
            self._pending = None
            self.fail(number, error)
            return
        pending.saved = saved
        loop_s = frozen_s + saved.loop_s
        chain.measured(saved.rows, loop_s, full=saved.full)
        blobs = chain.after(saved.blobs, full=saved.full)
        self._agent.done(Done(number, task, self._agent.incarnation, blobs, loop_ms=loop_s * 1000, sizes=saved.sizes))


class _Pending:
    """The snapshot that is being written, or waits to count."""

    __slots__ = ("captures", "number", "saved", "work")

    def __init__(self, number: int, captures: list[Captured]) -> None:
        self.number = number
        self.captures = captures
        self.saved: SavedTask | None = None
        self.work: asyncio.Task[None] | None = None

    def give_back(self) -> None:
        """What it contains belongs to the next snapshot, too."""
        for capture in self.captures:
            capture.give_back()


def new_state(declared: StateDeclaration | None, content: Mapping[Any, Any]) -> StateValue:
    """The state that a component declares: with this content, or new."""
    if declared is None:
        return None
    if isinstance(declared, ValueState):
        return Value(content[None] if None in content else declared.initial())
    return State(content)
