"""Keyed state: declarations with clear errors, a dict without a method of its own, and the keys that were touched."""

from __future__ import annotations

import math
from typing import Any

import pytest

from aiostorm.state import KeyedState, State, StateError, UnmarkedError, ValueState


class Kept:
    """A watcher that lists what it is asked to keep."""

    def __init__(self) -> None:
        self.keys: list[Any] = []

    def keep(self, keys: Any) -> None:
        self.keys.extend(keys)

    def keep_all(self) -> None:
        self.keys.append("all")


# -- declarations ------------------------------------------------------------------------------------------------------


def test_a_key_of_one_field_is_its_value_and_of_several_a_tuple() -> None:
    assert KeyedState(key="word").row_of("a") == ("a",)
    assert KeyedState(key=("word",)).row_of(("a", "b")) == (("a", "b"),)
    assert KeyedState(key=["user", "day"]).row_of((1, 2)) == (1, 2)
    with pytest.raises(StateError, match="a tuple of 2 values, not 'a'"):
        KeyedState(key=("user", "day")).row_of("a")


@pytest.mark.parametrize("key", ["ab", ["a", "b"], ("a",), ("a", "b", "c"), (), None])
def test_a_key_of_two_fields_is_a_tuple_of_two_values(key: Any) -> None:
    with pytest.raises(StateError, match="a tuple of 2 values"):
        KeyedState(key=("user", "day")).row_of(key)


def test_versions_begin_at_1_and_are_kept() -> None:
    assert (KeyedState("a").version, ValueState().version) == (1, 1)
    assert (KeyedState("a", version=3).version, ValueState(version=4).version) == (3, 4)
    assert (KeyedState(("a", "b")).key_fields, ValueState().key_fields) == (("a", "b"), ())
    assert ValueState().initial() is None


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (5, "takes the name of a field"),
        ("", "non-empty string"),
        ((), "there is no field"),
        (("a", "a"), "given twice: a"),
        (("a", 1), "takes the name of a field"),
        (None, "takes the name of a field"),
    ],
)
def test_a_wrong_key_is_refused(key: Any, text: str) -> None:
    with pytest.raises(StateError, match=text):
        KeyedState(key=key)


@pytest.mark.parametrize("version", [0, -1, True, 1.0, "1", None])
def test_a_wrong_version_is_refused(version: Any) -> None:
    for declare in (lambda: KeyedState("a", version=version), lambda: ValueState(version=version)):
        with pytest.raises(StateError, match="int of at least 1"):
            declare()


def test_each_task_gets_a_copy_of_the_initial_value() -> None:
    declared = ValueState({"seen": [1]})
    declared.initial()["seen"].append(2)
    assert declared.initial() == {"seen": [1]}


def test_an_initial_value_that_cannot_be_saved_is_refused() -> None:
    with pytest.raises(StateError, match="initial value cannot be saved"):
        ValueState(object())


# -- the dict ----------------------------------------------------------------------------------------------------------


def test_no_method_of_dict_is_overridden() -> None:
    own = {name for name in vars(State) if name in vars(dict)}
    assert own == {"__init__", "__doc__"}, "an overridden method makes every access slower"


def test_what_was_touched_is_taken_once() -> None:
    state: State[str, int] = State({"a": 1})
    state.touch_keys(["a", "b"])
    state.put("c", 3)
    state.discard("d")
    state.mark("e")
    assert state.touched_keys == {"a", "b", "c", "d", "e"}
    assert state == {"a": 1, "c": 3}
    assert state.take_touched() == {"a", "b", "c", "d", "e"}
    assert state.take_touched() == set()


def test_what_was_not_saved_is_taken_again() -> None:
    state: State[str, int] = State()
    state.mark_all()
    state.put("a", 1)
    everything, touched = state.everything, state.take_touched()
    assert not state.everything
    state.put("b", 2)
    state.give_back(touched, everything)
    assert state.everything
    assert state.take_touched() == {"a", "b"}


def test_the_watcher_keeps_values_before_they_change() -> None:
    state: State[str, int] = State({"a": 1})
    state.watcher = kept = Kept()
    state.touch_keys({"a"})
    state.put("b", 1)
    state.discard("c")
    state.mark("d")
    state.mark_all()
    assert kept.keys == ["a", "b", "c", "d", "all"]


def test_all_may_be_expected_to_change_without_a_watcher_that_keeps_them() -> None:
    state: State[str, int] = State({"a": 1})
    assert not state.everything
    state.watcher = kept = Kept()
    state.expect_all()
    assert state.everything
    assert kept.keys == []
    state.take_touched()
    assert not state.everything
    state.give_back(set(), False)
    assert not state.everything


# -- verify ------------------------------------------------------------------------------------------------------------


def test_an_unmarked_change_is_named() -> None:
    state: State[str, Any] = State({"x": [1], "y": math.nan})
    state.verify({"x": [1], "y": math.nan})
    state["x"].append(2)
    with pytest.raises(UnmarkedError, match="count, task 3: key 'x' changed and was not marked"):
        state.verify({"x": [1], "y": math.nan}, "count, task 3")


def test_an_unmarked_new_key_and_an_unmarked_removal_are_named() -> None:
    with pytest.raises(UnmarkedError, match="key 'x' changed"):
        State({"x": 1}).verify({})
    with pytest.raises(UnmarkedError, match="key 'x' was removed"):
        State[str, int]().verify({"x": 1})


@pytest.mark.parametrize(("value", "other"), [(1, True), (1, 1.0), ((1,), [1]), ({1}, frozenset({1}))])
def test_a_change_of_type_is_a_change(value: Any, other: Any) -> None:
    with pytest.raises(UnmarkedError):
        State({"x": value}).verify({"x": other})


def test_equal_sets_are_equal_in_any_order() -> None:
    one, other = {0, 8}, {8, 0}
    assert list(one) != list(other), "else this tests nothing"
    State({"x": one}).verify({"x": other})


def test_arrays_are_compared_by_their_values() -> None:
    np = pytest.importorskip("numpy")
    State({"x": np.array([1.0, math.nan])}).verify({"x": np.array([1.0, math.nan])})
    for other in (np.array([1, 2]), np.array([1.0, 3.0]), np.array([[1.0, 2.0]])):
        with pytest.raises(UnmarkedError):
            State({"x": np.array([1.0, 2.0])}).verify({"x": other})
