"""Watched: the machines of windows, each beside the plain reference, which is given the same rows and watermarks.

What fires, and what is late, is what the reference says, in its order, and at the watermark at which it says so: not at
the next. No key's window fires twice in one instance. Kept rows are released when no window needs them any more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from aiostorm.windows import JoinKind, Mixed

from ...windows import reference

if TYPE_CHECKING:
    from .ledger import Ledger


class Watched:
    """A machine of windows, and the reference beside it. Of one instance of a bolt."""

    def __init__(self, ledger: Ledger, component: str, machine: Any, expected: Any, *, on_time: bool) -> None:
        self.ledger = ledger
        self.component = component
        self.process = ledger.world.current
        self.due: deque[Any] = deque()
        self._incarnation = self.process.current
        self._machine = machine
        self._expected = expected
        self._on_time = on_time
        self._fired: set[tuple[Any, Any]] = set()
        ledger.machines.append(self)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._machine, name)

    @property
    def alive(self) -> bool:
        """Does its process run?"""
        return self._incarnation.alive

    def add_rows(self, rows: Any, *emit: Any) -> Any:
        """Add rows to the machine, and to the reference. `emit`: of windows that keep states, for early results."""
        taken = self._machine.add_rows(rows, *emit)
        if not self.alive:
            return taken
        keys, timestamps, values = rows.keys, rows.timestamps, rows.values
        names = [self.name_of(value) for value in values]
        if taken.failed:
            self.problem(f"{taken.failed[0][1]!r}")
        expected = self._expected
        expected.late.clear()
        expected.add(list(zip(keys, timestamps, self.numbered(values, names), strict=True)))
        late = [names[place] for place in sorted(taken.late)]
        self.not_kept([values[place] for place in taken.late])
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
            if self.alive:
                span, key = (one.window.start, one.window.end), one.key
                if (span, key) in self._fired:
                    self.problem(f"window {span} of {key!r} fires twice")
                self._fired.add((span, key))
                got, wanted = self.comparable(one), self.due.popleft() if self.due else None
                if got != wanted:
                    self.problem(f"fires {got}, and should fire {wanted}")
                self.fired(one, span)
            yield one
        if self.due and self.alive:
            self.problem(f"at {self.watermark} nothing fires any more, and should fire {self.due.popleft()}")
            self.due.clear()

    def problem(self, text: str) -> None:
        self.ledger.world.problem(f"{self.component} on {self.process.name}: {text}")

    # -- of incremental windows; others have others ------------------------------------------------------------------

    def fired(self, one: Any, span: tuple[int, int]) -> None:
        """Report to the ledger."""
        self.ledger.has_fired((self.component, one.key, *span, self.content(one)))

    def name_of(self, value: Any) -> Any:
        """Which row a value is."""
        return value[0]

    def numbered(self, values: Any, names: Sequence[Any]) -> Sequence[Any]:
        """What the reference is given for values."""
        return names

    def named(self, value: Any) -> Any:
        """And back."""
        return value

    def not_kept(self, values: Any) -> None:
        """These are late."""

    def expect(self, watermark_ms: int) -> list[Any]:
        return self._expected.advance(watermark_ms)

    def comparable(self, one: Any) -> Any:
        return (one.window.start, one.window.end), one.key, sorted(one.result)

    def content(self, one: Any) -> tuple[Any, ...]:
        return tuple(sorted(one.result))


class WatchedResults(Watched):
    """Of windows over results of windows: a row is named by what it says."""

    def name_of(self, value: Any) -> Any:
        key, rows, start, end = value[0], value[1], value[2], value[3]
        return key, start, end, tuple(sorted(rows))

    def comparable(self, one: Any) -> Any:
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
        self._released: set[int] = set()

    def numbered(self, values: Any, names: Sequence[Any]) -> Sequence[Any]:
        first = len(self._arrivals)
        for value in values:
            self._number_of[id(value)] = len(self._arrivals)
            self._arrivals.append(value)  # held: no other gets its id
        return range(first, len(self._arrivals))

    def named(self, value: Any) -> Any:
        return self._arrivals[value][0]

    def not_kept(self, values: Any) -> None:
        self._released.update(self._number_of[id(value)] for value in values)

    def expect(self, watermark_ms: int) -> list[Any]:
        fired, released = self._expected.advance(watermark_ms)
        self._let_go = released
        return fired

    def released(self) -> list[Any]:
        """See BufferedWindows."""
        released: list[Any] = self._machine.released()
        if self.alive:
            numbers = [self._number_of[id(tup)] for tup in released]
            if not self._let_go.issuperset(numbers) or self._released.intersection(numbers):
                self.problem(
                    f"rows {numbers} are let go, {sorted(self._let_go)} may be; released: {sorted(self._released)}"
                )
            self._released.update(numbers)
            self.ledger.let_go.update((self.component, self._arrivals[number][0]) for number in numbers)
        return released

    def comparable(self, one: Any) -> Any:
        numbers = ([self._number_of[id(tup)] for tup in rows] for rows in (one.get(), one.get_new(), one.get_expired()))
        return ((one.window.start, one.window.end), one.key, *numbers)

    def content(self, one: Any) -> tuple[Any, ...]:
        return tuple(sorted(tup[0] for tup in one.get()))

    @property
    def holds(self) -> set[Any]:
        """The rows that came, were not late, and have not been let go."""
        return {self._arrivals[number][0] for number in self._number_of.values() if number not in self._released}


class WatchedJoin(WatchedBuffer):
    """Of a join: what fires is known by what it gives, for each window all that a plain loop finds."""

    kind: JoinKind
    sources: tuple[str, str]

    def fired(self, one: Any, span: tuple[int, int]) -> None:
        left, right = ([tup for tup in one.get() if tup.source_component == source] for source in self.sources)
        for key, pair in joined_of(self.kind, [tup.values for tup in left], [tup.values for tup in right]):
            self.ledger.has_fired((self.component, key, 0, 0, pair))
        self.ledger.in_fired.update((self.component, tup[0]) for tup in one.get())


def reference_of(windows: Any, lateness_ms: int) -> Any:
    """The reference of incremental windows."""
    if hasattr(windows, "gap_ms"):
        return reference.Sessions(windows.gap_ms, lateness_ms)
    return reference.Aligned(windows.size_ms, windows.slide_ms, windows.offset_ms, lateness_ms)


def buffer_of(windows: Any, lateness_ms: int) -> Any:
    """The reference of windows whose rows are kept."""
    if isinstance(windows, Mixed):
        if windows.size is not None and windows.slide_ms is not None:
            return reference.RowsEach(windows.size, windows.slide_ms, windows.offset_ms, lateness_ms)
        return reference.SpanEach(windows.size_ms or 0, windows.slide or 0, lateness_ms)
    if hasattr(windows, "gap_ms"):
        return reference.KeptSessions(windows.gap_ms, lateness_ms)
    return reference.Buffered(windows.size_ms, windows.slide_ms, windows.offset_ms, lateness_ms)


def joined_of(kind: JoinKind, left: list[Any], right: list[Any]) -> Iterator[tuple[Any, tuple[Any, Any]]]:
    """The rows of a join, by comparing each with each: key, and the number of either row (-1: none)."""
    for n, key, _ in left:
        partners = [other for other, other_key, _ in right if other_key == key]
        if not partners and kind in (JoinKind.LEFT, JoinKind.FULL):
            yield key, (n, -1)
        for other in partners:
            yield key, (n, other)
    if kind in (JoinKind.RIGHT, JoinKind.FULL):
        for n, key, _ in right:
            if not any(other_key == key for _, other_key, _ in left):
                yield key, (-1, n)
