"""Failing: rows of a bolt task that fail, and their messages with them.

    a row is refused, or raises ─► its messages
    an instance raises          ─► the messages of that row, and of all rows that the instance still holds

1. A message fails at its spout at once; the edges of its rows are done like those of any others.
2. Rows that an instance has not received yet are for the next one.
3. A batch of columns is one message: it fails as a whole, once.
"""

from __future__ import annotations

from typing import Final

from ..actors import Timer
from ..runtime import AiostormError
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
from .emit.lineage import mark_done
from .environment import Environment
from .execute.base import Executor, RowFailedError
from .in_flight import InFlight
from .reports import describe
from .timed_task import WAKEUP, EventTimeTask

TICK_FIELDS = Fields("rate_secs")

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


class FailingTask(EventTimeTask):
    """Base of bolt tasks: knows which rows the executor received, and which are held."""

    def __init__(self, env: Environment, task: TaskSpec, spec: ComponentSpec, config: Config) -> None:
        super().__init__(env, task, spec, config)
        self._start = 0  # rows of the first segment that are executed already
        self._held = InFlight(self._watch_held)
        self.set_limits(config)
        self._ticks: Timer | None = None
        self._checks_unchanged = 0
        self._named_s: float | None = None
        self._executor: Executor
        self._tick_origin = Origin(SYSTEM_COMPONENT, -1, TICK_STREAM, TICK_FIELDS)

    def on_timer(self, message: object) -> bool:
        """Handle a timer; False if it is not one of this class."""
        if message is WAKEUP:
            self.on_wakeup()
        elif message is HELD:
            self.check_held()
        return message is WAKEUP or message is HELD

    def set_limits(self, config: Config) -> None:
        """Set how long a tuple may be held before it is reported."""
        self._most_held_s = config.message_timeout_s if config.enable_message_timeouts else HELD_S
        self._check_s = max(1.0, self._most_held_s / CHECKS)

    def begin_ticks(self) -> None:
        """Start the ticks, or stop them, as the configuration says."""
        if self._ticks is not None:
            self._ticks.cancel()
        seconds = self.config.tick_tuple_freq_s
        self._ticks = None if seconds is None else self.every(seconds, TICK_STREAM)

    def check_held(self) -> None:
        """Report rows that are open for longer than the message timeout, once a minute: the bolt has forgotten them."""
        rows, looks, news = self._held.check(CHECKS)
        now_s = self.env.clock.monotonic()
        if rows and (self._named_s is None or now_s - self._named_s >= NAMED_EACH_S):
            self._named_s = now_s
            self.report("execute", TuplesNotAckedError(rows, looks * self._check_s, self._most_held_s))
        self._checks_unchanged = 0 if news else self._checks_unchanged + 1
        if self._held.watched and self._checks_unchanged < MOST_UNCHANGED:
            self._watch_held()
        elif self._held.watched:
            self._held.stop_watching()

    def _watch_held(self) -> None:
        self.after(self._check_s, HELD)

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
        """A bolt that takes rows received columns that cannot be made rows: all fail. How many."""
        self._fail_segment(segment, error)
        if executor.hold_open:
            segment.open = 0
            self.emitter.done(segment)
        return len(segment.items)

    def _rich_failed(self, segment: Segment, start: int, stop: int, error: RowFailedError) -> None:
        """A rich bolt raised: put back the rows it did not reach, fail those it had, let the guardian decide."""
        cause = error.__cause__ or error
        done = error.offset + 1
        if done < stop:
            if stop == len(segment.items):
                self._inbox.appendleft(segment)
            self._start = done
        self.counters.executed += done - start
        if mark_done(segment, error.offset):
            self._fail_row(segment, error.offset, cause)
            self.emitter.settled(segment, error.offset)
        else:
            self.report("execute", cause, segment.tuple_at(error.offset))
        self._fail_held(cause, keep=segment if done < len(segment.items) else None, below=error.offset)
        raise cause from None

    def _fail_held(self, error: BaseException, keep: Segment | None = None, below: int = 0) -> None:
        """The instance is replaced: the tuples that it held fail now, not by timeout."""
        failure = f"held by an instance that failed: {describe(error)}"
        for segment in self._held.take_open():  # only open ones: an edge that is done twice would be open again
            for offset in range(below if segment is keep else len(segment.items)):
                if mark_done(segment, offset):
                    self._fail_row(segment, offset, failure)
                    self.emitter.settled(segment, offset)
        if keep is not None:
            self._held.add((keep,))
            self.emitter.withhold(keep)
