"""What a component measures by itself: slots, limits, and how they are merged over tasks and restarts."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiostorm import BasicBolt, Config, LocalCluster, MetricError, TopologyBuilder, spout
from aiostorm.metrics import Histogram, Names, OwnMetrics, Series, TaskMetrics
from aiostorm.metrics import own as module
from aiostorm.metrics.series import continued, merged_series
from aiostorm.testing import FixedSpout, SimClock

from ..tasks.parts import rows


class Now:
    def __init__(self) -> None:
        self.s = 100.0

    def __call__(self) -> float:
        return self.s


def made(component: str = "count", names: Names | None = None, now: Now | None = None) -> OwnMetrics:
    return OwnMetrics(component, Names() if names is None else names, Now() if now is None else now)


def test_slots() -> None:
    own = made()
    own.counter("hits", {"kind": "a", "by": "x"}).inc()
    own.counter("hits", {"by": "x", "kind": "a"}).inc(4)
    own.counter("hits", {"kind": "b", "by": "x"}).inc(0)
    gauge = own.gauge("open", combine="max")
    gauge.set(3)
    gauge.add(-1)
    sizes = own.histogram("sizes")
    sizes.observe(3, 2)
    sizes.observe(0.5)
    assert own.read() == (
        Series("hits", "counter", (("by", "x"), ("kind", "a")), 5),
        Series("hits", "counter", (("by", "x"), ("kind", "b")), 0),
        Series("open", "gauge", (), 2.0, combine="max"),
        Series("sizes", "histogram", (), 3, histogram=Histogram(((-4, 1), (6, 2)), 6.5)),
    )


def test_a_series_begins_at_zero() -> None:
    assert Series("hits", "counter") == Series("hits", "counter", (), 0, 0.0)
    own = made()
    own.meter("rows").mark(0)
    assert own.read() == (Series("rows", "meter", ()),)


def test_a_meter_has_the_rate_of_about_the_last_minute() -> None:
    now = Now()
    own = made(now=now)
    meter = own.meter("rows")
    assert own.read()[0].rate == 0
    for _ in range(600):
        meter.mark(5)
        now.s += 0.5
    assert (own.read()[0].value, own.read()[0].rate) == (3000, pytest.approx(10))
    for _ in range(60):
        now.s += 1
        own.read()
    assert own.read()[0].rate == pytest.approx(10 / 2.718, rel=0.01)  # e-folding, however often it is read
    now.s += 600
    assert own.read()[0].rate < 0.001


@pytest.mark.parametrize(
    ("name", "labels", "text"),
    [
        ("", None, "the name of a metric has a letter"),
        ("a-b", None, "the name of a metric has"),
        ("ä", None, "the name of a metric has"),
        ("a\n", None, "the name of a metric has"),
        ("a" * 65, None, "at most 64"),
        (7, None, "the name of a metric has"),
        ("hits_total", None, "leave out _total"),
        ("hits", ["a"], "labels are a mapping"),
        ("hits", {f"l{i}": "" for i in range(9)}, "9 labels, at most 8"),
        ("hits", {"component": "x"}, "none of topology, component"),
        ("hits", {"__x": "x"}, "a label has a letter"),
        ("hits", {"a b": "x"}, "a label has a letter"),
        ("hits", {"a": 7}, "the value of label 'a' is text of at most 100 characters, not 7"),
        ("hits", {"a": "x" * 101}, "text of at most 100"),
        ("hits", {"a": "\ud800"}, "text of at most 100"),
    ],
)
def test_what_is_not_allowed(name: Any, labels: Any, text: str) -> None:
    own = made()
    with pytest.raises(MetricError, match=text):
        own.counter(name, labels)
    assert own.read() == ()


def test_wrong_values() -> None:
    own = made()
    with pytest.raises(MetricError, match="only grows"):
        own.counter("a").inc(-1)
    with pytest.raises(MetricError, match="only grows"):
        own.meter("b").mark(-1)
    for value in (-1, float("nan"), float("inf")):
        with pytest.raises(MetricError, match="takes numbers from 0 on"):
            own.histogram("c").observe(value)
    with pytest.raises(MetricError, match="combine is 'sum'"):
        own.gauge("d", combine="mean")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="could not convert"):
        own.gauge("e").set("x")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("other", "text"),
    [
        (lambda own: own.gauge("hits"), "of component 'b' is a gauge combined by sum without labels"),
        (lambda own: own.meter("hits", {"k": "x"}), "is a meter with the labels k"),
        (lambda own: own.counter("hits"), "is a counter without labels"),
    ],
)
def test_a_name_has_one_kind_and_one_set_of_labels(other: Any, text: str) -> None:
    names = Names()
    made("a", names).counter("hits", {"k": "x"})
    made("c", names).counter("hits", {"k": "y"})
    with pytest.raises(MetricError, match=text) as raised:
        other(made("b", names))
    assert "component 'a' uses the name for a counter with the labels k" in str(raised.value)


def test_there_are_not_too_many() -> None:
    own = made()
    for number in range(module.MAX_SERIES):
        own.counter("hits", {"user": str(number)})
    own.counter("hits", {"user": "0"}).inc()
    with pytest.raises(MetricError, match="has 200 metrics already"):
        own.counter("hits", {"user": "x"})


def test_all_of_a_process_fit_into_a_report() -> None:
    names = Names()

    def many() -> None:
        for task in range(1000):
            own = made(f"c{task}", names)
            for number in range(100):
                own.histogram("sizes", {"k": str(number)})

    with pytest.raises(MetricError, match="more than 307,200 bytes in a report"):
        many()


series = st.builds(
    Series,
    st.sampled_from("ab"),
    st.just("counter"),
    st.sampled_from([(), (("k", "x"),)]),
    st.integers(0, 1000),
)


@given(st.lists(st.lists(series, max_size=4), max_size=4))
def test_merging_adds_and_does_not_depend_on_the_order(tasks: list[list[Series]]) -> None:
    found = merged_series(tasks)
    assert (
        found == merged_series(reversed(tasks)) == merged_series([merged_series(tasks[:2]), merged_series(tasks[2:])])
    )
    assert sum(one.value for one in found) == sum(one.value for task in tasks for one in task)


def test_gauges_are_combined_and_end_with_their_worker() -> None:
    one, other = (Series("g", "gauge", (), value, combine="max") for value in (3.0, 5.0))
    assert merged_series([[one], [other]]) == (other,)
    counted, meter = Series("c", "counter", (), 4), Series("m", "meter", (), 6, rate=2.0)
    assert continued([one, counted, meter], [other, meter]) == (counted, other, Series("m", "meter", (), 12, rate=2.0))
    before = TaskMetrics(task_id=1, own=(one, counted), streams=(("s", 3),), edges=(("s", "b", 4),))
    after = TaskMetrics(task_id=1, own=(counted,), streams=(("s", 1), ("t", 2))).after(before)
    assert after.own == (Series("c", "counter", (), 8),)
    assert (after.streams, after.edges) == ((("s", 4), ("t", 2)), (("s", "b", 4),))


class Counts(BasicBolt):
    """Counts by parity; raises once."""

    raised = False

    def prepare(self, context: Any) -> None:
        self.rows = {parity: context.metrics.counter("rows", {"parity": parity}) for parity in ("even", "odd")}
        self.sizes = context.metrics.histogram("sizes")
        self.threads = context.metrics.gauge("threads")

    def execute(self, tup: Any, collector: Any) -> None:
        self.rows["odd" if tup["n"] % 2 else "even"].inc()
        self.sizes.observe(tup["n"])
        self.threads.set(threading.active_count())


class InThread(Counts):
    blocking = True


@pytest.mark.parametrize("kind", [Counts, InThread])
async def test_in_a_topology(local_cluster: LocalCluster, kind: type[Counts]) -> None:
    @spout(outputs="n")
    def numbers(context: Any) -> Any:
        emitted = context.metrics.meter("emitted")
        for n in range(11):
            emitted.mark()
            yield n

    builder = TopologyBuilder()
    builder.set_spout("numbers", numbers)
    builder.set_bolt("count", kind, parallelism=3).shuffle_grouping("numbers")
    running = await local_cluster.submit("t", builder.create_topology())
    await running.wait_finished()
    metrics = running.metrics()
    found = {(one.name, one.labels): one for one in metrics["count"].own}
    assert [(*key, one.value) for key, one in found.items()][:2] == [
        ("rows", (("parity", "even"),), 6),
        ("rows", (("parity", "odd"),), 5),
    ]
    sizes = found["sizes", ()].histogram
    assert (sizes.count, sizes.total, sizes.quantile(1)) == (11, 55, pytest.approx(10, rel=0.12))
    assert [(one.name, one.value) for one in metrics["numbers"].own] == [("emitted", 11)]


async def test_they_outlive_an_instance(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    class Once(Counts):
        def execute(self, tup: Any, collector: Any) -> None:
            super().execute(tup, collector)
            if tup["n"] == 3 and not Counts.raised:
                Counts.raised = True
                raise ValueError("once")

    builder = TopologyBuilder()
    builder.set_spout("numbers", FixedSpout(rows(range(6)), "n"))
    builder.set_bolt("count", Once).shuffle_grouping("numbers")
    running = await local_cluster.submit("t", builder.create_topology(), Config(restart_backoff_s=(0,)))
    await running.wait_finished()
    assert sum(one.value for one in running.metrics()["count"].own if one.name == "rows") >= 6


async def test_a_collision_is_an_error_of_the_component(local_cluster: LocalCluster) -> None:
    class Gauges(BasicBolt):
        def prepare(self, context: Any) -> None:
            context.metrics.gauge("rows")

        def execute(self, tup: Any, collector: Any) -> None:
            raise AssertionError

    builder = TopologyBuilder()
    builder.set_spout("numbers", FixedSpout(rows(range(6)), "n"))
    builder.set_bolt("count", Counts).shuffle_grouping("numbers")
    builder.set_bolt("other", Gauges).shuffle_grouping("numbers")
    with pytest.raises(Exception, match=r"metric 'rows' of component '(count|other)' is a") as raised:
        await local_cluster.submit("t", builder.create_topology(), Config(restart_max=0))
    assert "uses the name for a" in str(raised.value)
