"""Shares: anchors that are split when they are first used are those that a plain split gives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiostorm.topology import share_each, share_out
from aiostorm.topology.groupings.shares import DealtAnchors

from ..strategies import numbered

bounds = st.none() | st.integers(-3, 12)


class Once(list[Any]):
    """Anchors that may be read once."""

    def __iter__(self) -> Iterator[Any]:
        yield from super().__iter__()
        self.clear()


@given(st.lists(st.integers(0, 3), max_size=12), bounds, bounds, bounds, bounds)
def test_anchors_split_later_are_those_of_a_plain_split(
    places: list[int], start: int | None, stop: int | None, inner_start: int | None, inner_stop: int | None
) -> None:
    anchors = [f"a{i}" for i in range(len(places))]
    dealt = DealtAnchors(Once(anchors), places, 4)
    for place in range(4):
        plain = [anchor for anchor, at in zip(anchors, places, strict=True) if at == place]
        share = dealt.share(place)
        assert len(share) == len(plain)
        assert list(share) == plain
        assert share == plain
        assert share == tuple(plain)
        assert share != [*plain, "more"]
        assert share != 5
        assert repr(share) == repr(plain)
        assert [share[i] for i in range(len(plain))] == plain
        part = share[start:stop]
        assert list(part) == plain[start:stop]
        assert len(part) == len(plain[start:stop])
        assert list(part[inner_start:inner_stop]) == plain[start:stop][inner_start:inner_stop]


def test_cutting_a_share_does_not_split_its_anchors() -> None:
    anchors = Once("abcd")
    part = DealtAnchors(anchors, [0, 1, 0, 0], 2).share(0)[1:]
    assert len(anchors) == 4
    assert part[0] == "c"
    assert len(anchors) == 0


def test_anchors_have_no_hash() -> None:
    with pytest.raises(TypeError, match="compared, not hashed"):
        hash(DealtAnchors([1], [0], 1).share(0))


@given(st.lists(st.integers(1, 4), max_size=20), st.booleans())
def test_a_share_for_each_target_in_the_order_of_the_rows(chosen: list[int], tracked: bool) -> None:
    rows = numbered(len(chosen))
    anchors = [f"a{i}" for i in range(len(chosen))] if tracked else None
    expected = []
    for target in dict.fromkeys(chosen):
        own = [i for i, one in enumerate(chosen) if one == target]
        expected.append((target, [rows[i] for i in own], None if anchors is None else [anchors[i] for i in own]))
    assert share_each(chosen, rows, anchors) == expected
    assert share_out([(target,) for target in chosen], rows, anchors) == expected
    assert share_out([() for _ in chosen], rows, anchors) == []
    both = [(9, 8)] * len(chosen)
    assert share_out(both, rows, anchors) == ([(9, rows, anchors), (8, rows, anchors)] if rows else [])
