"""The ledger of windows: what has reached each windowed task, what fired there, and what the sink has received of it.

    task: keeper (watermarks, timestamps, clock) ─ WatchedTracker ─┐                 spouts: acked, failed
    task: machine (rows, watermarks) ─ Watched ─────┼─► Ledger ◄─ sink: results, late tuples
                  └─ the reference, fed the same    ┘                   (see watched.py)

1. A watermark does not go back: of each input task, and of all, in one instance of a task. By the least of all, it is
   no further than what each input task has said that has not ended.
2. What fires, and what is late, is what the reference says of the same rows and watermarks, in its order, and at the
   watermark at which it says so: not at the next. No key's window fires twice in one instance.
3. A message is acked only when its row has come to every bolt with windows. If it was late there, and never on time,
   the late stream has it. Where rows are kept, it was late, or in a window that has fired.
4. Without a death or a restart: nothing fails, each row comes once, the sink has each result once.
5. The sink has no result that was never emitted, and none more often than it was.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from aiostorm import Failure
from aiostorm.testing.simulation import World
from aiostorm.testing.simulation.process import Process
from aiostorm.windows import END_MS, WatermarkPolicy, WatermarkTracker

if TYPE_CHECKING:
    from .watched import Watched

Result = tuple[str, Any, int, int, tuple[Any, ...]]
"""Component, key, start, end, what is in it (sorted)."""


@dataclass(frozen=True, slots=True)
class Reader:
    """A component that has windows over the rows of spouts."""

    late_stream: bool
    keeps: bool
    displaces: bool = False
    """Are rows let go that were in no window, since newer ones are there?"""


@dataclass
class Ledger:
    """See the module."""

    world: World
    readers: dict[str, Reader] = field(default_factory=dict)
    came: Counter[tuple[str, Any]] = field(default_factory=Counter)
    on_time: set[tuple[str, Any]] = field(default_factory=set)
    late: Counter[tuple[str, Any]] = field(default_factory=Counter)
    fired: Counter[Result] = field(default_factory=Counter)
    in_fired: set[tuple[str, Any]] = field(default_factory=set)
    let_go: set[tuple[str, Any]] = field(default_factory=set)
    received: Counter[Result] = field(default_factory=Counter)
    seen_late: Counter[tuple[str, Any]] = field(default_factory=Counter)
    machines: list[Watched] = field(default_factory=list)
    times_out: bool = False
    """May a message time out, though it is only slow?"""
    deaths: int = 0
    restarts: Counter[str] = field(default_factory=Counter)
    acks: int = 0
    failures: int = 0
    _starts: Counter[str] = field(default_factory=Counter)

    def __deepcopy__(self, memo: dict[int, Any]) -> Ledger:
        return self

    @property
    def calm(self) -> bool:
        """Was there no death and no restart, and does nothing time out?"""
        return not (self.deaths or self.restarts or self.times_out)

    # -- incarnations (see workers/program.py) -----------------------------------------------------------------------

    def begins(self, worker: str, process: Process) -> tuple[str, int]:
        """A worker begins an incarnation."""
        self._starts[worker] += 1
        return worker, self._starts[worker]

    # -- what tasks do -----------------------------------------------------------------------------------------------

    def arrived(self, component: str, rows: Sequence[Any], late: Sequence[Any]) -> None:
        """Rows have come, some of them late."""
        self.came.update((component, row) for row in rows)
        self.late.update((component, row) for row in late)
        behind = Counter(late)
        for row in rows:
            if behind[row]:
                behind[row] -= 1
            else:
                self.on_time.add((component, row))

    def has_fired(self, result: Result) -> None:
        """A window has fired."""
        self.fired[result] += 1
        self.in_fired.update((result[0], row) for row in result[4])

    def sees(self, result: Result) -> None:
        """The sink has a result."""
        self.received[result] += 1
        if self.received[result] > self.fired[result]:
            count, fired = self.received[result], self.fired[result]
            self.world.problem(f"the sink has {result} {count} times; it fired {fired} times")

    def sees_late(self, component: str, row: Any) -> None:
        """The sink has a late tuple."""
        self.seen_late[component, row] += 1
        if not self.late[component, row]:
            self.world.problem(f"row {row} is in the late stream of {component}, where it was not late")

    def acked(self, row: int) -> None:
        """A message is acked: is that right?"""
        self.acks += 1
        for name, reader in self.readers.items():
            if not self.came[name, row]:
                self.world.problem(f"row {row} is acked, and has not come to {name}")
            elif (name, row) not in self.on_time:
                if reader.late_stream and not self.seen_late[name, row]:
                    self.world.problem(f"row {row} is acked, was late in {name}, and is not in the late stream")
            elif reader.displaces and (name, row) in self.let_go:
                continue
            elif reader.keeps and not (self.late[name, row] or (name, row) in self.in_fired):
                self.world.problem(f"row {row} is acked, and none of its windows in {name} has fired")

    def failed(self, row: int, failure: Failure) -> None:
        """A message has failed."""
        self.failures += 1
        if self.calm:
            self.world.problem(f"row {row} has failed ({failure}), without a death")

    # -- at the end --------------------------------------------------------------------------------------------------

    def at_the_end(self) -> Iterator[str]:
        """What is missing, without a death."""
        if not self.calm:
            return
        for what, count in self.came.items():
            if count > 1:
                yield f"row {what[1]} has come {count} times to {what[0]}, without a death"
        if self.received != self.fired:
            missing = next(iter(self.fired - self.received))
            yield f"{(self.fired - self.received).total()} results have fired, and are not in the sink: {missing}"
        streamed = {name for name, reader in self.readers.items() if reader.late_stream}
        late = Counter({what: count for what, count in self.late.items() if what[0] in streamed})
        if self.seen_late != late:
            yield f"late are {late.total()}, and in the late stream {self.seen_late.total()}"

    @property
    def lost(self) -> int:
        """Rows that were on time somewhere, were acked, and are in no window that has fired: a process died."""
        return len(self.on_time - self.in_fired - self.late.keys())


class WatchedTracker(WatermarkTracker):
    """A keeper that is watched. `ledger` is set in a class of the world's own."""

    ledger: Ledger

    def __init__(self, inputs: Any, settings: Any, *args: Any, **options: Any) -> None:
        super().__init__(inputs, settings, *args, **options)
        self.process = self.ledger.world.current
        self._settings = settings
        self._said: dict[int, int] = {}
        self._over: set[int] = set()
        self._result: tuple[int | None, dict[int, int | None]] = (None, {})

    def observe(self, task: int, timestamps: Sequence[int], rows: Sequence[Any], now_ms: int) -> None:
        if timestamps and not self._sends_watermarks.get(task):
            self._said[task] = max([*timestamps, self._said.get(task, timestamps[0])])
        self._over.discard(task)
        super().observe(task, timestamps, rows, now_ms)
        self._look()

    def on_watermark(self, task: int, watermark_ms: int, now_ms: int) -> None:
        if watermark_ms >= END_MS:
            self._over.add(task)
        else:
            self._over.discard(task)
            if self._sends_watermarks.get(task):
                self._said[task] = max(watermark_ms, self._said.get(task, watermark_ms))
        super().on_watermark(task, watermark_ms, now_ms)
        self._look()

    def tick(self, now_ms: int) -> None:
        super().tick(now_ms)
        self._look()

    def _look(self) -> None:
        if not self.process.alive:
            return
        now, by = self.watermark, self.by_input()
        before, by_before = self._result
        self._result = now, by
        if before is not None and (now is None or now < before):
            self._problem(f"the watermark goes back from {before} to {now}")
        for task, watermark in by.items():
            last = by_before.get(task)
            if last is not None and (watermark is None or watermark < last):
                self._problem(f"the watermark of task {task} goes back from {last} to {watermark}")
        if now is None or now == before or now >= END_MS:
            return
        settings = self._settings
        if settings.policy is WatermarkPolicy.TASK_MAX_GLOBAL_MIN_TIMESTAMP and settings.idle_timeout_ms is None:
            for task in by.keys() - self._over:
                said = self._said.get(task)
                if said is None or said - settings.lag_ms < now:
                    self._problem(f"the watermark is {now}, and task {task} has said {said}, with {settings.lag_ms}")

    def _problem(self, text: str) -> None:
        self.ledger.world.problem(f"on {self.process.name}: {text}")
