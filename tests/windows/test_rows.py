"""Rows as columns: by names of fields, and by functions."""

from __future__ import annotations

from typing import Any

import pytest

from aiostorm.topology import Config, Fields, Origin, Segment, TimedItems
from aiostorm.windows import Combined, Count, Counts, Min, Sum, WindowedBolt
from aiostorm.windows.rows import RowReader, column
from aiostorm.windows.settings import TimeSettings

PAIRS = Origin("count", 4, "totals", Fields("word", "count"))
WORDS = Origin("split", 3, "default", Fields("word"))
ROWS = [("a", 1), ("b", 2), ("c", 3), ("d", 4)]


def test_a_time_of_all_rows_replaces_their_own() -> None:
    called: list[Any] = []

    def time_of(tup: Any) -> Any:
        called.append(tup["count"])
        return tup["count"] * 10

    reader = RowReader("word", time_of, tuples=False, layout=None)
    segment = Segment(PAIRS, ROWS)
    assert reader.read(segment, 0, 4, 99).timestamps == [99] * 4
    assert called == []
    assert reader.read(segment, 1, 3, None).timestamps == [20, 30]
    assert called == [2, 3]
    assert reader.read(Segment(PAIRS, TimedItems(ROWS, [5, 6, 7, 8])), 0, 4, None).timestamps == [5, 6, 7, 8]
    assert called == [2, 3]


@pytest.mark.parametrize("stamped", [True, False])
def test_a_row_whose_function_raises_is_left_out(stamped: bool) -> None:
    def time_of(tup: Any) -> Any:
        if tup["count"] == 3:
            raise ValueError("no time")
        return tup["count"] * 10

    def key_of(tup: Any) -> Any:
        if tup["count"] == 2:
            raise KeyError("no key")
        return tup["word"].upper()

    times: list[Any] = [10, 20, ValueError("no time"), 40]
    rows = RowReader(key_of, time_of, tuples=False, layout=None).read(
        Segment(PAIRS, TimedItems(ROWS, times) if stamped else ROWS), 0, 4, None
    )
    assert (rows.keys, rows.timestamps, rows.values, list(rows.places)) == (
        ["A", "D"],
        [10, 40],
        [ROWS[0], ROWS[3]],
        [0, 3],
    )
    assert [(place, type(error)) for place, error in rows.failed] == [(1, KeyError), (2, ValueError)]


@pytest.mark.parametrize(
    ("names", "values"),
    [("word", ["a", "b"]), (["word"], [("a",), ("b",)]), (("count", "word"), [(1, "a"), (2, "b")])],
)
def test_a_column_is_of_values_or_of_tuples(names: Any, values: list[Any]) -> None:
    assert list(column(PAIRS.fields, names)(ROWS[:2])) == values


@pytest.mark.parametrize(("names", "values"), [("word", ["a"]), (["word"], [("a",)]), (["word", "word"], [("a", "a")])])
def test_a_column_of_a_stream_with_one_field(names: Any, values: list[Any]) -> None:
    assert list(column(WORDS.fields, names)(["a"])) == values


@pytest.mark.parametrize("layout", [Fields("word"), Fields("word", "count")])
def test_values_have_the_fields_of_the_layout(layout: Fields) -> None:
    reader = RowReader("word", None, tuples=False, layout=layout)
    rows = reader.read(Segment(Origin("x", 1, "s", Fields("other", "count", "word")), [(0, 1, "a")]), 0, 1, 5)
    assert (list(rows.keys), list(rows.timestamps)) == (["a"], [5])
    assert list(rows.values) == (["a"] if len(layout) == 1 else [("a", 1)])


def test_a_sum_over_a_stream_of_one_field_and_one_of_several() -> None:
    bolt = WindowedBolt(Counts(4), Sum("count"))
    one, several = Fields("count"), Fields("word", "count")
    for inputs in ((one, several), (several, one)):
        layout = bolt.layout(inputs)
        machine, reader = bolt.machine(TimeSettings.of(bolt, Config()), layout), bolt.reader(layout)
        for segment in (Segment(Origin("x", 1, "s", one), [10, 20]), Segment(Origin("y", 2, "s", several), ROWS[:2])):
            assert machine.add_rows(reader.read(segment, 0, 2, 0), list).failed == []
        assert [fired.result for fired in machine.fire()] == [33]


def test_rows_have_the_fields_that_the_aggregate_uses_if_the_streams_differ() -> None:
    pairs, turned, more = Fields("word", "count"), Fields("count", "word"), Fields("x", "count", "word")
    bolt = WindowedBolt(Counts(3), Combined(total=Sum("count"), least=Min("word"), again=Sum("count"), rows=Count()))
    assert bolt.layout([pairs, pairs]) == pairs
    for inputs in ([pairs, turned, more], [more, pairs, turned]):
        assert bolt.layout(inputs) == Fields("count", "word")
        layout = bolt.layout(inputs)
        machine, reader = bolt.machine(TimeSettings.of(bolt, Config()), layout), bolt.reader(layout)
        for fields, row in ((pairs, ("c", 1)), (turned, (2, "b")), (more, (0, 4, "d"))):
            segment = Segment(Origin("x", 1, str(fields), fields), [row])
            assert machine.add_rows(reader.read(segment, 0, 1, 0), list).failed == []
        assert [fired.result for fired in machine.fire()] == [(7, "b", 7, 3)]
    assert WindowedBolt(Counts(3), Count()).layout([pairs, turned]) is None
