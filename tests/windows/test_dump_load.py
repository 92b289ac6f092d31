"""Windows that are dumped and loaded at any point give what they give without: row for row, in order."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiostorm.transport.codec import pack_value, unpack_value
from aiostorm.windows import (
    END_MS,
    Aggregate,
    BufferedCounts,
    BufferedSessions,
    BufferedWindows,
    Collect,
    Combined,
    Count,
    Counts,
    CountWindows,
    Each,
    Every,
    Fold,
    Max,
    Mean,
    Min,
    Mixed,
    MsEachRows,
    PlainWindows,
    Reduce,
    RowsEachMs,
    Session,
    SessionWindows,
    SharedWindows,
    Sliding,
    Sum,
    TopK,
    Tumbling,
    Window,
    WindowStateError,
)
from aiostorm.windows.building import early_windows
from aiostorm.windows.changes import Changes
from aiostorm.windows.dumps import apply_delta
from aiostorm.windows.firing import Firing
from aiostorm.windows.frozen import Dump
from aiostorm.windows.rows import ReadRows
from aiostorm.windows.two_stacks import TwoStacks

from ..tries import examples
from . import streams

STREAMS = 400


class Box:
    """A state that cannot be sent to another process."""

    def __init__(self, values: list[Any]) -> None:
        self.values = values


class Boxed(Aggregate):
    """A user's own aggregate: its state is changed in place, and is packed by its own methods."""

    def init_state(self, window: Window) -> Box:
        return Box([])

    def execute(self, value: Any, state: Box, window: Window) -> None:
        if value % 17 == 16:
            raise ValueError("bad")
        state.values.append(value)

    def merge(self, first: Box, second: Box) -> Box:
        if len(first.values) > 9:
            raise ValueError("too long to merge")
        return Box(first.values + second.values)

    def purge(self, state: Box, window: Window) -> list[Any]:
        if state.values[0] % 23 == 22:
            raise ValueError("worse")
        return list(state.values)

    def pack_state(self, state: Box) -> list[Any]:
        return state.values

    def unpack_state(self, value: list[Any]) -> Box:
        return Box(value)


def tenths(row: Any) -> float:
    """Their sum depends on the order."""
    return row * 0.1


AGGREGATES: tuple[Callable[[], Aggregate], ...] = (
    Count,
    lambda: Sum(tenths),
    lambda: Mean(tenths),
    lambda: Reduce(lambda first, second: first + second, of=tenths),
    lambda: Min(lambda row: None if row % 5 == 0 else -row),
    lambda: Max(lambda row: float("nan") if row % 5 == 0 else row),
    lambda: Combined(all=Collect(), count=Count(), sum=Sum(tenths)),
    lambda: TopK(2, lambda row: row % 3),
    lambda: Combined(own=Boxed(), inner=Combined(mean=Mean(), least=Min())),
    Boxed,
    lambda: Fold(list, lambda state, value: [*state, value], merge=lambda first, second: first + second),
)
NOT_MERGING = (
    *AGGREGATES,
    lambda: Fold(list, lambda state, value: [*state, value], result=len),
    lambda: Fold(dict, lambda state, value: {**state, value: str(value)}),
)


def copied(dump: Dump) -> Dump:
    return unpack_value(pack_value(dump))


class Restarted:
    """A machine that is dumped now and then, and replaced by a new one that loads the dump."""

    def __init__(self, make: Callable[[], Any], rng: random.Random, restarts: float) -> None:
        self.make = make
        self.machine = make()
        self._rng = rng
        self._restarts = restarts
        self._number = 0
        self._base: Dump | None = None
        self.added: set[Any] = set()
        """The rows that the present machine was given: only these are released."""

    def step(self) -> None:
        if self._rng.random() < self._restarts:
            self._dump()
        if self._rng.random() < self._restarts:
            if self._rng.random() < 0.3:
                self._base = copied(self.machine.dump())
            else:
                self._dump()
            self.machine = self.make()
            self.machine.load(self._base)
            self._base = None
            self.added = set()

    def _dump(self) -> None:
        self._number += 1
        if self._base is None or self._rng.random() < 0.2:
            self._base = copied(self.machine.dump(self._number))
            return
        if self._rng.random() < 0.3:
            self.machine.dump(self._number, since=self._base["head"]["number"])  # it was never stored
            self._number += 1
        self._base = apply_delta(self._base, copied(self.machine.dump(self._number, self._base["head"]["number"])))


def shown(result: Any) -> Any:
    """What can be compared."""
    if hasattr(result, "rows"):
        return result
    error = result.error and str(result.error)
    value = "nan" if result.result != result.result else result.result
    return result.window, result.window.final, result.key, value, error and error.removeprefix("ValueError: ")


Step = tuple[Any, ...]


def script(rng: random.Random) -> list[Step]:
    """Rows, watermarks, and how many results are taken of those that are due."""
    steps: list[Step] = []
    for rows, watermark in streams.batches(rng):
        keys, times, values = streams.columns(rows)
        if rng.random() < 0.2 and rows:
            at = rng.randrange(len(rows))
            keys[at], times[at] = rng.choice([([], 1), ("a", None), (None, times[at]), (1, times[at])])
        steps.append(("add", keys, times, values))
        steps.append(("advance", watermark, rng.choice((0, 1, 2, 100))))
        steps.append(("show", rng.choice((0, 1, 2, 100))))
    return [*steps, ("advance", END_MS, 10**6)]


def done(machine: Any, step: Step) -> Iterator[Any]:
    """Do a step. Yields what can be observed."""
    if step[0] == "add":
        rows = ReadRows(range(len(step[1])), *step[1:])
        early: list[Any] = []
        added = machine.add_rows(rows) if hasattr(machine, "released") else machine.add_rows(rows, early.extend)
        yield added.late
        yield [(place, str(error)) for place, error in added.failed]
        yield [shown(one) for one in early]
    elif step[0] == "advance":
        yield [shown(one) for one in islice(machine.advance(step[1]), step[2])]
    yield machine.next_fire_ms


def early_results(restarted: Restarted, most: int) -> list[Any]:
    """The early results that are due now; there may be a restart after the first of them."""
    machine = restarted.machine
    if getattr(machine, "early", None) is None:
        return []
    at_ms = machine.next_ms(0)
    due = machine.show(at_ms) if at_ms is not None else None
    if due is None:
        return []
    results = [shown(one) for one in islice(due, most)]
    restarted.step()
    if restarted.machine is not machine:
        due = restarted.machine.show(0) or iter(())
    return results + [shown(one) for one in due]


def assert_same(
    make: Callable[[], Any], steps: list[Step], rng: random.Random, kind: type[Restarted] = Restarted
) -> None:
    plain, restarted = make(), kind(make, rng, rng.choice((0.1, 0.5, 1)))
    undisturbed = Restarted(lambda: plain, rng, 0)
    released: list[Any] = []
    for number, step in enumerate(steps):
        if step[0] == "show":
            assert early_results(restarted, step[1]) == early_results(undisturbed, step[1])
            continue
        expected = list(done(plain, step))
        restarted.step()
        assert list(done(restarted.machine, step)) == expected, (number, step)
        if step[0] == "add":
            restarted.added.update(step[3])
        if hasattr(plain, "released"):
            assert restarted.machine.rows == plain.rows
            released += plain.released()
            assert sorted(restarted.machine.released()) == sorted(row for row in released if row in restarted.added)
            released = []
        else:
            assert restarted.machine.states == plain.states


def tumbling(rng: random.Random) -> Callable[[], Any]:
    size, _, offset = streams.sizes(rng)
    lateness, aggregate = rng.choice((0, 0, 3, 15)), rng.choice(NOT_MERGING)
    most = rng.choice((3, 10, 1_000))
    return lambda: PlainWindows(Tumbling(size, offset), aggregate(), allowed_lateness_ms=lateness, max_states=most)


def plain(rng: random.Random) -> Callable[[], Any]:
    size, slide, offset = streams.sizes(rng)
    lateness, aggregate = rng.choice((0, 0, 3, 15)), rng.choice(NOT_MERGING)
    most = rng.choice((30, 1_000))
    return lambda: PlainWindows(
        Sliding(size, slide, offset), aggregate(), allowed_lateness_ms=lateness, max_states=most
    )


def shared(rng: random.Random) -> Callable[[], Any]:
    size, slide, offset = streams.sizes(rng)
    lateness, aggregate = rng.choice((0, 0, 3, 15)), rng.choice(AGGREGATES)
    most = rng.choice((3, 10, 1_000))
    return lambda: SharedWindows(
        Sliding(size, slide, offset), aggregate(), allowed_lateness_ms=lateness, max_states=most
    )


def sessions(rng: random.Random) -> Callable[[], Any]:
    size, _, _ = streams.sizes(rng)
    lateness, aggregate = rng.choice((0, 0, 3, 15)), rng.choice(AGGREGATES)
    most = rng.choice((3, 10, 1_000))
    return lambda: SessionWindows(Session(size), aggregate(), allowed_lateness_ms=lateness, max_states=most)


def buffered(rng: random.Random) -> Callable[[], Any]:
    size, slide, offset = streams.sizes(rng)
    lateness, most = rng.choice((0, 0, 3, 15)), rng.choice((5, 30, 1_000))
    return lambda: BufferedWindows(Sliding(size, slide, offset), allowed_lateness_ms=lateness, max_rows=most)


def buffered_sessions(rng: random.Random) -> Callable[[], Any]:
    size, _, _ = streams.sizes(rng)
    lateness, most = rng.choice((0, 0, 3, 15)), rng.choice((5, 30, 1_000))
    return lambda: BufferedSessions(Session(size), allowed_lateness_ms=lateness, max_rows=most)


def rows_each_ms(rng: random.Random) -> Callable[[], Any]:
    size, slide, offset = rng.randint(1, 8), rng.randint(1, 30), rng.choice((0, 7))
    lateness, most = rng.choice((0, 0, 3, 15)), rng.choice((5, 30, 1_000))
    assigner = Mixed(size=size, slide_ms=slide, offset_ms=offset)
    return lambda: RowsEachMs(assigner, allowed_lateness_ms=lateness, max_rows=most)


def ms_each_rows(rng: random.Random) -> Callable[[], Any]:
    size, slide = rng.randint(1, 30), rng.randint(1, 8)
    lateness, most = rng.choice((0, 0, 3, 15)), rng.choice((2, 5, 30, 1_000))
    return lambda: MsEachRows(Mixed(size_ms=size, slide=slide), allowed_lateness_ms=lateness, max_rows=most)


def counts(rng: random.Random) -> Callable[[], Any]:
    size, slide = rng.choice(((1, 1), (3, 2), (4, 1), (5, 5), (7, 3)))
    aggregate, most = rng.choice(NOT_MERGING), rng.choice((10, 1_000))
    return lambda: CountWindows(Counts(size, slide), aggregate(), max_states=most)


def shared_counts(rng: random.Random) -> Callable[[], Any]:
    size, slide, aggregate = rng.choice((9, 12)), 1, rng.choice(AGGREGATES)
    most = rng.choice((20, 1_000))
    return lambda: CountWindows(Counts(size, slide), aggregate(), max_states=most)


def buffered_counts(rng: random.Random) -> Callable[[], Any]:
    size, slide = rng.choice(((1, 1), (3, 2), (4, 1), (5, 5), (7, 3)))
    most = rng.choice((4, 10, 1_000))
    return lambda: BufferedCounts(Counts(size, slide), max_rows=most)


def early(rng: random.Random) -> Callable[[], Any]:
    size, slide, offset = streams.sizes(rng)
    assigner = rng.choice((Tumbling(size, offset), Sliding(size, slide, offset), Session(size)))
    when = rng.choice((Every(10), Every(10), Each(1), Each(3)))
    lateness, aggregate = rng.choice((0, 0, 3, 15)), rng.choice(AGGREGATES)
    return lambda: early_windows(assigner, aggregate(), when, allowed_lateness_ms=lateness)


KINDS = {
    "tumbling": tumbling,
    "plain": plain,
    "shared": shared,
    "session": sessions,
    "buffered": buffered,
    "buffered session": buffered_sessions,
    "rows each ms": rows_each_ms,
    "ms each rows": ms_each_rows,
    "counts": counts,
    "shared counts": shared_counts,
    "buffered counts": buffered_counts,
    "early": early,
}


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=examples(60))
@given(rng=st.randoms(use_true_random=False))
def test_a_restart_changes_no_result(kind: str, rng: random.Random) -> None:
    assert_same(KINDS[kind](rng), script(rng), rng)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_thousands_of_restarts_change_no_result(kind: str) -> None:
    for seed in range(STREAMS):
        rng = random.Random(seed)
        assert_same(KINDS[kind](rng), script(rng), rng)


def results_lost(patch: pytest.MonkeyPatch) -> None:
    state = Firing._state
    patch.setattr(Firing, "_state", lambda self: {**state(self), "ready": []})


def keys_not_recorded(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Changes, "changed", lambda *_: None)
    patch.setattr(Changes, "changed_all", lambda *_: None)


def tables_not_dropped(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Changes, "drop", lambda *_: None)


def stacks_not_rebuilt(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TwoStacks, "rebuild", lambda self, until, *_: setattr(self, "until", until))


def builds_on_the_last_dump(patch: pytest.MonkeyPatch) -> None:
    """Not on the last dump that was stored."""
    since = Changes.since
    patch.setattr(Changes, "since", lambda self, _: since(self, self._rounds[-1].number))


PLANTED = [
    ("session", results_lost),
    ("session", keys_not_recorded),
    ("plain", keys_not_recorded),
    ("tumbling", tables_not_dropped),
    ("buffered", tables_not_dropped),
    ("shared", stacks_not_rebuilt),
    ("counts", builds_on_the_last_dump),
]


@pytest.mark.parametrize(("kind", "plant"), PLANTED)
def test_a_planted_bug_is_found(kind: str, plant: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)

    def all_streams() -> None:
        for seed in range(200):
            rng = random.Random(seed)
            assert_same(KINDS[kind](rng), script(rng), rng)

    with pytest.raises((AssertionError, WindowStateError, KeyError)):
        all_streams()
