"""Collectors: what may be emitted, and how errors are reported."""

from __future__ import annotations

from typing import Any

import pytest

from aiostorm import BasicBolt, LocalCluster, TopologyBuilder, Tuple, direct
from aiostorm.testing import FeederSpout, Recorder, SimClock, complete_topology, track_topology

from .parts import Acks, Rich, Words, straight
from .scenario import scenario


class Emits(BasicBolt):
    """Calls a function with its collector and the value that came."""

    outputs = {"default": ("a", "b"), "to.one": direct("c")}  # noqa: RUF012

    def __init__(self, act: Any) -> None:
        self.act = act

    def execute(self, tup: Tuple, collector: Any) -> None:
        self.act(collector, tup[0])


async def refusals(act: Any, rows: list[Any]) -> list[str | None]:
    """What an emit of each row is refused with; the message that caused it fails."""
    builder = TopologyBuilder()
    builder.set_spout("spout", Words)
    builder.set_bolt("emits", Emits(act)).shuffle_grouping("spout")
    builder.set_bolt("sink", Acks).shuffle_grouping("emits").direct_grouping("emits", stream="to.one")
    result = await complete_topology(builder.create_topology(), {"spout": rows})
    failures = result.failures["spout"]
    return [failures[i].error if i in failures else None for i in range(len(rows))]


@scenario(
    "A row with too few or too many values",
    "TupleImpl (code)#TupleImpl",
    "`emit` always checks this, and the input tuple fails. In Storm the worker ends, or continues where checks are off",
)
async def test_wrong_arity() -> None:
    rows = [(1, 2), (1,), (1, 2, 3), (), "ab", 1]
    said = await refusals(lambda collector, row: collector.emit(row), [(row,) for row in rows])
    assert said[0] is None
    for count, error in zip((1, 3, 0), said[1:4], strict=True):
        assert f"EmitError: component 'emits' (task 2) emits {count} values" in (error or "")
        assert "which has 2 fields (a, b)" in (error or "")
    for error in said[4:]:
        assert "a tuple or list of values is needed" in (error or "")


@scenario(
    "An emit on a stream that is not declared",
    "Task (code)#getOutgoingTasks",
    "`emit` refuses it, and the input tuple fails. In Storm the worker ends",
)
async def test_undeclared_stream() -> None:
    def act(collector: Any, stream: str) -> None:
        collector.emit((1, 2), stream=stream)

    said = await refusals(act, ["default", "nowhere"])
    assert said[0] is None
    assert "emits on stream 'nowhere', which it does not declare (declared: default, to.one)" in (said[1] or "")


@scenario(
    "A direct emit on a stream that is not direct, a plain emit on a direct stream, or an emit to another "
    "component's task",
    "Task (code)#getOutgoingTasks (direct)",
    "A task that does not receive the stream is an error as well. Storm does not send the tuple and reports nothing",
)
async def test_direct_emits() -> None:
    def act(collector: Any, how: str) -> None:
        if how == "right":
            collector.emit_direct(3, (1,), stream="to.one")
        elif how == "plain":
            collector.emit((1,), stream="to.one")
        elif how == "not direct":
            collector.emit_direct(3, (1, 2))
        else:
            collector.emit_direct(1, (1,), stream="to.one")

    right, plain, not_direct, elsewhere = await refusals(act, ["right", "plain", "not direct", "elsewhere"])
    assert right is None
    assert "is direct: use emit_direct" in (plain or "")
    assert "is not direct" in (not_direct or "")
    assert "emits to task 1, which does not take stream 'to.one' (receivers: 3)" in (elsewhere or "")


@scenario(
    "A row with None, and an empty row",
    "ValuesTest#testNullArgsToValues",
)
async def test_none_is_a_value(local_cluster: LocalCluster) -> None:
    class Sends(Rich):
        outputs = {"default": ("a", "b"), "empty": ()}  # noqa: RUF012

        def execute(self, tup: Tuple) -> None:
            self.collector.emit(tup.values, tup)
            self.collector.emit((), tup, stream="empty")
            self.collector.ack(tup)

    feeder, seen, empty = FeederSpout("a", "b"), Recorder(), Recorder()
    builder = TopologyBuilder()
    builder.set_spout("spout", feeder)
    builder.set_bolt("sends", Sends).shuffle_grouping("spout")
    builder.set_bolt("seen", seen).fields_grouping("sends", "a")
    builder.set_bolt("empty", empty).shuffle_grouping("sends", stream="empty")
    tracked = await track_topology(local_cluster, builder.create_topology())
    await feeder.feed_all([(None, None), [None, "A"], ("A", "B")])
    await tracked.wait_all_acked()
    assert seen.values == [(None, None), (None, "A"), ("A", "B")]
    assert empty.values == [(), (), ()]


# -- errors ------------------------------------------------------------------------------------------------------------


class Reports(Rich):
    """Reports as many errors as the tuple says."""

    def execute(self, tup: Tuple) -> None:
        for i in range(tup["num"]):
            self.collector.report_error(RuntimeError(f"ERROR-{i}"))
        self.collector.ack(tup)


@scenario(
    "Errors that a bolt reports fail no tuple and are counted",
    "integration_test (0.10)#test-throttled-errors",
    "All are counted, and the last 200 kept; Storm keeps a few per interval. Here only the log is throttled",
)
async def test_reported_errors(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    feeder = FeederSpout("num")
    tracked = await track_topology(local_cluster, straight(feeder, reports=Reports), name="test-errors")
    assert tracked.running.errors() == []
    for num, errors in ((6, 6), (2, 8), (2, 10), (300, 310)):
        await feeder.feed(num)
        await tracked.wait_all_acked()
        assert tracked.running.metrics()["reports"].errors == errors
        await sim_clock.advance(5)
    last = tracked.running.errors()
    assert len(last) == 200
    assert (last[-1].component, last[-1].where, last[-1].error) == (
        "reports",
        "report_error",
        "RuntimeError: ERROR-299",
    )


@scenario(
    "Many errors of one kind are not all logged",
    "ReportErrorTest#testReport",
    "One a second for each kind, with the count of the others; in Storm four in ten seconds",
)
async def test_errors_in_the_log(
    local_cluster: LocalCluster, sim_clock: SimClock, caplog: pytest.LogCaptureFixture
) -> None:
    feeder = FeederSpout("num")
    tracked = await track_topology(local_cluster, straight(feeder, reports=Reports))

    def logged() -> list[str]:
        return [r.getMessage().partition("\n")[0] for r in caplog.records if r.name == "aiostorm.component"]

    await feeder.feed(5)
    await tracked.wait_all_acked()
    assert len(logged()) == 1
    await sim_clock.advance(0.9)
    await feeder.feed(1)
    await tracked.wait_all_acked()
    assert len(logged()) == 1
    await sim_clock.advance(0.2)
    await feeder.feed(1)
    await tracked.wait_all_acked()
    assert len(logged()) == 2
    assert logged()[1].endswith("(and 5 more like it)")
