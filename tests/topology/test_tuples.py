"""Segments and tuples: views of the same rows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiostorm.topology import TICK_STREAM, Fields, Lineage, Origin, Segment, Tuple, TupleBatch

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
