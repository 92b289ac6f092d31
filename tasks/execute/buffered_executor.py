"""Buffered executor: tuples are kept until their last window has fired, as in Storm.

    run: segment ─► machine (tuples) … advance ─► windows ─► fire: execute(window) ─► released: acked, or failed

1. A tuple is open until its last window has fired; it fails if one of its windows raised. A late one is acked at once.
2. With exactly once, tuples are saved with the snapshots, and a restored tuple is neither acked nor failed.
3. When an instance ends, the tuples that it held fail, and their messages come again (bolt_task.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from ...windows import all_ms
from ..drive import USER_ERRORS, user_error
from ..event_time.driver import EventTimeDriver, OpenWindows
from .base import Executor
from .user_calls import UserCalls
from .window_results import LateRows, rows_of

if TYPE_CHECKING:
    from ...topology import Returned, Segment, Tuple
    from ...windows import BufferedMachine, BufferedWindowBolt, TimeSettings, WindowRows
    from ..emit.collectors import BoltTaskCollector
    from ..event_time.driver import TimeTools
    from .base import Tools
    from .kept_tuples import KeptTuples


class BufferedExecutor(Executor):
    """Runs a BufferedWindowBolt. `driver`: of the event time that its windows fire by."""

    hold_open = True
    in_loop = True

    def __init__(
        self,
        bolt: BufferedWindowBolt,
        settings: TimeSettings,
        tools: Tools,
        collector: BoltTaskCollector,
        time: TimeTools,
        kept: KeptTuples,
    ) -> None:
        machine = bolt.machine(settings)
        machine.convert_rows(kept.pack, kept.unpack)
        self._collector = collector
        self._hooks = tools.hooks
        self._machine = machine
        self._reader = bolt.reader()
        user = UserCalls(tools.in_thread, tools.suspend)
        self._late = LateRows(bolt, tools.emitter, machine, user)
        calls = WindowCalls(bolt, machine, tools, collector, self._late.arity, user)
        self._windows = OpenWindows(bolt, machine, calls, time.clock, self._late)
        self.driver = EventTimeDriver(time, self._windows)
        self._by_count = bolt.by_count

    async def run(self, segment: Segment, start: int, stop: int) -> int:
        collector = self._collector
        begun_s = 0.0 if self._hooks is None else self._hooks.begin()
        rows = self._reader.read(segment, start, stop, self._windows.row_ms(segment.ingested_ms))
        for offset, error in rows.failed:
            collector.fail(segment.tuple_at(offset), error)
        taken = self._machine.add_rows(rows)
        for at, error in taken.failed:
            collector.fail(rows.values[at], error)
        for at in taken.late:
            tup = rows.values[at]
            try:
                if self._late.waits:
                    await self._late.take_waiting(segment, tup.offset, rows.timestamps[at])
                else:
                    self._late.take(segment, tup.offset, rows.timestamps[at])
            except USER_ERRORS as raised:
                collector.fail(tup, user_error(raised))
            else:
                collector.ack(tup)
        if self._by_count:
            self.driver.fire_counted()
        elif not self._windows.by_clock:
            failed = {at for at, _ in taken.failed}
            kept = [at for at in range(len(rows.values)) if at not in failed]
            times = all_ms([rows.timestamps[at] for at in kept])
            self.driver.observe(segment.origin.task, times, [rows.values[at] for at in kept])
        if self._hooks is not None:
            used_s = (self._hooks.begin() - begun_s) / max(1, stop - start)
            for offset in range(start, stop):
                self._hooks.shown(segment.tuple_at(offset), used_s)
        return 0

    async def tick(self, segment: Segment) -> None:
        """Without effect: windows have a clock of their own."""


class WindowCalls:
    """Calls `execute` with each window that has fired, and acks rows after their last window (a WindowOutput).

    `arity`: of the rows that `execute` returns.
    """

    __slots__ = ("_arity", "_bolt", "_collector", "_counters", "_lost", "_machine", "_spoilt", "_user")

    keeps_rows = True

    def __init__(
        self,
        bolt: BufferedWindowBolt,
        machine: BufferedMachine,
        tools: Tools,
        collector: BoltTaskCollector,
        arity: int,
        user: UserCalls,
    ) -> None:
        self._arity = arity
        self._bolt = bolt
        self._collector = collector
        self._counters = tools.emitter.counters
        self._lost = tools.lost
        self._machine = machine
        self._user = user
        self._spoilt: dict[int, BaseException] = {}  # id of a tuple → the error of one of its windows

    @property
    def held(self) -> int:
        return self._machine.rows

    async def emit_due(self, due: Iterator[WindowRows], most: int) -> bool:
        rows = 0
        for window in islice(due, most):
            self._counters.fired += 1
            await self._execute(window)
            rows += len(window.rows)
            if rows >= most:
                return True
        self._release()
        return False

    async def _execute(self, window: WindowRows) -> None:
        anchors = list(window.rows) if self._bolt.anchored else None
        try:
            returned: Returned = await self._user.call(self._bolt.execute, window)
            for row in rows_of(returned, self._arity, f"{type(self._bolt).__name__}.execute"):
                self._collector.emit(row, anchors)
        except USER_ERRORS as raised:
            error = user_error(raised)
            error.add_note(f"in window {window.window} of key {window.key!r:.100}")
            self._lost(error)
            for tup in window.rows:
                self._spoilt[id(tup)] = error

    def _release(self) -> None:
        tup: Tuple
        for tup in self._machine.released():
            error = self._spoilt.pop(id(tup), None)
            if error is None:
                self._collector.ack(tup)
            else:
                self._collector.fail(tup, f"one of its windows failed: {error!r}")
