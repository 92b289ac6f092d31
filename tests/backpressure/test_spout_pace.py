"""Spout pace: orders are applied once, and are valid for their lease."""

from __future__ import annotations

import pytest

from aiostorm.backpressure import Pace, PaceChange, SpoutPace


def order(step: int, change: PaceChange, **more: float) -> Pace:
    return Pace(epoch=int(more.pop("epoch", 1)), step=step, change=change, lease_s=5.0, **more)  # type: ignore[arg-type]


def test_an_order_is_applied_once_however_often_it_comes() -> None:
    pace = SpoutPace()
    for second in range(4):
        pace.order(order(1, PaceChange.SLOW, time_us=1_000), float(second))
        assert pace.wait_us == 1_000
    pace.order(order(2, PaceChange.SLOW, time_us=1_000), 4.0)
    assert pace.wait_us > 1_000
    assert pace.pacer.wait_s > 0.001


def test_an_order_is_valid_for_its_lease_and_no_longer() -> None:
    pace = SpoutPace()
    pace.order(order(1, PaceChange.SLOW, time_us=1_000), 0.0)
    pace.order(order(1, PaceChange.SLOW, time_us=1_000), 3.0)
    assert not pace.expire(7.9)
    assert pace.expire(8.0)
    assert (pace.wait_us, pace.pacer.wait_s, pace.has_order) == (0, 0.0, False)
    assert not pace.expire(99.0)


def test_orders_of_another_master_are_new_ones() -> None:
    pace = SpoutPace()
    pace.order(order(1, PaceChange.SLOW, time_us=1_000), 0.0)
    pace.order(order(1, PaceChange.HOLD, epoch=2), 1.0)
    assert pace.wait_us == 1_000
    pace.order(order(1, PaceChange.SLOW, epoch=3, time_us=2_000), 2.0)
    assert pace.wait_us == 2_000


def test_a_new_task_waits_as_the_others_do() -> None:
    pace = SpoutPace()
    pace.order(order(7, PaceChange.RELIEVE, others_us=800), 0.0)
    assert pace.wait_us == 800
    pace.order(order(8, PaceChange.RELIEVE, others_us=800, busy=0.5), 0.1)
    assert pace.wait_us == 0  # it has not delayed the spout


def test_a_wait_that_has_held_it_back_is_only_lowered() -> None:
    pace = SpoutPace()
    pace.order(order(1, PaceChange.SLOW, time_us=1_000), 0.0)
    pace.pacer.delayed_s = 0.5
    pace.order(order(2, PaceChange.RELIEVE, busy=0.5), 4.0)
    assert pace.wait_us == 500


def test_a_wait_follows_the_execution_time_and_is_trimmed() -> None:
    pace = SpoutPace()
    pace.order(order(1, PaceChange.SLOW, time_us=1_000), 0.0)
    pace.order(order(1, PaceChange.SLOW, time_us=1_000, follow_us=500, trim=0.05), 1.0)
    assert pace.wait_us == 750
    assert abs(pace.pacer.wait_s - 750e-6 * 1.05) < 1e-12


def test_after_switching_off_late_orders_are_ignored() -> None:
    pace = SpoutPace()
    pace.order(order(1, PaceChange.SLOW, time_us=1_000), 0.0)
    pace.switch(False, 0.1)
    pace.order(order(2, PaceChange.SLOW, time_us=1_000), 0.2)
    assert (pace.wait_us, pace.has_order) == (0, False)
    pace.switch(True, 0.3)
    pace.order(order(3, PaceChange.SLOW, time_us=1_000), 0.4)
    assert pace.wait_us == 1_000


def test_a_known_time_is_followed_in_place_of_a_search_except_at_the_start() -> None:
    pace = SpoutPace()
    pace.order(order(1, PaceChange.SLOW, time_us=1_000, follow_us=200), 0.0)
    assert pace.wait_us == 1_000
    pace.order(order(2, PaceChange.SLOW, time_us=4_000, follow_us=200), 1.0)
    assert pace.wait_us == 600
    pace.order(order(2, PaceChange.SLOW, time_us=4_000), 1.0)
    assert pace.wait_us == 600, "neither a new order nor a known time"


@pytest.mark.parametrize(("delayed_s", "wait_us"), [(0.03, 0), (0.05, 500)])
def test_a_wait_counts_if_it_delayed_a_hundredth_of_the_time_since_the_last_order(
    delayed_s: float, wait_us: int
) -> None:
    pace = SpoutPace()
    pace.order(order(1, PaceChange.SLOW, time_us=1_000), 10.0)
    pace.pacer.delayed_s = delayed_s
    pace.order(order(1, PaceChange.SLOW, time_us=1_000), 12.0)  # the same order, received again
    pace.order(order(2, PaceChange.RELIEVE, busy=0.5), 14.0)
    assert pace.wait_us == wait_us
    assert pace.pacer.delayed_s == 0.0
    pace.order(order(3, PaceChange.RELIEVE, busy=0.5), 18.0)
    assert pace.wait_us == 0


def test_the_others_wait_is_taken_over_only_with_the_first_order() -> None:
    pace = SpoutPace()
    pace.order(order(1, PaceChange.HOLD), 0.0)
    pace.order(order(2, PaceChange.HOLD, others_us=800), 1.0)
    assert pace.wait_us == 0
    pace.order(order(3, PaceChange.RELIEVE, busy=0.5), 2.0)
    assert pace.wait_us == 0


def test_an_order_says_how_much_may_be_made_up_for() -> None:
    pace = SpoutPace()
    pace.order(order(1, PaceChange.SLOW, time_us=1_000, slack_s=0.25), 0.0)
    assert pace.pacer.slack_s == 0.25


def test_an_order_without_a_wait_expires_silently() -> None:
    pace = SpoutPace()
    assert not pace.expire(1e9)
    pace.order(order(1, PaceChange.HOLD), 0.0)
    assert pace.has_order
    assert not pace.expire(5.0)
    assert not pace.has_order
