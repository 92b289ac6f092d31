"""BoltSnapshots: how a bolt task takes part in snapshots.

    rows, barrier n ─ from all sources? ─► Aligned(n) to each source ─► the sink prepares ─► state frozen ─► barrier n
    COMMIT_SNAPSHOT ─► the sink commits           ABORT_SNAPSHOT ─► what was prepared belongs to the next snapshot

1. A barrier is handled in its place among the rows, in a turn. Windows that are due fire before it.
2. A rich bolt has to settle each row before the barrier: `flush` is called, and then the task waits for its acks. Rows
   in windows are in the state, and are not waited for.
3. Sources are released as soon as their barriers are here: what they send next waits in the mailbox.
4. A sink is never stopped from taking rows, however many it holds: barriers come behind rows. It reports how many they
   are, and the spouts wait (held_rows.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...runtime import AiostormError
from ...state import Aligner, Lost, SaveError, StateError
from ...state.sinks import Commits
from ...topology import Bolt, Segment
from ..drive import USER_ERRORS, user_error
from .barriers import BarrierEmitter
from .held_rows import HeldRows
from .messages import AbortSnapshot, Aligned, CommitSnapshot, TakeSnapshot
from .saved import TASK, WINDOWS, RestoredTask
from .task_saver import FIRST_ROWS, TaskSaver
from .touching import KeyToucher

if TYPE_CHECKING:
    from ...actors import Inbox
    from ...topology import Config
    from ..bolt_time import BoltTime
    from ..in_flight import InFlight
    from ..task import TaskActor
    from .agent import SnapshotAgent


class RowsLostError(AiostormError):
    """Rows between two tasks were lost, or arrived twice."""


class Prepared:
    """What a sink holds, and has prepared: the number of the snapshot, and the handle. `commits`: is it a sink?"""

    __slots__ = ("commits", "handle", "rows")

    def __init__(self, config: Config) -> None:
        self.commits = False
        self.rows = HeldRows(config)
        self.handle: tuple[int, Any] | None = None


class BoltSnapshots:
    """The snapshots of one bolt task. `held`: rows that a rich bolt has not settled.

    `own`: gives small values of the task that are saved with it. `settled`: is set when a rich bolt settles rows.
    """

    __slots__ = (
        "_agent",
        "_sink",
        "_task",
        "_unchecked",
        "aligner",
        "barriers",
        "held",
        "own",
        "restored",
        "saver",
        "settled",
        "toucher",
    )

    def __init__(self, task: TaskActor, agent: SnapshotAgent, held: InFlight) -> None:
        env, spec = task.env, task.task
        self._agent = agent
        self._task = task
        self._sink = Prepared(env.config)
        self.held = held
        self._unchecked: int | None = None  # after so many rows more, windows and a state without keys are checked
        self.aligner = Aligner(env.barrier_senders(spec.component))
        receivers = env.barrier_receivers(spec.component)
        self.barriers = BarrierEmitter(spec, task.emitter, task.outbox.outlets, receivers)
        self.saver = TaskSaver(agent, spec, env.clock, lambda work, name: task.system.guard(work, name=name))
        self.own: Callable[[], dict[str, Any]] = dict
        self.restored: RestoredTask | None = None
        self.settled: asyncio.Event | None = None
        self.toucher: KeyToucher | None = None

    # -- the start -----------------------------------------------------------------------------------------------------

    async def restore(self) -> None:
        """Load what the task had saved, and make its state: before the component is prepared."""
        self.restored = await self._agent.restored(self._task.task)
        declared = self._task.spec.state
        content = {} if self.restored is None else self.restored.sections.get(0, {})
        self.saver.begin(declared, content)
        if declared is not None and declared.key_fields:
            self.toucher = KeyToucher(self.saver.state, declared.key_fields, self._check_first_rows)
        elif declared is not None:
            self._unchecked = FIRST_ROWS

    def saved(self) -> dict[str, Any]:
        """The small values that the task had saved."""
        return {} if self.restored is None else self.restored.sections.get(TASK, {}).get(None, {})

    def restore_time(self, time: BoltTime) -> None:
        """Continue with the time and the windows that the task had saved, and save them with each snapshot."""
        restored = self.restored
        if restored is not None:
            time.restore(self.saved(), restored.sections.get(WINDOWS, {}))
        self.own = time.save
        self.saver.tables = time.tables()
        if self.saver.tables is not None:
            self._unchecked = FIRST_ROWS

    async def restore_sink(self) -> None:
        """Commit again what the restored snapshot contains: the process may have ended before it was committed."""
        sink, restored = self._task.user.component, self.restored
        if not isinstance(sink, Commits):
            return
        self._sink.commits = True
        for handle in () if restored is None else restored.handles:
            await self._task.user.restore(sink.commit, handle, end="cleanup")
        number = None if restored is None else restored.number
        await self._task.user.restore(sink.restored, number, end="cleanup")

    # -- rows and barriers ---------------------------------------------------------------------------------------------

    def before_rows(self, segment: Segment, start: int, stop: int) -> None:
        """Rows [start, stop) are going to be executed."""
        if not start:
            self.aligner.received[segment.origin.task] += len(segment.items)
        if self._sink.commits:
            self._sink.rows.received(segment, start, stop)
            self._report_held()
        if self.toucher is not None:
            self.toucher.touch_rows(segment, start, stop)
        if self._unchecked is not None:
            if self._unchecked > 0:
                self._unchecked -= stop - start
            else:  # they were executed
                self._unchecked = None
                self._check_first_rows()

    async def on_barrier(self, segment: Segment) -> None:
        """A barrier has come, after all rows that its source has sent before it."""
        source, (number, rows) = segment.origin.task, segment.row(0)
        outcome = self.aligner.barrier(source, number, rows)
        if isinstance(outcome, Lost):
            self.saver.fail(number, RowsLostError(str(outcome)), lost=True)
        elif outcome is not None:
            for inbox in self._sources():
                inbox.post(Aligned(number, self._task.task.task_id))
            await self._take(number)

    async def on_control(self, message: TakeSnapshot | CommitSnapshot | AbortSnapshot | Aligned) -> None:
        """A message about a snapshot."""
        if isinstance(message, Aligned):
            self.barriers.aligned(message)
        elif isinstance(message, CommitSnapshot):
            await self._commit(message.number)
        elif isinstance(message, AbortSnapshot):
            await self._abort(message.number)

    def stop(self) -> None:
        """The task ends."""
        self.saver.stop()

    # -- inside --------------------------------------------------------------------------------------------------------

    def _sources(self) -> list[Inbox]:
        env, task_id = self._task.env, self._task.task.task_id
        return [env.mailbox_of(task_id, source) for source in self.aligner.received]

    async def _take(self, number: int) -> None:
        task, component = self._task, self._task.user.component
        try:
            if isinstance(component, Bolt):
                await self._flush(component)
            if isinstance(component, Commits):
                self._sink.handle = number, await task.user.call(component.pre_commit, number)
                self._sink.rows.prepared()
        except SaveError as full:  # the rows are kept, and come with a later snapshot
            task.emitter.seal()
            self.saver.fail(number, full)
            self.barriers.send(number)
            return
        except USER_ERRORS as raised:
            error = user_error(raised)
            task.report("pre_commit" if isinstance(component, Commits) else "flush", error)
            task.go_back(error)
            return
        finally:
            self._report_held()
        await self.saver.may_freeze()
        task.emitter.seal()  # what is saved of time is that after all rows before the barrier
        handle = self._sink.handle
        try:
            self.saver.freeze(number, self.own(), None if handle is None else handle[1])
        except StateError as error:
            self.saver.fail(number, error)
        self.barriers.send(number)

    async def _flush(self, bolt: Bolt) -> None:
        """Let a rich bolt write what it keeps, and wait until it has settled all rows."""
        await self._task.user.call(bolt.flush)
        while self.held.has_open:
            self.settled = asyncio.Event()
            await self.settled.wait()
        self.settled = None

    async def _commit(self, number: int) -> None:
        task, component, prepared = self._task, self._task.user.component, self._sink.handle
        if prepared is not None and prepared[0] == number:
            if isinstance(component, Commits) and prepared[1] is not None:
                try:
                    await task.user.call(component.commit, prepared[1])
                except USER_ERRORS as raised:
                    error = user_error(raised)
                    task.report("commit", error)
                    task.go_back(error)
                    return
            self._sink.handle = None
            self._sink.rows.committed()
            self._report_held()
        self.saver.commit(number)
        self._agent.committed(task.task.task_id, number)

    async def _abort(self, number: int) -> None:
        self.aligner.abort(number)
        self.barriers.abort(number)
        self.saver.abort(number)
        task, prepared, component = self._task, self._sink.handle, self._task.user.component
        if prepared is not None and prepared[0] <= number:
            self._sink.handle = None
            if isinstance(component, Commits) and prepared[1] is not None:
                try:
                    await task.user.call(component.abort, prepared[1])
                except USER_ERRORS as raised:
                    error = user_error(raised)
                    task.report("abort", error)
                    task.go_back(error)  # the sink may have lost the rows
            self._report_held()

    def _report_held(self) -> None:
        """Report how many rows the sink holds, if that has come to another level."""
        sink, rows, task = self._task.user.component, self._sink.rows, self._task.task
        if isinstance(sink, Commits) and (level := rows.changed(sink.held_rows())) is not None:
            self._agent.rows_held(task.component, task.task_id, int(level), rows.rows, rows.size_bytes)

    def _check_first_rows(self) -> None:
        try:
            self.saver.check_first_rows()
        except StateError as error:
            self.saver.fail(0, error)
