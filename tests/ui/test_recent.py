"""How long tuples took in the last seconds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from aiostorm.metrics import Histogram, TaskMetrics, Timings
from aiostorm.ui.recent import SPAN_S, STEP_S, Recent, histograms_of


def histogram(*seconds: float) -> Histogram:
    timings = Timings()
    for each in seconds:
        timings += (each, 1)
    return Histogram.of(timings.counts(), sum(seconds))


def test_the_first_look_is_since_the_start():
    span_s, found = Recent().latencies(100.0, {"a": {"execute": histogram(0.1, 0.1, 5.0)}})
    assert span_s is None
    assert found["a"]["execute"].count == 3


def test_later_looks_are_of_what_came_since():
    recent = Recent()
    recent.latencies(100.0, {"a": {"execute": histogram(9.0)}})
    span_s, found = recent.latencies(102.0, {"a": {"execute": histogram(9.0, 0.1, 0.1)}})
    latency = found["a"]["execute"]
    assert (span_s, latency.count) == (2.0, 2)
    assert 0.08 < latency.p50_s <= latency.p99_s < 0.12


def test_what_had_no_tuple_lately_is_left_out():
    recent = Recent()
    now = {"a": {"execute": histogram(9.0), "complete": histogram()}}
    assert set(recent.latencies(100.0, now)[1]["a"]) == {"execute"}
    assert recent.latencies(101.0, now)[1]["a"] == {}


def test_a_component_that_is_new_has_all_its_tuples():
    recent = Recent()
    recent.latencies(100.0, {})
    assert recent.latencies(101.0, {"a": {"execute": histogram(1.0)}})[1]["a"]["execute"].count == 1


def test_a_time_that_is_too_short_says_nothing():
    recent = Recent()
    recent.latencies(100.0, {"a": {"execute": histogram(1.0)}})
    span_s, found = recent.latencies(100.1, {"a": {"execute": histogram(1.0)}})
    assert (span_s, found["a"]["execute"].count) == (None, 1)


def test_looks_that_are_too_old_do_not_count():
    recent = Recent()
    recent.latencies(100.0, {"a": {"execute": histogram(1.0)}})
    span_s, found = recent.latencies(100.5 + SPAN_S, {"a": {"execute": histogram(1.0, 1.0)}})
    assert (span_s, found["a"]["execute"].count) == (None, 2)


def test_a_clock_that_is_set_back_begins_anew():
    recent = Recent()
    recent.latencies(100.0, {})
    assert recent.latencies(50.0, {"a": {}}) == (None, {"a": {}})
    assert recent.latencies(52.0, {"a": {}})[0] == 2.0


@given(st.lists(st.floats(0, 3), max_size=200))
def test_it_keeps_at_most_a_copy_a_second(steps: list[float]):
    recent, at_s = Recent(), 100.0
    for step in steps:
        at_s += step
        span_s, _ = recent.latencies(at_s, {})
        assert span_s is None or STEP_S <= span_s <= SPAN_S
        assert len(recent._copies) <= SPAN_S / STEP_S + 1


def test_the_limits_of_a_time_belong_to_it():
    assert SPAN_S == 30.0
    recent, none = Recent(), {"a": {"execute": histogram()}}
    recent.latencies(0.0, none)
    recent.latencies(STEP_S, none)
    assert recent.latencies(SPAN_S, none)[0] == SPAN_S
    assert recent.latencies(SPAN_S + 0.5, none)[0] == SPAN_S + 0.5 - STEP_S


def test_the_histograms_of_a_task_by_what_they_measure():
    times = [histogram(seconds) for seconds in (0.1, 0.2, 0.3)]
    task = TaskMetrics(1, execute_latency=times[0], process_latency=times[1], complete_latency=times[2])
    assert histograms_of(task) == dict(zip(("execute", "process", "complete"), times, strict=True))
