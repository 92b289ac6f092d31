"""Coordinator: which spouts are paced, because of whom, and when all is over."""

from __future__ import annotations

import pytest

from aiostorm.backpressure import NORMAL, THROTTLED, Pace, PaceChange, PressureVerdict, Settings, sources_of
from aiostorm.topology import TopologyBuilder

from ..conformance.parts import Identity, Words
from .parts import Told, changes, cleared

ALL_OF_A = {1: PaceChange.SLOW, 2: PaceChange.SLOW}


def throttled() -> Told:
    """`left` has blocked, a's tasks wait 1 ms."""
    told = Told()
    told.blocked(4)
    told.obey(told.second(), 1_000)
    told.second()
    assert told.coordinator.state == THROTTLED
    return told


# -- whom --------------------------------------------------------------------------------------------------------------


def test_the_walk_goes_up_to_the_source_spouts_and_round_a_cycle_once() -> None:
    builder = TopologyBuilder()
    builder.set_spout("a", Words)
    builder.set_spout("b", Words)
    builder.set_bolt("left", Identity).shuffle_grouping("a").shuffle_grouping("last")
    builder.set_bolt("last", Identity).shuffle_grouping("left")
    builder.set_bolt("right", Identity).shuffle_grouping("b")
    assert sources_of(builder.create_topology()) == {"left": {"a"}, "last": {"a"}, "right": {"b"}}


@pytest.mark.parametrize(
    ("ratio", "blocked", "paced"),
    [
        (0, 0, False),
        (0, 1, True),
        (0.1, 1, True),
        (0.24, 1, True),
        (0.25, 1, False),
        (0.25, 2, True),
        (0.5, 2, False),
        (0.5, 3, True),
        (1, 3, False),
        (1, 4, True),
    ],
)
def test_a_component_triggers_when_more_than_a_share_of_its_tasks_is_blocked_and_1_means_all(
    ratio: float, blocked: int, paced: bool
) -> None:
    told = Told(Settings(ratio=ratio))
    told.blocked(*range(4, 4 + blocked))
    assert changes(told.second()) == (ALL_OF_A if paced else {})
    assert told.coordinator.state == (THROTTLED if paced else NORMAL)


@pytest.mark.parametrize("count", range(1, 11))
def test_a_ratio_that_no_float_is_exactly_is_not_passed_by_so_many(count: int) -> None:
    tasks = {"spout": (1,), "bolt": tuple(range(2, 12))}
    for blocked, paced in ((count, count == 10), (min(count + 1, 10), True)):
        told = Told(Settings(ratio=count / 10), sources={"bolt": frozenset({"spout"})}, tasks=tasks)
        told.blocked(*range(2, 2 + blocked))
        assert bool(told.second()) is paced


@pytest.mark.parametrize("count", [2, 10, 11, 100])
def test_one_task_that_stays_blocked_for_two_periods_triggers_whatever_the_share(count: int) -> None:
    tasks = {"spout": (1,), "bolt": tuple(range(2, 2 + count))}
    told = Told(Settings(ratio=1.0), sources={"bolt": frozenset({"spout"})}, tasks=tasks)
    told.blocked(2)
    assert told.second(4) == []
    told.blocked(2)
    assert changes(told.second()) == {1: PaceChange.SLOW}
    assert told.coordinator.state == THROTTLED


def test_blocked_twice_with_a_relief_in_between_is_not_stay_blocked() -> None:
    told = Told(Settings(ratio=0.5))
    for _ in range(5):
        told.blocked(4)
        assert changes(told.second(4)) == {}
        told.relieved(4)
        assert changes(told.second(4)) == {}


def test_a_new_coordinator_need_not_wait_for_two_periods_more() -> None:
    told = Told(Settings(ratio=1.0))
    told.blocked(4)
    told.second(4)
    told.restart()
    told.blocked(4)
    assert changes(told.second()) == ALL_OF_A


def test_only_the_spouts_that_feed_it_are_paced() -> None:
    told = Told()
    told.blocked(8)
    assert changes(told.second()) == {3: PaceChange.SLOW}


def test_of_two_bottlenecks_the_slower_one_counts_and_both_must_be_relieved() -> None:
    def time_us(*blocked: int) -> int:
        told = flowing()
        told.blocked(*blocked)
        order = dict(told.second())[1]
        assert isinstance(order, Pace)
        return order.time_us

    assert time_us(4) != time_us(9)
    assert time_us(4, 9) == max(time_us(4), time_us(9))
    told = flowing()
    told.blocked(4, 9)
    told.obey(told.second(), 1_000)
    told.relieved(9)
    assert changes(told.second(4)) == {**ALL_OF_A, 3: PaceChange.RELIEVE}  # b does not feed the other one
    told.relieved(4)
    assert changes(told.second())[1] is PaceChange.RELIEVE


def flowing() -> Told:
    """Five seconds in which all have done something."""
    told = Told()
    for _ in range(5):
        for task, rate in ((1, 30), (2, 50), (3, 40), (4, 300), (5, 200), (9, 100)):
            told.flow(task, rate)
        told.second()
    return told


# -- how long ----------------------------------------------------------------------------------------------------------


def test_with_one_task_each_it_is_the_execute_time() -> None:
    told = Told(sources={"bolt": frozenset({"spout"})}, tasks={"spout": (1,), "bolt": (2,)})
    for _ in range(5):
        told.flow(1, 100)
        told.flow(2, 100)
        told.second()
    told.blocked(2)
    told.flow(1, 100)
    told.flow(2, 100)
    order = dict(told.second())[1]
    assert isinstance(order, Pace)
    assert order.time_us == pytest.approx(10_000, rel=0.2)  # but for the 90 that wait: they were emitted too


def test_what_is_multiplied_on_the_way_counts_and_what_waits_was_emitted_too() -> None:
    told = Told(sources={"bolt": frozenset({"spout"})}, tasks={"spout": (1, 2), "bolt": (3, 4, 5, 6)})
    told.bolt(3, fill=4_000, capacity=5_000)  # ten for each of 400 that were emitted at the beginning
    told.flow(1, 400)
    for second in range(6):
        for task, rate in ((1, 50), (2, 40), (3, 250), (4, 250), (5, 200), (6, 200)):
            told.flow(task, rate)
        if second == 5:
            told.blocked(3, fill=4_000)
        orders = told.second()
    order = dict(orders)[1]
    assert isinstance(order, Pace)
    assert order.time_us == pytest.approx(2 * 10 / 900 * 1e6, rel=0.01)


def test_of_a_bolt_that_hangs_it_is_long_but_no_eternity() -> None:
    told = Told()
    told.second(5)
    told.blocked(4)
    order = told.second()[0][1]
    assert isinstance(order, Pace)
    assert 4e6 <= order.time_us <= 10e6


# -- steps -------------------------------------------------------------------------------------------------------------


def test_there_is_one_slow_in_a_period_and_the_same_is_said_again_each_interval() -> None:
    told = throttled()
    steps = []
    for second in range(12):
        if not second % 2:
            told.blocked(4, 5)  # two tasks whose periods are not the same
        orders = told.second()
        told.obey(orders)
        steps.append({order.step for _, order in orders if isinstance(order, Pace)})
    assert all(len(step) == 1 for step in steps)  # a second has its order, and all tasks have the same
    assert len({next(iter(step)) for step in steps}) <= 4


def test_in_between_nothing_changes() -> None:
    told = throttled()
    told.bolt(4, fill=50)
    before = told.coordinator.event_count
    for _ in range(20):
        told.obey(told.second())
    assert set(changes(told.second()).values()) == {PaceChange.SLOW}  # the same step, again and again
    assert (told.coordinator.state, told.coordinator.event_count) == (THROTTLED, before)


def test_all_is_over_when_every_paced_task_has_said_so_of_its_last_order() -> None:
    told = throttled()
    told.relieved(4)
    orders = told.second(2)
    assert changes(orders) == {1: PaceChange.RELIEVE, 2: PaceChange.RELIEVE}
    told.spout(1, wait_us=0)  # but of which order?
    assert not cleared(told.second())
    told.obey([order for order in orders if order[0] == 1], 0)
    assert not cleared(told.second())
    told.obey(orders, 0)
    orders = told.second()
    assert cleared(orders) == {4}
    assert told.coordinator.state == NORMAL
    assert [event.kind for event in told.coordinator.events] == [
        "BLOCKED", "THROTTLED", "SLOWED", "RELIEVED", "RELEASED", "RELEASED", "NORMAL"
    ]  # fmt: skip


def test_readings_that_are_one_order_late_do_not_keep_it_throttled() -> None:
    told = Told()
    told.blocked(8)
    told.obey(told.second(), wait_us=100)
    told.bolt(8, flagged=False, verdict=PressureVerdict.NONE)
    orders = told.second()
    for _ in range(5):  # the gauge looks at the moment at which the next order is under way
        late, orders = orders, told.second()
        told.obey(late, wait_us=0)
    assert told.coordinator.state == NORMAL


def test_a_task_that_no_order_reaches_does_not_keep_it_throttled() -> None:
    told = throttled()
    told.relieved(4)
    for _ in range(10):
        orders = told.second()
        told.obey([(task, order) for task, order in orders if task != 2], wait_us=0)
        told.spout(2, wait_us=0)  # its lease has ended
    assert told.coordinator.state == NORMAL


def test_a_clear_that_was_lost_is_said_again() -> None:
    told = throttled()
    told.relieved(4)
    told.obey(told.second(2), 0)
    assert cleared(told.second()) == {4}
    assert cleared(told.second()) == {4}
    told.bolt(4, flagged=False)
    assert told.second() == []


# -- who is gone, and who is new ---------------------------------------------------------------------------------------


def test_a_flagged_task_that_says_nothing_any_more_is_relieved() -> None:
    told = throttled()
    told.silent.add(4)
    told.second(6)
    assert told.coordinator.view().components["left"].tasks == ()
    orders = told.second()
    assert changes(orders) == {1: PaceChange.RELIEVE, 2: PaceChange.RELIEVE}
    assert all(order.busy == 0.0 for _, order in orders if isinstance(order, Pace))  # nobody is busy: to 0 at once


def test_a_spout_that_is_gone_does_not_keep_it_throttled() -> None:
    told = throttled()
    told.relieved(4)
    orders = told.second(2)
    told.obey([order for order in orders if order[0] == 1], 0)
    told.silent.add(2)
    told.second(7)
    assert told.coordinator.state == NORMAL


def test_another_coordinator_finds_who_waits_and_goes_on() -> None:
    told = throttled()
    told.restart()
    orders = told.second()
    assert told.coordinator.state == THROTTLED
    assert {spout.why for spout in told.coordinator.view().spouts} == {("left",)}
    assert {order.epoch for _, order in orders if isinstance(order, Pace)} == {2}
    told.obey(orders)
    told.relieved(4)
    told.obey(told.second(2), 0)
    assert cleared(told.second()) == {4}


def test_another_coordinator_remembers_what_has_happened() -> None:
    told = throttled()
    before = told.coordinator
    told.restart()
    told.coordinator.remember(before.events, before.event_count)
    told.second()
    kinds = [event.kind for event in told.coordinator.view().events]
    assert kinds == ["BLOCKED", "THROTTLED", "SLOWED", "BLOCKED", "THROTTLED"]
    assert told.coordinator.event_count == 5


def test_another_coordinator_that_finds_a_spout_waiting_for_nobody_releases_it() -> None:
    told = throttled()
    told.bolt(4, flagged=False)
    told.restart()
    told.second()
    orders = told.second()
    assert set(changes(orders).values()) == {PaceChange.RELIEVE}
    told.obey(orders, 0)
    told.second()
    assert told.coordinator.state == NORMAL


def test_a_task_that_has_come_again_hears_what_the_others_wait() -> None:
    told = throttled()
    told.spout(2, wait_us=0, epoch=0, step=0)
    order = dict(told.second())[2]
    assert isinstance(order, Pace)
    assert order.others_us == 1_000


def test_who_reports_from_elsewhere_or_what_it_is_not_is_not_heard() -> None:
    told = Told(sources={"bolt": frozenset({"spout"})}, tasks={"spout": (1,), "bolt": (2,)})
    told.bolts[77] = told.bolts[2]
    told.bolt(77, task=77)
    told.spouts[2] = told.spouts[1]
    told.spout(2, task=2, wait_us=5)  # a bolt's task does not wait
    told.second(3)
    assert told.coordinator.state == NORMAL


# -- settings ----------------------------------------------------------------------------------------------------------


def test_switched_off_it_forgets_all_and_says_nothing() -> None:
    told = throttled()
    told.coordinator.update(Settings(enable=False), told.now_s, told.now_s)
    view = told.coordinator.view()
    assert (view.enabled, view.state, view.spouts) == (False, NORMAL, ())
    assert told.second(3) == []
    assert [event.kind for event in view.events][-2:] == ["UPDATED", "NORMAL"]


def test_a_shorter_lease_begins_when_it_is_told() -> None:
    """What was said less than a lease of before ago still holds: nobody is gone, nobody waits no more."""
    told = throttled()
    before = told.coordinator.event_count
    told.now_s += 0.9
    told.coordinator.update(Settings(interval_s=0.1), told.now_s, told.now_s)
    told.now_s += 0.4
    assert told.coordinator.tick(told.now_s, told.now_s) != []
    view = told.coordinator.view()
    assert [event.kind for event in list(view.events)[before:]] == ["UPDATED"]
    assert (view.state, {spout.why for spout in view.spouts}) == (THROTTLED, {("left",)})


def test_a_view_says_who_and_why() -> None:
    told = throttled()
    view = told.coordinator.view()
    (task,) = view.components["left"].tasks
    assert (task.task_id, task.fill, task.blocked) == (4, 0.9, True)
    assert view.components["last"].fill == 0
    assert [(s.component, s.task_id, s.wait_s, s.why) for s in view.spouts] == [
        ("a", 1, 0.001, ("left",)),
        ("a", 2, 0.001, ("left",)),
    ]


def test_24_idle_hours_change_nothing() -> None:
    told = Told()
    for _ in range(24 * 60):
        told.now_s += 59
        assert told.second() == []
    assert (told.coordinator.state, told.coordinator.event_count, told.coordinator.idle) == (NORMAL, 0, True)
