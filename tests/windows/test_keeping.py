"""Windows that keep tuples need capacity for them: a smaller `max_spout_pending` is an error of the topology."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aiostorm import (
    BasicBolt,
    Bolt,
    Config,
    Fields,
    JoinBolt,
    LocalCluster,
    Spout,
    TopologyBuilder,
    TopologyError,
    bolt,
)
from aiostorm.testing import FeederSpout, Recorder
from aiostorm.windows import (
    BufferedWindowBolt,
    ByFunction,
    Count,
    Counts,
    Mixed,
    Session,
    Sliding,
    Time,
    Tumbling,
    WatermarkPolicy,
    WindowedBolt,
    WindowRows,
)

ONE = Config(max_spout_pending=1)
TWO = Config(max_spout_pending=2)
FIELDS = Fields("key", "at")


class Rows(Spout):
    outputs = FIELDS

    def next_tuple(self) -> None:
        raise AssertionError("nothing runs")


class WatermarkEmitter(Rows):
    watermarks = True


class Kept(BufferedWindowBolt):
    windows = Tumbling(100)
    timestamp = "at"
    outputs = Fields("rows")

    def execute(self, window: WindowRows) -> tuple[int]:
        return (len(window.get()),)


@bolt(outputs=("key", "at"))
def parse(key: str, at: int) -> tuple[str, int]:
    return key, at


class Basic(BasicBolt):
    outputs = FIELDS

    def execute(self, tup: Any, collector: Any) -> None:
        collector.emit(tup.values)


class Ticking(Basic):
    def on_tick(self, collector: Any) -> None:
        collector.emit(("tick", 0))


class Rich(Bolt):
    outputs = FIELDS

    def execute(self, tup: Any) -> None:
        raise AssertionError("nothing runs")


def problems(
    windows: Any, config: Config = ONE, *, spouts: Any = (Rows,), tasks: int = 1, between: Any = None, **settings: Any
) -> list[str]:
    """What is wrong with windows that read spouts, each with that many tasks, perhaps by a bolt between."""
    builder = TopologyBuilder()
    names = [f"spout{n}" for n in range(len(spouts))]
    for name, made in zip(names, spouts, strict=True):
        builder.set_spout(name, made, tasks)
    if between is not None:
        declarer = builder.set_bolt("between", between)
        for name in names:
            declarer.shuffle_grouping(name)
        names = ["between"]
    declarer = builder.set_bolt("windows", Kept(windows, **settings))
    for name in names:
        declarer.fields_grouping(name, "key")
    try:
        builder.create_topology(config=config)
    except TopologyError as error:
        return list(error.problems)
    return []


WAITS = "bolt 'windows': it keeps tuples until later ones have advanced the time, but"
EACH = f"{WAITS} a task of spout 'spout0' has at most 1 message open"
ALL = f"{WAITS} its spouts have at most 1 message open"
FEW = "bolt 'windows': it keeps 3 tuples until their windows have fired, but its spouts have at most"


@pytest.mark.parametrize("windows", [Tumbling(100), Sliding(100, 50), Session(100), Tumbling(9, time=Time.INGESTION)])
def test_windows_that_wait_for_a_later_row_need_capacity_for_it(windows: Any) -> None:
    (problem,) = problems(windows)
    assert problem.startswith(EACH)
    assert "raise topology.max.spout.pending above the rows of a window, or use a WindowedBolt" in problem
    assert problems(windows, TWO) == []
    assert problems(windows, Config()) == []
    (problem,) = problems(windows, tasks=5)  # each of them is waited for
    assert problem.startswith(EACH)
    assert len(problems(windows, spouts=(Rows, WatermarkEmitter, Rows))) == 2  # each spout is named


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"fire_when_idle": True}, "silence moves time on"),
        (
            {"generator": lambda: ByFunction(lambda at_ms, row: at_ms + 1_000)},
            "its watermarks are not known in advance",
        ),
        ({"spouts": (WatermarkEmitter,)}, "the spout moves time on without a row"),
        ({"policy": WatermarkPolicy.GLOBAL_MAX_TIMESTAMP, "tasks": 2}, "one of them is enough"),
        ({"between": Ticking}, "what it emits may have no anchor"),
        ({"between": Rich}, "what it emits may have no anchor"),
        ({"config": Config(max_spout_pending=1, acker_executors=0)}, "nothing is open"),
    ],
)
def test_windows_that_can_progress_are_not_refused(settings: dict[str, Any], why: str) -> None:
    assert problems(Tumbling(100), **settings) == [], why


def test_windows_by_the_clock_need_no_later_row() -> None:
    assert problems(Tumbling(100, time=Time.PROCESSING)) == []
    assert problems(Session(100, time=Time.PROCESSING)) == []


@pytest.mark.parametrize("between", [parse, Basic])
def test_a_bolt_between_that_always_anchors_changes_nothing(between: Any) -> None:
    (problem,) = problems(Tumbling(100), between=between)
    assert problem.startswith(ALL)
    assert problems(Tumbling(100), TWO, between=between) == []
    assert problems(Tumbling(100), between=between, tasks=2) == []  # the other one moves time on
    capped = Config(max_spout_pending=1, max_task_parallelism=1)
    assert problems(Tumbling(100), capped, between=between, tasks=2) == [problem]


def test_the_furthest_input_alone_is_enough_for_some_policies() -> None:
    (problem,) = problems(Tumbling(100), policy=WatermarkPolicy.GLOBAL_MAX_TIMESTAMP)
    assert problem.startswith(ALL)


def test_windows_by_count_need_capacity_for_all_their_rows() -> None:
    assert problems(Counts(1)) == []
    (problem,) = problems(Counts(3, 1), TWO)
    assert problem.startswith(f"{FEW} 2 messages open")
    assert problems(Counts(3), ONE)[0].startswith(f"{FEW} 1 message open")
    assert problems(Counts(3), Config(max_spout_pending=3)) == []
    assert problems(Counts(3), ONE, tasks=3) == []
    capped = Config(max_spout_pending=1, max_task_parallelism=2)
    assert problems(Counts(3), capped, tasks=3)[0].startswith(f"{FEW} 2 messages open")
    assert problems(Counts(3), ONE, between=parse) == []  # it may make three rows of a message


def test_mixed_windows_need_capacity_for_rows_that_displace_theirs() -> None:
    rows, ms = Mixed(size=2, slide_ms=100, time=Time.PROCESSING), Mixed(size_ms=100, slide=3)
    assert problems(rows, TWO)[0].startswith(f"{FEW} 2 messages open")
    assert problems(rows, Config(max_spout_pending=3)) == []
    (problem,) = problems(Mixed(size=2, slide_ms=100), Config(max_spout_pending=3))  # one more moves time on
    assert "it keeps 4 tuples" in problem
    assert problems(ms, ONE)[0].startswith(EACH)
    assert problems(ms, TWO) == []
    assert "for at least 40 s" in problems(Mixed(size_ms=40_000, slide=3), Config())[0]


def test_a_join_is_refused_with_the_spout_that_has_too_little_capacity() -> None:
    builder = TopologyBuilder()
    builder.set_spout("orders", Rows, max_spout_pending=1)
    builder.set_spout("clicks", Rows, max_spout_pending=10)
    join = JoinBolt("orders", "key", Tumbling(100), timestamp="at").join("clicks", "key")
    builder.set_bolt("join", join).fields_grouping("orders", "key").fields_grouping("clicks", "key")
    with pytest.raises(
        TopologyError, match=r"1 mistake:\n.*bolt 'join': .* a task of spout 'orders' has at most 1 message open"
    ):
        builder.create_topology()


async def test_limits_of_the_cluster_count_too() -> None:
    builder = TopologyBuilder()
    builder.set_spout("spout", Rows)
    builder.set_bolt("windows", Kept()).shuffle_grouping("spout")
    async with LocalCluster() as cluster:
        with pytest.raises(
            TopologyError, match="bolt 'windows': it keeps tuples until later ones have advanced the time"
        ):
            await cluster.submit("t", builder.create_topology(), ONE)


FIRES = [
    Tumbling(100),
    Session(10),
    Counts(2, 1),
    Tumbling(100, time=Time.PROCESSING),
    Mixed(size=1, slide_ms=100, time=Time.PROCESSING),
    Mixed(size_ms=100, slide=1),
]


@pytest.mark.parametrize("windows", FIRES)
async def test_windows_that_are_not_refused_fire(windows: Any) -> None:
    """A row a window, and no more messages open than there must be."""
    feeder, sink = FeederSpout(FIELDS), Recorder()
    builder = TopologyBuilder()
    builder.set_spout("spout", feeder)
    builder.set_bolt("windows", Kept(windows)).shuffle_grouping("spout")
    builder.set_bolt("sink", sink).shuffle_grouping("windows")
    config = Config(max_spout_pending=2, message_timeout_s=20)
    async with LocalCluster() as cluster:
        running = await cluster.submit("t", builder.create_topology(), config)
        feeding = [asyncio.create_task(feeder.feed(("a", 150 * n))) for n in range(6)]
        await asyncio.sleep(15)
        assert len(feeder.acked) >= 4
        assert len(sink.values) >= 3
        assert feeder.failed == {}
        await asyncio.gather(*feeding)
        await running.kill(wait_s=0)


def test_incremental_windows_keep_nothing() -> None:
    builder = TopologyBuilder()
    builder.set_spout("spout", Rows)
    builder.set_bolt("windows", WindowedBolt(Tumbling(100), Count(), timestamp="at")).shuffle_grouping("spout")
    assert builder.create_topology(config=ONE).components.keys() == {"spout", "windows"}
