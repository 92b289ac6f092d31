"""Ranges: at any parallelism a key belongs to one task, the one that gets its rows."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiostorm.state import (
    ComponentPlan,
    ForeignError,
    KeyedState,
    KeySplitter,
    StateError,
    ValueState,
    check_restorable,
)
from aiostorm.topology import Fields, GroupingContext, KeyRangeGrouping, StreamId

ATOMS = st.one_of(st.text(max_size=5), st.integers(), st.none(), st.booleans(), st.floats(allow_nan=False))


def target_of(fields: list[str], row: tuple[Any, ...], n_tasks: int) -> int:
    """The task to which the grouping of the builder sends a row."""
    grouping = KeyRangeGrouping(fields)
    context = GroupingContext("numbers", 99, "count", Fields(*fields), random.Random(0))
    grouping.prepare(context, StreamId("numbers", "default"), list(range(n_tasks)))
    (task,) = grouping.choose(row)
    return task


@given(key=ATOMS, other=ATOMS, n_tasks=st.integers(1, 300))
def test_a_key_belongs_to_the_task_that_gets_its_rows(key: Any, other: Any, n_tasks: int) -> None:
    one, two = KeyedState("word"), KeyedState(("user", "day"))
    for declared, row, of_row in ((one, (key,), key), (two, (key, other), (key, other))):
        target = target_of(list(declared.fields), row, n_tasks)
        assert KeySplitter(declared, n_tasks).index_of(of_row) == target


@given(keys=st.sets(ATOMS, max_size=30), parallelisms=st.lists(st.integers(1, 9), min_size=1, max_size=4))
def test_any_rescale_keeps_every_key_once(keys: set[Any], parallelisms: list[int]) -> None:
    content = {key: [key] for key in keys}
    parts = [content]
    for n_tasks in parallelisms:
        made: list[dict[Any, Any]] = [{} for _ in range(n_tasks)]
        for part in parts:
            KeySplitter(KeyedState("word"), n_tasks).split(part, made)
        parts = made
    assert sum(map(len, parts)) == len(content)
    assert {key: value for part in parts for key, value in part.items()} == content


@given(keys=st.sets(ATOMS, max_size=30), others=st.lists(ATOMS, min_size=1, max_size=3), n_tasks=st.integers(1, 9))
def test_keys_that_are_split_together_come_to_the_task_of_each(keys: set[Any], others: list[Any], n_tasks: int) -> None:
    for declared, content in (
        (KeyedState("word"), dict.fromkeys(keys, 0)),
        (KeyedState(("user", "day")), {(key, other): 0 for key in keys for other in others}),
    ):
        made: list[dict[Any, Any]] = [{} for _ in range(n_tasks)]
        splitter = KeySplitter(declared, n_tasks)
        splitter.split(content, made)
        assert all(splitter.index_of(key) == owner for owner, part in enumerate(made) for key in part)
        assert sum(map(len, made)) == len(content)


def test_wrong_questions_are_errors() -> None:
    splitter = KeySplitter(KeyedState("word"), 2)
    with pytest.raises(StateError, match="no task owns the key"):
        splitter.index_of(object())
    bad = object()
    with pytest.raises(StateError, match=f"no task owns the key {bad!r}"):
        splitter.split({"a": 1, bad: 2}, [{}, {}])
    parts: list[dict[Any, Any]] = [{}, {}]
    splitter.split({"a": 1, "b": 2}, parts)
    with pytest.raises(StateError, match="the key 'a' is in the state of two tasks"):
        splitter.split({"a": 2}, parts)


def test_only_the_declared_state_is_restored() -> None:
    plan = ComponentPlan("count", (1, 2), 256, ("word",), 1)
    check_restorable(plan, KeyedState("word"), 5)
    with pytest.raises(ForeignError, match="version 1 of its state, and 2 is declared"):
        check_restorable(plan, KeyedState("word", version=2), 2)
    with pytest.raises(ForeignError, match="its state by word, and the component declares it by user, day"):
        check_restorable(plan, KeyedState(("user", "day")), 2)
    with pytest.raises(ForeignError, match="its state by word, and the component declares it by task"):
        check_restorable(plan, ValueState(), 2)
    plan = ComponentPlan("total", (1, 2), version=1)
    check_restorable(plan, ValueState(), 2)
    with pytest.raises(ForeignError, match="cannot be restored with 3 tasks instead of 2"):
        check_restorable(plan, ValueState(), 3)


def test_a_component_that_has_lost_or_got_its_state_is_not_restored() -> None:
    with pytest.raises(ForeignError, match="version 1 of its state, and none is declared"):
        check_restorable(ComponentPlan("total", (1, 2), version=1), None, 2)
    with pytest.raises(ForeignError, match="version 1 of its state, and none is declared"):
        check_restorable(ComponentPlan("count", (1, 2), 256, ("word",), 1), None, 2)
    with pytest.raises(ForeignError, match="version none of its state, and 1 is declared"):
        check_restorable(ComponentPlan("split", (1, 2)), KeyedState("word"), 2)
