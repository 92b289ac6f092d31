"""Flows: counts over lives, rates, and how many tuples come of one tuple."""

from __future__ import annotations

import pytest

from aiostorm.backpressure.flows import Flows

INPUTS = {"split": ("lines",), "count": ("split",)}


def test_a_counter_that_starts_again_takes_nothing_away_and_what_comes_twice_counts_once() -> None:
    flows = Flows(4, INPUTS)
    for incarnation, at_s, executed in ((1, 1.0, 100), (1, 2.0, 200), (1, 2.0, 200), (2, 3.0, 50), (2, 4.0, 150)):
        flows.count("split", 2, incarnation, at_s, executed)
        flows.count("lines", 1, 1, at_s, 10 * int(at_s))
    flows.end_interval(4.0, {})
    assert flows.per_emitted("split", ["lines"]) == (200 + 150) / 40
    assert flows.rate("split") == 100  # of its incarnation


def test_a_rate_is_of_the_last_period_and_of_each_task_by_its_own_clock() -> None:
    flows = Flows(2, INPUTS)
    for second in range(6):
        flows.count("split", 2, 1, second + 0.3, 10 * second)
        flows.count("split", 3, 1, 500.0 + second, 100 * max(second - 4, 0))
    assert flows.rate("split") == pytest.approx(10 + 50)
    assert flows.rate_now("split") == pytest.approx(10 + 100)
    flows.remove_task("split", 3)
    assert flows.rate("split") == pytest.approx(10)


def test_unreported_tuples_do_not_count_for_long_once_spouts_are_paced() -> None:
    """A thousand were emitted into places between two processes; from then on as many come as are emitted."""
    flows = Flows(4, INPUTS)
    found = []
    for second in range(40):
        flows.count("lines", 1, 1, float(second), 1_000 + 100 * second)
        flows.count("split", 2, 1, float(second), 100 * second)
        flows.end_interval(float(second), {})
        if second == 4:
            flows.reset_base(4.0, 8.0)
        found.append(flows.per_emitted("split", ["lines"]))
    assert found[4] < 0.3
    assert found[11] < 0.6
    assert found[12:] == [pytest.approx(1.0)] * 28
