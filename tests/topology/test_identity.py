"""Identity: chunk and part of a batch: different for each part or copy, and the same again on each replay."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiostorm.topology import (
    AllGrouping,
    ColumnRows,
    CustomGrouping,
    Fields,
    FieldsGrouping,
    GlobalGrouping,
    Grouping,
    Origin,
    Row,
    Segment,
    ShuffleGrouping,
    Tuple,
    has_identity,
    metadata_of,
    part_of,
    pieces_of,
    split_columns,
    with_identity_of,
)

from .strategies import prepare

pa: Any = pytest.importorskip("pyarrow")

NAMED = {b"aiostorm.chunk": b"flights/7/3", b"aiostorm.batch": b"17"}
SHOWN = {"chunk": "flights/7/3", "batch": "17"}


def batch(words: list[str], metadata: Any = NAMED) -> Any:
    made = pa.record_batch({"word": pa.array(words, pa.string()), "n": pa.array([1] * len(words))})
    return made.replace_schema_metadata(metadata)


def test_a_tuple_shows_the_metadata_of_its_batch_and_an_ordinary_tuple_has_none() -> None:
    origin = Origin("flights", 1, "default", Fields("word", "n"))
    rows = ColumnRows(batch(["a", "b"], {**NAMED, b"other": b"x", b"aiostorm.odd": b"\xff"}), False)
    assert Segment(origin, rows).tuple_at(1).metadata == {**SHOWN, "odd": "�"}
    assert Tuple(("a", 1), Segment(origin, [("a", 1)]), 0).metadata == {}
    assert metadata_of(batch(["a"], {b"pandas": b"{}"})) == {}
    with pytest.raises(TypeError):
        Segment(origin, rows).tuple_at(0).metadata["chunk"] = "mine"  # type: ignore[index]


@given(st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=40), st.integers(1, 5))
def test_shares_of_one_chunk_differ_and_come_out_the_same_again(words: list[str], count: int) -> None:
    grouping = prepare(FieldsGrouping(Fields("word")), list(range(count)))
    rows = ColumnRows(batch(words), False)
    first = [(to, share.metadata) for to, share in split_columns(grouping, rows)]
    again = prepare(FieldsGrouping(Fields("word")), list(range(count)))
    assert [(to, share.metadata) for to, share in split_columns(again, rows)] == first
    parts = [found.get("part") for _, found in first]
    assert len(set(parts)) == len(parts)
    assert all(found["chunk"] == "flights/7/3" for _, found in first)


def test_a_batch_that_is_not_split_is_the_batch_and_copies_of_it_differ() -> None:
    rows = ColumnRows(batch(["a", "b"]), False)
    for whole in (ShuffleGrouping(), GlobalGrouping()):
        [(_, share)] = split_columns(prepare(whole, [1, 2, 3]), rows)
        assert share is rows
    copies = [share.metadata["part"] for _, share in split_columns(prepare(AllGrouping(), [1, 2, 3]), rows)]
    assert len(set(copies)) == 3


def test_a_users_grouping_that_copies_gives_each_copy_its_part() -> None:
    class Twice(Grouping):
        def choose(self, values: Any) -> Any:
            return self.targets[:2]

    shares = split_columns(prepare(Twice(), [1, 2, 3]), ColumnRows(batch(["a"]), False))
    assert len({share.metadata["part"] for _, share in shares}) == 2


def test_emitted_rows_have_the_identity_of_the_executed_batch() -> None:
    given_batch = part_of(batch(["a", "b"]), 0, 2)
    plain = batch(["x"], None)
    first, second = (with_identity_of(plain, given_batch, "bolt", "default", at) for at in (0, 1))
    assert metadata_of(first)["chunk"] == metadata_of(second)["chunk"] == "flights/7/3"
    assert len({metadata_of(found)["part"] for found in (given_batch, first, second)}) == 3
    assert with_identity_of(plain, given_batch, "bolt", "default", 0).schema.metadata == first.schema.metadata
    inherited = with_identity_of(given_batch.filter(pa.array([True, False])), given_batch, "bolt", "default", 0)
    assert inherited.schema.metadata == first.schema.metadata, "pyarrow kept the input's: it is an output all the same"
    assert with_identity_of(plain, plain, "bolt") is plain


def test_rows_of_no_single_batch_have_no_identity() -> None:
    kept = with_identity_of(batch(["a"], {**NAMED, b"mine": b"1"}), None)
    assert kept.schema.metadata == {b"mine": b"1"}
    assert not has_identity(kept)
    other = batch(["a"], {b"aiostorm.chunk": b"flights/7/2"})
    assert metadata_of(with_identity_of(other, batch(["b"]), "bolt"))["chunk"] == "flights/7/3", (
        "kept back from another call"
    )


@given(st.integers(1, 300), st.integers(8, 600))
def test_pieces_are_all_rows_in_order_each_with_its_part(rows: int, most_bytes: int) -> None:
    whole = batch(["a"] * rows)
    pieces = pieces_of(whole, most_bytes)
    assert sum(piece.num_rows for piece in pieces) == rows
    assert len({metadata_of(piece).get("part") for piece in pieces}) == len(pieces)
    longer = pa.concat_tables([pa.Table.from_batches([b]) for b in (whole, whole)]).combine_chunks().to_batches()[0]
    copied = pa.record_batch(  # the same rows, held in another way
        [pa.Array.from_buffers(c.type, rows, [pa.py_buffer(b"\xff" * rows), *c.buffers()[1:]]) for c in longer.columns],
        schema=whole.schema,
    )
    assert copied.equals(whole)
    assert [p.schema.metadata for p in pieces_of(copied, most_bytes)] == [p.schema.metadata for p in pieces]


def test_a_batch_without_identity_stays_as_it_is() -> None:
    plain, foreign = batch(["a"], None), batch(["a"], {b"pandas": b"{}"})
    assert part_of(plain, 1) is plain
    assert part_of(foreign, 1) is foreign
    assert with_identity_of(plain, foreign, "bolt") is plain


def test_two_rows_are_two_pieces_and_what_fits_is_one() -> None:
    two = batch(["a" * 1000] * 2)
    size = pa.ipc.get_record_batch_size(two)
    assert [piece.num_rows for piece in pieces_of(two, size - 1)] == [1, 1]
    assert all(whole is two for most_bytes in (size, size + 1, 2 * size) for whole in pieces_of(two, most_bytes))
    [one] = pieces_of(two.slice(1), 10)
    assert one.num_rows == 1


class Given(Grouping):
    """Splits a batch of columns with this function."""

    def __init__(self, split: Callable[[Any], list[Any]]) -> None:
        self.split_as = split

    def choose(self, values: Row) -> Sequence[int]:
        return [self.targets[0]]

    def split_columns(self, batch: Any) -> list[tuple[int, Any]]:
        return list(zip(self.targets, self.split_as(batch), strict=False))


def test_slices_of_a_users_grouping_are_different_parts_and_the_whole_batch_is_itself() -> None:
    given_batch = batch(["a", "b", "c"], NAMED)

    def split(how: Callable[[Any], list[Any]]) -> list[Any]:
        shares = prepare(CustomGrouping(Given(how)), [3, 5, 7]).split_columns(given_batch)
        return [share for _, share in shares]

    [whole] = split(lambda found: [found])
    assert whole is given_batch
    [whole] = split(lambda found: [found[:0], found, found[:0]])
    assert whole is given_batch, "a part without rows is none"
    identities = {
        tuple(sorted(share.schema.metadata.items()))
        for shares in (
            [given_batch],
            split(lambda found: [found[1:]]),
            split(lambda found: [found, found]),
            split(lambda found: [found[:1], found[1:]]),
            split(lambda found: [found, found, found]),
        )
        for share in shares
    }
    assert len(identities) == 1 + 1 + 2 + 3, "two of two have the same names, whatever rows are in them"
