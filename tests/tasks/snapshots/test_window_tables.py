"""WindowTables and WindowCapture, each rule alone. (Restored machines: test_window_capture.py.)"""

from __future__ import annotations

from typing import Any

import pytest

from aiostorm.state import UnsavableError, unpack_chunks
from aiostorm.state import chunks as chunks_module
from aiostorm.tasks.snapshots import window_capture
from aiostorm.tasks.snapshots.window_capture import WindowCapture, WindowTables
from aiostorm.transport.codec.scan import MAX_ITEMS
from aiostorm.windows import BufferedWindows, Collect, Combined, Count, PlainWindows, Tumbling


def stopwatch() -> float:
    return 0.0


def windows_with(*keys: Any) -> PlainWindows[Any]:
    machine: PlainWindows[Any] = PlainWindows(Tumbling(10), Count())
    machine.add(list(keys), [1] * len(keys), [0] * len(keys))
    return machine


def chunks(capture: WindowCapture) -> list[Any]:
    return [found for chunk in capture.slices(stopwatch) for found in unpack_chunks(chunk.data, "blob")]


def test_before_the_first_snapshot_all_keys_have_changed() -> None:
    tables = WindowTables(windows_with("a", "b", "c"), "hours", 7)
    assert tables.counts() == (3, 3)


def test_after_a_snapshot_that_counts_only_changes_do() -> None:
    machine = windows_with("a", "b", "c")
    tables = WindowTables(machine, "hours", 7)
    first = tables.capture(1, None)
    assert (first.full, first.size, first.rows) == (True, 4, 3)
    chunks(first)
    assert tables.counts() == (3, 3), "it does not count yet"
    tables.committed(1)
    assert tables.counts() == (0, 3)
    machine.add(["a", "d"], [1, 11], [0, 0])
    assert tables.counts() == (2, 4)
    second = tables.capture(2, 1)
    assert (second.full, second.size, second.rows) == (False, 5, 2)
    head, *rows = chunks(second)
    assert head.values[0][1:] == (2, [])
    assert sorted(key for found in rows for key in found.keys) == [(0, "a"), (10, "d")]
    tables.committed(2)
    assert machine.changed_since(1) is None, "no delta builds on it any more"
    assert machine.changed_since(2) == 0


def test_an_aborted_capture_is_in_the_next_and_another_one_can_begin() -> None:
    machine = windows_with("a")
    tables = WindowTables(machine, "hours", 7)
    chunks(tables.capture(1, None))
    tables.committed(1)
    machine.add(["b"], [1], [0])
    aborted = tables.capture(2, 1)
    with pytest.raises(ValueError, match="still being read"):
        tables.capture(3, 1)
    aborted.give_back()
    assert machine.changed_since(2) is None
    assert [key for found in chunks(tables.capture(4, 1))[1:] for key in found.keys] == [(0, "b")]


class Own:
    """A class that is not registered."""


def test_a_result_that_is_due_and_cannot_be_saved_is_named_and_the_capture_is_over() -> None:
    machine: PlainWindows[Any] = PlainWindows(Tumbling(10), Collect())
    machine.add(["ann", "bob"], [5, 5], [1, Own()])
    fired = iter(machine.advance(10))
    assert next(fired).key == "ann"
    tables = WindowTables(machine, "hours", 7)
    for number in (1, 2):
        with pytest.raises(
            UnsavableError, match=r"'hours', task 7: the state of key 'bob' .*a result that is due"
        ) as raised:
            tables.capture(number, None)
        assert raised.value.key == "bob"
    assert next(fired).key == "bob"
    assert chunks(tables.capture(3, None))[0].values[0][1] == 0


def test_of_windows_of_rows_a_result_that_cannot_be_saved_is_named_by_its_key_too() -> None:
    machine: BufferedWindows = BufferedWindows(Tumbling(10))
    machine.add(["ann", "bob"], [5, 5], [(1,), (Own(),)])
    assert next(iter(machine.advance(10))).key == "ann"
    with pytest.raises(UnsavableError, match=r"the state of key 'bob' .*a result that is due") as raised:
        WindowTables(machine, "hours", 7).capture(1, None)
    assert raised.value.key == "bob"


def test_slices_have_as_many_rows_as_two_milliseconds_allow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window_capture, "FIRST_ROWS", 4)
    machine = windows_with(*(f"k{n}" for n in range(40)))
    now_s = 0.0

    def ticking() -> float:
        nonlocal now_s
        now_s += 0.001
        return now_s

    made = list(WindowTables(machine, "hours", 7).capture(1, None).slices(ticking))
    assert [chunk.rows for chunk in made] == [1, 4, 8, 16, 12]


def test_after_a_table_ends_a_large_one_begins_with_few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window_capture, "FIRST_ROWS", 4)
    machine = windows_with(*(f"k{n}" for n in range(10)))
    machine.add([f"k{n}" for n in range(300)], [11] * 300, [0] * 300)
    made = list(WindowTables(machine, "hours", 7).capture(1, None).slices(stopwatch))
    assert [chunk.rows for chunk in made][:6] == [1, 4, 6, 4, 8, 16]
    assert sum(chunk.rows for chunk in made) == 311


def test_the_largest_chunk_of_a_slice_limits_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window_capture, "FIRST_ROWS", 4)
    monkeypatch.setattr(chunks_module, "CHUNK_BYTES", 100_000)
    machine: PlainWindows[Any] = PlainWindows(Tumbling(10), Collect())
    values = [bytes(75_000), b"", bytes(50_000), *[b""] * 7]
    machine.add([f"k{n}" for n in range(10)], [1] * 10, values)
    made = list(WindowTables(machine, "hours", 7).capture(1, None).slices(stopwatch))
    assert [chunk.rows for chunk in made] == [1, 2, 2, 2, 4], "two rows after two chunks, then twice as many"


def test_values_that_can_be_saved_one_by_one_and_not_together_fail_the_snapshot_and_not_the_row() -> None:
    machine: PlainWindows[Any] = PlainWindows(Tumbling(10), Combined(a=Collect(), b=Collect()))
    n_rows = MAX_ITEMS // 2 + 1
    machine.add(["ann"] * n_rows, [5] * n_rows, [0] * n_rows)
    capture = WindowTables(machine, "hours", 7).capture(1, None)
    assert machine.add(["ann"], [5], [1]).failed == []
    with pytest.raises(UnsavableError, match="a value of more than 250000 values"):
        chunks(capture)
