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

import inspect
import logging
from collections.abc import Callable, Iterator
from datetime import datetime
from itertools import islice
from typing import Any, NamedTuple

from ...topology import DEFAULT_STREAM, EmitError, Fields, Segment
from ...windows import (
    AddResult,
    CountWindows,
    EarlyWindows,
    Fired,
    LatePolicy,
    TimeSettings,
    TimestampError,
    WindowBolt,
    WindowedBolt,
    all_ms,
    to_datetime,
    to_ms,
)
from ..drive import USER_ERRORS, user_error
from ..emit.emitter import Emitter
from ..emit.lineage import UNTRACKED
from ..event_time.driver import TimeTools, WindowDriver
from .base import Executor, Tools
from .window_results import rows_of

log = logging.getLogger("aiostorm.tasks")


class LateRows:
    """Handles the late tuples of one bolt."""

    def __init__(self, bolt: WindowBolt, emitter: Emitter, machine: Any) -> None:
        self._bolt = bolt
        self._emitter = emitter
        self._machine = machine
        default = emitter.streams.get(DEFAULT_STREAM)
        self._arity = 0 if default is None else default.arity

    def take(self, segment: Segment, offset: int, timestamp: Any) -> None:
        """Handle one of them. Raises what `retract` raises."""
        emitter, bolt = self._emitter, self._bolt
        emitter.counters.late += 1
        if bolt.late is LatePolicy.DROP:
            return
        at_ms = to_ms(timestamp)
        if bolt.late is LatePolicy.STREAM:
            origin = segment.origin
            self._emit(segment, offset, (segment.row(offset), at_ms, origin.component, origin.stream), bolt.late_stream)
            return
        returned = bolt.retract(segment.tuple_at(offset), self._machine.windows_of(at_ms))
        for row in rows_of(returned, self._arity, f"{type(bolt).__name__}.retract"):
            self._emit(segment, offset, row, DEFAULT_STREAM)

    def _emit(self, segment: Segment, offset: int, values: Any, stream: str) -> None:
        out, row = self._emitter.streams.row(values, stream)
        items, anchors = self._emitter.buffer_of(segment).buffer(out)
        items.append(out.item(row))
        source = segment.indices if segment.lineage is None else segment.lineage.pairs
        anchors.append(None if source is None else source[offset])


class _Times(NamedTuple):
    """A window as it is shown in rows."""

    start: datetime
    end: datetime
    final: bool


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
        emitter = tools.emitter
        self.bolt = bolt
        self._emitter = emitter
        self._fail = tools.fail
        self._report = tools.report
        self._hooks = tools.hooks
        self.machine = bolt.machine(settings, layout)
        self._reader = bolt.reader(layout)
        self._late = LateRows(bolt, emitter, self.machine)
        self._counts = isinstance(self.machine, CountWindows)
        self._early = self.machine if isinstance(self.machine, EarlyWindows) else None
        self.by_clock = not self._counts and bolt.time.value == "processing"
        self._born = not self._counts and bolt.time.value == "ingestion"
        self._due: Iterator[Fired] = iter(())
        if not (isinstance(self.machine, CountWindows) or self.by_clock) and self.keeper.watermark is not None:
            self.machine.advance(self.keeper.watermark)  # what was fired before does not fire again
        default = emitter.streams.get(DEFAULT_STREAM)
        self._arity = 0 if default is None else default.arity
        self._purge = _with_key(bolt.purge) if bolt.aggregate is None else None
        self._one_key = bolt.key is not None and not isinstance(bolt.key, tuple)
        self._names = () if bolt.aggregate is None else bolt.aggregate.names

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
        if isinstance(self.machine, CountWindows):
            taken = self.machine.add(rows.keys, rows.values)
            self._due, self.firing = self.machine.fire(), True
        elif isinstance(self.machine, EarlyWindows):
            taken = self._add_early(self.machine, rows)
        else:
            taken = self.machine.add(rows.keys, rows.timestamps, rows.values)
        if taken.failed:
            failed += [(places[at], error) for at, error in taken.failed]
        for at in taken.late:
            try:
                self._late.take(segment, places[at], rows.timestamps[at])
            except USER_ERRORS as raised:
                failed.append((places[at], user_error(raised)))
        for offset, error in failed:
            self._fail(segment, offset, error)
        if not (self._counts or self.by_clock):
            self._observe(segment, rows, taken)
        if self._hooks is not None:
            used_s = self._hooks.begin() - begun_s
            self._hooks.rows_executed(segment, start, stop, used_s, {offset for offset, _ in failed})
        return len(failed)

    def _add_early(self, machine: EarlyWindows, rows: Any) -> AddResult:
        together = AddResult()
        for taken in machine.add(rows.keys, rows.timestamps, rows.values):
            together.late += taken.late
            together.failed += taken.failed
            if machine.ready:
                ready, machine.ready = machine.ready, []
                self._emit(ready)
        return together

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
        if isinstance(self.machine, CountWindows):
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
        if not isinstance(self.machine, CountWindows) and self.machine.work():
            return  # with many keys, sorting them takes several turns
        fired = list(islice(self._due, most))
        if fired:
            self._emit(fired)
        if len(fired) < most:
            self.firing = False
            self.unsettle()

    def wakeup_ms(self) -> int | None:
        wait_ms = self.wait_for(None if isinstance(self.machine, CountWindows) else self.machine.next_fire_ms)
        shown_ms = None if self._early is None else self._early.next_ms(self.now_ms())
        if shown_ms is None:
            return wait_ms
        shown_in_ms = max(1, shown_ms - self.now_ms())
        return shown_in_ms if wait_ms is None else min(wait_ms, shown_in_ms)

    # -- results -----------------------------------------------------------------------------------------------------

    def _emit(self, fired: list[Fired]) -> None:
        if self._early is None:
            self._emitter.counters.fired += len(fired)
        else:
            self._emitter.counters.fired += sum(one.window.final for one in fired)
        out = self._emitter.streams.get(DEFAULT_STREAM)
        items: list[Any] = []
        if self._purge is not None:
            for one in fired:
                self._purge_one(one, items)
        else:
            whole = [one for one in fired if one[3] is None]
            if len(whole) < len(fired):
                for one in fired:
                    if one.error is not None:
                        self._lost(one, one.error)
            items = self._rows(self._dated(whole) if self.bolt.times == "datetime" else whole)
        if items and out is not None:
            self._emitter.add(UNTRACKED, out, [row[0] for row in items] if out.bare else items, None)

    def _dated(self, fired: list[Fired]) -> list[Any]:
        """The same with datetimes. A window outside of the range of datetime is lost."""
        dated = []
        for one in fired:
            try:
                times = _Times(to_datetime(one.window.start), to_datetime(one.window.end), one.window.final)
            except TimestampError as error:
                self._lost(one, error)
            else:
                dated.append(one._replace(window=times))  # type: ignore[arg-type] # the attributes that rows show
        return dated

    def _rows(self, fired: list[Fired]) -> list[Any]:
        """For a ready-made aggregate: key, results, window; with several names, a result is a tuple."""
        if self._early is not None:
            return [
                (*self._key_of(key), *(result if self._names else (result,)), window.start, window.end, window.final)
                for window, key, result, _ in fired
            ]
        if self._one_key:
            if self._names:
                return [(key, *result, window.start, window.end) for window, key, result, _ in fired]
            return [(key, result, window.start, window.end) for window, key, result, _ in fired]
        return [
            (*(key or ()), *(result if self._names else (result,)), window.start, window.end)
            for window, key, result, _ in fired
        ]

    def _key_of(self, key: Any) -> tuple[Any, ...]:
        return (key,) if self._one_key else key or ()

    def _purge_one(self, fired: Fired, items: list[Any]) -> None:
        try:
            if fired.error is not None:
                raise fired.error
            assert self._purge is not None  # noqa: S101 - for the type checker
            returned = self._purge(fired.result, fired.window, fired.key)
            if returned is not None:
                rows = rows_of(returned, self._arity, f"{type(self.bolt).__name__}.purge")
                items += [self._emitter.streams.row(row, DEFAULT_STREAM)[1] for row in rows]
        except USER_ERRORS as error:
            self._lost(fired, user_error(error))

    def _lost(self, fired: Fired, error: BaseException) -> None:
        lost = "which is lost" if fired.window.final else "of which an early result is lost"
        error.add_note(f"in window {fired.window} of key {fired.key!r:.100}, {lost}")
        self._report(error)


def _with_key(purge: Callable[..., Any]) -> Callable[[Any, Any, Any], Any]:
    """`purge` may be defined with a key or without."""
    try:
        takes = len(inspect.signature(purge).parameters)
    except (TypeError, ValueError) as error:
        raise EmitError(f"purge {purge!r} has no readable signature") from error
    return purge if takes > 2 else lambda state, window, key: purge(state, window)
