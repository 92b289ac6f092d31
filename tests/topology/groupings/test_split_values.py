"""Streams of one field, whose rows are sent as bare values: each goes where its row would go, with its anchor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from aiostorm.topology import (
    Fields,
    FieldsGrouping,
    Grouping,
    GroupingContext,
    LocalFirstGrouping,
    NoneGrouping,
    PartialKeyGrouping,
    RepeatedAnchor,
    Share,
    ShuffleGrouping,
    StreamId,
    UnhashableKeyError,
)

from ..strategies import prepare

WORD = Fields("word")

ANCHORS: dict[str, Callable[[int], Sequence[Any] | None]] = {
    "no anchors": lambda count: None,
    "repeated anchor": lambda count: RepeatedAnchor(7, count),
    "anchors": lambda count: [f"a{i}" for i in range(count)],
}


def pairs(shares: Sequence[Share]) -> list[tuple[int, Any, Any]]:
    """(target, item, anchor) of each item, by target and in the order of its share."""
    assert len({target for target, _, _ in shares}) == len(shares)
    found: list[tuple[int, Any, Any]] = []
    for target, items, anchors in sorted(shares, key=lambda share: share[0]):
        assert items, "a share has rows"
        per_row = [None] * len(items) if anchors is None else list(anchors)
        found += [(target, item, anchor) for item, anchor in zip(items, per_row, strict=True)]
    return found


@pytest.mark.parametrize("anchors", ANCHORS)
@pytest.mark.parametrize("count", [0, 1, 2, 7, 8, 9, 10, 60])
@pytest.mark.parametrize("targets", [1, 4])
def test_fields_send_rows_and_values_to_the_task_of_their_key(targets: int, count: int, anchors: str) -> None:
    grouping: FieldsGrouping = prepare(FieldsGrouping(("word",)), range(10, 10 + targets), fields=WORD)
    words = [f"w{i % 9}" for i in range(count)]
    given = ANCHORS[anchors](count)
    per_row = [None] * count if given is None else list(given)
    wanted = sorted(
        ((grouping.choose((word,))[0], word, anchor) for word, anchor in zip(words, per_row, strict=True)),
        key=lambda found: found[0],  # of one target in the order of the rows
    )
    assert pairs(grouping.split_values(words, given)) == wanted
    rows = [(target, (word,), anchor) for target, word, anchor in wanted]
    assert pairs(grouping.split([(word,) for word in words], ANCHORS[anchors](count)) if count else []) == rows


def test_a_value_without_a_hash_is_named_with_its_row() -> None:
    grouping: FieldsGrouping = prepare(FieldsGrouping(("word",)), [1, 2], fields=WORD)
    with pytest.raises(UnhashableKeyError, match=r"field 'word' of stream .* a key of 'count'") as error:
        grouping.split_values(["a", "b", ["c"], {}], None)
    assert error.value.row == 2


@pytest.mark.parametrize(
    "make",
    [ShuffleGrouping, LocalFirstGrouping, NoneGrouping, lambda: PartialKeyGrouping(("word",))],
    ids=["shuffle", "local first", "none", "partial key"],
)
@pytest.mark.parametrize("high", [(), (2,), (1, 2, 3)], ids=["none", "one", "all"])
def test_values_go_to_full_targets_only_when_all_are_full(make: Callable[[], Grouping], high: tuple[int, ...]) -> None:
    words = [f"w{i}" for i in range(30)]
    grouping = prepare(make(), [1, 2, 3], fields=WORD, is_high=lambda target: target in high)
    found = pairs(grouping.split_values(words, [f"a{i}" for i in range(30)]))
    assert sorted(item for _, item, _ in found) == sorted(words)
    assert all(anchor == f"a{item[1:]}" for _, item, anchor in found)
    used = {target for target, _, _ in found}
    if isinstance(grouping, ShuffleGrouping):
        assert used == {1, 2, 3} - (set(high) if len(high) == 1 else set())


def test_groupings_of_other_numbers_of_targets_share_no_memory() -> None:
    """Both emit from one task: the target that one remembers for a key is none of the other's."""
    shared: dict[Any, Any] = {}
    groupings = []
    for targets in ([1, 2, 3, 4, 5], [1, 2]):
        grouping = FieldsGrouping(("word",))
        lines = prepare(FieldsGrouping(("word",)), [1], fields=WORD)
        context: GroupingContext = lines.context
        context.shared = shared
        grouping.prepare(context, StreamId("lines", "default"), targets)
        groupings.append((grouping, targets))
    words = [f"w{i}" for i in range(40)]
    for grouping, targets in groupings:
        assert {target for target, _, _ in pairs(grouping.split_values(words, None))} == set(targets)
