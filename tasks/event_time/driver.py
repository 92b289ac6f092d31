"""Event-time driver: how a bolt task handles event time, beside its rows.

    watermark, rows, wakeup ─► advance ─► windows are due? fire, some in each turn ─► send the watermark downstream

1. A watermark is sent after all results of windows that end at or before it.
2. Windows fire before anything else is taken from the mailbox: rows before the watermark are in them, rows after it are
   not.
3. A task whose inputs send nothing, and in which no window waits for the clock, has no timer.
4. An input task does not become idle while this task is held up: by downstream tasks, by user code, by a machine that
   was stopped. What the input sent meanwhile waits, and would otherwise be late.
5. After settling there is nothing to do until time has moved or the wakeup fires. (Except with windows by the clock:
   each row may open one that ends sooner.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any, Protocol

from ...metrics import TimeMetrics
from ...windows import END_MS, Time, WatermarkTracker, WindowStateError

if TYPE_CHECKING:
    from ...runtime import Clock
    from ...topology import Item, Value
    from ...windows import EarlyWindows, Machine, WindowBolt


@dataclass(frozen=True, slots=True)
class TimeTools:
    """What a task gives its driver.

    `send` sends a watermark downstream; None: there are no receivers. `sends_all`: not only the end. `sent`: how many
    rows the task has emitted so far.
    """

    clock: Clock
    keeper: WatermarkTracker
    send: Callable[[int], None] | None
    sends_all: bool
    sent: Callable[[], int]


class EventTimeDriver:
    """The event time of one instance of a bolt.

    `windows`: None: the bolt has none, and the driver only sends the least watermark of its inputs downstream.
    `firing`: are windows due? Then `fire` is called before anything else is done.
    """

    __slots__ = (
        "_again_ms",
        "_changes",
        "_passed_on",
        "_sent_at_pass",
        "_time",
        "firing",
        "keeper",
        "windows",
    )

    def __init__(self, tools: TimeTools, windows: OpenWindows | None = None) -> None:
        self.keeper = tools.keeper
        self.windows = windows
        self.firing = False
        self._time = tools
        self._passed_on: int | None = None  # the last watermark that this instance sent
        self._changes = -1
        self._again_ms = 0.0
        self._sent_at_pass = 0
        if windows is not None and not windows.by_clock and tools.keeper.watermark is not None:
            windows.machine.advance(tools.keeper.watermark)  # what was fired before does not fire again

    # -- what arrives ------------------------------------------------------------------------------------------------

    def on_watermark(self, task: int, watermark_ms: int) -> None:
        """The watermark of an input task."""
        self.keeper.on_watermark(task, watermark_ms, self.now_ms())
        if watermark_ms >= END_MS and self._passed_on == END_MS and self._time.sent() != self._sent_at_pass:
            self._passed_on = None  # rows have come after the end: a spout was restarted
        self.advance_watermark()

    def observe(self, task: int, timestamps: Sequence[int], rows: Sequence[Item]) -> None:
        """Rows have come, with readable timestamps."""
        self.keeper.observe(task, timestamps, rows, self.now_ms())

    def skip(self, time_ms: int) -> None:
        """For this long the task could not read its inputs: none of them was idle, but what they sent waits."""
        self.keeper.skipped_ms += max(0, time_ms)

    # -- what is due -------------------------------------------------------------------------------------------------

    def advance_watermark(self) -> None:
        """After rows, a watermark or a wakeup: find how far time is, and what is due."""
        now_ms, windows = self.now_ms(), self.windows
        self.keeper.tick(now_ms)
        if windows is None:
            self.pass_on(self.keeper.watermark)
        elif not self.firing:  # what is due is fired first: those windows end at or before the watermark
            self.firing = windows.advance(self.keeper)
            if not self.firing:
                self.pass_on(windows.passed_ms(self.keeper))
                self.firing = windows.show_early(now_ms)

    def fire_counted(self) -> None:
        """Windows by count are due with the rows that were added."""
        assert self.windows is not None  # noqa: S101 - for the type checker
        self.windows.take_counted()
        self.firing = True

    async def fire(self, most: int) -> None:
        """Emit some of what is due, about `most` rows."""
        assert self.windows is not None  # noqa: S101 - for the type checker
        if self.windows.machine.work():
            return  # with many keys, sorting them takes several turns
        self.firing = await self.windows.emit(most)
        if not self.firing:
            self._changes = -1  # there may be a watermark to send

    def pass_on(self, watermark_ms: int | None) -> None:
        """Send a watermark downstream, if it is new."""
        time = self._time
        if (
            time.send is None
            or watermark_ms is None
            or (self._passed_on is not None and watermark_ms <= self._passed_on)
        ):
            return
        if time.sends_all or watermark_ms >= END_MS:
            self._passed_on, self._sent_at_pass = watermark_ms, time.sent()
            time.send(watermark_ms)

    # -- time --------------------------------------------------------------------------------------------------------

    @property
    def unsettled(self) -> bool:
        """May there be anything to settle? Read after every turn, however short."""
        windows = self.windows
        return (
            self.keeper.changes != self._changes
            or (windows is not None and windows.unsettled)
            or self.now_ms() >= self._again_ms
        )

    def settled(self) -> int | None:
        """It has settled. In how many milliseconds to settle again without input; None: never."""
        if self.firing:  # it settles after the turns that fire
            return None
        keeper, windows, now_ms = self.keeper, self.windows, self.now_ms()
        at_ms = keeper.next_ms
        wait_ms = None if at_ms is None else max(1, at_ms - now_ms)
        if windows is not None and (windows_ms := windows.wait_ms(now_ms)) is not None:
            wait_ms = windows_ms if wait_ms is None else min(wait_ms, windows_ms)
        self._changes = keeper.changes
        self._again_ms = inf if wait_ms is None else now_ms + wait_ms
        return wait_ms

    def now_ms(self) -> int:
        """Milliseconds on a clock that does not jump, and stands still while this task could not read its inputs."""
        return int(self._time.clock.monotonic() * 1000) - self.keeper.skipped_ms

    # -- snapshots ---------------------------------------------------------------------------------------------------

    def save(self) -> dict[str, Value]:
        """What it knows of time, for a snapshot. WindowStateError if a generator of the user raises."""
        saved: dict[str, Value] = {"inputs": self.keeper.dump(self.now_ms()), "passed_on": self._passed_on}
        if self.windows is not None:
            saved |= {"wall_ms": self.windows.wall_ms, "revision": self.windows.late.revision}
        return saved

    def restore(self, saved: Mapping[str, Value], *, inputs: Mapping[str, Value]) -> None:
        """Continue from what was saved, with the windows that were loaded: what is overdue fires at once.

        `inputs`: the saved inputs, under the ids that they have now. WindowStateError if they do not fit.
        """
        self.keeper.load(dict(inputs), self.now_ms())
        self._passed_on = saved_int(saved.get("passed_on"))
        self._sent_at_pass = self._time.sent()
        if self.windows is not None:
            self.windows.wall_ms = max(self.windows.wall_ms, saved_int(saved.get("wall_ms")) or 0)
            self.windows.late.revision = saved_int(saved.get("revision")) or 0
            self.fire_counted()

    # -- for people --------------------------------------------------------------------------------------------------

    @property
    def held(self) -> int:
        """Open windows, one for each key, or rows that are kept: what is lost with this instance."""
        return 0 if self.windows is None else self.windows.output.held

    @property
    def keeps_rows(self) -> bool:
        """Does it hold tuples, which stay open until they are in no window? They are replayed after a failure."""
        return self.windows is not None and self.windows.output.keeps_rows

    def metrics(self) -> TimeMetrics:
        """The metrics as of now."""
        keeper = self.keeper
        watermark, ended = keeper.watermark, keeper.watermark == END_MS
        if ended:
            watermark = None
        return TimeMetrics(
            live=self.held,
            watermark_ms=watermark,
            lag_ms=None if watermark is None else int(self._time.clock.now() * 1000) - watermark,
            ended=ended,
            inputs=tuple(keeper.by_input().items()),
            idle=tuple(sorted(keeper.idle)),
            buffered=self.keeps_rows,
        )


def saved_int(value: Value) -> int | None:
    """An int that was saved, or None. WindowStateError if it is something else."""
    if value is not None and type(value) is not int:
        raise WindowStateError(f"a number was saved as {value!r:.100}")
    return value


class WindowOutput(Protocol):
    """What becomes of windows that have fired. `keeps_rows`: do windows keep their rows, or states?"""

    keeps_rows: bool

    @property
    def held(self) -> int:
        """How many rows, or states, are lost with this instance."""
        ...

    async def emit_due(self, due: Iterator[Any], most: int) -> bool:
        """Emit the results of windows, about `most` rows. False: of all that were due."""
        ...


class LateOutput(Protocol):
    """What becomes of late rows. `revision`: the number of the last correction."""

    revision: int


class OpenWindows:
    """The windows of one instance of a bolt: which of them are due, and the results that were not emitted yet.

    `early`: those that also show results before they end. `by_clock`: do they fire by the clock of this task? Their
    time is the wall clock at its furthest so far, `wall_ms`: rows do not become late because the clock was set back.
    """

    __slots__ = (
        "_by_ingestion",
        "_clock",
        "_due",
        "_early",
        "_fire_when_idle",
        "_fires_after_ms",
        "by_clock",
        "late",
        "machine",
        "output",
        "wall_ms",
    )

    def __init__(
        self,
        bolt: WindowBolt,
        machine: Machine[Any],
        output: WindowOutput,
        clock: Clock,
        late: LateOutput,
        early: EarlyWindows | None = None,
    ) -> None:
        self.machine = machine
        self.late = late
        self.output = output
        self.by_clock = not bolt.by_count and bolt.time is Time.PROCESSING
        self._by_ingestion = not bolt.by_count and bolt.time is Time.INGESTION
        self._fire_when_idle = bolt.fire_when_idle
        self._fires_after_ms = bolt.fires_after_ms
        self._clock = clock
        self._early = early
        self._due: Iterator[Any] = iter(())
        self.wall_ms = 0

    def row_ms(self, ingested_ms: int | None) -> int | None:
        """The time of rows that arrive now; None: each row has its own."""
        if self.by_clock:
            return self._now_ms()
        return ingested_ms if self._by_ingestion else None

    def advance(self, keeper: WatermarkTracker) -> bool:
        """Take the windows that are due at the present watermark. Are there any?"""
        next_ms, watermark = self.machine.next_fire_ms, keeper.watermark
        if self.by_clock and (watermark is None or watermark < END_MS):
            watermark = self._now_ms()
        elif next_ms is not None and self._fire_when_idle and keeper.all_idle:
            watermark = next_ms if watermark is None else max(next_ms, watermark)
        if watermark is None:
            return False
        # At the end of time also rows are released that no window has contained.
        releases = watermark == END_MS and self.output.keeps_rows and self.output.held > 0
        self._due = self.machine.advance(watermark)
        return releases or (next_ms is not None and next_ms <= watermark)

    def show_early(self, now_ms: int) -> bool:
        """Take the early results that are due, when windows that have ended have been emitted. Are there any?"""
        shown = None if self._early is None else self._early.show(now_ms)
        if shown is None:
            return False
        self._due = shown
        return True

    def take_counted(self) -> None:
        """Take the windows by count that are due."""
        self._due = self.machine.fire()

    async def emit(self, most: int) -> bool:
        """Emit the results of what is due, about `most` rows. False: all were emitted."""
        return await self.output.emit_due(self._due, most)

    def passed_ms(self, keeper: WatermarkTracker) -> int | None:
        """All windows that are due have fired: the watermark to send downstream."""
        watermark, fired_ms = keeper.watermark, self.machine.watermark
        if self._fire_when_idle and not self.by_clock and fired_ms is not None:
            watermark = fired_ms if watermark is None else max(watermark, fired_ms)
        if watermark is None:
            return None
        # A window that ends after that may still fire.
        return watermark if watermark >= END_MS else watermark - self._fires_after_ms

    @property
    def unsettled(self) -> bool:
        """May a row have opened a window that the clock ends, or early results be due, without a change of time?"""
        return self.by_clock or (self._early is not None and self._early.needs_timer)

    def wait_ms(self, now_ms: int) -> int | None:
        """In how many milliseconds the clock makes something due; None: nothing waits for the clock."""
        known: list[int] = []
        if self.by_clock and (next_ms := self.machine.next_fire_ms) is not None:
            known.append(max(1, next_ms - self._now_ms()))
        if self._early is not None and (shown_ms := self._early.next_ms(now_ms)) is not None:
            known.append(max(1, shown_ms - now_ms))
        return min(known, default=None)

    def _now_ms(self) -> int:
        self.wall_ms = max(self.wall_ms, int(self._clock.now() * 1000))
        return self.wall_ms
