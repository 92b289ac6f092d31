"""Window executor: adds rows to incremental windows, batch by batch, and emits the windows that fire.

    run: segment ─► RowReader ─► machine ─► late: dropped, late stream, retract
                                        └─► failed: its tree fails
    advance ─► machine.advance(watermark) ─► fire ─► rows, anchored to nothing

1. A row is acked when it is in its windows: open windows are lost with the process (docs/windows.md).
2. Windows by count fire at once; by processing time when the clock is due; the others by the watermark.
3. `purge` is called when its window's row is emitted: in each turn for as many windows as a turn has tuples. `purge`
   and `retract` may wait (user_calls.py).
4. Early results are emitted with the row that makes them due, or when the clock is due; ended windows come first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...windows import all_ms
from ..drive import USER_ERRORS, user_error
from ..event_time.driver import EventTimeDriver, OpenWindows
from .base import Executor
from .user_calls import UserCalls
from .window_results import LateRows, WindowResults

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

    from ...topology import Fields, Segment
    from ...windows import AddResult, ReadRows, TimeSettings, WindowedBolt
    from ..event_time.driver import TimeTools
    from .base import Tools


class WindowExecutor(Executor):
    """Runs a WindowedBolt. `driver`: of the event time that its windows fire by."""

    in_loop = True

    def __init__(
        self,
        bolt: WindowedBolt,
        settings: TimeSettings,
        layout: Fields | None,
        tools: Tools,
        time: TimeTools,
    ) -> None:
        machine = bolt.machine(settings, layout)
        self._fail = tools.fail
        self._hooks = tools.hooks
        self._machine = machine
        self._reader = bolt.reader(layout)
        calls = UserCalls(tools.in_thread, tools.suspend)
        self._late = LateRows(bolt, tools.emitter, machine, calls)
        self._results = WindowResults(bolt, machine, tools.emitter, tools.lost, calls)
        self._windows = OpenWindows(bolt, machine, self._results, time.clock, self._late, machine.early)
        self.driver = EventTimeDriver(time, self._windows)
        self._by_count = bolt.by_count

    def run(self, segment: Segment, start: int, stop: int) -> int | Awaitable[int]:
        begun_s = 0.0 if self._hooks is None else self._hooks.begin()
        rows = self._reader.read(segment, start, stop, self._windows.row_ms(segment.ingested_ms))
        places, failed = rows.places, rows.failed
        taken = self._machine.add_rows(rows, self._results.emit)
        if taken.failed:
            failed += [(places[at], error) for at, error in taken.failed]
        if taken.late and self._late.waits:
            return self._finish_late(segment, start, stop, rows, taken, begun_s)
        for at in taken.late:
            try:
                self._late.take(segment, places[at], rows.timestamps[at])
            except USER_ERRORS as raised:
                failed.append((places[at], user_error(raised)))
        return self._finish(segment, start, stop, rows, taken, begun_s)

    async def _finish_late(
        self, segment: Segment, start: int, stop: int, rows: ReadRows, taken: AddResult, begun_s: float
    ) -> int:
        for at in taken.late:
            try:
                await self._late.take_waiting(segment, rows.places[at], rows.timestamps[at])
            except USER_ERRORS as raised:
                rows.failed.append((rows.places[at], user_error(raised)))
        return self._finish(segment, start, stop, rows, taken, begun_s)

    def _finish(self, segment: Segment, start: int, stop: int, rows: ReadRows, taken: AddResult, begun_s: float) -> int:
        failed = rows.failed
        for offset, error in failed:
            self._fail(segment, offset, error)
        if self._by_count:
            self.driver.fire_counted()
        elif not self._windows.by_clock:
            self._observe(segment, rows, taken)
        if self._hooks is not None:
            used_s = self._hooks.begin() - begun_s
            self._hooks.rows_executed(segment, start, stop, used_s, {offset for offset, _ in failed})
        return len(failed)

    async def tick(self, segment: Segment) -> None:
        """Without effect: windows have a clock of their own."""

    def _observe(self, segment: Segment, rows: ReadRows, taken: AddResult) -> None:
        driver = self.driver
        if not driver.keeper.reads_rows:  # its input tasks send watermarks
            driver.observe(segment.origin.task, (), ())
            return
        times, values = rows.timestamps, rows.values
        if taken.failed:
            without = {at for at, _ in taken.failed}
            kept = [at for at in range(len(times)) if at not in without]
            times, values = [times[at] for at in kept], [values[at] for at in kept]
        at_ms: Sequence[int] = times if taken.plain else all_ms(times)  # type: ignore[assignment] # plain: integers
        driver.observe(segment.origin.task, at_ms, values)
