"""Declared state: who may have it, and by which grouping its rows come."""

from __future__ import annotations

from typing import Any

import pytest

from aiostorm import BasicBolt, Fields, Spout, TopologyBuilder, TopologyError
from aiostorm.state import KeyedState, ValueState
from aiostorm.topology import FieldsGrouping, KeyRangeGrouping, StreamId
from aiostorm.topology.key_range_inputs import by_key_ranges
from aiostorm.topology.state_checks import declared_state, state_problems


class Clicks(Spout):
    outputs = {"default": Fields("user", "day", "url"), "test": Fields("user", "day")}  # noqa: RUF012

    def next_tuple(self) -> None: ...


class Bolt(BasicBolt):
    def execute(self, tup: Any, collector: Any) -> None: ...


class ByUser(Bolt):
    state = KeyedState(key="user")


class ByUserAndDay(Bolt):
    state = KeyedState(key=("user", "day"))


class Total(Bolt):
    state = ValueState(0)


def declared(bolt: Any) -> tuple[TopologyBuilder, Any]:
    builder = TopologyBuilder()
    builder.set_spout("clicks", Clicks)
    return builder, builder.set_bolt("bolt", bolt, parallelism=2)


def problems(builder: TopologyBuilder) -> tuple[str, ...]:
    with pytest.raises(TopologyError) as caught:
        builder.create_topology()
    return tuple(caught.value.problems)


def test_rows_come_by_key_ranges_in_the_order_of_the_declared_key() -> None:
    builder, bolt = declared(ByUserAndDay)
    bolt.fields_grouping("clicks", "day", "user").fields_grouping("clicks", "user", "day", stream="test")
    spec = builder.create_topology().components["bolt"]
    for subscription in spec.inputs:
        made = subscription.make()
        assert isinstance(made, KeyRangeGrouping)
        assert subscription.fields == made.key_fields == ("user", "day")
        assert subscription.kind == "fields"
    assert spec.inputs[1].source == StreamId("clicks", "test")
    assert spec.state is ByUserAndDay.state


def test_a_value_for_each_task_takes_any_grouping() -> None:
    builder, bolt = declared(Total)
    bolt.shuffle_grouping("clicks").fields_grouping("clicks", "user", stream="test")
    spec = builder.create_topology().components["bolt"]
    assert type(spec.inputs[1].make()) is FieldsGrouping


def test_other_groupings_and_other_fields_are_refused() -> None:
    builder, bolt = declared(ByUserAndDay)
    bolt.shuffle_grouping("clicks").fields_grouping("clicks", "user", stream="test")
    first, second = problems(builder)
    assert first == (
        "bolt 'bolt': its state is by user, day, but it reads 'clicks' with shuffle grouping: a task would get rows of "
        "keys that it does not have. Use fields_grouping('clicks', 'user', 'day')"
    )
    assert second == (
        "bolt 'bolt': its state is by user, day, but it reads 'clicks' stream 'test' with fields grouping by user: a "
        "task would get rows of keys that it does not have. Use fields_grouping('clicks', 'user', 'day', "
        "stream='test')"
    )


@pytest.mark.parametrize("fields", [("user", "day"), ("user", "user"), ("url",), ()])
def test_a_key_of_one_field_needs_a_grouping_by_this_field(fields: tuple[str, ...]) -> None:
    builder, bolt = declared(ByUser)
    bolt.fields_grouping("clicks", *fields)
    assert any("Use fields_grouping('clicks', 'user')" in problem for problem in problems(builder))


@pytest.mark.parametrize("kind", ["all_grouping", "global_grouping", "local_first_grouping", "direct_grouping"])
def test_no_other_kind_of_grouping_will_do(kind: str) -> None:
    builder, bolt = declared(ByUser)
    getattr(bolt, kind)("clicks")
    assert any("its state is by user, but it reads 'clicks' with " in problem for problem in problems(builder))


def test_a_spout_has_no_state() -> None:
    class WithState(Clicks):
        state = ValueState(0)

    builder = TopologyBuilder()
    builder.set_spout("clicks", WithState)
    (problem,) = problems(builder)
    assert problem.startswith("spout 'clicks': a spout has no state = ")
    assert problem.endswith(": its position is what snapshot() returns")


@pytest.mark.parametrize("wrong", [{}, KeyedState, ValueState, 3, "word"])
def test_state_is_a_declaration(wrong: Any) -> None:
    class WithState(Bolt):
        state = wrong

    builder, bolt = declared(WithState)
    bolt.shuffle_grouping("clicks")
    (problem,) = problems(builder)
    assert problem.startswith("bolt 'bolt': state must be KeyedState(key=\"…\") or ValueState(…), not ")
    assert ("write KeyedState(…), not KeyedState" in problem) is isinstance(wrong, type)


def test_state_of_an_instance_belongs_to_the_user() -> None:
    class Own(Bolt):
        def __init__(self) -> None:
            self.state = {"a": 1}  # type: ignore[misc,assignment]

    class OwnProperty(Clicks):
        @property
        def state(self) -> str:  # type: ignore[override]
            return "reading"

    builder, bolt = declared(Own)
    bolt.shuffle_grouping("clicks")
    builder.set_spout("others", OwnProperty)
    assert builder.create_topology().components["bolt"].state is None


class Mistaken(Bolt):
    state = 5


class Computed(Bolt):
    @property
    def state(self) -> int:  # type: ignore[override]
        return 5


class Position(Clicks):
    state = 5


class Versioned:
    version = 1


class Keyed:
    key_fields = ("user",)


def test_other_attributes_of_that_name_belong_to_the_user() -> None:
    for made in (Computed, Position):
        assert declared_state("spout" if made is Position else "bolt", made()) is None
    bolt = Bolt()
    bolt.state = 5  # type: ignore[assignment]
    assert declared_state("bolt", bolt) is None
    assert declared_state("bolt", Mistaken()) == 5
    assert declared_state("bolt", ByUser()) is ByUser.state


@pytest.mark.parametrize("state", [5, Versioned(), Keyed(), KeyedState, "user"])
def test_what_is_no_declaration_is_named(state: Any) -> None:
    (problem,) = state_problems("bolt", state, ())
    assert problem.startswith("state must be KeyedState(")
    assert problem.endswith("write KeyedState(…), not KeyedState") is (state is KeyedState)
    assert by_key_ranges(state, ()) == ()


def test_a_state_is_no_state_of_a_spout() -> None:
    (problem,) = state_problems("spout", KeyedState("user"), ())
    assert problem.startswith("a spout has no state = KeyedState(")
    assert state_problems("spout", None, ()) == state_problems("bolt", None, ()) == []
