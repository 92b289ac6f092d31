"""Counters: what is left of a task that ended, and what those of several tasks come to."""

from __future__ import annotations

from typing import Any

import pytest

from aiostorm.metrics import (
    METRICS,
    ComponentMetrics,
    Histogram,
    ProgressMetrics,
    SnapshotMetrics,
    TaskCounters,
    TaskMetrics,
    TimeMetrics,
    TopologyMetrics,
)
from aiostorm.metrics.declared import COUNTERS, HISTOGRAMS, NUMBERS


def component(*tasks: TaskMetrics) -> ComponentMetrics:
    return ComponentMetrics("c", "bolt", tasks)


def timed(*times: TimeMetrics | None) -> ComponentMetrics:
    return component(*(TaskMetrics(task_id=i, time=time) for i, time in enumerate(times)))


def test_counters_begin_at_zero_of_their_unit() -> None:
    counters = TaskCounters()
    for name in COUNTERS:
        assert getattr(counters, name) == 0
        assert type(getattr(counters, name)) is (float if METRICS[name].unit == "seconds" else int)


def test_a_copy_does_not_change_and_has_what_was_given() -> None:
    counters = TaskCounters()
    counters.executed = 3
    time, progress = TimeMetrics(live=1), ProgressMetrics("groups", 1, 2)
    task = TaskMetrics.of(
        7, counters, pending=1, fill=2, capacity=4, pending_trees=5, time=time, progress=progress
    )  # fmt: skip
    counters.executed = 4
    assert task == TaskMetrics(
        task_id=7, executed=3, pending=1, fill=2, capacity=4, pending_trees=5, time=time, progress=progress
    )
    assert TaskMetrics.of(7, counters, pending=0, fill=0, capacity=0) == TaskMetrics(task_id=7, executed=4)


@pytest.mark.parametrize(
    ("counted", "forgotten"),
    [
        ({"trees": 9, "failed": 7, "replayed": 2, "dead_lettered": 1}, 4),
        ({"trees": 1, "failed": 2, "replayed": 1, "dead_lettered": 1}, 0),
        ({"trees": 1, "failed": 1, "replayed": 2, "dead_lettered": 0}, 0),
        ({"trees": 0, "failed": 7}, 0),  # of a bolt
    ],
)
def test_a_task_that_ended_has_nothing_open(counted: dict[str, int], forgotten: int) -> None:
    task = TaskMetrics(task_id=1, pending=5, pending_trees=4, fill=3, capacity=8, emitted=6, **counted)
    assert task.ended() == TaskMetrics(task_id=1, capacity=8, emitted=6, forgotten=forgotten, **counted)


@pytest.mark.parametrize(("buffered", "windows", "rows"), [(False, 12, 20), (True, 10, 22)])
def test_its_open_windows_are_dropped(buffered: bool, windows: int, rows: int) -> None:
    time = TimeMetrics(live=2, watermark_ms=5, buffered=buffered)
    ended = TaskMetrics(task_id=1, dropped_windows=10, dropped_tuples=20, time=time).ended()
    assert (ended.dropped_windows, ended.dropped_tuples) == (windows, rows)
    assert ended.time == TimeMetrics(live=0, watermark_ms=5, buffered=buffered)
    assert ended.ended() == ended
    for without in (None, TimeMetrics(watermark_ms=5)):
        assert TaskMetrics(task_id=1, time=without).ended() == TaskMetrics(task_id=1, time=without)


def test_counts_of_earlier_processes_are_added_and_gauges_are_not() -> None:
    one, other = ({name: factor * i for i, name in enumerate(METRICS, 1)} for factor in (1, 100))
    for name in HISTOGRAMS:
        one[name], other[name] = Histogram(((3, 2),), 4.0), Histogram(((3, 1), (5, 1)), 6.0)
    earlier = TaskMetrics(task_id=1, fill=5, capacity=6, **one)  # type: ignore[arg-type]
    now = TaskMetrics(task_id=1, fill=7, capacity=8, **other)  # type: ignore[arg-type]
    both = now.after(earlier)
    for name, metric in METRICS.items():
        expected = other[name] if metric.kind == "gauge" else one[name] + other[name]
        assert getattr(both, name) == (one[name] if name == "forgotten" else expected), name
    assert (both.fill, both.capacity) == (7, 8)


@pytest.mark.parametrize(
    ("times", "watermark_ms", "lag_s", "live"),
    [
        ([], None, None, 0),
        ([None], None, None, 0),
        ([None, TimeMetrics(2, 500, 1500)], 500, 1.5, 2),
        ([TimeMetrics(2, 500, 1500), TimeMetrics(3, 400, 2500)], 400, 2.5, 5),
        ([TimeMetrics(2, 500, 1500), TimeMetrics(3)], None, None, 5),  # no row of it yet
        ([TimeMetrics(0, 500, 1500), TimeMetrics(0, ended=True)], 500, 1.5, 0),
        ([TimeMetrics(0, 500, 1500, ended=True)], None, None, 0),
        ([TimeMetrics(0, 500), TimeMetrics(0, 0)], 0, None, 0),
        ([TimeMetrics(0, 500, 0)], 500, 0.0, 0),
    ],
)
def test_the_time_of_a_component_is_that_of_its_slowest_task(
    times: list[Any], watermark_ms: int | None, lag_s: float | None, live: int
) -> None:
    found = timed(*times)
    assert (found.watermark_ms, found.watermark_lag_s, found.live_windows) == (watermark_ms, lag_s, live)


def test_the_progress_of_a_component_is_the_sum() -> None:
    assert component(TaskMetrics(task_id=1)).progress is None
    known = [ProgressMetrics("groups", 1, 10, 100, 3), ProgressMetrics("groups", 2, 20, 200, 4, "slow"), None]
    found = component(*(TaskMetrics(task_id=i, progress=one) for i, one in enumerate(known))).progress
    assert found == ProgressMetrics("groups", 3, 30, 300, 7, "slow")
    assert str(found) == "3 of 30 groups, 300 rows"
    assert str(ProgressMetrics("groups", 1000, 2000, 1)) == "1,000 of 2,000 groups, 1 row"
    assert str(ProgressMetrics("groups", 0, 2)) == "0 of 2 groups"


def test_means_and_the_fullest_mailbox() -> None:
    one = TaskMetrics(task_id=1, executed=4, execute_s=1.0, acked=2, complete_s=3.0, fill=1, capacity=4)
    other = TaskMetrics(task_id=2, executed=1, execute_s=4.0, acked=3, complete_s=7.0, fill=1, capacity=2)
    found = component(one, other, TaskMetrics(task_id=3, fill=9))
    assert (found.execute_latency_s, found.complete_latency_s, found.fill_ratio) == (1.0, 2.0, 0.5)


@pytest.mark.parametrize("tasks", [0, 1, 3])
def test_all_numbers_at_once_are_those_that_are_read_one_by_one(tasks: int) -> None:
    values = range(1, len(NUMBERS) + 1)
    found = component(*(TaskMetrics(task_id=i, **dict(zip(NUMBERS, values, strict=True))) for i in range(tasks)))
    numbers = found.numbers()
    assert tuple(numbers) == NUMBERS
    assert numbers == {name: getattr(found, name) for name in NUMBERS}
    assert numbers["acked"] == tasks * (1 + NUMBERS.index("acked"))


def test_a_component_is_found_by_its_name() -> None:
    found = component(TaskMetrics(task_id=1, pending=2))
    assert (found.component, found.kind, found.tasks) == ("c", "bolt", (TaskMetrics(task_id=1, pending=2),))
    both = TopologyMetrics([found, ComponentMetrics("a", "spout", (TaskMetrics(task_id=2, pending=3),))])
    assert both["c"] is found
    assert (list(both), len(both), both.pending) == (["c", "a"], 2, 5)
    with pytest.raises(KeyError, match="no component 'd'; there are: a, c"):
        both["d"]


def test_means_of_nothing_are_zero() -> None:
    nothing = component()
    assert (nothing.execute_latency_s, nothing.complete_latency_s, nothing.fill_ratio) == (0.0, 0.0, 0.0)
    assert (nothing.pending, nothing.executed) == (0, 0)


def test_before_the_first_snapshot_nothing_is_known_of_one() -> None:
    found = SnapshotMetrics()
    assert (found.number, found.problem, found.reason) == (None, "", "")
    assert (found.taken, found.failed, found.failing, found.rolled_back) == (0, 0, 0, 0)
    assert (found.duration_s, found.size_bytes, found.age_s) == (0.0, 0, 0.0)
