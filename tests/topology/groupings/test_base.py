"""What a grouping does without code for batches, values and columns of its own; and groupings that do not split."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import pyarrow as _pyarrow  # noqa: ICN001 - pyarrow has no types of its own
import pytest

from aiostorm.topology import AllGrouping, Fields, GlobalGrouping, Grouping, GroupingContext

from ..strategies import prepare

pa: Any = _pyarrow
BATCH = pa.record_batch({"word": [0, 1, 2, 3, 4]}, metadata={"aiostorm.chunk": "lines/7/3"})


class Remainders(Grouping):
    """Each row to the target of its remainder, and fours to no target."""

    def choose(self, values: Any) -> Sequence[int]:
        return () if values[0] == 4 else (self.targets[values[0] % len(self.targets)],)


def test_a_grouping_with_choose_alone_splits_rows_values_and_columns() -> None:
    grouping = prepare(Remainders(), [9, 5, 7])
    rows = [(0,), (1,), (2,), (3,), (4,)]
    assert grouping.choose_batch(rows) == [(5,), (7,), (9,), (5,), ()]
    anchors = ["a", "b", "c", "d", "e"]
    assert grouping.split(rows, anchors) == [
        (5, [(0,), (3,)], ["a", "d"]),
        (7, [(1,)], ["b"]),
        (9, [(2,)], ["c"]),
    ]
    assert grouping.split_values([0, 3, 1], None) == [(5, [0, 3], None), (7, [1], None)]
    shares = grouping.split_columns(BATCH)
    assert [(target, part.column("word").to_pylist()) for target, part in shares] == [(5, [0, 3]), (7, [1]), (9, [2])]


def test_what_a_grouping_knows_unless_it_is_given() -> None:
    context = GroupingContext("lines", 1, "count", Fields("word"), Random(1))
    assert (context.is_high(5), context.row_s(5), context.cache_keys) == (False, 0.0, 65_536)
    assert (context.local, context.same_node, context.shared) == (frozenset(), frozenset(), {})


@pytest.mark.parametrize("targets", [[5], [5, 7], [9, 5, 7]])
def test_all_tasks_get_the_batch(targets: list[int]) -> None:
    shares = prepare(AllGrouping(), targets).split_columns(BATCH)
    assert [target for target, _ in shares] == sorted(targets)
    assert all(part.equals(BATCH) for _, part in shares)
    assert len({str(part.schema.metadata) for _, part in shares}) == len(targets), "each is a part of its own"
    assert (shares[0][1] is BATCH) == (len(targets) == 1)


def test_the_lowest_task_gets_the_batch() -> None:
    [(target, batch)] = prepare(GlobalGrouping(), [9, 5, 7]).split_columns(BATCH)
    assert (target, batch is BATCH) == (5, True)
