"""Buffered executor: tuples are kept until their last window has fired, as in Storm.

    run: segment ─► machine (tuples) … advance ─► windows ─► fire: execute(window) ─► released: acked, or failed

1. A tuple is open until its last window has fired; it fails if one of its windows raised. A late one is acked at once.
2. When an instance ends, the tuples that it held fail, and their messages come again (bolt_task.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from ...windows import END_MS, BufferedWindowBolt, TimeSettings, WindowRows, all_ms
from ..drive import USER_ERRORS, finish, user_error
from ..event_time.driver import TimeTools, WindowDriver
from .base import Executor, Tools
from .window_results import LateRows, rows_of

if TYPE_CHECKING:
    from ...topology import Segment, Tuple
    from ..emit.collectors import BoltTaskCollector


class BufferedExecutor(Executor, WindowDriver):
    """Runs a BufferedWindowBolt."""

    hold_open = True
    buffered = True

    def __init__(
        self,
        bolt: BufferedWindowBolt,
        settings: TimeSettings,
        tools: Tools,
        collector: BoltTaskCollector,
        time: TimeTools,
    ) -> None:
        WindowDriver.__init__(self, time)
        self.bolt = bolt
        self._tools = tools
        self._collector = collector
        self._hooks = tools.hooks
        self.machine = bolt.machine(settings)
        self._reader = bolt.reader()
        self._late = LateRows(bolt, tools.emitter, self.machine)
        self._counts = bolt.by_count
        self.by_clock = bolt.time.value == "processing"
        self._born = bolt.time.value == "ingestion"
        self._due: Iterator[WindowRows] = iter(())
        if not (self._counts or self.by_clock) and self.keeper.watermark is not None:
            self.machine.advance(self.keeper.watermark)  # what was fired before does not fire again
        self._spoilt: dict[int, BaseException] = {}

    @property
    def held(self) -> int:
        """How many rows this instance holds."""
        return self.machine.rows

    # -- rows --------------------------------------------------------------------------------------------------------

    async def run(self, segment: Segment, start: int, stop: int) -> int:
        machine, collector = self.machine, self._collector
        begun_s = 0.0 if self._hooks is None else self._hooks.begin()
        at_ms = segment.ingested_ms if self._born else self.wall_ms() if self.by_clock else None
        rows = self._reader.read(segment, start, stop, at_ms)
        for offset, error in rows.failed:
            collector.fail(segment.tuple_at(offset), error)
        taken = machine.add_rows(rows)
        for at, error in taken.failed:
            collector.fail(rows.values[at], error)
        for at in taken.late:
            tup = rows.values[at]
            try:
                self._late.take(segment, tup.offset, rows.timestamps[at])
            except USER_ERRORS as raised:
                collector.fail(tup, user_error(raised))
            else:
                collector.ack(tup)
        if self._counts:
            self._due, self.firing = machine.fire(), True
        elif not self.by_clock:
            failed = {at for at, _ in taken.failed}
            kept = [at for at in range(len(rows.values)) if at not in failed]
            times = all_ms([rows.timestamps[at] for at in kept])
            self.observe(segment.origin.task, times, [rows.values[at] for at in kept])
        if self._hooks is not None:
            used_s = (self._hooks.begin() - begun_s) / max(1, stop - start)
            for offset in range(start, stop):
                self._hooks.shown(segment.tuple_at(offset), used_s)
        return 0

    async def tick(self, segment: Segment) -> None:
        """Without effect: windows have a clock of their own."""

    # -- time --------------------------------------------------------------------------------------------------------

    def advance_watermark(self) -> None:
        machine = self.machine
        self.look()
        if self.firing:  # fire first what is due: those windows end at or before the watermark
            return
        if self._counts:
            if self.keeper.watermark == END_MS and machine.rows:
                self._due, self.firing = machine.advance(END_MS), True
            else:
                self.all_have_fired(None)
            return
        next_ms = machine.next_fire_ms
        watermark = self.goes_by(next_ms)
        if watermark is None:
            return
        due = machine.advance(watermark)
        if (next_ms is not None and next_ms <= watermark) or (watermark == END_MS and machine.rows):
            self._due, self.firing = due, True
        else:
            self.all_have_fired(machine.watermark)

    async def fire(self, most: int) -> None:
        if self.machine.work():
            return  # with many keys, sorting them takes several turns
        rows = 0
        for window in islice(self._due, most):
            self._tools.emitter.counters.fired += 1
            await self._execute(window)
            rows += len(window.rows)
            if rows >= most:
                return
        self.firing = False
        self._release()
        self.unsettle()

    def wakeup_ms(self) -> int | None:
        return self.wait_for(self.machine.next_fire_ms)

    async def _execute(self, window: WindowRows) -> None:
        anchors = list(window.rows) if self.bolt.anchored else None
        try:
            returned: Any = self.bolt.execute(window)
            if returned is not None and not isinstance(returned, tuple | list):
                returned = await finish(returned, self._tools.suspend) if hasattr(returned, "__await__") else returned
            for row in rows_of(returned, self._late.arity, f"{type(self.bolt).__name__}.execute"):
                self._collector.emit(row, anchors)
        except USER_ERRORS as raised:
            error = user_error(raised)
            error.add_note(f"in window {window.window} of key {window.key!r:.100}")
            self._collector.report_error(error)
            for tup in window.rows:
                self._spoilt[id(tup)] = error

    def _release(self) -> None:
        spoilt, collector = self._spoilt, self._collector
        tup: Tuple
        for tup in self.machine.released():
            error = spoilt.pop(id(tup), None)
            if error is None:
                collector.ack(tup)
            else:
                collector.fail(tup, f"one of its windows failed: {error!r}")
