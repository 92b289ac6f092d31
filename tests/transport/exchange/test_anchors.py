"""Anchors as bytes: what a receiver accepts, and what one segment leaves for the next."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiostorm.topology import Fields, Lineage, Origin, RepeatedAnchor, Segment
from aiostorm.transport import UnreadableError, pack_pairs, unpack_value
from aiostorm.transport.exchange.anchors import anchors_size, pack_anchors, unpack_anchors

ORIGIN = Origin("words", 1, "default", Fields("word"))
LARGEST_ID = 2**64 - 1


def sent(segment: Segment) -> Any:
    """Its anchors, as the other process unpacks them: indices, lineage."""
    packed = unpack_value(msgpack.packb(pack_anchors(segment)))
    return unpack_anchors(packed, segment.root, segment.edge, len(segment.items))


def lineage(edges: dict[int, int], *rows: tuple[tuple[int, int], ...]) -> Segment:
    return Segment(ORIGIN, ["row"] * len(rows), lineage=Lineage(edges, rows))


@pytest.mark.parametrize("anchors", [b"\0\1", 5])
def test_a_root_and_an_edge_are_numbers_of_64_bits(anchors: Any) -> None:
    for root, edge in ((1, 1), (LARGEST_ID, 1), (1, LARGEST_ID)):
        unpack_anchors(anchors, root, edge, 2)
    for root, edge in (
        (0, 1),
        (1, 0),
        (LARGEST_ID + 1, 1),
        (1, LARGEST_ID + 1),
        (True, 1),
        (1, True),
        (-1, 1),
        (1, -1),
    ):
        with pytest.raises(UnreadableError, match="without a root or an edge"):
            unpack_anchors(anchors, root, edge, 2)


@pytest.mark.parametrize("anchors", [None, (pack_pairs([(7, 9)]), (bytes(8),), 0)])
def test_rows_without_an_index_are_of_no_root(anchors: Any) -> None:
    unpack_anchors(anchors, 0, 0, 2)
    for root, edge in ((1, 0), (0, 1)):
        with pytest.raises(UnreadableError, match="with a root, and rows without an index"):
            unpack_anchors(anchors, root, edge, 2)


def test_one_index_for_all_rows_has_32_bits() -> None:
    for index in (0, 2**32 - 1):
        found, _ = unpack_anchors(index, 1, 2, 3)
        assert type(found) is RepeatedAnchor
        assert list(found) == [index] * 3
    for wrong in (-1, 2**32, True):
        with pytest.raises(UnreadableError, match="not numbers"):
            unpack_anchors(wrong, 1, 2, 3)


def test_every_pair_names_an_edge_and_every_row_a_set() -> None:
    edges = pack_pairs([(7, 9), (8, 9)])
    second = b"\1\0\0\0\5\0\0\0"
    _, found = unpack_anchors((edges, (bytes(8), second), b"\1\0"), 0, 0, 2)
    assert found is not None
    assert (found.edges, list(found.pairs)) == ({7: 9, 8: 9}, [((8, 5),), ((7, 0),)])
    with pytest.raises(UnreadableError, match="root has no edge"):
        unpack_anchors((edges, (b"\2" + bytes(7),), 0), 0, 0, 2)
    for rows in (b"\1\2", b"\2\0", 2):
        with pytest.raises(UnreadableError, match="set of pairs is missing"):
            unpack_anchors((edges, (bytes(8), second), rows), 0, 0, 2)


def test_equal_sets_of_segments_with_other_roots_are_other_pairs() -> None:
    """The last set is kept for the next segment: only with the same roots is it the same."""
    for edges in ({7: 1, 8: 2}, {8: 2, 7: 1}, {9: 1}):
        first = next(iter(edges))
        pairs = ((first, 3),)
        _, found = sent(lineage(edges, pairs))
        assert list(found.pairs) == [pairs]
    shared = ((8, 3),)
    for edges in ({7: 1, 8: 2}, {8: 2, 7: 1}):
        _, found = sent(lineage(edges, shared))
        assert list(found.pairs) == [shared]


indices = st.integers(0, 2**32 - 1)


@st.composite
def segments(draw: st.DrawFn) -> Segment:
    count = draw(st.integers(1, 6))
    items = ["row"] * count
    if draw(st.booleans()):
        one: Any = RepeatedAnchor(draw(indices), count)
        several: Any = draw(st.lists(indices, min_size=count, max_size=count))
        return Segment(ORIGIN, items, 5, 6, draw(st.sampled_from([one, several])))
    pair = st.tuples(st.sampled_from([3, 4]), indices)
    sets = draw(st.lists(st.lists(pair, max_size=4).map(tuple), min_size=1, max_size=3))
    rows: Any = [draw(st.sampled_from(sets)) for _ in items]
    if draw(st.booleans()):
        rows = RepeatedAnchor(sets[0], count)
    return Segment(ORIGIN, items, lineage=Lineage({3: 1, 4: 2}, rows))


@given(segments())
def test_the_estimated_size_is_no_less_than_the_bytes_and_near_them(segment: Segment) -> None:
    anchors: Any = segment.indices if segment.lineage is None else segment.lineage.pairs
    edges = 0 if segment.lineage is None else 16 * len(segment.lineage.edges)
    size = len(msgpack.packb(pack_anchors(segment))) - edges
    assert size - 8 <= anchors_size(anchors) <= 4 * size + 8


def test_the_size_counts_each_shared_set_once() -> None:
    pairs = ((3, 0), (4, 1))
    assert anchors_size(None) == anchors_size([]) == 0
    one = anchors_size([pairs])
    assert anchors_size([pairs] * 10) == one + 9 * 4
    assert anchors_size([pairs, ((3, 0), (4, 2))]) == 2 * one
    assert anchors_size(RepeatedAnchor(pairs, 1000)) < one
    assert anchors_size(RepeatedAnchor(5, 1000)) == 8
    assert anchors_size([5] * 1000) == 4000
