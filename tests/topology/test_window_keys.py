"""By which fields the windows of a bolt can be divided, and why not."""

from __future__ import annotations

from typing import Any

import pytest

from aiostorm import (
    Counts,
    Fields,
    JoinBolt,
    Session,
    Spout,
    Sum,
    TopologyBuilder,
    Tumbling,
    WindowedBolt,
)
from aiostorm.topology import FieldsGrouping, KeyRangeGrouping, StreamId, WindowKey, window_division
from aiostorm.topology.key_range_inputs import by_window_key
from aiostorm.topology.topology import Subscription


class Clicks(Spout):
    outputs = Fields("user", "page", "n", "at")

    def next_tuple(self) -> None:
        """Nothing: it does not run."""


class Orders(Clicks):
    outputs = Fields("at", "buyer", "page", "n")


def spec_of(made: Any, *inputs: tuple[str, ...]) -> Any:
    """Of a bolt with these inputs: grouping, component, fields."""
    builder = TopologyBuilder()
    builder.set_spout("clicks", Clicks())
    builder.set_spout("orders", Orders())
    declarer = builder.set_bolt("windows", made, 3)
    for grouping, *arguments in inputs:
        getattr(declarer, f"{grouping}_grouping")(*arguments)
    return builder.create_topology().components["windows"]


def summed(key: Any, windows: Any = None) -> WindowedBolt:
    windows = windows or Tumbling(100)
    return WindowedBolt(windows, Sum("n"), key=key, **({} if isinstance(windows, Counts) else {"timestamp": "at"}))


def joined(windows: Any) -> JoinBolt:
    timestamp = {} if isinstance(windows, Counts) else {"timestamp": "at"}
    join = JoinBolt("clicks", ("user", "page"), windows, **timestamp).join("orders", ("buyer", "page"))
    return join.select("clicks:user")


@pytest.mark.parametrize(
    ("made", "inputs", "places", "fields"),
    [
        (summed("user"), [("fields", "clicks", "user")], (0,), [("user",)]),
        (summed(("user", "page")), [("fields", "clicks", "page")], (1,), [("page",)]),
        (summed(("user", "page")), [("fields", "clicks", "page", "user")], (0, 1), [("user", "page")]),
        (summed("user", Counts(5)), [("fields", "clicks", "user")], (0,), [("user",)]),
        (
            joined(Session(10)),
            [("fields", "clicks", "user"), ("fields", "orders", "buyer")],
            (0,),
            [("user",), ("buyer",)],
        ),
        (
            joined(Tumbling(10)),
            [("fields", "clicks", "page", "user"), ("fields", "orders", "buyer", "page")],
            (0, 1),
            [("user", "page"), ("buyer", "page")],
        ),
    ],
)
def test_windows_are_divided_by_the_fields_of_their_grouping(
    made: Any, inputs: Any, places: tuple[int, ...], fields: list[tuple[str, ...]]
) -> None:
    spec = spec_of(made, *inputs)
    found = window_division(spec.time.key, spec.inputs)
    assert (found.places, list(found.fields.values()), found.problem) == (places, fields, "")
    assert found.key == fields[0]
    for subscription, of_input in zip(spec.inputs, fields, strict=True):
        assert (subscription.kind, subscription.fields) == ("fields", of_input)
        grouping = subscription.make()
        assert isinstance(grouping, KeyRangeGrouping)
        assert grouping.key_fields == of_input


@pytest.mark.parametrize(
    ("made", "inputs", "problem"),
    [
        (summed(None), [("fields", "clicks", "user")], "its windows have no key: each task has windows of all"),
        (summed(lambda tup: tup["n"] % 3), [("fields", "clicks", "user")], "the key of its windows is a function"),
        (summed("user"), [("fields", "clicks", "page")], "windows are by user, but it reads 'clicks' with fields gro"),
        (summed("user"), [("shuffle", "clicks")], "windows are by user, but it reads 'clicks' with shuffle grouping"),
        (
            summed(("n", "page")),
            [("fields", "clicks", "n"), ("fields", "orders", "page")],
            "it reads 'clicks' with fields grouping by n and 'orders' with fields grouping by page: not by the same",
        ),
        (
            joined(Counts(5)),
            [("fields", "clicks", "user"), ("fields", "orders", "buyer")],
            "each of its windows has so many rows of its task",
        ),
        (
            joined(Tumbling(10)),
            [("fields", "clicks", "user"), ("fields", "orders", "page")],
            "it reads 'clicks' with fields grouping by user and 'orders' with fields grouping by page: not by the same",
        ),
        (
            JoinBolt("clicks", "user", Tumbling(10), timestamp="at").join("orders", "n", prior_key="n"),
            [("fields", "clicks", "user"), ("fields", "orders", "n")],
            "its inputs are joined by several keys",
        ),
    ],
)
def test_windows_that_belong_to_their_tasks_say_why(made: Any, inputs: Any, problem: str) -> None:
    spec = spec_of(made, *inputs)
    found = window_division(spec.time.key, spec.inputs)
    assert problem in found.problem
    assert (found.key, found.places) == ((), ())
    for subscription in spec.inputs:
        if subscription.kind == "fields":
            assert type(subscription.make()) is FieldsGrouping


def test_windows_over_windows() -> None:
    builder = TopologyBuilder()
    builder.set_spout("clicks", Clicks())
    builder.set_bolt("first", summed("user")).fields_grouping("clicks", "user")
    again = WindowedBolt(Tumbling(100), Sum("result"), key="user", timestamp="end")
    builder.set_bolt("again", again).fields_grouping("first", "user")
    spec = builder.create_topology().components["again"]
    assert spec.time.key is not None
    found = window_division(spec.time.key, spec.inputs)
    assert found.fields == {StreamId("first", "default"): ("user",)}


def reads(kind: str, *fields: str, of: str = "clicks") -> Subscription:
    return Subscription(StreamId(of, "default"), "windows", kind, fields, lambda: FieldsGrouping(Fields("user")))


@pytest.mark.parametrize(
    ("key", "each", "problem"),
    [
        (WindowKey(("user", "page")), reads("fields", "user", "n"), "its windows are by user, page, but it reads"),
        (
            WindowKey(("user",)),
            reads("partial_key", "user"),
            "its windows are by user, but it reads 'clicks' with part",
        ),
        (WindowKey(("user",)), reads("fields"), "its windows are by user, but it reads"),
        (
            WindowKey(of_input={StreamId("orders", "default"): ("buyer",)}),
            reads("fields", "user"),
            "its windows are by no fields, but it reads 'clicks'",
        ),
        (WindowKey(("user",), problem="why not"), reads("fields", "user"), "why not"),
    ],
)
def test_a_grouping_by_other_fields_does_not_divide_windows(key: WindowKey, each: Subscription, problem: str) -> None:
    found = window_division(key, [each])
    assert found.problem.startswith(problem)
    assert (found.key, found.places) == ((), ())
    assert by_window_key(key, [each]) == (each,)


def test_a_key_is_a_tuple_of_values_if_nothing_else_is_said() -> None:
    assert WindowKey() == WindowKey((), single=False, of_input={}, problem="")


def test_fields_come_in_the_order_of_the_key() -> None:
    key = WindowKey(("user", "page", "n"))
    inputs = [reads("fields", "n", "user"), reads("fields", "user", "n", of="orders")]
    assert [each.fields for each in by_window_key(key, inputs)] == [("user", "n"), ("user", "n")]
    assert by_window_key(None, inputs) == tuple(inputs)
