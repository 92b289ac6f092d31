"""The loop as a whole: does the spout find the rate of its slowest bolt, and is it released again?"""

from __future__ import annotations

from statistics import fmean

import pytest

from aiostorm.backpressure import NORMAL, THROTTLED, Settings

from .closed_loop import run


@pytest.mark.parametrize(
    ("takes_s", "bolts", "spouts", "each"),
    [
        (0.01, 1, 1, 1),
        (0.01, 4, 1, 1),
        (0.01, 10, 2, 1),
        (0.001, 1, 1, 1),
        (0.001, 4, 2, 1),
        (0.0005, 1, 1, 1),
        (0.01, 4, 1, 5),
        (0.002, 2, 3, 0.5),
    ],
)
def test_after_20_s_bolt_and_spout_are_within_a_tenth_of_the_bottlenecks_rate(
    takes_s: float, bolts: int, spouts: int, each: float
) -> None:
    rate = bolts / takes_s
    needs_s = spouts * each / rate / 10
    measured = run(lambda now_s, task: takes_s, bolts=bolts, spouts=spouts, each=each, needs_s=needs_s, lasting_s=50)
    settled = [second for second in measured if second.at_s > 20]
    assert {second.state for second in settled} == {THROTTLED}
    assert all(second.done == pytest.approx(rate, rel=0.02) for second in settled)
    assert all(second.emitted * each == pytest.approx(rate, rel=0.1) for second in settled)
    assert max(second.fill for second in settled) < 0.8  # no gate closes: no task stops and starts


def test_a_bolt_that_becomes_ten_times_slower_and_is_as_before_again() -> None:
    measured = run(lambda now_s, task: 0.01 if 30 < now_s <= 60 else 0.001, needs_s=0.0001, lasting_s=90)
    slow = [second for second in measured if 45 < second.at_s <= 60]
    assert all(second.emitted == pytest.approx(100, rel=0.1) for second in slow)
    again = [second for second in measured if second.at_s > 64]
    assert all(second.done == pytest.approx(1_000, rel=0.1) for second in again)


def test_when_the_cause_has_ended_the_full_rate_is_back_in_two_intervals_and_all_is_over_soon() -> None:
    measured = run(lambda now_s, task: 0.001 if now_s < 30 else 0.00005, needs_s=0.0001, lasting_s=50)
    assert all(second.emitted == pytest.approx(10_000, rel=0.05) for second in measured if second.at_s > 33)
    over = next(second.at_s for second in measured if second.at_s > 30 and second.state == NORMAL)
    assert over <= 36
    assert {second.state for second in measured if second.at_s > over} == {NORMAL}


def test_one_task_of_ten_that_is_ten_times_as_slow_does_not_starve_the_others() -> None:
    measured = run(lambda now_s, task: 0.01 if task == 0 else 0.001, bolts=10, needs_s=0.00001, lasting_s=60)
    settled = [second.done for second in measured if second.at_s > 20]
    assert fmean(settled) > 0.95 * 9_100


def test_a_bolt_that_works_in_bursts_keeps_most_of_its_rate() -> None:
    """A second of work, a second of nothing: its mailbox holds less than it does in such a second."""
    measured = run(lambda now_s, task: 0.0005 if int(now_s) % 2 else 1e9, needs_s=0.0001, lasting_s=60)
    settled = [second.done for second in measured if second.at_s > 20]
    assert fmean(settled) > 0.8 * 1_000


def test_other_intervals_scale_all_of_it() -> None:
    settings = Settings(interval_s=0.1)
    measured = run(
        lambda now_s, task: 0.001 if now_s < 10 else 0.00005, needs_s=0.0001, lasting_s=14, settings=settings
    )
    throttled = [second for second in measured if 3 < second.at_s < 10]
    assert fmean(second.emitted for second in throttled) == pytest.approx(1_000, rel=0.05)
    assert next(s.at_s for s in measured if s.at_s > 10 and s.state == NORMAL) < 12
