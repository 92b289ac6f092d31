"""Window executor: adds rows to incremental windows, batch by batch, and emits the windows that fire.

    run: segment ─► RowReader ─► machine ─► late: dropped, late stream, retract
                                        └─► failed: its tree fails
    advance ─► machine.advance(watermark) ─► fire ─► rows, anchored to nothing

1. A row is acked when it is in its windows: open windows are lost with the process (docs/windows.md).
2. Windows by count fire at once; by processing time when the clock is due; the others by the watermark.
3. `purge` is called when its window's row is emitted: in each turn for as many windows as a turn has tuples.
4. Early results are emitted with the row that makes them due, or when the clock is due; ended windows come first.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from ...windows import AddResult, Fired, TimeSettings, WindowedBolt, all_ms
from ..drive import USER_ERRORS, user_error
from ..event_time.driver import TimeTools, WindowDriver
from .base import Executor, Tools
from .window_results import LateRows, WindowResults

if TYPE_CHECKING:
    from ...topology import Fields, Segment


class WindowExecutor(Executor, WindowDriver):
    """Runs a WindowedBolt."""

    def __init__(
        self,
        bolt: WindowedBolt,
        settings: TimeSettings,
        layout: Fields | None,
        tools: Tools,
        time: TimeTools,
    ) -> None:
        WindowDriver.__init__(self, time)
        self.bolt = bolt
        self._fail = tools.fail
        self._hooks = tools.hooks
        self.machine = bolt.machine(settings, layout)
        self._reader = bolt.reader(layout)
        self._late = LateRows(bolt, tools.emitter, self.machine)
        self._early = self.machine.early
        self._counts = counts = bolt.by_count
        self.by_clock = not counts and bolt.time.value == "processing"
        self._born = not counts and bolt.time.value == "ingestion"
        self._due: Iterator[Fired] = iter(())
        if not (counts or self.by_clock) and self.keeper.watermark is not None:
            self.machine.advance(self.keeper.watermark)  # what was fired before does not fire again
        self._results = WindowResults(bolt, tools.emitter, tools.report, early=self._early is not None)

    @property
    def held(self) -> int:
        """How many states are lost with this instance."""
        return self.machine.states

    # -- rows --------------------------------------------------------------------------------------------------------

    def run(self, segment: Segment, start: int, stop: int) -> int:
        begun_s = 0.0 if self._hooks is None else self._hooks.begin()
        at_ms = segment.ingested_ms if self._born else self.wall_ms() if self.by_clock else None
        rows = self._reader.read(segment, start, stop, at_ms)
        places, failed = rows.places, rows.failed
        taken = self.machine.add_rows(rows, self._results.emit)
        if self._counts:
            self._due, self.firing = self.machine.fire(), True
        if taken.failed:
            failed += [(places[at], error) for at, error in taken.failed]
        for at in taken.late:
            try:
                self._late.take(segment, places[at], rows.timestamps[at])
            except USER_ERRORS as raised:
                failed.append((places[at], user_error(raised)))
        for offset, error in failed:
            self._fail(segment, offset, error)
        if not (self.by_clock or self._counts):
            self._observe(segment, rows, taken)
        if self._hooks is not None:
            used_s = self._hooks.begin() - begun_s
            self._hooks.rows_executed(segment, start, stop, used_s, {offset for offset, _ in failed})
        return len(failed)

    async def tick(self, segment: Segment) -> None:
        """Without effect: windows have a clock of their own."""

    def _observe(self, segment: Segment, rows: Any, taken: AddResult) -> None:
        if not self.keeper.reads_rows:  # its input tasks send watermarks
            self.observe(segment.origin.task, (), ())
            return
        times, values = rows.timestamps, rows.values
        if taken.failed:
            without = {at for at, _ in taken.failed}
            kept = [at for at in range(len(times)) if at not in without]
            times, values = [times[at] for at in kept], [values[at] for at in kept]
        self.observe(segment.origin.task, times if taken.plain else all_ms(times), values)

    # -- time --------------------------------------------------------------------------------------------------------

    def advance_watermark(self) -> None:
        self.look()
        if self.firing:  # fire first what is due: those windows end at or before the watermark
            return
        if self._counts:
            self.all_have_fired(None)
            return
        next_ms = self.machine.next_fire_ms
        watermark = self.goes_by(next_ms)
        if watermark is None:
            self._show()
            return
        due = self.machine.advance(watermark)
        if next_ms is not None and next_ms <= watermark:
            self._due, self.firing = due, True
        else:
            self.all_have_fired(self.machine.watermark)
            self._show()

    @property
    def unsettled(self) -> bool:
        return super().unsettled or (self._early is not None and self._early.needs_timer)

    def _show(self) -> None:
        """Early results, if they are due. Ended windows have been emitted before."""
        shown = None if self._early is None else self._early.show(self.now_ms())
        if shown is not None:
            self._due, self.firing = shown, True

    async def fire(self, most: int) -> None:
        if self.machine.work():
            return  # with many keys, sorting them takes several turns
        fired = list(islice(self._due, most))
        if fired:
            self._results.emit(fired)
        if len(fired) < most:
            self.firing = False
            self.unsettle()

    def wakeup_ms(self) -> int | None:
        wait_ms = self.wait_for(self.machine.next_fire_ms)
        shown_ms = None if self._early is None else self._early.next_ms(self.now_ms())
        if shown_ms is None:
            return wait_ms
        shown_in_ms = max(1, shown_ms - self.now_ms())
        return shown_in_ms if wait_ms is None else min(wait_ms, shown_in_ms)
