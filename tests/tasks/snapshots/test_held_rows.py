"""How many rows a sink holds, and when it says so."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiostorm import Config
from aiostorm.tasks import HeldLevel
from aiostorm.tasks.snapshots.held_rows import HeldRows
from aiostorm.topology import ColumnRows, Fields, Origin, Segment

CALM, SOON, FULL = HeldLevel

ORIGIN = Origin("spout", 1, "default", Fields("n"))


def held(rows: int = 100, size_bytes: int = 1 << 40) -> HeldRows:
    return HeldRows(Config(sink_held_max_rows=rows, sink_held_max_bytes=size_bytes))


def receive(here: HeldRows, count: int, value: Any = 1) -> None:
    here.received(Segment(ORIGIN, [(value,)] * count), 0, count)


def test_the_levels_are_reported_once_each() -> None:
    here = held(100)
    levels = []
    for _ in range(130):
        receive(here, 1)
        levels.append(here.changed(None))
    assert [(at, level) for at, level in enumerate(levels, 1) if level is not None] == [(50, SOON), (100, FULL)]
    assert here.rows == 130


def test_a_commit_frees_what_was_prepared_and_no_more() -> None:
    here = held(100)
    receive(here, 100)
    assert here.changed(None) is FULL
    here.prepared()
    receive(here, 20)
    assert here.changed(None) is None
    here.committed()
    assert here.changed(None) is CALM
    assert here.rows == 20


def test_what_is_still_above_half_after_a_commit_is_reported_again() -> None:
    here = held(100)
    receive(here, 60)
    assert here.changed(None) is SOON
    here.prepared()
    receive(here, 70)
    assert here.changed(None) is FULL
    here.committed()
    assert here.changed(None) is SOON
    assert here.changed(None) is None
    here.prepared()
    receive(here, 55)
    assert here.changed(None) is FULL
    here.committed()
    here.prepared()
    receive(here, 60)
    assert here.changed(None) is FULL, "the level is as before, and there was a snapshot"


def test_an_aborted_snapshot_frees_nothing() -> None:
    here = held(100)
    receive(here, 90)
    here.prepared()
    receive(here, 5)
    here.prepared()  # the one before was aborted
    here.committed()
    assert (here.changed(None), here.rows) == (None, 0)


def test_a_sink_may_say_what_it_keeps() -> None:
    here = held(100)
    receive(here, 1000)
    assert here.changed(3) is None
    assert here.changed(100) is FULL
    assert here.changed(0) is CALM


@pytest.mark.parametrize(
    ("value", "at_least"),
    [
        ("x" * 1000, 1000),
        (b"x" * 1000, 1000),
        ([["x" * 10] * 10] * 10, 1000),
        ({f"{n}": "x" * 10 for n in range(100)}, 1000),
        (["x" * 10] * 100_000, 1_000_000),
        ([[[[[["x" * 1000]]]]]], 1000),
        (1, 8),
        (None, 8),
    ],
)
def test_sizes_are_estimated(value: Any, at_least: int) -> None:
    here = held(1 << 40, 100 * at_least)
    receive(here, 100, value)
    assert here.changed(None) is FULL
    assert 100 * at_least <= here.size_bytes < 500 * at_least


def test_values_that_contain_themselves_and_each_other_are_estimated_in_limited_time() -> None:
    own: list[Any] = [1]
    own.append(own)
    shared: Any = 1
    for _ in range(8):  # to read all of it would take years
        shared = [shared] * 100
    deep: Any = 1
    for _ in range(100_000):
        deep = {"deep": deep}
    here = held(1 << 40, 1 << 40)
    for value in (own, shared, deep):
        receive(here, 13, value)
    here.changed(None)
    assert here.size_bytes > 13 * 100**8


def test_columns_are_measured_exactly() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    batch = pyarrow.record_batch({"n": pyarrow.array(range(1000), pyarrow.int64())})
    here = held(1 << 40, 8_000)
    segment = Segment(ORIGIN, ColumnRows(batch, bare=True))
    here.received(segment, 0, 500)
    assert here.changed(None) is SOON
    assert here.size_bytes == 4_000
    here.received(segment, 500, 1000)
    assert here.changed(None) is FULL
    assert here.size_bytes == 8_000


@pytest.mark.parametrize("period", [2, 3, 4, 8, 16])
@pytest.mark.parametrize("batch", [1, 7, 100])
def test_large_rows_among_small_ones_are_counted_as_often_as_they_are_there(period: int, batch: int) -> None:
    here = held(1 << 40, 1 << 40)
    rows: list[tuple[Any]] = [("x" * 10_000,) if n % period == 0 else ("x",) for n in range(10_000)]
    for start in range(0, len(rows), batch):
        here.received(Segment(ORIGIN, rows), start, min(start + batch, len(rows)))
    here.changed(None)
    assert here.size_bytes == pytest.approx(10_000 * 10_000 / period, rel=0.1)


@given(st.lists(st.tuples(st.sampled_from(["rows", "prepare", "commit"]), st.integers(1, 40)), max_size=60))
def test_held_rows_are_those_that_no_commit_contains(steps: list[tuple[str, int]]) -> None:
    here = held(100)
    since = prepared = 0
    level = CALM
    for what, count in steps:
        if what == "rows":
            receive(here, count)
            since += count
        elif what == "prepare":
            here.prepared()
            prepared = since
        else:
            here.committed()
            since, prepared = since - prepared, 0
        reported = here.changed(None)
        level = level if reported is None else reported
        assert here.rows == since
        assert level is (FULL if since >= 100 else SOON if since >= 50 else CALM)
