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

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any

from ...metrics import TimeMetrics
from ...windows import END_MS, WatermarkTracker

if TYPE_CHECKING:
    from ...runtime import Clock


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


class EventTimeDriver(ABC):
    """The driver of one bolt task."""

    firing = False
    """Is there something to fire? Then `fire` is called before anything else is done."""
    buffered = False
    """Does it hold tuples, which stay open until they are in no window? They are replayed after a failure."""
    by_clock = False
    """Do windows fire by the clock of this task?"""

    def __init__(self, tools: TimeTools) -> None:
        self.keeper = tools.keeper
        self._time = tools
        self._clock = tools.clock
        self._passed_on: int | None = None  # the last watermark that this instance sent
        self._changes = -1
        self._again_ms = 0.0
        self._sent_at_pass = 0

    def on_watermark(self, task: int, watermark_ms: int) -> None:
        """The watermark of an input task."""
        self.keeper.on_watermark(task, watermark_ms, self.now_ms())
        if watermark_ms >= END_MS and self._passed_on == END_MS and self._time.sent() != self._sent_at_pass:
            self._passed_on = None  # rows have come after the end: a spout was restarted
        self.advance_watermark()

    @abstractmethod
    def advance_watermark(self) -> None:
        """After rows, a watermark or an wakeup: find how far time is, and what is due."""

    @property
    def unsettled(self) -> bool:
        """May there be anything to settle? Read after every turn, however short."""
        return self.by_clock or self.keeper.changes != self._changes or self.now_ms() >= self._again_ms

    def unsettle(self) -> None:
        """All that was due has fired: there may be a watermark to send."""
        self._changes = -1

    def settled(self) -> int | None:
        """It has settled. In how many milliseconds to settle again without input; None: never."""
        if self.firing:  # it settles after the turns that fire
            return None
        wait_ms = self.wakeup_ms()
        self._changes = self.keeper.changes
        self._again_ms = inf if wait_ms is None else self.now_ms() + wait_ms
        return wait_ms

    async def fire(self, most: int) -> None:
        """Fire some of what is due, about `most` rows."""
        raise NotImplementedError(f"{type(self).__name__} has nothing to fire")

    def wakeup_ms(self) -> int | None:
        at_ms = self.keeper.next_ms
        return None if at_ms is None else max(1, at_ms - self.now_ms())

    def now_ms(self) -> int:
        """Milliseconds on a clock that does not jump, and stands still while this task could not read its inputs."""
        return int(self._clock.monotonic() * 1000) - self.keeper.skipped_ms

    def skip(self, time_ms: int) -> None:
        """For this long the task could not read its inputs: none of them was idle, but what they sent waits."""
        self.keeper.skipped_ms += max(0, time_ms)

    def observe(self, task: int, timestamps: Sequence[int], rows: Sequence[Any]) -> None:
        """Rows have come, with readable timestamps."""
        self.keeper.observe(task, timestamps, rows, self.now_ms())

    def look(self) -> None:
        """Read the clock."""
        self.keeper.tick(self.now_ms())

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

    @property
    def held(self) -> int:
        """Open windows, one for each key, or rows that are kept: what is lost with this instance."""
        return 0

    def metrics(self) -> TimeMetrics:
        """The metrics as of now."""
        keeper = self.keeper
        watermark, ended = keeper.watermark, keeper.watermark == END_MS
        if ended:
            watermark = None
        return TimeMetrics(
            live=self.held,
            watermark_ms=watermark,
            lag_ms=None if watermark is None else int(self._clock.now() * 1000) - watermark,
            ended=ended,
            inputs=tuple(keeper.by_input().items()),
            idle=tuple(sorted(keeper.idle)),
            buffered=self.buffered,
        )


class PassThroughDriver(EventTimeDriver):
    """For a bolt without windows by time: passes on the least of the watermarks that it receives."""

    def advance_watermark(self) -> None:
        self.look()
        self.pass_on(self.keeper.watermark)


class WindowDriver(EventTimeDriver):
    """For a bolt with windows: the watermark they fire by, and the one to send when they have fired."""

    bolt: Any  # a WindowBolt
    _wall_ms = 0

    def goes_by(self, next_ms: int | None) -> int | None:
        """The watermark that windows fire by; None: there is none. `next_ms`: where the next of them fires."""
        watermark = self.keeper.watermark
        if self.by_clock and (watermark is None or watermark < END_MS):
            return self.wall_ms()
        if next_ms is not None and self.bolt.fire_when_idle and self.keeper.all_idle:
            return next_ms if watermark is None else max(next_ms, watermark)
        return watermark

    def wait_for(self, next_ms: int | None) -> int | None:
        """In how many milliseconds to settle again, if the next window fires at this watermark."""
        known = [] if (keeper_ms := EventTimeDriver.wakeup_ms(self)) is None else [keeper_ms]
        if self.by_clock and next_ms is not None:
            known.append(max(1, next_ms - self.wall_ms()))
        return min(known, default=None)

    def all_have_fired(self, passed_ms: int | None) -> None:
        """All windows that are due have fired: pass the watermark on. `passed_ms`: how far windows have been taken."""
        watermark = self.keeper.watermark
        if self.bolt.fire_when_idle and passed_ms is not None and not self.by_clock:
            watermark = passed_ms if watermark is None else max(passed_ms, watermark)
        if watermark is not None and watermark < END_MS:
            watermark -= self.bolt.fires_after_ms  # a window that ends after that may still fire
        self.pass_on(watermark)

    def wall_ms(self) -> int:
        """The wall clock, at its furthest so far: rows do not become late because the clock was set back."""
        self._wall_ms = max(self._wall_ms, int(self._clock.now() * 1000))
        return self._wall_ms
