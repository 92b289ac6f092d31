"""Segments and tuples: views of the same rows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiostorm.topology import (
    TICK_STREAM,
    ColumnRows,
    Fields,
    Lineage,
    Origin,
    RepeatedAnchor,
    Segment,
    Tuple,
    TupleBatch,
)
from aiostorm.topology.tuples.tuples import TimedItems

FIELDS = Fields("word", "n")
ORIGIN = Origin("split", 4, "default", FIELDS)


def segment(count: int, start: int = 0) -> Segment:
    rows = [(f"w{start + i}", start + i) for i in range(count)]
    return Segment(ORIGIN, rows, root=5, edge=9, indices=list(range(count)))


def test_a_tuple_reads_by_name_and_by_place() -> None:
    tup = Tuple(("a", 3), segment(1), 0)
    assert (tup["word"], tup[0], tup["n"], tup[-1]) == ("a", "a", 3, 3)
    assert (tup.get("n"), tup.get("x"), tup.get("x", 7)) == (3, None, 7)
    assert tup.as_dict() == {"word": "a", "n": 3}
    assert (list(tup), len(tup), "word" in tup, "x" in tup) == (["a", 3], 2, True, False)
    assert (tup.fields, tup.stream, tup.source_component, tup.source_task) == (FIELDS, "default", "split", 4)
    assert repr(tup) == "Tuple(word='a', n=3; from split[4] on 'default')"
    with pytest.raises(KeyError, match="no field 'x'"):
        tup["x"]


def test_a_long_tuple_is_shown_short() -> None:
    assert len(repr(Tuple(("x" * 5000, 3), segment(1), 0))) < 600


def test_tuples_are_compared_by_identity() -> None:
    first, second = Tuple(("a", 1), segment(1), 0), Tuple(("a", 1), segment(1), 0)
    assert first != second
    assert len({first, second}) == 2


def test_tick_tuples_say_so() -> None:
    tick = Segment(Origin("__system", 0, TICK_STREAM, Fields("interval_s")), [1.0])
    assert Tuple((1.0,), tick, 0).is_tick
    assert not Tuple(("a", 1), segment(1), 0).is_tick


def test_the_pairs_of_a_row() -> None:
    assert segment(3).pairs_of(2) == ((5, 2),)
    assert Segment(ORIGIN, [("a", 1)]).pairs_of(0) == ()
    pairs = (((5, 0), (6, 1)), ((5, 1),))
    several = Segment(ORIGIN, [("a", 1), ("b", 2)], lineage=Lineage({5: 1, 6: 2}, pairs))
    assert several.pairs_of(0) == ((5, 0), (6, 1))
    assert (several.open, len(several)) == (2, 2)
    assert repr(segment(1)) == "Segment(Origin('split', task=4, stream='default'), 1 rows, root=0x5, edge=0x9)"


@given(st.lists(st.integers(0, 5), max_size=6))
def test_a_batch_is_its_segments_in_order(sizes: list[int]) -> None:
    segments, start = [], 0
    for size in sizes:
        segments.append(segment(size, start))
        start += size
    batch = TupleBatch(segments)
    assert len(batch) == start
    assert batch.rows == [(f"w{i}", i) for i in range(start)]
    assert batch.column("n") == list(range(start))
    assert [tup["n"] for tup in batch] == [batch[i]["n"] for i in range(start)] == list(range(start))
    assert [batch[i - start]["n"] for i in range(start)] == list(range(start))
    assert [tup["n"] for tup in batch[1:3]] == list(range(start))[1:3]
    for tup in batch:
        assert tup.segment.rows[tup.offset] == tup.values
    for outside in (start, -start - 1):
        with pytest.raises(IndexError, match=f"batch of {start}"):
            batch[outside]


def test_a_column_that_is_not_there() -> None:
    with pytest.raises(KeyError, match="no field 'x'"):
        TupleBatch([segment(1)]).column("x")


# -- segments ----------------------------------------------------------------------------------------------------------

BARE = Origin("numbers", 2, "default", Fields("n"))


def test_items_of_a_stream_with_one_field_are_bare_values() -> None:
    assert (BARE.bare, ORIGIN.bare, Origin("x", 1, "default", Fields()).bare) == (True, False, False)
    one = Segment(BARE, [7, 8])
    assert (list(one.rows), one.row(1), one.tuple_at(1)["n"]) == ([(7,), (8,)], (8,), 8)
    assert segment(2).rows == [("w0", 0), ("w1", 1)]
    assert segment(2).row(1) == ("w1", 1)
    assert TupleBatch([one]).column("n") == [7, 8]


def test_rows_of_columns_are_rows() -> None:
    pa = pytest.importorskip("pyarrow")
    bare = Segment(BARE, ColumnRows(pa.record_batch({"n": [1, 2]}), True))
    assert list(bare.rows) == [(1,), (2,)]
    several = Segment(ORIGIN, ColumnRows(pa.record_batch({"word": ["a", "b"], "n": [1, 2]}), False))
    assert list(several.rows) == [("a", 1), ("b", 2)]


def test_a_segment_without_an_anchor_is_not_tracked() -> None:
    made = Segment(ORIGIN, [("a", 1)])
    assert (made.root, made.edge, made.indices, made.lineage, made.done) == (0, 0, None, None, None)
    assert (made.tracked, made.messages, made.pairs_of(0), made.open) == (False, (), (), 1)
    assert Segment(ORIGIN, [("a", 1)], 0, 0, [3]).messages == ()
    assert Segment(ORIGIN, [("a", 1)], 5, 9).messages == ()


def test_the_messages_of_a_segment_are_named_once() -> None:
    assert Segment(ORIGIN, [("a", 1)] * 4, 5, 9, [3, 1, 3, 1]).messages == [(5, 3), (5, 1)]
    assert Segment(ORIGIN, [("a", 1)] * 4, 5, 9, RepeatedAnchor(3, 4)).messages == [(5, 3)]
    pairs = (((5, 0), (6, 1)), ((5, 0),), ((6, 2), (5, 0)))
    several = Segment(ORIGIN, [("a", 1)] * 3, lineage=Lineage({5: 1, 6: 2}, pairs))
    assert several.tracked
    assert several.messages == [(5, 0), (6, 1), (6, 2)]
    repeated = Segment(ORIGIN, [("a", 1)] * 3, lineage=Lineage({5: 1, 6: 2}, RepeatedAnchor(((5, 0), (6, 1)), 3)))
    assert list(repeated.messages) == [(5, 0), (6, 1)]


def test_a_part_of_timed_items_has_its_times() -> None:
    items = TimedItems(["a", "b", "c"], [1, 2, 3])
    assert (list(items), items[1], items.times) == (["a", "b", "c"], "b", [1, 2, 3])
    part = items[1:]
    assert type(part) is TimedItems
    assert (list(part), part.times) == (["b", "c"], [2, 3])
