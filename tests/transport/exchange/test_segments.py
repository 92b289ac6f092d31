"""Segments: the rows that come are those that were sent, and what is wrong is found before a segment is made of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiostorm.topology import Fields, Lineage, Origin, RepeatedAnchor, Segment, TimedItems
from aiostorm.transport import (
    PIECE_BYTES,
    PackedItems,
    UnreadableError,
    UnsendableError,
    pack_items,
    pack_segment,
    segments_body,
    split_items,
    unpack_segments,
)
from aiostorm.transport.exchange.segments import MAX_ROW_BYTES

from ...tries import examples
from ..codec.test_values import types, values

WORDS = Origin("split", 3, "default", Fields("word"))
PAIRS = Origin("count", 4, "totals", Fields("word", "count"))
BEATS = Origin("clock", 5, "beats", Fields())
ORIGINS = {(origin.task, origin.stream): origin for origin in (WORDS, PAIRS, BEATS)}

ids = st.integers(1, 2**64 - 1)
indices = st.integers(0, 2**32 - 1)


def origin_of(task: int, stream: str) -> Origin:
    return ORIGINS[task, stream]


def sent(*segments: Segment) -> list[Segment]:
    return unpack_segments(segments_body([pack_segment(segment) for segment in segments]), origin_of)


def shown(segment: Segment) -> Any:
    """All there is to a segment."""
    lineage = segment.lineage
    indices = segment.indices
    return (
        segment.origin,
        list(segment.items),
        types(list(segment.items)),
        segment.root,
        segment.edge,
        segment.open,
        None if indices is None else list(indices),
        isinstance(indices, RepeatedAnchor),
        None if lineage is None else (lineage.edges, list(lineage.pairs), isinstance(lineage.pairs, RepeatedAnchor)),
    )


@st.composite
def segments(draw: st.DrawFn) -> Segment:
    origin = draw(st.sampled_from([WORDS, PAIRS]))
    item = values if origin is WORDS else st.tuples(values, st.one_of(values, st.integers()))
    items = draw(st.lists(item, min_size=1, max_size=5))
    count = len(items)
    match draw(st.sampled_from(["none", "each", "same", "several", "several same"])):
        case "none":
            return Segment(origin, items)
        case "each":
            anchors: Sequence[int] = draw(st.lists(indices, min_size=count, max_size=count))
            return Segment(origin, items, draw(ids), draw(ids), anchors)
        case "same":
            return Segment(origin, items, draw(ids), draw(ids), RepeatedAnchor(draw(indices), count))
        case several:
            edges = draw(st.dictionaries(ids, ids, min_size=1, max_size=4))
            pair = st.tuples(st.sampled_from(sorted(edges)), indices)
            pairs = st.lists(pair, max_size=3).map(tuple)
            rows: Any = draw(st.lists(pairs, min_size=count, max_size=count))
            if several == "several same":
                rows = RepeatedAnchor(rows[0], count)
            return Segment(origin, items, lineage=Lineage(edges, rows))


@settings(max_examples=examples(40))
@given(given_=st.lists(segments(), max_size=3))
def test_unpacked_segments_equal_the_packed_ones(given_: list[Segment]) -> None:
    assert [shown(segment) for segment in sent(*given_)] == [shown(segment) for segment in given_]


def test_rows_that_share_their_anchors_share_them_there() -> None:
    shared = ((7, 0), (8, 3))
    segment = Segment(WORDS, ["a", "b", "c"], lineage=Lineage({7: 1, 8: 2}, [shared, shared, ((8, 1),)]))
    (found,) = sent(segment)
    assert found.lineage is not None
    first, second, third = found.lineage.pairs
    assert first is second
    assert (first, third) == (shared, ((8, 1),))


@pytest.mark.parametrize("count", [1, 15, 16, 30_000])
def test_many_segments_in_a_body(count: int) -> None:
    part = pack_segment(Segment(BEATS, [()] * 2))
    found = unpack_segments(segments_body([part] * count), origin_of)
    assert len(found) == count
    assert found[-1].items == [(), ()]


@pytest.mark.parametrize(
    ("count", "head"),
    [
        (15, b"\x9f"),
        (16, b"\xdc\0\x10"),
        (65_535, b"\xdc\xff\xff"),
        (65_536, b"\xdd\0\1\0\0"),
        (70_000, b"\xdd\0\1\x11\x70"),
    ],
)
def test_a_body_begins_with_the_number_of_its_segments(count: int, head: bytes) -> None:
    assert segments_body([b"\0"] * count) == head + bytes(count)


def test_small_marks_are_cheap() -> None:
    untracked = pack_segment(Segment(WORDS, ["a"] * 640))
    marked = pack_segment(Segment(WORDS, ["a"] * 640, 1, 1, [at // 10 for at in range(640)]))
    same = pack_segment(Segment(WORDS, ["a"] * 640, 1, 1, RepeatedAnchor(9, 640)))
    assert len(marked) - len(untracked) == 642, "a byte a row"
    assert len(same) == len(untracked)


# -- pieces ------------------------------------------------------------------------------------------------------------


@given(
    sizes=st.lists(st.integers(0, 300), min_size=1, max_size=60),
    bare=st.booleans(),
    marked=st.sampled_from(["none", "each", "same"]),
)
def test_pieces_are_the_items_again(sizes: list[int], bare: bool, marked: str) -> None:
    origin = WORDS if bare else PAIRS
    items: list[Any] = ["x" * size if bare else ("x" * size, size) for size in sizes]
    anchors: Any = {"none": None, "each": list(range(len(items))), "same": RepeatedAnchor(1, len(items))}[marked]
    pieces = split_items(origin, items, anchors, 400)
    assert [item for piece, _ in pieces for item in piece] == items
    assert all(len(piece.columns) < 534 or len(piece) == 1 for piece, _ in pieces)
    if anchors is None:
        assert [part for _, part in pieces] == [None] * len(pieces)
    else:
        assert [anchor for _, part in pieces for anchor in part] == list(anchors)
        assert [len(part) for _, part in pieces] == [len(piece) for piece, _ in pieces]


def test_few_bytes_are_one_piece_and_many_are_several() -> None:
    assert len(split_items(WORDS, ["word"] * 1000)) == 1
    pieces = split_items(WORDS, [1] * 20_000)
    assert [len(piece) for piece, _ in pieces] == [6667, 6667, 6666]
    pieces = split_items(WORDS, ["x" * 1000] * 1000)
    assert all(PIECE_BYTES // 2 < len(piece.columns) <= PIECE_BYTES * 4 // 3 for piece, _ in pieces)
    assert len(pieces) == 21


def test_packed_items_look_like_the_items() -> None:
    packed = pack_items(PAIRS, [("a", 1), ("b", [2])])
    assert (len(packed), packed[1], list(packed), packed[:1]) == (2, ("b", [2]), [("a", 1), ("b", [2])], [("a", 1)])
    assert shown(sent(Segment(PAIRS, packed, 1, 2, [0, 1]))[0]) == shown(
        Segment(PAIRS, [("a", 1), ("b", [2])], 1, 2, [0, 1])
    )


# -- what cannot be sent -----------------------------------------------------------------------------------------------


def test_a_row_that_cannot_be_sent_is_named() -> None:
    items = [("a", 1), ("b", {"at": [object()]}), (object(), 3)]
    with pytest.raises(UnsendableError) as caught:
        pack_items(PAIRS, items)
    assert str(caught.value).startswith(
        "'count' emits on stream 'totals', field 'count', at ['at'][0]: a value of type builtins.object cannot be sent"
    )
    assert caught.value.offset == 1
    with pytest.raises(UnsendableError) as caught:
        split_items(PAIRS, [("a", 1)] * 10_000 + items)
    assert caught.value.offset == 10_001


@pytest.mark.parametrize(("first", "second"), [(0, 1), (1, 0), (1, 2), (2, 1), (1, 1)])
def test_of_rows_that_cannot_be_sent_the_first_one_is_named(first: int, second: int) -> None:
    words: list[Any] = ["a", "b", "c"]
    counts: list[Any] = [1, 2, 3]
    words[first], counts[second] = object(), object()
    with pytest.raises(UnsendableError, match="field 'word'" if first <= second else "field 'count'") as caught:
        pack_items(PAIRS, list(zip(words, counts, strict=True)))
    assert caught.value.offset == min(first, second)


def test_a_row_that_a_receiver_would_refuse_is_named() -> None:
    """An empty set counts as five values."""
    few, many = (frozenset(),) * 49_000, (frozenset(),) * 51_000
    assert len(split_items(PAIRS, [("small", 1), (few, 2)])) == 2
    with pytest.raises(UnsendableError, match=r"'totals', field 'word': .*: send it in parts") as caught:
        split_items(PAIRS, [("small", 1), (many, 2)])
    assert caught.value.offset == 1
    with pytest.raises(UnsendableError, match="field 'word'") as caught:
        split_items(WORDS, ["small", "small", many])
    assert caught.value.offset == 2


def test_a_row_that_is_too_large_is_named() -> None:
    fits = "x" * (MAX_ROW_BYTES - 40)
    assert len(split_items(PAIRS, [("small", 1), (fits, 2)])) == 2
    with pytest.raises(
        UnsendableError, match=r"'totals', field 'word': a row is too large .* 1,04\d,\d{3} bytes"
    ) as caught:
        split_items(PAIRS, [("small", 1), (fits + "x" * 99, 2)])
    assert caught.value.offset == 1
    with pytest.raises(UnsendableError, match="'word': a value of more than 250000 values") as caught:
        split_items(PAIRS, [("small", 1), ((0,) * 250_001, 2)])
    assert caught.value.offset == 1
    anchors = tuple((1, index) for index in range(50_000))
    with pytest.raises(UnsendableError, match="its anchors: a row is too large"):
        split_items(WORDS, ["a"], [anchors])


# -- what comes --------------------------------------------------------------------------------------------------------

PLAIN = msgpack.packb(["a", "b"])
GOOD = [3, "default", 7, 9, b"\0\1", 2, [PLAIN]]


def changed(at: int, value: Any) -> list[Any]:
    return [*GOOD[:at], value, *GOOD[at + 1 :]]


def edges(*numbers: int) -> bytes:
    return b"".join(number.to_bytes(8, "little") for number in numbers)


LINEAGE = [3, "default", 0, 0, [edges(7, 9), [bytes(8)], 0], 2, [PLAIN]]


def with_anchors(anchors: Any) -> list[Any]:
    return [*LINEAGE[:4], anchors, *LINEAGE[5:]]


def test_the_examples_are_good_but_for_what_is_changed() -> None:
    good, several = unpack_segments(msgpack.packb([GOOD, LINEAGE]), origin_of)
    assert (good.items, list(good.indices or ())) == (["a", "b"], [0, 1])
    assert several.lineage is not None
    assert list(several.lineage.pairs) == [((7, 0),), ((7, 0),)]


@pytest.mark.parametrize(
    "segment",
    [
        *(changed(0, task) for task in (True, "3", 4, -1, 2**31, 2**63)),
        *(changed(1, stream) for stream in (b"default", "other", 3, None)),
        *(changed(2, root) for root in (0, -1, True, None, 1.0)),
        *(changed(3, edge) for edge in (0, -1, True, None)),
        *(changed(4, anchors) for anchors in (None, b"\0", b"\0\1\2", bytes(16), -1, 2**32, True, "\0\1", [0, 1])),
        *(changed(5, count) for count in (0, 1, 3, -1, True, None, 2**62)),
        *(changed(6, columns) for columns in (PLAIN, [], [PLAIN, PLAIN], None, [None], [[PLAIN, PLAIN]], [[[PLAIN]]])),
        *(changed(6, [column]) for column in (b"", PLAIN[:-1], PLAIN + b"\0", b"\x01", b"\x91\x01", b"\xdc\0\2\1")),
        *(changed(6, [b"\x92" + held + b"\1"]) for held in (b"\x90", b"\x80", b"\xd4\x07\x01", b"\xd6\xff\0\0\0\1")),
        *(changed(6, [[column]]) for column in (b"", b"\x91\x01", b"\x93\1\2\3", b"\xd5\x01\x92\1", b"\x81\xa1a\x01")),
        changed(6, msgpack.ExtType(19, b"noise")),
        changed(6, msgpack.ExtType(1, b"\x92\1\2")),
        [*GOOD, 1],
        GOOD[:-1],
        {},
        7,
        *(with_anchors(anchors) for anchors in ([], [edges(7, 9), [bytes(8)]], [edges(7, 9), [bytes(8)], 0, 0])),
        *(with_anchors([packed, [bytes(8)], 0]) for packed in (edges(7), edges(0, 9), edges(7, 0), "", b"")),
        with_anchors([edges(7, 9, 7, 8), [bytes(8)], 0]),
        *(with_anchors([edges(7, 9), sets, 0]) for sets in ([], [bytes(7)], [b"\1" + bytes(7)], [0], bytes(8))),
        *(with_anchors([edges(7, 9), [bytes(8)], rows]) for rows in (1, b"\0", b"\0\1", -1, None, [0, 0])),
        [3, "default", 7, 9, *LINEAGE[4:]],
        [5, "beats", 0, 0, None, 100_000, []],
    ],
)  # fmt: skip
def test_one_malformed_segment_refuses_the_frame(segment: Any) -> None:
    with pytest.raises(UnreadableError):
        unpack_segments(msgpack.packb([GOOD, segment]), origin_of)


@pytest.mark.parametrize("body", [b"", b"\x90\x00", b"\x80", b"\x01", b"\x91\x91" * 9, b"\xdd\xff\xff\xff\xff"])
def test_a_malformed_body_is_refused(body: bytes) -> None:
    with pytest.raises(UnreadableError):
        unpack_segments(body, origin_of)


def test_items_may_be_packed_or_not() -> None:
    assert isinstance(split_items(WORDS, ["a"])[0][0], PackedItems)
    assert pack_segment(Segment(WORDS, ["a"])) == pack_segment(Segment(WORDS, pack_items(WORDS, ["a"])))


CONTEXT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

times = st.lists(st.integers(-(2**47), 2**47) | st.text(max_size=20).map(ValueError), min_size=1, max_size=9)


@given(times, st.booleans(), st.none() | st.integers(0, 2**50), st.sampled_from(["", CONTEXT, f"{CONTEXT} a=1"]))
def test_times_of_rows_and_a_context_travel_with_them(
    said: list[Any], marked: bool, ingested_ms: int | None, context: str
) -> None:
    items = TimedItems([("word", n) for n in range(len(said))], said)
    segment = Segment(PAIRS, items, 1, 2, list(range(len(said)))) if marked else Segment(PAIRS, items)
    segment.ingested_ms, segment.traced = ingested_ms, context or True
    (came,) = sent(segment)
    assert shown(came) == shown(segment)
    assert came.ingested_ms == ingested_ms
    assert came.traced == (context or False)  # the receiver sees in the root whether it is sampled
    assert type(came.items) is TimedItems
    assert [str(at) for at in came.items.times] == [
        str(at) if isinstance(at, int) else f"ValueError: {at}" if str(at) else "ValueError" for at in said
    ]
    part = items[1:]
    assert (list(part), part.times) == (list(items)[1:], said[1:])


def test_pieces_have_their_own_times() -> None:
    items = TimedItems(["x" * 100] * 2_000, range(2_000))
    pieces = split_items(WORDS, items)
    assert len(pieces) > 1
    came = sent(*(Segment(WORDS, packed) for packed, _ in pieces))
    assert [at for segment in came for at in segment.items.times] == list(range(2_000))  # type: ignore[attr-defined]


@pytest.mark.parametrize("wrong", [[1], [1, 2, 3], [1, None], [1, 2.5], [1, b"x"], [1, True]])
def test_times_that_are_none_are_refused(wrong: list[Any]) -> None:
    head = msgpack.packb([3, "default", 0, 0, None, 2, msgpack.packb(wrong), 0])[:-1]
    with pytest.raises(UnreadableError):
        unpack_segments(b"\x91" + head + pack_items(WORDS, ["a", "b"]).columns, origin_of)


@pytest.mark.parametrize(
    "more", [[b"\x92\x01\x02", 5], [5, 5], [5, b"\x92\x01\x02", 5], ["5", 5], ["5", "5"], ["5" * 601], [b"\xc1"]]
)
def test_more_parts_than_there_are_are_refused(more: list[Any]) -> None:
    head = msgpack.packb([3, "default", 0, 0, None, 2, *more, 0])[:-1]
    with pytest.raises(UnreadableError):
        unpack_segments(b"\x91" + head + pack_items(WORDS, ["a", "b"]).columns, origin_of)
