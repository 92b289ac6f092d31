"""The runner of an aggregate: parts that change in place, merges that fail, and numbers that are too wide."""

from __future__ import annotations

from typing import Any

import pytest

from aiostorm.windows import Aggregate, Combined, Count, Min, PlainWindows, Sum, Tumbling, Window, WindowStateError
from aiostorm.windows.aggregate_runner import AggregateRunner, FailedState
from aiostorm.windows.dumps import apply_delta

WINDOW = Window(0, 10)


class InPlace(Aggregate):
    """Collects values into its state; refuses one."""

    def __init__(self, refused: Any) -> None:
        self.refused = refused

    def init_state(self, window: Window) -> Any:
        return []

    def ready_for(self, value: Any) -> None:
        if value == self.refused:
            raise ValueError("refused")

    def execute(self, value: Any, state: Any, window: Window) -> Any:
        self.ready_for(value)
        state.append(value)

    def merge(self, first: Any, second: Any) -> Any:
        first.extend(second)
        return first


@pytest.mark.parametrize("names", ["ab", "ba", "abc"])
def test_a_row_that_one_part_refuses_is_in_no_part(names: str) -> None:
    parts: dict[str, Aggregate] = {"a": InPlace(None), "b": InPlace(2), "c": Count()}
    windows = PlainWindows(Tumbling(10), Combined({name: parts[name] for name in names}))
    assert [place for place, _ in windows.add(["k"] * 3, [1, 2, 3], [1, 2, 3]).failed] == [1]
    (fired,) = windows.advance(10)
    assert fired.result == {name: 2 if name == "c" else [1, 3] for name in names}


def test_a_merge_may_change_its_arguments_where_no_other_window_uses_them() -> None:
    first = [1]
    assert AggregateRunner(InPlace(None)).merges[0](first, [2]) is first
    failed = AggregateRunner(InPlace(None), shared=True).merges[0]([1], [2])
    assert type(failed) is FailedState
    assert "changed its arguments" in str(failed.error)


def test_what_failed_stays_failed_with_its_first_error() -> None:
    runner = AggregateRunner(Sum())
    one, other = FailedState(ValueError("one")), FailedState(ValueError("other"))
    merge = runner.merges[0]
    assert [merge(one, 1), merge(1, one), merge(one, other)] == [one] * 3
    assert runner.fired_one(WINDOW, "k", [one]).error is one.error


def test_values_that_a_batch_takes() -> None:
    column = [1, 2]
    assert Sum().column(column) is column
    wide = 2**256
    for values in ([wide], [-wide], [1.5, wide], [1.5, -wide], ["a"], [None, 1]):
        assert not Sum().takes(values)
    for values in ([wide - 1], [1 - wide], [1.5, wide - 1], [1.5, 1 - wide], [2**70, 3], [1, True]):
        assert Sum().takes(values)


@pytest.mark.parametrize("values", [[3, 1, 2], [1, float("nan")], [float("nan"), 1, 2], [float("nan"), 2, 1]])
def test_the_least_value_is_the_least_that_is_a_number(values: list[Any]) -> None:
    aggregate = Min()
    state = aggregate.execute(values[0], aggregate.init_state(WINDOW), WINDOW)
    for value in values[1:]:
        state = aggregate.execute(value, state, WINDOW)
    assert aggregate.purge(state, WINDOW) == 1
    assert aggregate.merge(values[0], values[1]) == min(value for value in values[:2] if value == value)


# -- dumps -------------------------------------------------------------------------------------------------------------


def counted(*keys: str) -> PlainWindows:
    """Windows with a row of each of these keys."""
    windows = PlainWindows(Tumbling(10), Count())
    for key in keys:
        windows.add([key], [1], [0])
    return windows


def test_a_delta_since_an_earlier_dump_has_all_changes_since_then() -> None:
    windows = counted("a", "b", "c")
    base = windows.dump(1)
    windows.add(["b"], [1], [0])
    windows.dump(2, since=1)
    windows.add(["a"], [1], [0])
    both = windows.dump(3, since=1)
    assert both["tables"] == {0: [{"b": 2, "a": 2}]}
    restarted = counted()
    restarted.load(apply_delta(base, both))
    assert [(one.key, one.result) for one in restarted.advance(10)] == [("a", 2), ("b", 2), ("c", 1)]


def test_a_delta_does_not_fit_on_a_delta() -> None:
    windows = counted("a")
    windows.dump(1)
    delta, later = windows.dump(2, since=1), windows.dump(3, since=2)
    with pytest.raises(WindowStateError, match=r"does not fit on dump 2 \(since 1\)"):
        apply_delta(delta, later)


@pytest.mark.parametrize("ready", [(), {}, "", None, 0])
def test_results_in_a_dump_are_a_list(ready: Any) -> None:
    dump = counted("a").dump()
    dump["head"]["state"]["ready"] = ready
    with pytest.raises(WindowStateError, match="damaged"):
        counted().load(dump)
