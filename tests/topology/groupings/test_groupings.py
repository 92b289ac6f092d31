"""Groupings: what holds for all of them, and those without memory (global, all, direct, custom)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiostorm.topology import (
    AllGrouping,
    CustomGrouping,
    DirectGrouping,
    EmitError,
    FieldsGrouping,
    GlobalGrouping,
    Grouping,
    KeyRangeGrouping,
    LocalFirstGrouping,
    LocalOrShuffleGrouping,
    NoneGrouping,
    PartialKeyGrouping,
    Row,
    Share,
    ShuffleGrouping,
    share_each,
    share_out,
)

from ..strategies import check_shares, numbered, prepare, targets


class ByParity(Grouping):
    """Even numbers to the first task, odd ones to the last and the first."""

    def choose(self, values: Row) -> Sequence[int]:
        return [self.targets[0]] if values[1] % 2 == 0 else (self.targets[0], self.targets[-1])


class InBatches(ByParity):
    def choose_batch(self, rows: Sequence[Row]) -> Sequence[Sequence[int]]:
        return [[self.targets[-1]]] * len(rows)


class Splitting(ByParity):
    def split(self, rows: Sequence[Row], anchors: Sequence[Any] | None) -> list[Share]:
        return [(self.targets[-1], rows, anchors)]


ALL: dict[str, Callable[[], Grouping]] = {
    "shuffle": ShuffleGrouping,
    "fields": lambda: FieldsGrouping(("word",)),
    "two fields": lambda: FieldsGrouping(("n", "word")),
    "key range": lambda: KeyRangeGrouping(("word",)),
    "partial key": lambda: PartialKeyGrouping(("word",)),
    "global": GlobalGrouping,
    "all": AllGrouping,
    "none": NoneGrouping,
    "local or shuffle": LocalOrShuffleGrouping,
    "local first": LocalFirstGrouping,
    "custom": lambda: CustomGrouping(InBatches()),
    "custom split": lambda: CustomGrouping(Splitting()),
}
DETERMINISTIC = ("fields", "two fields", "key range", "global", "all")


@pytest.mark.parametrize("name", ALL)
@given(targets=targets, sizes=st.lists(st.integers(0, 300), max_size=4), marked=st.booleans(), high=st.booleans())
def test_every_row_reaches_its_targets_once_and_in_order(
    name: str, targets: list[int], sizes: list[int], marked: bool, high: bool
) -> None:
    grouping = prepare(
        ALL[name](),
        targets,
        is_high=lambda task: high and task % 2 == 0,
        local=targets[:2],
        same_node=targets[:3],
    )
    for size in sizes:
        rows = numbered(size)
        before = list(rows)
        anchors = [i * 10 for i in range(size)] if marked else None
        went = check_shares(grouping.split(rows, anchors), rows, anchors)
        assert rows == before
        assert anchors is None or anchors == [i * 10 for i in range(size)]
        expected = len(targets) if name == "all" else 1
        assert all(len(chosen) == expected for chosen in went.values())
        assert all(set(chosen) <= set(targets) for chosen in went.values())


@pytest.mark.parametrize("name", DETERMINISTIC)
@given(targets=targets, sizes=st.lists(st.integers(0, 40), max_size=4))
def test_split_agrees_with_choose(name: str, targets: list[int], sizes: list[int]) -> None:
    grouping, other = prepare(ALL[name](), targets), prepare(ALL[name](), reversed(targets))
    for size in sizes:
        rows = numbered(size)
        went = check_shares(grouping.split(rows, None), rows, None)
        assert [sorted(chosen) for chosen in went.values()] == [sorted(other.choose(row)) for row in rows]
        assert [list(chosen) for chosen in other.choose_batch(rows)] == [list(grouping.choose(row)) for row in rows]


@pytest.mark.parametrize("name", ALL)
def test_the_same_seed_does_the_same_again(name: str) -> None:
    first, second = (prepare(ALL[name](), [3, 1, 2], seed=5) for _ in range(2))
    for size in (1, 5, 100, 2):
        assert first.split(numbered(size), None) == second.split(numbered(size), None)


@pytest.mark.parametrize("name", [name for name in ALL if name != "all"])
def test_one_target_gets_the_batch_itself(name: str) -> None:
    grouping = prepare(ALL[name](), [4])
    rows, anchors = numbered(3), [7, 8, 9]
    (share,) = grouping.split(rows, anchors)
    assert share[0] == 4
    if not name.startswith("custom"):
        assert share[1] is rows
        assert share[2] is anchors


def test_global_takes_the_lowest_task_id() -> None:
    grouping = prepare(GlobalGrouping(), [9, 4, 7])
    assert list(grouping.choose(("a", 1))) == [4]


def test_all_hands_the_same_lists_to_every_task() -> None:
    grouping = prepare(AllGrouping(), [9, 4, 7])
    rows = numbered(3)
    shares = grouping.split(rows, None)
    assert [target for target, _, _ in shares] == [4, 7, 9]
    assert all(given is rows for _, given, _ in shares)


def test_a_plain_emit_on_a_direct_stream_is_refused() -> None:
    grouping = prepare(DirectGrouping(), [4, 5])
    for emit in (lambda: grouping.choose(("a", 1)), lambda: grouping.split(numbered(2), None)):
        with pytest.raises(EmitError, match=r"'lines' .*direct stream 'default'.*emit_direct.*'count'"):
            emit()


def test_share_out_and_share_each_agree() -> None:
    rows, anchors = numbered(6), list("abcdef")
    chosen = [3, 1, 3, 2, 1, 3]
    expected = [(3, [rows[0], rows[2], rows[5]], ["a", "c", "f"]), (1, [rows[1], rows[4]], ["b", "e"])]
    expected.append((2, [rows[3]], ["d"]))
    assert share_each(chosen, rows, anchors) == expected
    assert share_out([(target,) for target in chosen], rows, anchors) == expected


# -- custom ------------------------------------------------------------------------------------------------------------


def test_a_custom_grouping_decides_row_by_row() -> None:
    grouping = prepare(CustomGrouping(ByParity()), [5, 3])
    rows = numbered(3)
    assert grouping.split(rows, [0, 1, 2]) == [(3, rows, [0, 1, 2]), (5, [rows[1]], [1])]
    assert list(grouping.choose(rows[1])) == [3, 5]


def test_a_custom_grouping_can_decide_for_whole_batches() -> None:
    rows = numbered(3)
    assert prepare(CustomGrouping(InBatches()), [3, 5]).split(rows, None) == [(5, rows, None)]
    assert prepare(CustomGrouping(Splitting()), [3, 5]).split(rows, None) == [(5, rows, None)]
    assert prepare(CustomGrouping(Splitting()), [3, 5]).split([], None) == []


class Wrong(Grouping):
    """Returns the answer that it was made with."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def choose(self, values: Row) -> Sequence[int]:
        return self.answer if values[1] == 2 else [self.targets[0]]  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("answer", "message"),
    [([99], "chose task 99"), ([3, None], "chose task None"), (3, "must return a list or tuple"), (None, "not None")],
)
def test_an_impossible_answer_names_component_stream_grouping_and_row(answer: Any, message: str) -> None:
    grouping = prepare(CustomGrouping(Wrong(answer)), [3, 5])
    with pytest.raises(EmitError, match=message) as caught:
        grouping.split(numbered(4), None)
    assert caught.value.row == 2
    for part in ("Wrong", "'lines'", "'default'", "'count'"):
        assert part in str(caught.value)
    with pytest.raises(EmitError, match=message):
        grouping.choose(("a", 2))


class Forgetful(ByParity):
    def choose_batch(self, rows: Sequence[Row]) -> Sequence[Sequence[int]]:
        return [self.targets] * (len(rows) - 1)


class WithoutAnchors(ByParity):
    def split(self, rows: Sequence[Row], anchors: Sequence[Any] | None) -> list[Share]:
        return [(self.targets[0], rows, None)]


class WithFewAnchors(ByParity):
    def split(self, rows: Sequence[Row], anchors: Sequence[Any] | None) -> list[Share]:
        return [(self.targets[0], rows, (anchors or [0])[:-1])]


class Astray(ByParity):
    def split(self, rows: Sequence[Row], anchors: Sequence[Any] | None) -> list[Share]:
        return [(99, rows, anchors)]


class Twice(ByParity):
    def split(self, rows: Sequence[Row], anchors: Sequence[Any] | None) -> list[Share]:
        return [(self.targets[0], rows, anchors)] * 2


@pytest.mark.parametrize(
    ("inner", "message"),
    [
        (Twice(), "one share for each task"),
        (Forgetful(), "choose_batch returned 2 results for 3 rows"),
        (WithoutAnchors(), "one anchor for each row"),
        (WithFewAnchors(), "one anchor for each row"),
        (Astray(), "task 99"),
    ],
)
def test_a_batch_method_that_loses_rows_or_marks_is_refused(inner: Grouping, message: str) -> None:
    grouping = prepare(CustomGrouping(inner), [3, 5])
    with pytest.raises(EmitError, match=message):
        grouping.split(numbered(3), [0, 1, 2])


def test_anchors_for_rows_that_had_none_are_refused() -> None:
    grouping = prepare(CustomGrouping(WithFewAnchors()), [3, 5])
    with pytest.raises(EmitError, match="or None if it was called with None"):
        grouping.split(numbered(3), None)
