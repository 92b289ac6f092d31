"""JoinBolt: what it declares, and what it refuses before anything runs."""

from __future__ import annotations

from typing import Any

import pytest

from aiostorm import Fields, JoinBolt, Session, Sliding, Tumbling
from aiostorm.topology import StreamId, WindowKey
from aiostorm.windows import Counts, JoinKind, LatePolicy, WindowError

MINUTE = 60_000
ORDERS, CLICKS = StreamId("orders"), StreamId("clicks")
INPUTS = {ORDERS: Fields("user", "id", "at"), CLICKS: Fields("user", "url", "at")}


def bolt(windows: Any = None, key: str = "user", **settings: Any) -> JoinBolt:
    made = JoinBolt("orders", "user", windows or Tumbling(MINUTE), timestamp="at", **settings)
    return made.join("clicks", key, prior_key="user" if key == "user" else "id")


def test_what_is_not_given_is_the_default_of_the_class() -> None:
    class Unanchored(JoinBolt):
        anchored = False
        max_joined = 7
        stream = "pairs"

    plain, own = JoinBolt("orders", "user"), Unanchored("orders", "user")
    assert (plain.anchored, plain.max_joined, plain.stream) == (True, 100_000, "default")
    assert (own.anchored, own.max_joined, own.stream) == (False, 7, "pairs")
    given = Unanchored("orders", "user", anchored=True, max_joined=3, stream="x")
    assert (given.anchored, given.max_joined, given.stream) == (True, 3, "x")
    with pytest.raises(WindowError, match="a join has no outputs setting"):
        JoinBolt("orders", "user", outputs=Fields("a"))  # type: ignore[call-arg]


def test_each_method_joins_in_its_way_and_returns_the_bolt() -> None:
    made = JoinBolt("orders", "user", Tumbling(MINUTE), timestamp="at")
    for kind in JoinKind:
        method = getattr(made, "join" if kind is JoinKind.INNER else f"{kind.name.lower()}_join")
        assert method(f"in_{kind.name}", "user", "orders") is made
    assert [joined.source.component for joined in made.joins.inputs[1:]] == [f"in_{kind.name}" for kind in JoinKind]
    assert made.select("id") is made
    assert made.outputs_follow is False


def test_its_windows_can_be_divided_by_the_key_that_all_inputs_have() -> None:
    key = WindowKey(of_input={ORDERS: ("user",), CLICKS: ("user",)})
    for windows in (Tumbling(MINUTE), Sliding(MINUTE, 1000), Session(MINUTE)):
        assert bolt(windows).window_key == key
    assert bolt(key="url").window_key == WindowKey(problem="its inputs are joined by several keys")
    counted = JoinBolt("orders", "user", Counts(10)).join("clicks", "user")
    assert counted.window_key.problem == "each of its windows has so many rows of its task, whatever their key"


def test_its_outputs_follow_the_inputs_until_they_are_selected() -> None:
    late = bolt(late=LatePolicy.STREAM, stream="pairs")
    assert late.outputs_follow
    assert set(late.all_outputs()) == {"late"}  # type: ignore[arg-type]
    assert set(late.all_outputs({ORDERS: INPUTS[ORDERS]})) == {"late"}, "what the other has is not known yet"  # type: ignore[arg-type]
    all_fields = Fields("orders:user", "id", "orders:at", "clicks:user", "url", "clicks:at")
    assert late.all_outputs(INPUTS)["pairs"] == all_fields  # type: ignore[index, call-overload]
    selected = bolt().select("id, url as page")
    assert not selected.outputs_follow
    assert selected.all_outputs() == {"default": Fields("id", "page")}
    assert selected.all_outputs({ORDERS: INPUTS[ORDERS]}) == {"default": Fields("id", "page")}


def test_problems_that_are_its_own() -> None:
    assert bolt().problems(INPUTS) == []
    assert bolt(key="url").problems(INPUTS) == [], "tumbling windows may have several keys"
    assert bolt(Session(MINUTE)).problems(INPUTS) == []
    [problem] = bolt(Session(MINUTE), key="url").problems(INPUTS)
    assert problem.startswith("join: sessions are of one key, but its inputs are joined by several")
    assert bolt(max_joined=0).problems(INPUTS) == ["max_joined is 0; give 1 or more"]
    assert bolt(max_joined=1).problems(INPUTS) == []
