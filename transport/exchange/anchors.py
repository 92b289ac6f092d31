"""Anchors: which messages the rows of a segment belong to, as a value of msgpack.

| rows are | encoded as |
|---|---|
| untracked | nil |
| of one root, each with its message | bytes: the index of each row's message (numbers.pack_small) |
| of one root, all of one message (RepeatedAnchor) | its index |
| of several roots (Lineage) | array: edges, sets of pairs, rows |

In a lineage, `edges` are pairs (root, edge), 16 bytes each. Each set of pairs is bytes: the position of a root in the
edges and the index of a message, in turn, 4 bytes each. `rows` is the number of each row's set (encoded as above, or
one number for all). Rows that share their pairs here share them at the receiver.

1. Received anchors are checked before a segment is made: ids from 1 to 2**64 - 1, one anchor for each row, positions
   that exist.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...topology.tuples import Lineage, RepeatedAnchor, Segment
from ..codec.numbers import pack_pairs, pack_small, unpack_numbers, unpack_pairs, unpack_small
from ..errors import UnreadableError

if TYPE_CHECKING:
    from ...topology import Anchor
    from ..codec import Received, Walked

Pairs = tuple[tuple[int, int], ...]
MAX_ID = 2**64 - 1
MAX_INDEX = 2**32 - 1


def pack_anchors(segment: Segment) -> Walked:
    """The anchors of a segment, for msgpack."""
    if segment.lineage is not None:
        return _pack_lineage(segment.lineage)
    indices = segment.indices
    if not segment.root or indices is None:
        return None
    return indices.anchor if type(indices) is RepeatedAnchor else pack_small(indices)


def _pack_lineage(lineage: Lineage) -> Walked:
    places = {root: place for place, root in enumerate(lineage.edges)}
    rows = lineage.pairs
    sets: dict[int, int] = {}
    packed: list[bytes] = []

    def place_of(pairs: Pairs) -> int:
        found = sets.get(id(pairs))
        if found is None:
            found = sets[id(pairs)] = len(packed)
            packed.append(_pack_set(pairs, places))
        return found

    numbers = place_of(rows.anchor) if type(rows) is RepeatedAnchor else pack_small([place_of(pairs) for pairs in rows])
    return (pack_pairs(lineage.edges.items()), packed, numbers)


def _pack_set(pairs: Pairs, places: dict[int, int]) -> bytes:
    # The last set is cached: the rows of a batch share their pairs, and go to several tasks.
    roots = tuple(places)
    if _packed.pairs is not pairs or _packed.roots != roots:
        _packed.pairs, _packed.roots = pairs, roots
        _packed.data = b"".join(
            [places[root].to_bytes(4, "little") + index.to_bytes(4, "little") for root, index in pairs]
        )
    return _packed.data


def anchors_size(anchors: Sequence[Anchor] | None) -> int:
    """An upper estimate of the bytes of some anchors: indices, or sets of pairs."""
    if anchors is None or not anchors:
        return 0
    if type(anchors) is RepeatedAnchor:
        return 8 if type(anchors.anchor) is int else _set_size(anchors.anchor)
    if type(anchors[0]) is int:
        return 4 * len(anchors)
    return 4 * len(anchors) + sum(map(_set_size, {id(pairs): pairs for pairs in anchors}.values()))


def _set_size(pairs: Pairs) -> int:
    return 8 + 24 * len(pairs)


def unpack_anchors(anchors: Received, root: int, edge: int, count: int) -> tuple[Sequence[int] | None, Lineage | None]:
    """Indices or lineage of `count` rows. UnreadableError if they do not fit the segment."""
    kind = type(anchors)
    if anchors is None or kind is tuple:
        if root or edge:
            raise UnreadableError("a segment with a root, and rows without an index")
        return None, None if anchors is None else _lineage(anchors, count)
    if not (type(root) is int and 0 < root <= MAX_ID and type(edge) is int and 0 < edge <= MAX_ID):
        raise UnreadableError("a segment with anchors and without a root or an edge")
    return _which(anchors, count), None


def _which(anchors: Received, count: int) -> Sequence[int]:
    if type(anchors) is int and 0 <= anchors <= MAX_INDEX:
        return RepeatedAnchor(anchors, count)
    if type(anchors) is not bytes:
        raise UnreadableError("anchors that are not numbers")
    return unpack_small(anchors, count)


def _lineage(anchors: tuple[Received, ...], count: int) -> Lineage:
    if len(anchors) != 3 or type(anchors[0]) is not bytes or type(anchors[1]) is not tuple:
        raise UnreadableError("a lineage consists of edges, sets of pairs, and rows")
    packed, sets, rows = anchors
    edges = unpack_pairs(packed)
    by_root = dict(edges)
    if len(by_root) != len(edges) or 0 in by_root or 0 in by_root.values():
        raise UnreadableError("a lineage with a repeated root, or an id that is zero")
    roots = list(by_root)
    found = [_set(pairs, roots) for pairs in sets]
    which = _which(rows, count)
    if max(which) >= len(found):
        raise UnreadableError("a lineage with a row whose set of pairs is missing")
    if type(which) is RepeatedAnchor:
        return Lineage(by_root, RepeatedAnchor(found[which.anchor], count))
    return Lineage(by_root, [found[place] for place in which])


class _Set:
    """The last set of pairs that was packed or unpacked; the next segment usually has the same."""

    __slots__ = ("data", "pairs", "roots")

    def __init__(self) -> None:
        self.data = b""
        self.pairs: Pairs = ()
        self.roots: tuple[int, ...] = ()


_packed = _Set()
_unpacked = _Set()


def _set(packed: Received, roots: list[int]) -> Pairs:
    if type(packed) is not bytes:
        raise UnreadableError("a set of pairs that is not bytes")
    if packed != _unpacked.data or _unpacked.roots != tuple(roots):
        _unpacked.pairs = _make_set(packed, roots)
        _unpacked.data, _unpacked.roots = packed, tuple(roots)
    return _unpacked.pairs


def _make_set(packed: bytes, roots: list[int]) -> Pairs:
    pairs = [(number & MAX_INDEX, number >> 32) for number in unpack_numbers(packed)]
    if any(place >= len(roots) for place, _ in pairs):
        raise UnreadableError("a pair whose root has no edge")
    return tuple([(roots[place], index) for place, index in pairs])
