"""What goes wrong with a row, or in user code that windows call: the row fails alone, or the window is lost (reported).

The task goes on in every case: it is not restarted, and the other rows are in their windows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from aiostorm import Fields, Sliding, TopologyBuilder, WindowedBolt
from aiostorm.testing import CompletedTopology, complete_topology
from aiostorm.windows import ByFunction, Generator, Max, Punctuated, Reduce, Sum
from aiostorm.windows.safe_generator import SafeGenerator

from .window_parts import SECOND, Orders, Own, kept, own

GOOD = (("a", 1, 1), ("a", 2, 2))
Rows = Sequence[tuple[Any, ...]]


def sums(**settings: Any) -> WindowedBolt:
    return WindowedBolt(**{"windows": SECOND, "aggregate": Sum("amount"), "key": "user", "timestamp": "at"} | settings)


async def run(bolt: Any, rows: Rows) -> CompletedTopology:
    """A topology of "orders" and "sums", to its end; no task of it was restarted."""
    builder = TopologyBuilder()
    builder.set_spout("orders", Orders)
    builder.set_bolt("sums", bolt).shuffle_grouping("orders")
    done = await complete_topology(builder.create_topology(), {"orders": rows})
    assert done.metrics["sums"].restarts == 0
    assert done.metrics["sums"].live_windows == 0
    return done


# -- rows that are no good ---------------------------------------------------------------------------------------------

BAD_ROWS = [
    (sums(), ("a", None, 4), "TimestampError: the timestamp is None; give milliseconds since 1970, or a datetime"),
    (sums(), ("a", "3", 4), "TimestampError: the timestamp is a str; give"),
    (sums(), ("a", True, 4), "TimestampError: the timestamp is True; give"),
    (sums(), ("a", [3], 4), "TimestampError: the timestamp is a list; give"),
    (sums(), ("a", math.nan, 4), "TimestampError: the timestamp is nan; leave such tuples out"),
    (sums(), ("a", math.inf, 4), "TimestampError: the timestamp is inf; leave"),
    (
        sums(),
        ("a", datetime(2026, 1, 1), 4),
        "the timestamp 2026-01-01 00:00:00 has no zone; give it one",
    ),
    (
        sums(),
        ("a", 1_700_000_000_000_000_000, 4),
        "is thousands of years away; is it in nanoseconds?",
    ),
    (sums(), (["a"], 3, 4), "TypeError: unhashable type: 'list'"),
    (sums(), (math.nan, 3, 4), "WindowKeyError: the key nan contains NaN"),
    (kept(), (math.nan, 3, 4), "WindowKeyError: the key nan contains NaN"),
    (sums(), ("a", 3, None), "TypeError: unsupported operand type(s) for +: 'int' and 'NoneType'"),
    (sums(aggregate=Max("amount")), ("a", 3, "x"), "TypeError: '>' not supported"),
    (sums(aggregate=Reduce(lambda a, b: a + 1 // b, "amount")), ("a", 3, 0), "ZeroDivisionError: "),
    (sums(key=lambda tup: 1 // tup["amount"] * 0), ("a", 3, 0), "ZeroDivisionError: "),
    (sums(timestamp=lambda tup: tup["at"] // tup["amount"]), ("a", 3, 0), "ZeroDivisionError: "),
    (sums(timestamp=lambda tup: tup["user" if tup["amount"] < 4 else "who"] and 0), ("a", 3, 4), "no field 'who'; the"),
    (sums(max_states=1), ("b", 3, 1), "WindowLimitError: windows hold 1 states (one for a key and window)"),
    (own(execute=lambda self, tup, state, window: state + 12 // (3 - tup["amount"])), ("a", 3, 3), "ZeroDivisionError"),
    (own(), ("a", None, 4), "TimestampError: the timestamp is None"),
    (kept(), ("a", "3", 4), "TimestampError: the timestamp is a str"),
    (kept(), (["a"], 3, 4), "TypeError: unhashable type: 'list'"),
    (kept(max_states=2), ("a", 3, 4), "WindowLimitError: windows hold 2 rows and may hold no more"),
]


@pytest.mark.parametrize(("bolt", "bad", "error"), BAD_ROWS)
async def test_a_bad_row_fails_alone(bolt: Any, bad: tuple[Any, ...], error: str) -> None:
    done = await run(bolt, [*GOOD, bad])
    ((number, failure),) = done.failures["orders"].items()
    assert number == 2
    assert failure.component == "sums"
    assert error in str(failure.error)
    assert (done.acked, done.failed) == (2, 1)
    assert len(done["sums"]) == 1, "of the good ones"
    (report,) = done.errors
    assert error in report.error
    assert report.component == "sums"


@pytest.mark.parametrize(
    ("rows", "results"),
    [
        ([("a", -5, 4), *GOOD], [("a", 4, -1_000, 0), ("a", 3, 0, 1_000)]),
        ([*GOOD, ("a", datetime.fromtimestamp(0.5, UTC), 4)], [("a", 7, 0, 1_000)]),
        ([("a", datetime.fromtimestamp(0.5, UTC), 4), *GOOD], [("a", 7, 0, 1_000)]),
        ([*GOOD, ("a", 2.9, 4)], [("a", 7, 0, 1_000)]),
    ],
    ids=["before 1970", "a datetime after ints", "a datetime before ints", "a float"],
)
async def test_unusual_rows_that_are_valid(rows: Rows, results: Rows) -> None:
    done = await run(sums(), rows)
    assert done.acked == len(rows)
    assert sorted(map(repr, done["sums"])) == sorted(map(repr, results))


async def test_a_clock_in_the_far_future_closes_no_window_of_the_others() -> None:
    rows = [("a", n * 10, 1) for n in range(10)]
    done = await run(sums(max_advance_ms=500), [*rows[:5], ("a", 10**13, 1), *rows[5:]])
    assert done["sums"] == [("a", 10, 0, 1_000), ("a", 1, 10**13, 10**13 + 1_000)]
    assert done.metrics["sums"].late == 0


class Acks(Own):
    """Acks its tuples by itself, though that is done for it: when they come, and again when their window fires."""

    def prepare(self, context: Any, collector: Any) -> None:
        self.collector = collector

    def init_state(self, window: Any) -> Any:
        return []

    def execute(self, tup: Any, state: Any, window: Any) -> Any:
        self.collector.ack(tup)
        return [*state, tup]

    def purge(self, state: Any, window: Any) -> Any:
        for tup in state:
            self.collector.ack(tup)
        return (sum(tup["amount"] for tup in state),)


async def test_a_bolt_that_acks_the_tuples_of_its_windows_changes_nothing() -> None:
    done = await run(Acks, [*GOOD, ("a", 3, None), ("b", 4, 5), ("a", 1_500, 6)])
    assert done["sums"] == [(5,), (6,)], "a window with None in it is lost"
    assert (done.acked, done.failed, done.metrics["sums"].acked) == (5, 0, 5)


async def test_failing_them_is_an_error_that_says_to_raise() -> None:
    failing = type("Mine", (Acks,), {"execute": lambda self, tup, state, window: self.collector.fail(tup)})
    done = await run(failing, GOOD)
    assert (done.acked, done.failed, done["sums"]) == (0, 2, [])
    assert "raise an exception in execute, and the tuple fails" in done.errors[0].error


# -- user code when windows fire ---------------------------------------------------------------------------------------

PURGES = [
    ({"purge": lambda self, state, window: 1 // 0}, "ZeroDivisionError"),
    ({"purge": lambda self, state, window: (state, 1)}, "emits 2 values on stream 'default', which has 1 fields (sum)"),
    ({"purge": lambda self, state, window: [(1,), (2, 3)]}, "emits 2 values on stream 'default'"),
    (
        {"purge": lambda self, state, window: state, "outputs": Fields("a", "b")},
        "Mine.purge returned 3, which",
    ),
    (
        {"purge": lambda self, state, window: {"a": 1}, "outputs": Fields("a", "b")},
        "purge returned {'a': 1}, which",
    ),
    (
        {"purge": lambda self, state, window: [state], "outputs": Fields("a", "b")},
        "Mine.purge returned 3 among",
    ),
    ({"outputs": None}, "emits on stream 'default', which it does not declare (declared: none)"),
    ({"windows": Sliding(1_000, 500), "merge": lambda self, a, b: 1 // 0}, "ZeroDivisionError"),
]


@pytest.mark.parametrize(("changed", "error"), PURGES)
async def test_a_window_with_wrong_results_is_lost_and_reported(changed: dict[str, Any], error: str) -> None:
    rows = [*GOOD, ("a", 600, 3)] if "windows" in changed else GOOD
    done = await run(own(**changed), rows)
    assert done.acked == len(rows), "its rows were acked as they came"
    (report,) = done.errors
    assert error in report.error
    assert "of key 'a', which is lost" in report.traceback


@pytest.mark.parametrize(
    ("changed", "rows"),
    [
        ({"purge": lambda self, state, window: None}, []),
        ({"purge": lambda self, state, window: state}, [(3,)]),
        ({"purge": lambda self, state, window: [(state,), state + 1]}, [(3,), (4,)]),
        ({"purge": lambda self, state, window: ((n,) for n in range(2))}, [(0,), (1,)]),
        ({"purge": lambda self, state, window, key: (key,)}, [("a",)]),
    ],
)
async def test_the_values_that_purge_may_return(changed: dict[str, Any], rows: Rows) -> None:
    done = await run(own(**changed), GOOD)
    assert done["sums"] == rows
    assert not done.errors


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"execute": lambda self, window: 1 // 0}, "ZeroDivisionError"),
        ({"execute": lambda self, window: (1, 2)}, "emits 2 values on stream 'default', which has 1 fields (sum)"),
        (
            {"execute": lambda self, window: {1: 2}, "outputs": Fields("a", "b")},
            "Mine.execute returned {1: 2}",
        ),
        ({"outputs": None}, "emits on stream 'default', which it does not declare (declared: none)"),
    ],
)
async def test_a_buffered_window_that_raises_fails_its_tuples(changed: dict[str, Any], error: str) -> None:
    done = await run(kept(**changed), [*GOOD, ("b", 5_000, 1)] if "outputs" not in changed else GOOD)
    assert {failure.component for failure in done.failures["orders"].values()} == {"sums"}
    assert all("one of its windows failed" in str(failure.error) for failure in done.failures["orders"].values())
    assert done.acked == 0
    assert error in done.errors[0].error
    assert "of key 'a'" in done.errors[0].traceback


@pytest.mark.parametrize(
    "state", [{"init_state": lambda self, window: 1 // 0}, {"init_state": lambda self, window: None}]
)
async def test_a_state_that_cannot_be_made_fails_its_rows(state: dict[str, Any]) -> None:
    done = await run(own(**state, execute=lambda self, tup, state, window: None), GOOD)
    assert (done.acked, done.failed) == (0, 2)
    assert done["sums"] == []
    assert "ZeroDivisionError" in done.errors[0].error or "Mine.execute returned None" in done.errors[0].error


# -- generators --------------------------------------------------------------------------------------------------------


class Says(Generator):
    """Says the same each time, or raises it."""

    def __init__(self, observed: Any = None, ticked: Any = None, due: Any = None) -> None:
        self.observed, self.ticked, self.due = observed, ticked, due

    def observe(self, timestamps: Any, rows: Any) -> Any:
        return self.say(self.observed)

    def tick(self, now_ms: int) -> Any:
        return self.say(self.ticked)

    @property
    def next_tick_ms(self) -> Any:
        return self.say(self.due)

    @staticmethod
    def say(what: Any) -> Any:
        if isinstance(what, Exception):
            raise what
        return what


GENERATORS = [
    (Says(ValueError("no")), "ValueError: no"),
    (Says("soon"), "TimestampError: the timestamp is a str"),
    (Says(math.nan), "TimestampError: the timestamp is nan"),
    (Says(None, ValueError("no"), 5), "ValueError: no"),
    (Says(None, "soon", 5), "TimestampError: the timestamp is a str"),
    (Says(None, None, "soon"), "WindowError: next_tick_ms is 'soon'; give a whole number"),
    (Says(None, None, ValueError("no")), "ValueError: no"),
    (Punctuated(lambda row: row["mark"]), "KeyError: \"no field 'mark'; the fields are: user, at, amount\""),
    (ByFunction(lambda at_ms, row: "soon"), "TimestampError: the timestamp is a str"),
    (ByFunction(lambda row: 5), "TypeError"),
]


@pytest.mark.parametrize("bolt", [own, kept])
@pytest.mark.parametrize(("generator", "error"), GENERATORS)
async def test_a_generator_that_raises_is_reported_and_does_no_harm(
    bolt: Any, generator: Generator, error: str
) -> None:
    done = await run(bolt(generator=lambda: generator), GOOD)
    assert done["sums"] == [(3,)], "at the end"
    assert done.acked == 2
    assert 1 <= done.metrics["sums"].errors < 20, "no wakeup goes round and round"
    assert error in done.errors[0].error


@pytest.mark.parametrize("ticked", [None, ValueError("no"), "soon"])
def test_a_tick_that_raises_or_stays_due_is_asked_once_a_second(ticked: Any) -> None:
    errors: list[Exception] = []
    safe_generator, asked, now_ms = SafeGenerator(Says(None, ticked, 5), errors.append), 0, 0
    while now_ms < 10_000:
        due_ms = safe_generator.next_tick_ms
        assert due_ms is not None
        now_ms = max(now_ms + 1, due_ms)
        safe_generator.tick(now_ms)
        asked += 1
    assert asked == 11
    assert len(errors) == (0 if ticked is None else 11)
