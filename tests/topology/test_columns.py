"""Batches of columns: split as their rows would be, made of rows and into rows, refused with an error that helps."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiostorm.topology import (
    AllGrouping,
    ColumnRows,
    ColumnsError,
    CustomGrouping,
    EmitError,
    Fields,
    FieldsGrouping,
    GlobalGrouping,
    Grouping,
    KeyRangeGrouping,
    LocalFirstGrouping,
    LocalOrShuffleGrouping,
    NoneGrouping,
    Origin,
    PartialKeyGrouping,
    RepeatedAnchor,
    Row,
    Segment,
    Share,
    ShuffleGrouping,
    UnhashableKeyError,
    batch_of,
    column_rows,
    deal_columns,
    is_batch,
    split_columns,
)
from aiostorm.topology.tuples import columns as columns_module

from .strategies import prepare, targets

pa: Any = pytest.importorskip("pyarrow")
pytest.importorskip("numpy")
pytest.importorskip("pyarrow.compute")

FIELDS = Fields("word", "n")
ORIGIN = Origin("lines", 1, "default", FIELDS)


def batch(words: Sequence[Any]) -> Any:
    return pa.record_batch({"word": pa.array(words, pa.string()), "n": pa.array(range(len(words)))})


def numbers(shares: list[tuple[int, ColumnRows]]) -> dict[int, list[int]]:
    return {target: share.batch.column("n").to_pylist() for target, share in shares}


class ByLength(Grouping):
    """A user's grouping, by rows."""

    def choose(self, values: Row) -> Sequence[int]:
        return (self.targets[len(values[0] or "") % len(self.targets)],)


class Halves(Grouping):
    """A user's grouping that splits whole batches."""

    def choose(self, values: Row) -> Sequence[int]:
        return self.targets[:1]

    def split(self, rows: Sequence[Row], anchors: Sequence[Any] | None) -> list[Share]:
        half = len(rows) // 2
        ends = {self.targets[0]: slice(0, half), self.targets[-1]: slice(half, None)}
        return [(to, rows[part], None if anchors is None else anchors[part]) for to, part in ends.items()]


class ByColumn(ByLength):
    """The same with code for columns."""

    def split_columns(self, batch: Any) -> list[tuple[int, Any]]:
        lengths = pa.compute.binary_length(batch.column("word")).fill_null(0).to_numpy(zero_copy_only=False)
        places = lengths % len(self.targets)
        return [(target, batch.filter(pa.array(places == at))) for at, target in enumerate(self.targets)]


words = st.lists(st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=3), max_size=40)
BY_ROW = [
    lambda: FieldsGrouping(["word"]),
    lambda: FieldsGrouping(["n", "word"]),
    lambda: KeyRangeGrouping(["word"]),
    AllGrouping,
    GlobalGrouping,
    lambda: CustomGrouping(ByLength()),
    lambda: CustomGrouping(FieldsGrouping(["word"])),
    lambda: CustomGrouping(Halves()),
]


@pytest.mark.parametrize("make", BY_ROW)
@given(words, targets.filter(lambda drawn: len(drawn) > 1))
def test_each_row_goes_where_it_would_go_alone(make: Any, drawn: list[Any], targets: list[int]) -> None:
    rows = list(zip(drawn, range(len(drawn)), strict=True))
    expected = {to: [n for _, n in share] for to, share, _ in prepare(make(), targets).split(rows, None) if share}
    assert numbers(split_columns(prepare(make(), targets), ColumnRows(batch(drawn), False))) == expected


@given(words, targets)
def test_partial_key_uses_both_candidates_evenly(drawn: list[Any], targets: list[int]) -> None:
    grouping, rows = prepare(PartialKeyGrouping(["word"]), targets), prepare(PartialKeyGrouping(["word"]), targets)
    went = Counter[int]()
    for part in (drawn, drawn[::-1]):
        found = numbers(split_columns(grouping, ColumnRows(batch(part), False)))
        assert sorted(n for share in found.values() for n in share) == list(range(len(part)))
        for target, share in found.items():
            assert share == sorted(share)
            went[target] += len(share)
            for n in share:
                candidates = rows._memory.find_one(part[n])
                assert target in candidates
    if len(targets) > 1:
        assert {to: used for to, used in grouping.used.items() if used} == went


def test_partial_key_levels_a_hot_key() -> None:
    grouping = prepare(PartialKeyGrouping(["word"]), range(8))
    for size in (7, 100, 1, 2):
        split_columns(grouping, ColumnRows(batch(["hot"] * size), False))
        used = sorted(grouping.used.values())
        assert used[-1] - used[-2] <= 1


@given(words, targets.filter(lambda drawn: len(drawn) > 1), st.data())
def test_partial_key_deals_to_targets_with_free_capacity(
    drawn: list[Any], targets: list[int], data: st.DataObject
) -> None:
    """Each row goes to a candidate with free capacity, and waits for both candidates if neither has any."""
    grouping = prepare(PartialKeyGrouping(["word"]), targets)
    full = data.draw(st.sets(st.sampled_from(targets)))
    found = deal_columns(grouping, ColumnRows(batch(drawn), False), lambda target: target not in full)
    assert found is not None
    shares, rest = found
    went = numbers(shares)
    assert not full & went.keys()
    waits = [n for n, word in enumerate(drawn) if full.issuperset(grouping._memory.find_one(word))]
    assert sorted(n for share in went.values() for n in share) == [n for n in range(len(drawn)) if n not in set(waits)]
    assert (rest is not None) == bool(waits)
    if rest is None:
        return
    assert rest.targets() == {target for n in waits for target in grouping._memory.find_one(drawn[n])}
    closed = data.draw(st.sets(st.sampled_from(targets)))
    lost = rest.lost(closed)
    rows_lost = [] if lost is None else [n for _, n in lost.items]
    assert rows_lost == [n for n in waits if closed.issuperset(grouping._memory.find_one(drawn[n]))]
    while len(rest):
        target = data.draw(st.sampled_from(sorted(rest.targets() - closed)))
        piece = rest.take(target)
        assert piece is not None
        assert 1 <= len(piece) <= -(-len(waits) // len(targets))
        assert all(target in grouping._memory.find_one(word) for word, _ in piece.items)
        rows_lost += [n for _, n in piece.items]
    assert sorted(rows_lost) == waits
    assert all(rest.take(target) is None for target in targets)


def test_the_parts_of_a_chunk_that_waited_are_different_parts() -> None:
    rows = ColumnRows(batch(list("abcdefgh")), False)
    chunk = ColumnRows(rows.batch.replace_schema_metadata({"aiostorm.chunk": "c"}), False)
    grouping = prepare(PartialKeyGrouping(["word"]), [1, 2, 3])
    found = deal_columns(grouping, chunk, lambda target: int(target == 1))
    assert found is not None
    shares, rest = found
    assert rest is not None
    pieces = [share for _, share in shares]
    while len(rest):
        pieces += [piece for target in (2, 3) if (piece := rest.take(target)) is not None]
    assert len({piece.metadata["part"] for piece in pieces}) == len(pieces) > 2


@pytest.mark.parametrize("make", [ShuffleGrouping, LocalOrShuffleGrouping, LocalFirstGrouping])
def test_shuffles_deal_whole_batches_in_turn(make: Any) -> None:
    grouping = prepare(make(), [3, 5, 9], local=[3, 5, 9])
    given_batch = ColumnRows(batch(["a", "b"]), False)
    dealt = Counter[int]()
    for _ in range(30):
        ((target, share),) = split_columns(grouping, given_batch)
        assert share is given_batch
        dealt[target] += 1
    assert dealt == {3: 10, 5: 10, 9: 10}


def test_none_grouping_gives_the_batch_to_any_task() -> None:
    grouping = prepare(NoneGrouping(), [3, 5])
    found = {split_columns(grouping, ColumnRows(batch(["a"]), False))[0][0] for _ in range(40)}
    assert found == {3, 5}


def test_a_choice_of_one_is_handed_on_as_it_is() -> None:
    given_batch = ColumnRows(batch(["a", "a"]), False)
    for grouping in (prepare(FieldsGrouping(["word"]), [4]), prepare(FieldsGrouping(["word"]), range(9))):
        ((_, share),) = split_columns(grouping, given_batch)
        assert share is given_batch
    shares = split_columns(prepare(AllGrouping(), [1, 2]), given_batch)
    assert [share for _, share in shares] == [given_batch, given_batch]


@pytest.mark.parametrize("tasks", [1, 300])
def test_many_targets_and_large_batches(tasks: int) -> None:
    rng = random.Random(3)
    drawn = [f"w{rng.randrange(500)}" for _ in range(5000)]
    grouping = prepare(FieldsGrouping(["word"]), range(tasks))
    found = numbers(split_columns(grouping, ColumnRows(batch(drawn), False)))
    rows = list(zip(drawn, range(5000), strict=True))
    assert found == {to: [n for _, n in share] for to, share, _ in grouping.split(rows, None)}


@pytest.mark.parametrize("make", [*BY_ROW, ShuffleGrouping, NoneGrouping, lambda: PartialKeyGrouping(["word"])])
def test_an_empty_batch_goes_nowhere(make: Any) -> None:
    assert split_columns(prepare(make(), [1, 2]), ColumnRows(batch([]), False)) == []


@pytest.mark.parametrize("tasks", [1, 4])
def test_a_key_of_lists_names_component_stream_and_field(tasks: int) -> None:
    bad = pa.record_batch({"word": pa.array([["a"]]), "n": pa.array([1])})
    for fields in (["word"], ["n", "word"]):
        grouping = prepare(FieldsGrouping(fields), range(tasks))
        with pytest.raises(UnhashableKeyError, match=r"field 'word' of stream 'default' of 'lines'.*'count'.* list"):
            split_columns(grouping, ColumnRows(bad, False))


# -- a user's grouping -------------------------------------------------------------------------------------------------


def test_columns_code_of_a_users_grouping_is_used() -> None:
    drawn = ["a", "bb", "", None, "ccc", "dd"]
    by_row = numbers(split_columns(prepare(CustomGrouping(ByLength()), [1, 2, 3, 9]), ColumnRows(batch(drawn), False)))
    given_batch = ColumnRows(batch(drawn), False)
    by_column = split_columns(prepare(CustomGrouping(ByColumn()), [1, 2, 3, 9]), given_batch)
    assert numbers(by_column) == by_row
    assert given_batch._items is None


def test_the_parts_that_a_users_grouping_makes_of_a_chunk_are_different_parts() -> None:
    chunk = batch(["a", "bb", "", "ccc"]).replace_schema_metadata({"aiostorm.chunk": "c"})
    shares = split_columns(prepare(CustomGrouping(ByColumn()), [1, 2]), ColumnRows(chunk, False))
    assert len({share.metadata["part"] for _, share in shares}) == 2


def test_a_whole_batch_of_a_users_grouping_is_handed_on_as_it_is() -> None:
    given_batch = ColumnRows(batch(["a"]), False)
    assert split_columns(prepare(CustomGrouping(GlobalGrouping()), [1, 2]), given_batch) == [(1, given_batch)]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda given: [(77, given)], r"chose task 77; the tasks of 'count' are 1, 2"),
        (lambda given: [(1, given), (1, given)], "split_columns must return one share for each task"),
        (lambda given: [(1, [("a", 1)])], "split_columns must return RecordBatches, not list"),
    ],
    ids=["no such task", "two shares", "rows"],
)
def test_errors_of_a_users_columns_code_are_reported(answer: Any, message: str) -> None:
    class Wrong(ByLength):
        def split_columns(self, batch: Any) -> list[tuple[int, Any]]:
            return answer(batch)

    with pytest.raises(EmitError, match=message):
        split_columns(prepare(CustomGrouping(Wrong()), [1, 2]), ColumnRows(batch(["a"]), False))


# -- what is emitted ---------------------------------------------------------------------------------------------------


def test_columns_are_taken_by_name() -> None:
    given_batch = pa.record_batch({"n": [1], "more": [0.5], "word": ["a"]})
    assert column_rows(given_batch, ORIGIN, "me").batch.schema.names == ["word", "n"]
    exact = batch(["a"])
    assert column_rows(exact, ORIGIN, "me").batch is exact


@pytest.mark.parametrize(
    ("given_batch", "message"),
    [
        (pa.record_batch({"word": ["a"]}), r"no column 'n'.*rename_columns"),
        (pa.RecordBatch.from_arrays([pa.array([1])] * 3, ["word", "n", "n"]), "2 columns 'n'"),
        (pa.table({"word": ["a"], "n": [1]}), r"to_batches"),
        ([("a", 1)], "use emit"),
    ],
)
def test_rows_that_do_not_fit_are_refused(given_batch: Any, message: str) -> None:
    with pytest.raises(EmitError, match=message):
        column_rows(given_batch, ORIGIN, "component 'lines'")


# -- rows --------------------------------------------------------------------------------------------------------------


def test_rows_are_made_when_they_are_asked_for() -> None:
    rows = ColumnRows(batch(["a", None]), False)
    assert len(rows) == 2
    assert rows._items is None
    assert list(rows) == [("a", 0), (None, 1)]
    assert rows[1:] == [(None, 1)]
    assert rows[0] is rows[0]
    bare = ColumnRows(pa.record_batch({"word": ["a", "b"]}), True)
    assert list(bare) == ["a", "b"]


def test_a_segment_of_columns_is_a_segment_of_rows() -> None:
    segment = Segment(ORIGIN, ColumnRows(batch(["a", "b"]), False), 5, 6, RepeatedAnchor(3, 2))
    assert segment.rows == [("a", 0), ("b", 1)]
    assert segment.tuple_at(1)["word"] == "b"
    assert segment.pairs_of(1) == ((5, 3),)
    assert list(segment.messages) == [(5, 3)]


def test_the_messages_of_rows_are_each_named_once() -> None:
    assert list(Segment(ORIGIN, [("a", 1)] * 3, 5, 6, [0, 2, 0]).messages) == [(5, 0), (5, 2)]
    assert list(Segment(ORIGIN, [("a", 1)]).messages) == []


@pytest.mark.parametrize("kind", [pa.timestamp("ns"), pa.timestamp("ns", "UTC"), pa.duration("ns"), pa.time64("ns")])
def test_nanoseconds_are_whole_microseconds_or_no_rows(kind: Any) -> None:
    whole = ColumnRows(pa.record_batch({"at": pa.array([5000, None], kind)}), True)
    value = whole[0]
    assert value.microsecond == 5 if hasattr(value, "microsecond") else value == dt.timedelta(microseconds=5)
    assert type(value) in (dt.datetime, dt.timedelta, dt.time)
    fine = ColumnRows(pa.record_batch({"at": pa.array([5001], kind)}), True)
    with pytest.raises(ColumnsError, match=r"field 'at'.*execute_arrow"):
        fine[0]
    assert is_batch(fine.readable()[0])


def test_rows_are_made_a_batch() -> None:
    made = batch_of([("a", 1), (None, 2)], ORIGIN)
    assert made.to_pydict() == {"word": ["a", None], "n": [1, 2]}
    assert batch_of(["a"], Origin("lines", 1, "default", Fields("word"))).to_pydict() == {"word": ["a"]}
    given_batch = batch(["a"])
    assert batch_of(ColumnRows(given_batch, False), ORIGIN) is given_batch


@pytest.mark.parametrize("values", [["a", 1], [object(), object()], [2**80, 1]])
def test_a_value_without_an_arrow_type_is_an_error_with_component_and_field(values: list[Any]) -> None:
    with pytest.raises(ColumnsError, match=r"field 'n' of stream 'default' of 'lines'"):
        batch_of([("a", value) for value in values], ORIGIN)


def test_a_repeated_mark_is_a_sequence() -> None:
    anchors = RepeatedAnchor(7, 3)
    assert list(anchors) == [7, 7, 7]
    assert list(anchors[1:]) == [7, 7]
    assert (anchors[0], anchors[-1]) == (7, 7)
    with pytest.raises(IndexError):
        anchors[3]


def test_partial_key_takes_the_first_candidate_for_a_tie_of_columns_too() -> None:
    for word in ("a", "b", "c", "d"):
        by_row, by_column = (prepare(PartialKeyGrouping(["word"]), range(1, 8)) for _ in range(2))
        for _ in range(4):
            ((target, _),) = split_columns(by_column, ColumnRows(batch([word]), False))
            assert [target] == list(by_row.choose((word, 0)))
            assert by_column.used == by_row.used


# -- what is known without rows ----------------------------------------------------------------------------------------


def test_a_batch_is_found_among_values() -> None:
    batch = pa.record_batch({"n": [1]})
    for values, found in (
        ([batch], True),
        ([batch, batch], True),
        ([1, batch], True),
        ([1, 2], False),
        (["a", 1], False),
    ):
        assert columns_module.has_batches(values) is found
    assert columns_module.has_batches([]) is False


def test_rows_without_an_identity_stay_as_they_are() -> None:
    rows = columns_module.ColumnRows(pa.record_batch({"n": [1]}), True)
    assert rows.with_identity_of(None) is rows
    assert rows.with_identity_of(pa.record_batch({"n": [2]})) is rows


def test_the_greatest_value_of_a_column() -> None:
    batch = pa.record_batch({"n": [3, None, 7, 5], "f": [1.5, float("nan"), None, -1.0], "e": pa.nulls(4, pa.int64())})
    assert [columns_module.greatest_of(batch, name) for name in ("n", "f", "e")] == [7, 1.5, None]
