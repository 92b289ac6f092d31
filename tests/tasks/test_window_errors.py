"""What is wrong with a bolt with windows is said when the topology is built, with the bolt and what is meant."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any

import pytest

from aiostorm import (
    BufferedWindowBolt,
    Counts,
    Each,
    JoinBolt,
    LatePolicy,
    Session,
    Sliding,
    Time,
    TopologyBuilder,
    TopologyError,
    Tumbling,
    WindowedBolt,
)
from aiostorm.windows import Combined, Count, Fold, Periodic, Sum, WatermarkPolicy, WindowBolt, WindowError

from .window_parts import SECOND, Kept, Orders, Own, kept, own


def ready(windows: Any = SECOND, aggregate: Any = None, **settings: Any) -> WindowedBolt:
    settings.setdefault("timestamp", "at")
    return WindowedBolt(windows, Count() if aggregate is None else aggregate, **settings)


async def later(*_: Any) -> Any:
    await asyncio.sleep(0)


async def later_rows(*_: Any) -> Any:
    yield ()


def rows(*_: Any) -> Any:
    yield ()


def problems(component: Any) -> list[str]:
    """What is said of a bolt that reads "orders"."""
    builder = TopologyBuilder()
    builder.set_spout("orders", Orders)
    builder.set_bolt("sums", component).shuffle_grouping("orders")
    try:
        builder.create_topology()
    except TopologyError as error:
        return [problem.removeprefix("bolt 'sums': ") for problem in error.problems if "'sums'" in problem]
    return []


GENERATOR = "give a function that makes"
WRONG: tuple[tuple[Any, str], ...] = (
    # windows
    (ready(None), "it has no windows: give Tumbling(size_ms), "),
    (ready(1_000), "windows are 1000; give Tumbling, "),
    (ready(Tumbling(1_000, time="event")), "the time of its windows is 'event'; give Time.EVENT"),  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    (kept(windows=Session(30_000)), "it keeps tuples until their windows have fired, for at least 30 s"),
    (type("Mine", (WindowBolt,), {"windows": SECOND, "timestamp": "at"}), "Mine is no bolt yet: derive from"),
    # timestamp
    (ready(timestamp=None), 'windows by event time need to know when a row happened: give timestamp="field"'),
    (ready(timestamp="att"), "timestamp: orders has no field 'att'; did you mean 'at'?"),
    (ready(timestamp="when"), "timestamp: orders has no field 'when'; there are: user, at, amount"),
    (ready(timestamp=3), "timestamp is 3; give a field's name or a function of a Tuple"),
    (ready(timestamp=lambda: 3), "timestamp is a function that does not take one argument, the Tuple"),
    (ready(timestamp=later), "timestamp is an async function, but"),
    (own(timestamp=lambda self, tup, more: 3), "timestamp is a function that does not take one argument"),
    # key
    (ready(key="usr"), "key: orders has no field 'usr'; did you mean 'user'?"),
    (ready(key=("user", "amuont")), "key: orders has no field 'amuont'; did you mean 'amount'?"),
    (ready(key=("user", "user")), "key names 'user' twice"),
    (ready(key=["user"]), "key is ['user']; give a field's name, a tuple of names, or a function"),
    (ready(key=()), "key is (); give a field's name"),
    (ready(key=3), "key is 3; give a field's name"),
    (ready(key=""), "key is ''; give a field's name"),
    (ready(key=lambda: 3), "key is a function that does not take one argument, the Tuple"),
    (ready(key=later), "key is an async function, but"),
    # aggregates and states
    (
        ready(aggregate=Sum("amonut")),
        "its aggregate: orders has no field 'amonut'; did you mean 'amount'?",
    ),
    (ready(aggregate=Sum()), "its aggregate: Sum() of a row of orders, which has several fields: name one, Sum(field)"),
    (ready(aggregate=Sum), "its aggregate is <class 'aiostorm.windows.ready_made.Sum'>; give an Aggregate"),
    (ready(aggregate="amount"), "its aggregate is 'amount'; give an Aggregate"),
    (
        ready(aggregate=Combined(user=Count()), key="user"),
        "its rows would have two fields 'user' (they are user, ",
    ),
    (ready(outputs="sum"), "outputs has 1 fields (sum), but its rows have 3: result, start, end"),
    (ready(outputs={"sums": "sum"}), "outputs has no default stream, but that is where its rows go"),
    (WindowedBolt(SECOND, timestamp="at"), "WindowedBolt defines no init_state, no execute, no purge; or give it an"),
    (own(aggregate=Count(), outputs=None), "Mine has an aggregate and defines init_state, execute, purge too"),
    (own(windows=Session(1_000)), "sessions may overlap: Mine must define merge(first, second)"),
    (
        ready(Session(1_000), Fold(list, lambda s, v: [*s, v])),
        "sessions may overlap, and Fold cannot",
    ),
    # methods
    (own(blocking=True, purge=later), "Mine.purge is async, but blocking=True is for def methods only"),
    (kept(blocking=True, execute=later), "Mine.execute is async, but blocking=True is for def methods only"),
    (own(purge=later, early=Each(1)), "early=Each(…) emits in the middle of a turn, where purge cannot wait"),
    (own(blocking=True, early=Each(1)), "early=Each(…) emits in the middle of a turn, where purge cannot wait"),
    (own(execute_batch=rows), "Mine defines execute_batch, which is never called on a bolt with windows"),
    (own(execute_arrow=rows), "Mine defines execute_arrow, which"),
    (kept(on_tick=rows), "Mine defines on_tick, which"),
    (own(execute=later), "Mine.execute is async, but windows call it in the middle of a turn: make it def"),
    (own(purge=later_rows), "Mine.purge is async and has a yield: return a list of rows"),
    (own(execute=rows), "Mine.execute has a yield in it, but what it returns is a state"),
    (own(execute=lambda self, tup, collector: 1), "Mine.execute must take (tup, state, window)"),
    (own(init_state=lambda self: 1), "Mine.init_state must take (window)"),
    (own(purge=lambda self, state: 1), "Mine.purge must take (state, window), or (state, window, key)"),
    (own(merge=lambda self, states: 1), "Mine.merge must take (first, second)"),
    (kept(execute=lambda self: 1), "Mine.execute must take (window)"),
    (kept(execute=later_rows), "Mine.execute is async and has a yield: return rows, or emit them"),
    (type("Mine", (BufferedWindowBolt,), {"windows": SECOND, "timestamp": "at"}), "Mine defines no execute(window)"),
    # late tuples
    (ready(late="drop"), "late is 'drop'; give LatePolicy.DROP, "),
    (
        ready(late=LatePolicy.RETRACT),
        "late tuples are to be retracted, but WindowedBolt defines no retract(",
    ),
    (own(late=LatePolicy.RETRACT, retract=lambda self, tup: 1), "Mine.retract must take (tup, windows)"),
    (own(late=LatePolicy.RETRACT, retract=later_rows), "Mine.retract is async and has a yield: return a list"),
    (own(late=LatePolicy.RETRACT, retract=later, blocking=True), "Mine.retract is async, but blocking=True"),
    (ready(late=LatePolicy.STREAM, late_stream="default"), "late_stream 'default' is already a stream of its outputs"),
    (ready(late=LatePolicy.STREAM, late_stream="too late"), "outputs: 'too late' is not a stream name"),
    (ready(late_stream="lost"), "late_stream is 'lost', but late tuples do not go there: say late=LatePolicy.STREAM"),
    # settings
    (ready(lag_ms=-1), "lag_ms is -1; give 0 or more"),
    (ready(lag_ms=1.5), "lag_ms is 1.5; give a whole number"),
    (kept(lag_ms="1"), "lag_ms is '1'; give a whole number"),
    (ready(interval_ms=0), "interval_ms is 0; give 1 or more"),
    (ready(max_advance_ms=-1), "max_advance_ms is -1; give 1 or more"),
    (ready(idle_timeout_ms="1s"), "idle_timeout_ms is '1s'; give a whole number"),
    (ready(allowed_lateness_ms=-5), "allowed_lateness_ms is -5; give 0 or more"),
    (ready(max_states=0), "max_states is 0; give 1 or more"),
    (ready(policy="min"), "the policy of watermarks is 'min'; give a WatermarkPolicy"),
    (ready(policy=WatermarkPolicy.MAX_TIMESTAMP_WITH_RATIO, ratio=2), "the ratio of input tasks is 2; give a share"),
    (ready(ratio="all"), "the ratio of input tasks is 'all'; give a share"),
    (ready(ratio=True), "the ratio of input tasks is True; give a share"),
    (ready(fire_when_idle="no"), "fire_when_idle is 'no'; give True or False"),
    (kept(anchored="no"), "anchored is 'no'; give True or False"),
    (ready(allowed_lateness_ms=sys.maxsize), f"allowed_lateness_ms is {sys.maxsize}; give {10**18} or less"),
    (ready(generator=Periodic()), GENERATOR),
    (ready(generator=lambda: None), f"generator() made None; {GENERATOR}"),
    (ready(generator=lambda: Periodic(-1)), "generator() raised WindowError: the lag of watermarks (lag_ms) is -1"),
    (ready(generator=lambda task: Periodic()), "generator() raised TypeError"),
    (lambda: ready(Tumbling(0)), "<lambda>() raised WindowError: the size of windows (size_ms) is 0"),
    # what is kept for longer than messages may take
    (
        kept(windows=Tumbling(60_000)),
        "it keeps tuples until their windows have fired, for at least 120 s",
    ),
)


@pytest.mark.parametrize(("component", "said"), WRONG)
def test_problems_are_reported_when_the_topology_is_built(component: Any, said: str) -> None:
    found = problems(component)
    assert len(found) == 1, found
    assert said in found[0]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Tumbling(0), "the size of windows (size_ms) is 0; give 1 or more"),
        (lambda: Tumbling(1.5), "the size of windows (size_ms) is 1.5; give a whole number"),
        (lambda: Sliding(10, -1), "the slide of windows (slide_ms) is -1; give 1 or more"),
        (lambda: Sliding(10, 20), "slide by the size or less"),
        (lambda: Session(0), "the gap of sessions (gap_ms) is 0; give 1 or more"),
        (lambda: Tumbling(2**62), f"the size of windows (size_ms) is {2**62}; give {10**18} or less"),
        (lambda: Session(sys.maxsize), f"the gap of sessions (gap_ms) is {sys.maxsize}; give {10**18} or less"),
        (lambda: Counts(0), "the size of count windows is 0; give 1 or more"),
        (lambda: Counts(5, 10), "leave out rows; slide by the size or less"),
    ],
)
def test_windows_that_make_no_sense_are_refused_where_they_are_written(make: Callable[[], Any], said: str) -> None:
    with pytest.raises(WindowError) as caught:
        make()
    assert said in str(caught.value)


def test_all_mistakes_are_said_at_once() -> None:
    found = problems(ready(key="usr", timestamp="att", aggregate=Sum("amonut"), lag_ms=-1, late="drop"))
    assert [problem.split()[0].rstrip(":") for problem in found] == ["late", "key", "timestamp", "lag_ms", "its"]


@pytest.mark.parametrize("source", [own(), ready(late=LatePolicy.RETRACT), kept(outputs=None)])
def test_reading_late_tuples_that_go_nowhere_is_an_error_that_says_how_they_come(source: Any) -> None:
    builder = TopologyBuilder()
    builder.set_spout("orders", Orders)
    builder.set_bolt("sums", source).shuffle_grouping("orders")
    builder.set_bolt("after", Kept).shuffle_grouping("sums", stream="late")
    with pytest.raises(TopologyError, match=r"'sums' declares no .*; its late tuples go to a stream with late="):
        builder.create_topology()


@pytest.mark.parametrize(
    "setting",
    [
        {"timestamp": lambda tup: tup["at"]},
        {"timestamp": lambda self, tup: tup["at"]},
        {"key": lambda tup: tup["user"]},
        {"key": lambda self, tup: tup["user"]},
        {"generator": lambda: Periodic(5)},
        {"generator": lambda self: Periodic(5)},
        {"generator": Periodic},
        {"windows": Counts(5), "timestamp": None},
        {"windows": Tumbling(1_000, time=Time.PROCESSING), "timestamp": None},
    ],
)
def test_a_class_may_have_functions_with_self_or_without(setting: dict[str, Any]) -> None:
    assert problems(own(**setting)) == []
    assert problems(type("Derived", (own(**setting),), {})) == []


def test_a_class_that_makes_its_settings_itself_need_not_call_the_base() -> None:
    class Bare(Own):
        def __init__(self) -> None:
            self.timestamp = lambda tup: tup["at"]  # type: ignore[misc, assignment]

    assert problems(Bare()) == []
    assert problems(Bare) == []


def test_a_setting_that_there_is_not_is_refused_when_the_bolt_is_made() -> None:
    with pytest.raises(TypeError, match=r"WindowedBolt has no setting 'keey'; did you mean 'key'\?"):
        WindowedBolt(SECOND, Count(), keey="user")  # type: ignore[call-arg] # pyright: ignore[reportCallIssue]
    with pytest.raises(TypeError, match=r"has no setting 'erly'; did you mean 'early'\?"):
        WindowedBolt(SECOND, Count(), erly=Each(2))  # type: ignore[call-arg] # pyright: ignore[reportCallIssue]
    with pytest.raises(TypeError, match=r"BufferedWindowBolt has no setting 'outptus'; did you mean 'outputs'\?"):
        BufferedWindowBolt(SECOND, outptus="n")  # type: ignore[call-arg] # pyright: ignore[reportCallIssue]
    with pytest.raises(TypeError, match=r"JoinBolt has no setting 'xyz'; there are: allowed_lateness_ms, anchored, "):
        JoinBolt("orders", "user", SECOND, xyz=1)  # type: ignore[call-arg] # pyright: ignore[reportCallIssue]
