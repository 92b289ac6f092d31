"""What is read of frozen windows in parts, while they go on, is what they contained when they were frozen."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiostorm.transport.codec import pack_value, unpack_value
from aiostorm.windows import Count, PlainWindows, Tumbling, WindowStateError
from aiostorm.windows.changes import Changes
from aiostorm.windows.frozen import Dump, Frozen

from ..tries import examples
from .test_dump_load import KINDS, copied, done, script


def copy_of(table: Any, key: Any, values: tuple[Any, ...]) -> tuple[Any, ...]:
    copy: tuple[Any, ...] = unpack_value(pack_value(values))
    return copy


def shown(dump: Dump) -> Any:
    """What can be compared, with the order of keys: tables without rows do not count, and NaN equals itself."""
    tables = [
        (name, [list(column.items()) for column in columns]) for name, columns in dump["tables"].items() if columns[0]
    ]
    return repr((dump["head"], tables, dump.get("removed"), dump.get("dropped")))


class Reading:
    """A freeze that is read in parts, beside a dump of the same moment."""

    def __init__(self, machine: Any, number: int, since: int | None) -> None:
        self.frozen: Frozen = machine.freeze(number, since)
        self.expected = copied(self.frozen.dump())
        if since is None:
            assert self.frozen.size == sum(len(columns[0]) for columns in self.expected["tables"].values())
        self.tables: dict[Any, list[dict[Any, Any]]] = {}
        self.removed: dict[Any, list[Any]] = {}
        self.frozen.watch(copy_of)
        self.over = False

    def read(self, most: int) -> None:
        parts = self.frozen.take(most)
        assert sum(len(part.keys) for part in parts) <= most
        for part in copied([list(part) for part in parts]):  # type: ignore[arg-type, union-attr]
            for key, row in zip(part[1], part[2], strict=True):
                if row is None:
                    self.removed.setdefault(part[0], []).append(key)
                    continue
                columns = self.tables.setdefault(part[0], [{} for _ in row])
                for column, value in zip(columns, row, strict=True):
                    assert key not in column
                    column[key] = value
        self.over = not parts

    def check(self) -> None:
        while not self.over:
            self.read(1_000)
        made = {**self.expected, "tables": self.tables}
        if "removed" in made:
            made["removed"] = self.removed
        assert not self.removed or "removed" in made
        assert shown(made) == shown(self.expected)
        self.frozen.end()


def run(make: Callable[[], Any], rng: random.Random) -> None:
    """Rows and watermarks, while what the windows contained before is read in parts."""
    machine, number, committed = make(), 0, None
    reading: Reading | None = None
    for step in script(rng):
        if step[0] == "show":
            continue
        for _ in done(machine, step):
            pass
        if hasattr(machine, "show") and rng.random() < 0.5:
            at_ms = machine.next_ms(0)
            for _ in machine.show(at_ms) or () if at_ms is not None else ():
                break
        if reading is not None and rng.random() < 0.7:
            reading.read(rng.randint(1, 4))
        if rng.random() < 0.5:
            if reading is not None:
                if rng.random() < 0.3:
                    reading.frozen.end()
                    machine.aborted(number)
                else:
                    reading.check()
                    machine.committed(number)
                    committed = number
            number += 1
            known = committed is not None and machine.changed_since(committed) is not None
            assert known is (committed is not None)
            reading = Reading(machine, number, committed if rng.random() < 0.6 else None)
    if reading is not None:
        reading.check()


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=examples(60))
@given(rng=st.randoms(use_true_random=False))
def test_what_is_read_later_is_what_was_there(kind: str, rng: random.Random) -> None:
    run(KINDS[kind](rng), rng)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_thousands_of_readings(kind: str) -> None:
    for seed in range(500):
        rng = random.Random(seed)
        run(KINDS[kind](rng), rng)


def not_kept(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Frozen, "keep", lambda *_: None)


def without_batches(patch: pytest.MonkeyPatch) -> None:
    def changed_all(self: Changes, table: Any, keys: Any) -> None:
        watcher, self.watcher = self.watcher, None
        all_changed(self, table, keys)
        self.watcher = watcher

    all_changed = Changes.changed_all
    patch.setattr(Changes, "changed_all", changed_all)


@pytest.mark.parametrize(
    ("kind", "plant"),
    [("session", not_kept), ("counts", not_kept), ("buffered", not_kept), ("tumbling", without_batches)],
)
def test_a_planted_bug_is_found(kind: str, plant: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)

    def all_streams() -> None:
        for seed in range(200):
            rng = random.Random(seed)
            run(KINDS[kind](rng), rng)

    with pytest.raises((AssertionError, LookupError, ValueError, RuntimeError)):
        all_streams()


def test_windows_are_read_once_at_a_time() -> None:
    machine = PlainWindows(Tumbling(10), Count())
    machine.add(["a"], [1], [0])
    first = machine.freeze(1)
    first.watch(copy_of)
    second = machine.freeze(2, since=1)
    with pytest.raises(ValueError, match="still being read"):
        second.watch(copy_of)
    first.end()
    second.watch(copy_of)
    assert first.take(9) == []


def test_an_aborted_dump_belongs_to_the_next() -> None:
    machine = PlainWindows(Tumbling(10), Count())
    machine.add(["a", "b", "c"], [1, 11, 21], [0, 0, 0])
    machine.dump(1)
    machine.committed(1)
    machine.add(["d"], [12], [0])
    list(machine.advance(10))
    assert machine.dump(2)["head"]["since"] is None
    machine.aborted(2)
    machine.add(["e"], [22], [0])
    assert machine.changed_since(1) == 2
    delta = machine.dump(3, since=1)
    assert (delta["tables"], delta["dropped"]) == ({10: [{"d": 1}], 20: [{"e": 1}]}, [0])
    machine.committed(3)
    assert (machine.changed_since(1), machine.changed_since(3)) == (None, 0)
    with pytest.raises(WindowStateError, match="since dump 1"):
        machine.dump(4, since=1)
