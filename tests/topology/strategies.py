"""What the tests of this package draw from: values, batches, targets, and a prepared grouping."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from hypothesis import strategies as st

from aiostorm.topology import Fields, Grouping, GroupingContext, Row, Share, StreamId, never

SOURCE = StreamId("lines")

plain_keys = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.decimals().filter(lambda number: not number.is_snan()),  # Python itself cannot hash a signalling NaN
    st.fractions(),
    st.text(max_size=8),
    st.binary(max_size=8),
    st.datetimes(timezones=st.none() | st.timezones()),
    st.dates(),
    st.uuids(),
)
keys = st.recursive(
    plain_keys,
    lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=3),
    max_leaves=5,
)
targets = st.lists(st.integers(1, 1000), min_size=1, max_size=9, unique=True)
batch_sizes = st.lists(st.integers(0, 70), max_size=12)


def prepare(
    grouping: Grouping,
    targets: Iterable[int],
    *,
    fields: Fields | None = None,
    seed: int = 7,
    is_high: Callable[[int], bool] = never,
    local: Iterable[int] = (),
    same_node: Iterable[int] = (),
    cache_keys: int = 65_536,
) -> Any:
    """The grouping, prepared for task 1 of "lines" emitting to "count"."""
    context = GroupingContext(
        component="lines",
        task_id=1,
        consumer="count",
        fields=fields or Fields("word", "n"),
        rng=random.Random(seed),
        is_high=is_high,
        local=frozenset(local),
        same_node=frozenset(same_node),
        cache_keys=cache_keys,
    )
    grouping.prepare(context, SOURCE, list(targets))
    return grouping


def numbered(count: int, start: int = 0) -> list[Row]:
    """Rows that are all different."""
    return [(f"w{i}", i) for i in range(start, start + count)]


def split_all(grouping: Grouping, sizes: Iterable[int]) -> Counter[int]:
    """Rows per target over batches of these sizes."""
    counts: Counter[int] = Counter()
    for size in sizes:
        for target, rows, _ in grouping.split(numbered(size), None):
            counts[target] += len(rows)
    return counts


def check_shares(shares: Sequence[Share], rows: Sequence[Row], anchors: Sequence[Any] | None) -> dict[Row, list[int]]:
    """What holds for every split: one share a target, order kept, anchors beside their rows. Row → its targets."""
    assert len({target for target, _, _ in shares}) == len(shares)
    places = {row: i for i, row in enumerate(rows)}
    assert len(places) == len(rows), "the test's rows must differ"
    went: dict[Row, list[int]] = {row: [] for row in rows}
    for target, given, given_anchors in shares:
        assert given
        order = [places[row] for row in given]
        assert order == sorted(set(order))
        if anchors is None:
            assert given_anchors is None
        else:
            assert given_anchors is not None
            assert list(given_anchors) == [anchors[i] for i in order]
        for row in given:
            went[row].append(target)
    return went
