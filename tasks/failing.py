"""Failing: rows of a bolt task that fail, and their messages with them.

    a row is refused, or raises ─► its messages
    an instance raises          ─► the messages of that row, and of all rows that the instance still holds

1. A message fails at its spout at once; the edges of its rows are done like those of any others.
2. Rows that an instance has not been given yet are for the next one.
3. A batch of columns is one message: it fails as a whole, once.
"""

from __future__ import annotations

from ..topology import (
    SYSTEM_COMPONENT,
    TICK_STREAM,
    ColumnRows,
    ColumnsError,
    ComponentSpec,
    Config,
    Fields,
    Origin,
    Segment,
    TaskSpec,
    TupleBatch,
)
from .environment import Environment
from .executors import Executor, RowFailedError
from .held import Held
from .lineage import settle
from .reports import describe
from .timed_task import TimedTask

TICK_FIELDS = Fields("rate_secs")


class FailingTask(TimedTask):
    """Base of bolt tasks: knows what their executor was given, and what it holds."""

    def __init__(self, env: Environment, task: TaskSpec, spec: ComponentSpec, config: Config) -> None:
        super().__init__(env, task, spec, config)
        self._start = 0  # rows of the first segment that are executed already
        self._held = Held()
        self._executor: Executor
        self._tick_origin = Origin(SYSTEM_COMPONENT, -1, TICK_STREAM, TICK_FIELDS)

    def _fail_row(self, segment: Segment, offset: int, error: BaseException | str | None) -> None:
        """A row failed: its messages fail at their spouts."""
        if segment.origin is not self._tick_origin:
            self.counters.failed += 1
        tup = segment.tuple_at(offset)
        if isinstance(error, BaseException):
            self.report("execute", error, tup)
        if segment.root or segment.lineage is not None:
            failure = self.failure(error)
            self.emitter.failures += [(root, index, failure) for root, index in segment.pairs_of(offset)]
        if self.hook_calls is not None and self._executor.hold_open:
            self.hook_calls.call("bolt_fail", tup, self.task.task_id)

    def _fail_segment(self, segment: Segment, error: BaseException | str | None) -> None:
        """All rows of a segment failed. A batch of columns is one message: one report, one failure."""
        if not isinstance(segment.items, ColumnRows):
            for offset in range(len(segment.items)):
                self._fail_row(segment, offset, error)
            return
        self.counters.failed += len(segment.items)
        if not isinstance(error, str | None):
            self.report("execute", error, TupleBatch([segment]))
        self.emitter.failures += [(*message, self.failure(error)) for message in segment.messages]

    def _unreadable(self, executor: Executor, segment: Segment, error: ColumnsError) -> int:
        """A bolt that takes rows got columns that cannot be made rows: all fail. How many."""
        self._fail_segment(segment, error)
        if executor.hold_open:
            segment.open = 0
            self.emitter.done(segment)
        return len(segment.items)

    def _rich_failed(self, segment: Segment, start: int, stop: int, error: RowFailedError) -> None:
        """A rich bolt raised: put back what it did not get to, fail what it had, let the guardian decide."""
        cause = error.__cause__ or error
        done = error.offset + 1
        if done < stop:
            if stop == len(segment.items):
                self._inbox.appendleft(segment)
            self._start = done
        self.counters.executed += done - start
        if settle(segment, error.offset):
            self._fail_row(segment, error.offset, cause)
            self.emitter.settled(segment, error.offset)
        else:
            self.report("execute", cause, segment.tuple_at(error.offset))
        self._fail_held(cause, keep=segment if done < len(segment.items) else None, below=error.offset)
        raise cause from None

    def _fail_held(self, error: BaseException, keep: Segment | None = None, below: int = 0) -> None:
        """The instance is gone, and with it every tuple that it held: fail them now rather than by timeout."""
        failure = f"held by an instance that failed: {describe(error)}"
        for segment in self._held.take():  # only open ones: an edge that is done once more would be undone
            for offset in range(below if segment is keep else len(segment.items)):
                if settle(segment, offset):
                    self._fail_row(segment, offset, failure)
                    self.emitter.settled(segment, offset)
        if keep is not None:
            self._held.add((keep,))
            self.emitter.hold(keep)
