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


def fed(*seconds: dict[str, int], fills: dict[str, int] | None = None) -> Flows:
    """Growing counts of component "lines" (task 1), "split" (task 2) and "count" (task 3), one interval each second."""
    flows = Flows(4, INPUTS)
    for second, counts in enumerate(seconds):
        for task, component in enumerate(("lines", "split", "count"), 1):
            flows.count(component, task, 1, float(second), counts.get(component, 0))
        flows.end_interval(float(second), fills or {})
    return flows


def test_waiting_tuples_count_as_arrived() -> None:
    flows = fed({"lines": 100, "split": 60}, fills={"split": 40})
    assert flows.per_emitted("split", ["lines"]) == 1.0
    flows = fed({"lines": 100, "split": 60}, fills={"split": 240})
    assert flows.per_emitted("split", ["lines"]) == 3.0


def test_tuples_that_wait_before_an_earlier_bolt_will_arrive_too() -> None:
    """Each line has three words: 40 lines that wait before `split` are 120 words."""
    flows = fed({"lines": 100, "split": 60, "count": 150}, fills={"split": 40, "count": 30})
    assert flows.per_emitted("count", ["lines"]) == 3.0


def test_a_cycle_is_followed_once() -> None:
    flows = Flows(4, {"a": ("lines", "b"), "b": ("a",)})
    for component, task, count in (("lines", 1, 100), ("a", 2, 200), ("b", 3, 100)):
        flows.count(component, task, 1, 1.0, count)
    flows.end_interval(1.0, {})
    assert flows.per_emitted("a", ["lines"]) == 2.0
    assert flows.per_emitted("b", ["lines"]) == 1.0


def test_one_tuple_is_assumed_for_each_while_nothing_is_known() -> None:
    assert fed({}).per_emitted("split", ["lines"]) == 1.0
    assert fed({"lines": 5}).per_emitted("split", ["lines"]) == 1.0
    assert fed({"split": 5}).per_emitted("split", ["lines"]) == 1.0
    assert fed({"lines": 5, "split": 1}).per_emitted("split", ["lines"]) == 0.2
    assert fed({"lines": 5, "split": 1}).per_emitted("split", ["lines", "other"]) == 0.2


def test_a_rate_needs_two_counts_and_is_never_below_zero() -> None:
    flows = Flows(4, INPUTS)
    assert (flows.rate("split"), flows.rate_now("split"), flows.observed_s("split")) == (0, 0, 0.0)
    assert flows.rate_of("split", 2) == 0.0
    flows.count("split", 2, 1, 10.0, 100)
    assert (flows.rate("split"), flows.rate_of("split", 2), flows.observed_s("split")) == (0, 0.0, 0.0)
    flows.count("split", 2, 1, 12.0, 160)
    assert (flows.rate("split"), flows.rate_of("split", 2), flows.observed_s("split")) == (30.0, 30.0, 2.0)
    flows.count("split", 2, 1, 14.0, 260)
    assert flows.rate_of("split", 2) == 40.0
    assert flows.rate_of("split", 2, now=True) == flows.rate_now("split") == 50.0
    flows.count("split", 2, 1, 15.0, 90)  # what was executing counted too much
    assert flows.rate_of("split", 2) == flows.rate_of("split", 2, now=True) == 0.0
    flows.count("split", 3, 1, 100.0, 0)
    flows.count("split", 3, 1, 109.0, 0)
    assert flows.observed_s("split") == 9.0, "of the task that was observed longest"
    assert flows.rate_of("split", 9) == flows.rate_of("other", 2) == 0.0


def test_a_count_that_was_too_high_is_made_up_for() -> None:
    flows = fed({"lines": 100, "split": 90}, {"lines": 200, "split": 70}, {"lines": 300, "split": 300})
    assert flows.per_emitted("split", ["lines"]) == 1.0


def test_a_lost_task_keeps_its_count() -> None:
    flows = fed({"lines": 100, "split": 100}, {"lines": 200, "split": 200})
    flows.remove_task("split", 2)
    flows.remove_task("split", 9)
    flows.remove_task("other", 2)
    assert (flows.rate("split"), flows.observed_s("split")) == (0, 0.0)
    flows.count("split", 2, 1, 1.0, 300)  # it is back
    flows.count("lines", 1, 1, 2.0, 300)
    flows.end_interval(2.0, {})
    assert flows.per_emitted("split", ["lines"]) == 1.0


def test_the_ratio_is_that_of_the_last_minute_or_two() -> None:
    """Ten for each line at first, and then one."""
    flows = Flows(4, INPUTS)
    found = {}
    for second in range(0, 241, 10):
        flows.count("lines", 1, 1, float(second), 100 * second)
        flows.count("split", 2, 1, float(second), 1_000 * min(second, 60) + 100 * max(second - 60, 0))
        flows.end_interval(float(second), {})
        found[second] = flows.per_emitted("split", ["lines"])
    assert [round(found[second], 2) for second in (60, 70, 110, 120, 180)] == [10, 8.71, 5.91, 1, 1]


def test_a_reading_that_is_received_again_or_late_changes_nothing() -> None:
    flows = Flows(2, INPUTS)
    flows.count("split", 2, 1, 1.0, 10)
    flows.count("split", 2, 1, 1.0, 10)
    assert flows.rate("split") == 0, "of one point in time there is no rate"
    for at_s, executed in ((2.0, 20), (1.5, 15), (3.0, 40), (3.0, 40)):
        flows.count("split", 2, 1, at_s, executed)
    assert (flows.rate("split"), flows.rate_now("split"), flows.observed_s("split")) == (15.0, 20.0, 2.0)
