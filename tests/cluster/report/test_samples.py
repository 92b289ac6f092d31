"""Samples: what is kept of each component, and what is read from it."""

from __future__ import annotations

from typing import Any

import pytest

from aiostorm.backpressure import Backpressure, ComponentPressure, SpoutPacing
from aiostorm.cluster.report.samples import MOST, Point, Sample, Samples, quantiles, rates, values
from aiostorm.metrics import ComponentMetrics, Histogram, TaskMetrics, TopologyMetrics

from .parts import taking


def metrics(**of: list[TaskMetrics]) -> TopologyMetrics:
    kinds = {"numbers": "spout", "half": "bolt", "sink": "bolt", "__acker": "acker"}
    return TopologyMetrics([ComponentMetrics(name, kinds[name], tuple(tasks)) for name, tasks in of.items()])


def test_what_is_kept_of_each_component() -> None:
    samples = Samples(1.0)
    found = metrics(
        numbers=[TaskMetrics(1, emitted=3, executed=9, fill=5, capacity=10, complete_latency=taking(0.5, 2))],
        half=[
            TaskMetrics(3, emitted=9, executed=4, fill=5, capacity=10, process_latency=taking(0.25, 4)),
            TaskMetrics(4, executed=1),
        ],
        sink=[TaskMetrics(5, fill=3, capacity=10)],
        __acker=[TaskMetrics(6, executed=7)],
    )
    pressure = Backpressure(
        components={"half": ComponentPressure(0.9), "numbers": ComponentPressure(0.7)},
        spouts=(
            SpoutPacing("numbers", 1, 0.5, 0.0, ()),
            SpoutPacing("numbers", 2, 0.25, 0.0, ()),
            SpoutPacing("other", 9, 4.0, 0.0, ()),
        ),
    )
    samples.take(12.5, found, pressure)
    points = {
        "numbers": Point(3, 0.0, 0.5, taking(0.5, 2)),
        "half": Point(5, 0.9, 0.0, taking(0.25, 4)),
        "sink": Point(0, 0.3, 0.0, Histogram()),
    }
    assert samples.kept == [Sample(12.5, points)]


def test_a_clock_that_stands_still_or_was_set_back_adds_nothing() -> None:
    samples = Samples(2.0)
    for at_s in (5.0, 5.0, 4.0, 5.5, 5.25, 6.0):
        samples.take(at_s, metrics(), Backpressure())
    assert [each.at_s for each in samples.kept] == [5.0, 5.5, 6.0]
    assert samples.step_s == 2.0


def test_what_is_full_keeps_every_second_one_at_steps_twice_as_long() -> None:
    samples = Samples(0.5)
    for i in range(MOST):
        samples.take(float(i), metrics(), Backpressure())
    assert (len(samples.kept), samples.step_s) == (MOST, 0.5)
    samples.take(float(MOST), metrics(), Backpressure())
    assert [each.at_s for each in samples.kept] == [float(i) for i in range(0, MOST + 1, 2)]
    assert samples.step_s == 1.0


def sample(at_s: float, **points: Any) -> Sample:
    return Sample(at_s, {name: Point(*point) for name, point in points.items()})


ONE, TWO = taking(0.25, 4), taking(0.25, 9)
RECORDED = [
    sample(10.0, a=(5, 0.1, 0.0, ONE)),
    sample(12.0, a=(9, 0.2, 0.5, ONE), b=(1, 0.0, 0.0, ONE)),
    sample(13.0, b=(4, 0.0, 0.0, TWO)),
    sample(17.0, a=(9, 0.3, 0.0, ONE), b=(2, 0.0, 0.0, TWO)),
]


def test_rates_are_of_two_samples_that_follow_each_other() -> None:
    assert rates(RECORDED, "a") == [(12.0, 2.0)]
    assert rates(RECORDED, "b") == [(13.0, 3.0), (17.0, 0.0)], "counts that begin anew are no rate"
    assert rates(RECORDED, "c") == []
    slow = [sample(0.0, a=(0, 0.0, 0.0, ONE)), sample(10.0, a=(1, 0.0, 0.0, ONE))]
    assert rates(slow, "a") == [(10.0, 0.1)]


def test_values_are_of_the_samples_that_have_the_component() -> None:
    assert values(RECORDED, "a", "fill") == [(10.0, 0.1), (12.0, 0.2), (17.0, 0.3)]
    assert values(RECORDED, "a", "wait_s") == [(10.0, 0.0), (12.0, 0.5), (17.0, 0.0)]


def test_quantiles_are_of_what_came_between_two_samples() -> None:
    assert quantiles(RECORDED, "a", 0.5) == []
    [(at_s, half)] = quantiles(RECORDED, "b", 0.5)
    assert (at_s, half) == (13.0, pytest.approx(ONE.quantile(0.5)))
    assert quantiles(RECORDED, "c", 0.5) == []
