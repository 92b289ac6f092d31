"""The ledger of windows: what has reached each windowed task, what fired there, and what the sink has seen of it.

    task: keeper (marks, timestamps, clock) ─ Kept ─┐                 spouts: acked, failed
    task: machine (rows, watermarks) ─ Watched ─────┼─► Ledger ◄─ sink: results, late tuples
                  └─ the reference, fed the same    ┘

1. A watermark does not go back: of each input task, and of all, in one life of a task. By the least of all, it is no
   further than what each input task has said that has not ended.
2. What fires, and what is late, is what the reference says of the same rows and watermarks, in its order, and at the
   watermark at which it says so: not at the next. No key's window fires twice in one life.
3. A message is acked only when its row has come to every bolt with windows. If it was late there, and never on time,
   the late stream has it. Where rows are kept, it was late, or in a window that has fired.
4. While nobody died and nothing was restarted: nothing fails, each row comes once, the sink has each result once.
5. The sink has no result that was never emitted, and none more often than it was.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from aiostorm import Failure
from aiostorm.testing.simulation import World
from aiostorm.testing.simulation.process import Process
from aiostorm.windows import END_MS, TimeKeeper, WatermarkPolicy

from ..windows import reference

Result = tuple[str, Any, int, int, tuple[Any, ...]]
"""Component, key, start, end, what is in it (sorted)."""


@dataclass(frozen=True, slots=True)
class Reader:
    """A component that has windows over the rows of spouts."""

    late_stream: bool
    keeps: bool


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
    seen: Counter[Result] = field(default_factory=Counter)
    seen_late: Counter[tuple[str, Any]] = field(default_factory=Counter)
    machines: list[Watched] = field(default_factory=list)
    times_out: bool = False
    """May a message time out, though it is only slow?"""
    deaths: int = 0
    restarts: Counter[str] = field(default_factory=Counter)
    failures: int = 0
    _lives: Counter[str] = field(default_factory=Counter)

    def __deepcopy__(self, memo: dict[int, Any]) -> Ledger:
        return self

    @property
    def calm(self) -> bool:
        """Has nobody died, was nothing restarted, and does nothing time out?"""
        return not (self.deaths or self.restarts or self.times_out)

    # -- lives (see workers_program.py) ------------------------------------------------------------------------------

    def begins(self, worker: str, process: Process) -> tuple[str, int]:
        """A worker begins a life."""
        self._lives[worker] += 1
        return worker, self._lives[worker]

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
        self.seen[result] += 1
        if self.seen[result] > self.fired[result]:
            self.world.problem(f"the sink has {result} {self.seen[result]} times; it fired {self.fired[result]} times")

    def sees_late(self, component: str, row: Any) -> None:
        """The sink has a late tuple."""
        self.seen_late[component, row] += 1
        if not self.late[component, row]:
            self.world.problem(f"row {row} is in the late stream of {component}, where it was not late")

    def acked(self, row: int) -> None:
        """A message is acked: is that right?"""
        for name, reader in self.readers.items():
            if not self.came[name, row]:
                self.world.problem(f"row {row} is acked, and has not come to {name}")
            elif (name, row) not in self.on_time:
                if reader.late_stream and not self.seen_late[name, row]:
                    self.world.problem(f"row {row} is acked, was late in {name}, and is not in the late stream")
            elif reader.keeps and not (self.late[name, row] or (name, row) in self.in_fired):
                self.world.problem(f"row {row} is acked, and none of its windows in {name} has fired")

    def failed(self, row: int, failure: Failure) -> None:
        """A message has failed."""
        self.failures += 1
        if self.calm:
            self.world.problem(f"row {row} has failed ({failure}), and nobody died")

    # -- at the end --------------------------------------------------------------------------------------------------

    def at_the_end(self) -> Iterator[str]:
        """What is missing, if nobody died."""
        if not self.calm:
            return
        for what, count in self.came.items():
            if count > 1:
                yield f"row {what[1]} has come {count} times to {what[0]}, and nobody died"
        if self.seen != self.fired:
            missing = next(iter(self.fired - self.seen))
            yield f"{(self.fired - self.seen).total()} results have fired, and are not in the sink: {missing}"
        streamed = {name for name, reader in self.readers.items() if reader.late_stream}
        late = Counter({what: count for what, count in self.late.items() if what[0] in streamed})
        if self.seen_late != late:
            yield f"late are {late.total()}, and in the late stream {self.seen_late.total()}"

    @property
    def lost(self) -> int:
        """Rows that were on time somewhere, were acked, and are in no window that has fired: a life has ended."""
        return len(self.on_time - self.in_fired - self.late.keys())


class Watched:
    """A machine of windows, and the reference beside it. Of one instance of a bolt."""

    def __init__(self, ledger: Ledger, component: str, machine: Any, expected: Any, *, on_time: bool) -> None:
        self.ledger = ledger
        self.component = component
        self.process = ledger.world.current
        self.due: deque[Any] = deque()
        self._life = self.process.incarnation
        self._machine = machine
        self._expected = expected
        self._on_time = on_time
        self._fired: set[tuple[Any, Any]] = set()
        ledger.machines.append(self)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._machine, name)

    @property
    def lives(self) -> bool:
        """Does its process live?"""
        return self.process.alive and self.process.incarnation == self._life

    def add(self, keys: Any, timestamps: Any, values: Any) -> Any:
        """See TimeWindows."""
        taken = self._machine.add(keys, timestamps, values)
        if not self.lives:
            return taken
        names = [self.name_of(value) for value in values]
        if taken.failed:
            self.problem(f"{taken.failed[0][1]!r}")
        expected = self._expected
        expected.late.clear()
        expected.add(list(zip(keys, timestamps, self.numbered(values, names), strict=True)))
        late = [names[place] for place in sorted(taken.late)]
        wanted = [self.named(row[2]) for row in expected.late]
        if late != wanted:
            self.problem(f"late are {late}, and should be {wanted}")
        if late and self._on_time and self.ledger.calm:
            self.problem(f"{late} of {list(zip(timestamps, names, strict=True))} come late (at {self.watermark})")
        self.ledger.arrived(self.component, names, late)
        return taken

    def advance(self, watermark_ms: int) -> Iterator[Any]:
        """See TimeWindows."""
        self.due.extend(self.expect(watermark_ms))
        return self._each(self._machine.advance(watermark_ms))

    def _each(self, fired: Iterator[Any]) -> Iterator[Any]:
        for one in fired:
            if self.lives:
                span, key = (one.window.start, one.window.end), one.key
                if (span, key) in self._fired:
                    self.problem(f"window {span} of {key!r} fires twice")
                self._fired.add((span, key))
                got, wanted = self.told(one), self.due.popleft() if self.due else None
                if got != wanted:
                    self.problem(f"fires {got}, and should fire {wanted}")
                self.ledger.has_fired((self.component, key, *span, self.content(one)))
            yield one
        if self.due and self.lives:
            self.problem(f"at {self.watermark} nothing fires any more, and should fire {self.due.popleft()}")
            self.due.clear()

    def problem(self, text: str) -> None:
        self.ledger.world.problem(f"{self.component} on {self.process.name}: {text}")

    # -- of incremental windows; Kept has others ---------------------------------------------------------------------

    def name_of(self, value: Any) -> Any:
        """Which row a value is."""
        return value[0]

    def numbered(self, values: Any, names: Sequence[Any]) -> Sequence[Any]:
        """What the reference is given for values."""
        return names

    def named(self, value: Any) -> Any:
        """And back."""
        return value

    def expect(self, watermark_ms: int) -> list[Any]:
        return self._expected.advance(watermark_ms)

    def told(self, one: Any) -> Any:
        return (one.window.start, one.window.end), one.key, sorted(one.result)

    def content(self, one: Any) -> tuple[Any, ...]:
        return tuple(sorted(one.result))


class WatchedResults(Watched):
    """Of windows over results of windows: a row is named by what it says."""

    def name_of(self, value: Any) -> Any:
        key, rows, start, end = value[0], value[1], value[2], value[3]
        return key, start, end, tuple(sorted(rows))

    def told(self, one: Any) -> Any:
        return (one.window.start, one.window.end), one.key, sorted(map(self.name_of, one.result))

    def content(self, one: Any) -> tuple[Any, ...]:
        return tuple(sorted(map(self.name_of, one.result)))


class WatchedBuffer(Watched):
    """Of buffered windows. Each arrival has a number: a row may come again."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._arrivals: list[Any] = []
        self._number_of: dict[int, int] = {}
        self._let_go: set[int] = set()
        self._gone: set[int] = set()

    def numbered(self, values: Any, names: Sequence[Any]) -> Sequence[Any]:
        first = len(self._arrivals)
        for value in values:
            self._number_of[id(value)] = len(self._arrivals)
            self._arrivals.append(value)  # held: no other gets its id
        return range(first, len(self._arrivals))

    def named(self, value: Any) -> Any:
        return self._arrivals[value][0]

    def expect(self, watermark_ms: int) -> list[Any]:
        fired, released = self._expected.advance(watermark_ms)
        self._let_go = released
        return fired

    def released(self) -> list[Any]:
        """See BufferedWindows."""
        released: list[Any] = self._machine.released()
        if self.lives:
            numbers = [self._number_of[id(tup)] for tup in released]
            if not self._let_go.issuperset(numbers) or self._gone.intersection(numbers):
                self.problem(f"rows {numbers} are let go, {sorted(self._let_go)} may be; gone: {sorted(self._gone)}")
            self._gone.update(numbers)
        return released

    def told(self, one: Any) -> Any:
        numbers = ([self._number_of[id(tup)] for tup in rows] for rows in (one.get(), one.get_new(), one.get_expired()))
        return ((one.window.start, one.window.end), one.key, *numbers)

    def content(self, one: Any) -> tuple[Any, ...]:
        return tuple(sorted(tup[0] for tup in one.get()))


class Kept(TimeKeeper):
    """A keeper that is watched. `ledger` is set in a class of the world's own."""

    ledger: Ledger

    def __init__(self, inputs: Any, settings: Any, *args: Any, **options: Any) -> None:
        super().__init__(inputs, settings, *args, **options)
        self.process = self.ledger.world.current
        self._settings = settings
        self._said: dict[int, int] = {}
        self._over: set[int] = set()
        self._seen: tuple[int | None, dict[int, int | None]] = (None, {})

    def observe(self, task: int, timestamps: Sequence[int], rows: Sequence[Any], now_ms: int) -> None:
        if timestamps and not self._tells.get(task):
            self._said[task] = max([*timestamps, self._said.get(task, timestamps[0])])
        self._over.discard(task)
        super().observe(task, timestamps, rows, now_ms)
        self._look()

    def told(self, task: int, watermark_ms: int, now_ms: int) -> None:
        if watermark_ms >= END_MS:
            self._over.add(task)
        else:
            self._over.discard(task)
            if self._tells.get(task):
                self._said[task] = max(watermark_ms, self._said.get(task, watermark_ms))
        super().told(task, watermark_ms, now_ms)
        self._look()

    def tick(self, now_ms: int) -> None:
        super().tick(now_ms)
        self._look()

    def _look(self) -> None:
        if not self.process.alive:
            return
        now, by = self.watermark, self.by_input()
        before, by_before = self._seen
        self._seen = now, by
        if before is not None and (now is None or now < before):
            self._problem(f"the watermark goes back from {before} to {now}")
        for task, mark in by.items():
            last = by_before.get(task)
            if last is not None and (mark is None or mark < last):
                self._problem(f"the watermark of task {task} goes back from {last} to {mark}")
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


def reference_of(windows: Any, lateness_ms: int) -> Any:
    """The reference of incremental windows."""
    if hasattr(windows, "gap_ms"):
        return reference.Sessions(windows.gap_ms, lateness_ms)
    return reference.Aligned(windows.size_ms, windows.slide_ms, windows.offset_ms, lateness_ms)


def buffer_of(windows: Any, lateness_ms: int) -> Any:
    """The reference of buffered windows."""
    if hasattr(windows, "gap_ms"):
        return reference.KeptSessions(windows.gap_ms, lateness_ms)
    return reference.Buffered(windows.size_ms, windows.slide_ms, windows.offset_ms, lateness_ms)
