"""Failures: rows of a bolt task that fail, and their messages with them.

    a row is refused, or raises ─► its messages
    an instance raises          ─► the messages of that row, and of all rows that the instance still holds

1. A message fails at its spout at once; the edges of its rows are done like those of any others.
2. Rows that an instance has not received yet are for the next one.
3. A batch of columns is one message: it fails as a whole, once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..runtime import AiostormError
from ..topology import (
    SYSTEM_COMPONENT,
    TICK_STREAM,
    ColumnRows,
    ColumnsError,
    Config,
    Fields,
    Origin,
    Segment,
    TupleBatch,
)
from .emit.lineage import mark_done
from .in_flight import InFlight, Taken
from .reports import describe

if TYPE_CHECKING:
    from .execute.base import RowFailedError
    from .task import TaskActor

TICK_ORIGIN: Final = Origin(SYSTEM_COMPONENT, -1, TICK_STREAM, Fields("rate_secs"))
"""Of tick tuples, which are in no tree."""

HELD: Final = object()
"""The message of the timer that checks held rows."""

HELD_S: Final = 3600.0
"""Without message timeouts, a tuple that is open for longer than this is reported."""

CHECKS: Final = 4
"""So many in that time, or in a message timeout; at most one each second."""

NAMED_EACH_S: Final = 60.0

MOST_UNCHANGED: Final = 100
"""After so many checks without a new row, checking stops until one arrives."""


class TuplesNotAckedError(AiostormError):
    """A bolt has neither acked nor failed tuples that it received. Their messages have timed out, if they can."""

    def __init__(self, rows: int, oldest_s: float, most_s: float) -> None:
        super().__init__(
            f"{rows:,} tuple{'' if rows == 1 else 's'} neither acked nor failed for longer than {most_s:g} s, the "
            f"oldest for about {oldest_s:g} s: execute must ack or fail each tuple; a BasicBolt is acked for you"
        )


class Failures:
    """The failures of one bolt task. `held`: rows that the present instance has received and not settled.

    `bolt_acks`: does the bolt ack by itself?
    """

    __slots__ = ("_check_s", "_checks_unchanged", "_most_held_s", "_named_s", "_taken", "_task", "bolt_acks", "held")

    def __init__(self, task: TaskActor, taken: Taken, config: Config) -> None:
        self.held = InFlight(self._watch, untracked=task.env.snapshots is not None)
        self.bolt_acks = False
        self._taken = taken
        self._checks_unchanged = 0
        self._named_s: float | None = None
        self._task = task
        self.set_limits(config)

    def set_limits(self, config: Config) -> None:
        """Set how long a tuple may be held before it is reported."""
        self._most_held_s = config.message_timeout_s if config.enable_message_timeouts else HELD_S
        self._check_s = max(1.0, self._most_held_s / CHECKS)

    def begin(self) -> None:
        """A new instance: the rows that the one before held fail, except those that it has not received."""
        self.held.stop_watching()  # the timer of the instance before ended with that instance
        if len(self.held):  # else they failed with the call that raised
            self.fail_held(RuntimeError("the bolt was restarted"), *self._not_received())

    def check_held(self) -> None:
        """Report rows that are open for longer than the message timeout, once a minute: the bolt has forgotten them."""
        rows, looks, news = self.held.check(CHECKS)
        now_s = self._task.env.clock.monotonic()
        if rows and (self._named_s is None or now_s - self._named_s >= NAMED_EACH_S):
            self._named_s = now_s
            self._task.report("execute", TuplesNotAckedError(rows, looks * self._check_s, self._most_held_s))
        self._checks_unchanged = 0 if news else self._checks_unchanged + 1
        if self.held.watched and self._checks_unchanged < MOST_UNCHANGED:
            self._watch()
        elif self.held.watched:
            self.held.stop_watching()

    def _watch(self) -> None:
        self._task.after(self._check_s, HELD)

    def fail_row(self, segment: Segment, offset: int, error: BaseException | str | None) -> None:
        """A row failed: its messages fail at their spouts."""
        task = self._task
        if segment.origin is not TICK_ORIGIN:
            task.counters.failed += 1
        tup = segment.tuple_at(offset)
        if isinstance(error, BaseException):
            task.report("execute", error, tup)
        task.row_failed(error)
        if segment.root or segment.lineage is not None:
            failure = task.failure(error)
            task.acks.failures += [(root, index, failure) for root, index in segment.pairs_of(offset)]
        if task.user.hook_calls is not None and self.bolt_acks:
            task.user.hook_calls.call("bolt_fail", tup, task.task.task_id)

    def fail_segment(self, segment: Segment, error: BaseException | str | None) -> None:
        """All rows of a segment failed. A batch of columns is one message: one report, one failure."""
        if not isinstance(segment.items, ColumnRows):
            for offset in range(len(segment.items)):
                self.fail_row(segment, offset, error)
            return
        task = self._task
        task.counters.failed += len(segment.items)
        if not isinstance(error, str | None):
            task.report("execute", error, TupleBatch([segment]))
        task.row_failed(error)
        task.acks.failures += [(*message, task.failure(error)) for message in segment.messages]

    def unreadable(self, segment: Segment, error: ColumnsError) -> int:
        """A bolt that takes rows received columns that cannot be made rows: all fail. How many."""
        self.fail_segment(segment, error)
        if self.bolt_acks:
            segment.open = 0
            self._task.acks.done(segment)
        return len(segment.items)

    def rich_failed(self, segment: Segment, start: int, stop: int, error: RowFailedError) -> None:
        """A rich bolt raised: put back the rows it did not reach, fail those it had, let the guardian decide."""
        task, cause = self._task, error.__cause__ or error
        done = error.offset + 1
        if done < stop:
            if stop == len(segment.items):
                self._taken.segments.appendleft(segment)
            self._taken.start = done
        task.counters.executed += done - start
        if mark_done(segment, error.offset):
            self.fail_row(segment, error.offset, cause)
            task.acks.settled(segment, error.offset)
        else:
            task.report("execute", cause, segment.tuple_at(error.offset))
        self.fail_held(cause, keep=segment if done < len(segment.items) else None, below=error.offset)
        raise cause from None

    def tick_failed(self, error: BaseException) -> None:
        """A rich bolt raised in a tick. A turn may have been interrupted: the next instance gets its other rows."""
        self._task.report("a tick", error)
        self.fail_held(error, *self._not_received())

    def fail_held(self, error: BaseException, keep: Segment | None = None, below: int = 0) -> None:
        """The instance is replaced: the tuples that it held fail now, not by timeout.

        Of `keep` it has received only the rows before `below`: the others are for the next instance.
        """
        acks = self._task.acks
        failure = f"held by an instance that failed: {describe(error)}"
        for segment in self.held.take_open():  # only open ones: an edge that is done twice would be open again
            for offset in range(below if segment is keep else len(segment.items)):
                if mark_done(segment, offset):
                    self.fail_row(segment, offset, failure)
                    acks.settled(segment, offset)
        if keep is not None:
            self.held.add((keep,))
            acks.withhold(keep)

    def _not_received(self) -> tuple[Segment | None, int]:
        """The segment that was executed in part, and how far."""
        taken = self._taken
        return taken.segments[0] if taken.start else None, taken.start
