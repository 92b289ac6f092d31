"""Windows that are divided among another number of tasks, at any point, give for each key what they give undivided.

The tasks of a fleet have watermarks of their own. The model is a machine for each key, which is never divided: its
watermark is that of the task that has the key, and never goes back.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterable
from fractions import Fraction
from itertools import islice
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiostorm import Fields
from aiostorm.tasks.execute.kept_tuples import KeptTuples, packed_row
from aiostorm.topology import KeyRanges, Origin, Segment
from aiostorm.transport.codec import pack_value, unpack_value
from aiostorm.windows import (
    END_MS,
    BufferedSessions,
    BufferedWindows,
    FieldsHash,
    KeyHash,
    Session,
    SharedWindows,
    Sliding,
    Sum,
    WindowDivider,
    WindowStateError,
    dividing,
    floors,
)
from aiostorm.windows.dumps import apply_delta
from aiostorm.windows.firing import Firing
from aiostorm.windows.rows import ReadRows

from ..tries import examples
from . import streams
from .test_dump_load import KINDS, shown

STREAMS = 300
Make = Callable[[], Any]
BY_KEY = KeyHash((0,), single=True)


def copied(value: Any) -> Any:
    return unpack_value(pack_value(value))


class Fleet:
    """The tasks of a component with windows, and how far the watermark of each is behind."""

    def __init__(self, make: Make, rng: random.Random, by: Any, skews: tuple[int, ...]) -> None:
        self.make = make
        self.rng = rng
        self.by = by
        self.skews = skews
        self._begin([make() for _ in range(rng.choice((1, 2, 4)))])

    def _begin(self, machines: list[Any]) -> None:
        self.machines = machines
        self.ranges = KeyRanges.for_tasks(len(machines))
        self.behind_ms = [self.rng.choice(self.skews) for _ in machines]
        self.bases: list[Any] = [None] * len(machines)

    def owner(self, key: Any, row: Any = None) -> int:
        return self.ranges.task_of(self.by.of(key, row) % self.ranges.n_ranges)

    def dump_some(self, number: int) -> None:
        """Some tasks save a base, on which the next dump builds."""
        for at, machine in enumerate(self.machines):
            if self.rng.random() < 0.3:
                self.bases[at] = copied(machine.dump(number))

    def rescale(self, number: int) -> None:
        """Another number of tasks, of which each process has some."""
        count, former = self.rng.choice((1, 2, 3, 4, 6, 9)), self.ranges
        shares = [range(count)] if self.rng.random() < 0.5 else [range(0, count, 2), range(1, count, 2)]
        dumps = [self._dump(at, number) for at in range(len(self.machines))]
        made: dict[int, Any] = {}
        for share in shares:
            divider = WindowDivider(self.by, count, share, packed_row)
            for index, dump in enumerate(dumps):
                if any(divider.is_source(former, index, task) for task in share):
                    for _ in divider.add(copied(dump), former, index):
                        pass
            for task in share:
                made[task] = self.make()
                made[task].load(copied(divider.take(task)))
        self._begin([made[task] for task in range(count)])

    def _dump(self, at: int, number: int) -> Any:
        machine, base = self.machines[at], self.bases[at]
        if isinstance(machine, Firing):
            while machine._fire_next():
                pass
        elif getattr(machine, "early", None) is not None:
            while machine.machine._fire_next():
                pass
        if base is None:
            return machine.dump()
        return apply_delta(base, copied(machine.dump(number, base["head"]["number"])))


class Observed:
    """What comes out, by key."""

    def __init__(self) -> None:
        self.results: dict[Any, list[Any]] = defaultdict(list)
        self.late: set[Any] = set()
        self.failed: set[Any] = set()

    def add(self, machine: Any, rows: list[Any]) -> None:
        early: list[Any] = []
        read = ReadRows(range(len(rows)), *(list(column) for column in zip(*rows, strict=True)))
        if hasattr(machine, "released"):
            added = machine.add_rows(read)
        else:  # the early results of one row come in any order
            added = machine.add_rows(read, lambda fired: early.extend(sorted(fired, key=lambda one: one.window)))
        self.late |= {rows[at][2] for at in added.late}
        self.failed |= {rows[at][2] for at, _ in added.failed}
        self.take(early)

    def take(self, results: Iterable[Any]) -> None:
        for one in results:
            self.results[one.key].append(shown(one))

    def show(self, machine: Any) -> None:
        if getattr(machine, "early", None) is not None and (at_ms := machine.next_ms(0)) is not None:
            self.take(sorted(machine.show(at_ms) or (), key=lambda fired: fired.window))  # in any order


def assert_divided(make: Make, rng: random.Random, skews: tuple[int, ...]) -> Fleet:
    fleet, seen, expected = Fleet(make, rng, BY_KEY, skews), Observed(), Observed()
    batches = [([(f"{key}{value % 4}", at, value) for key, at, value in rows], w) for rows, w in streams.batches(rng)]
    model = {key: make() for rows, _ in batches for key, _, _ in rows}
    for number, (rows, watermark) in enumerate([*batches, ([], END_MS)], 1):
        fleet.dump_some(2 * number)
        if rng.random() < 0.4:
            fleet.rescale(2 * number + 1)
        for task, machine in enumerate(fleet.machines):
            if mine := [row for row in rows if fleet.owner(row[0]) == task]:
                seen.add(machine, mine)
        for row in rows:
            expected.add(model[row[0]], [row])
        is_early, taken = getattr(fleet.machines[0], "early", None) is not None, rng.choice((0, 1, 5, 10**6))
        for task, machine in enumerate(fleet.machines):
            at_ms = watermark - (0 if watermark == END_MS else fleet.behind_ms[task])
            seen.take(islice(machine.advance(at_ms), 10**6 if is_early or watermark == END_MS else taken))
            for key, one in model.items():
                if fleet.owner(key) == task:
                    expected.take(one.advance(at_ms))
        for machine in fleet.machines:
            seen.show(machine)
        for one in model.values():
            expected.show(one)
    assert (seen.late, seen.failed) == (expected.late, expected.failed)
    assert seen.results == expected.results
    return fleet


def without_limits(make: Make) -> Make:
    """A limit of states would depend on the number of tasks."""

    def made() -> Any:
        machine = make()
        inner = getattr(machine, "machine", machine)
        limit = "_max_rows" if hasattr(inner, "_max_rows") else "_max_states"
        setattr(inner, limit, 1_000_000)
        return machine

    return made


SKEWS = ((0,), (0, 5, 30, 200))


@pytest.mark.parametrize("skews", SKEWS, ids=("together", "apart"))
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=examples(20))
@given(rng=st.randoms(use_true_random=False))
def test_other_tasks_go_on_with_the_same_windows(kind: str, skews: tuple[int, ...], rng: random.Random) -> None:
    assert_divided(without_limits(KINDS[kind](rng)), rng, skews)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_thousands_of_divisions(kind: str) -> None:
    for seed in range(STREAMS):
        rng = random.Random(seed)
        assert_divided(without_limits(KINDS[kind](rng)), rng, SKEWS[seed % 2])


# -- rows of several keys in one window: joins -------------------------------------------------------------------------

FIELDS = {("left", "default"): Fields("key", "at", "n"), ("right", "default"): Fields("at", "n", "key")}
BY_ROW = FieldsHash({("left", "default"): (0,), ("right", "default"): (2,)})
ORIGINS = [
    Origin(component, task, "default", FIELDS[component, "default"]) for task, (component, _) in enumerate(FIELDS)
]


def row_of(key: str, at: int, n: int) -> Any:
    values = (key, at, n) if n % 2 else (at, n, key)
    return Segment(ORIGINS[1 - n % 2], [values]).tuple_at(0)


def keeping(make: Make) -> Make:
    kept = KeptTuples(FIELDS)

    def made() -> Any:
        machine = make()
        machine.convert_rows(kept.pack, kept.unpack)
        return machine

    return made


def assert_rows_divided(make: Make, rng: random.Random, skews: tuple[int, ...], keyed: bool) -> None:
    """As assert_divided, where a machine keeps the rows of all keys. What a window has of each key is compared."""
    fleet, seen, expected = Fleet(make, rng, BY_ROW, skews), Observed(), Observed()
    batches = [([(f"{key}{n % 4}", at, n) for key, at, n in rows], w) for rows, w in streams.batches(rng)]
    model = {key: make() for rows, _ in batches for key, _, _ in rows}

    def take(of: Observed, fired: Iterable[Any]) -> None:
        for one in fired:
            by_key: dict[str, list[int]] = defaultdict(list)
            for tup in one.rows:
                by_key[tup["key"]].append(tup["n"])
            for key, numbers in by_key.items():
                of.results[key].append((one.window, numbers))

    def add(of: Observed, machine: Any, rows: list[Any], made: list[Any]) -> None:
        keys = [key if keyed else None for key, _, _ in rows]
        added = machine.add_rows(ReadRows(range(len(rows)), keys, [at for _, at, _ in rows], made))
        of.late |= {rows[at][2] for at in added.late}

    for number, (rows, watermark) in enumerate([*batches, ([], END_MS)], 1):
        fleet.dump_some(2 * number)
        if rng.random() < 0.4:
            fleet.rescale(2 * number + 1)
        made = [row_of(*row) for row in rows]
        for task, machine in enumerate(fleet.machines):
            mine = [at for at, row in enumerate(made) if fleet.owner(None, row) == task]
            add(seen, machine, [rows[at] for at in mine], [made[at] for at in mine])
        for row, tup in zip(rows, made, strict=True):
            add(expected, model[row[0]], [row], [tup])
        taken = rng.choice((0, 1, 5, 10**6)) if watermark < END_MS else 10**6
        for task, machine in enumerate(fleet.machines):
            at_ms = watermark - (0 if watermark == END_MS else fleet.behind_ms[task])
            take(seen, islice(machine.advance(at_ms), taken))
            for key, one in model.items():
                if fleet.owner(None, row_of(key, 0, 0)) == task:
                    take(expected, one.advance(at_ms))
    assert seen.late == expected.late
    assert seen.results == expected.results


def rows_kept(rng: random.Random) -> tuple[Make, bool]:
    size, slide, offset = streams.sizes(rng)
    lateness = rng.choice((0, 0, 3, 15))
    if rng.random() < 0.3:
        return keeping(lambda: BufferedSessions(Session(size), allowed_lateness_ms=lateness)), True
    return keeping(lambda: BufferedWindows(Sliding(size, slide, offset), allowed_lateness_ms=lateness)), False


@pytest.mark.parametrize("skews", SKEWS, ids=("together", "apart"))
@settings(max_examples=examples(20))
@given(rng=st.randoms(use_true_random=False))
def test_joins_go_on_with_the_rows_of_their_keys(skews: tuple[int, ...], rng: random.Random) -> None:
    make, keyed = rows_kept(rng)
    assert_rows_divided(make, rng, skews, keyed)


def test_sessions_of_one_key_come_from_one_task() -> None:
    make = keeping(lambda: BufferedSessions(Session(10)))
    dumps = []
    for key in ("a", "b"):
        machine = make()
        machine.add_rows(ReadRows(range(1), ["a"], [1], [row_of(key, 1, 1)]))
        dumps.append(copied(machine.dump()))
    with pytest.raises(WindowStateError, match="sessions of key 'a' are in two tasks"):
        divided(dumps, BY_ROW)


# -- what is wrong -----------------------------------------------------------------------------------------------------


def divided(dumps: list[Any], by: Any = BY_KEY) -> Any:
    divider = WindowDivider(by, 1, [0], packed_row)
    for index, dump in enumerate(dumps):
        for _ in divider.add(dump, KeyRanges.for_tasks(len(dumps)), index):
            pass
    return divider.take(0)


def summed(window: Any = None) -> Any:
    windows = SharedWindows(window or Sliding(10, 5), Sum())
    windows.add(["a", "b"], [1, 7], [1, 2])
    return windows


def test_windows_that_do_not_fit_are_refused() -> None:
    with pytest.raises(WindowStateError, match="windows of key 'a' are in two tasks"):
        divided([summed().dump(), summed().dump()])
    with pytest.raises(WindowStateError, match="with other settings: windows was"):
        divided([summed().dump(), summed(Sliding(10, 2)).dump()])
    windows = summed()
    windows.dump(1)
    windows.add(["c"], [3], [3])
    with pytest.raises(WindowStateError, match="it is a delta"):
        divided([windows.dump(2, since=1)])
    for damage in ({}, {"head": {}, "tables": {}}, {**summed().dump(), "tables": {0: [{("a",): 1}, {}]}}):
        with pytest.raises(WindowStateError):
            divided([damage], KeyHash((0,), single=False))


@pytest.mark.parametrize("tasks", [(1, 1), (2, 2), (2, 3), (3, 2), (4, 9), (6, 4)])
def test_a_former_task_is_a_source_of_those_that_get_its_key_ranges(tasks: tuple[int, int]) -> None:
    former, now = map(KeyRanges.for_tasks, tasks)
    divider = WindowDivider(BY_KEY, tasks[1], range(tasks[1]))
    for index in range(tasks[0]):
        for task in range(tasks[1]):
            common = set(former.ranges_of(index)) & set(now.ranges_of(task))
            expected = former.n_ranges != now.n_ranges or bool(common)
            assert divider.is_source(former, index, task) is expected


@pytest.mark.parametrize("first", ["numbers", "fractions"])
def test_values_of_one_task_that_are_no_numbers_count_for_all(first: str) -> None:
    numbers, fractions = SharedWindows(Sliding(10, 5), Sum()), SharedWindows(Sliding(10, 5), Sum())
    numbers.add(["a"], [1], [2])
    fractions.add(["b"], [1], [Fraction(1, 2)])
    machines = [numbers, fractions] if first == "numbers" else [fractions, numbers]
    assert [machine.dump()["head"]["state"]["plain"] for machine in (numbers, fractions)] == [True, False]
    assert divided([machine.dump() for machine in machines])["head"]["state"]["plain"] is False


@pytest.mark.parametrize(
    "dump",
    [5, [5], [(("key", True, (0,)), 0, {})], [(("other",), 256, {1: 2})], [(("key", True, (0,)), 256, {1: "2"})]],
)
def test_damaged_floors_are_refused(dump: Any) -> None:
    with pytest.raises(WindowStateError, match="damaged"):
        floors.load_layers(dump)


def test_floors_are_forgotten_when_all_have_caught_up() -> None:
    ahead, behind = summed(), SharedWindows(Sliding(10, 5), Sum())
    assert [fired.key for fired in ahead.advance(10)] == ["a", "a", "b"]
    assert list(behind.advance(5)) == []
    merged = SharedWindows(Sliding(10, 5), Sum())
    merged.load(copied(divided([ahead.dump(), behind.dump()])))
    assert (merged.watermark, floors.FLOORS in merged.dump()["head"]["state"]) == (5, True)
    assert list(merged.advance(9)) == []
    assert floors.FLOORS in merged.dump()["head"]["state"]
    assert list(merged.advance(11)) == []
    assert floors.FLOORS not in merged.dump()["head"]["state"]
    assert [(fired.key, fired.result) for fired in merged.advance(15)] == [("b", 2)]


# -- bugs that the tests find ------------------------------------------------------------------------------------------


def floors_lost(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(dividing, "floors_above", lambda *_: [])


def the_greatest_watermark(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(dividing._MERGED, "watermark", max)


def fires_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SharedWindows, "_not_fired", lambda self, keys, window: keys)


def results_stay(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(WindowDivider, "_add_ready", lambda *_: None)


def older_floors_lost(patch: pytest.MonkeyPatch) -> None:
    load = dividing.load_layers
    patch.setattr(dividing, "load_layers", lambda dump: load(dump)[:0])


PLANTED = [
    ("tumbling", floors_lost),
    ("session", floors_lost),
    ("ms each rows", floors_lost),
    ("plain", the_greatest_watermark),
    ("shared", fires_again),
    ("buffered session", results_stay),
    ("counts", results_stay),
    ("shared", older_floors_lost),
]


@pytest.mark.parametrize(("kind", "plant"), PLANTED)
def test_a_planted_bug_is_found(kind: str, plant: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)

    def all_streams() -> None:
        for seed in range(200):
            rng = random.Random(seed)
            assert_divided(without_limits(KINDS[kind](rng)), rng, SKEWS[1])

    with pytest.raises((AssertionError, WindowStateError)):
        all_streams()
