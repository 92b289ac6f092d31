"""Coordinator: which spouts are paced, because of which bolts, and when the state is NORMAL again."""

from __future__ import annotations

import pytest

from aiostorm.backpressure import NORMAL, THROTTLED, Pace, PaceChange, PressureVerdict, Settings, sources_of
from aiostorm.topology import TopologyBuilder

from ..conformance.parts import Identity, Words
from .parts import World, changes, cleared

ALL_OF_A = {1: PaceChange.SLOW, 2: PaceChange.SLOW}


def throttled() -> World:
    """`left` has blocked, a's tasks wait 1 ms."""
    world = World()
    world.blocked(4)
    world.obey(world.second(), 1_000)
    world.second()
    assert world.coordinator.log.state == THROTTLED
    return world


# -- which spouts ------------------------------------------------------------------------------------------------------


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
    world = World(Settings(ratio=ratio))
    world.blocked(*range(4, 4 + blocked))
    assert changes(world.second()) == (ALL_OF_A if paced else {})
    assert world.coordinator.log.state == (THROTTLED if paced else NORMAL)


@pytest.mark.parametrize("count", range(1, 11))
def test_a_ratio_that_no_float_is_exactly_is_not_passed_by_so_many(count: int) -> None:
    tasks = {"spout": (1,), "bolt": tuple(range(2, 12))}
    for blocked, paced in ((count, count == 10), (min(count + 1, 10), True)):
        world = World(Settings(ratio=count / 10), sources={"bolt": frozenset({"spout"})}, tasks=tasks)
        world.blocked(*range(2, 2 + blocked))
        assert bool(world.second()) is paced


@pytest.mark.parametrize("count", [2, 10, 11, 100])
def test_one_task_that_stays_blocked_for_two_periods_triggers_at_any_share(count: int) -> None:
    tasks = {"spout": (1,), "bolt": tuple(range(2, 2 + count))}
    world = World(Settings(ratio=1.0), sources={"bolt": frozenset({"spout"})}, tasks=tasks)
    world.blocked(2)
    assert world.second(4) == []
    world.blocked(2)
    assert changes(world.second()) == {1: PaceChange.SLOW}
    assert world.coordinator.log.state == THROTTLED


def test_blocked_twice_with_a_relief_in_between_is_not_stay_blocked() -> None:
    world = World(Settings(ratio=0.5))
    for _ in range(5):
        world.blocked(4)
        assert changes(world.second(4)) == {}
        world.relieved(4)
        assert changes(world.second(4)) == {}


def test_a_new_coordinator_need_not_wait_for_two_periods_more() -> None:
    world = World(Settings(ratio=1.0))
    world.blocked(4)
    world.second(4)
    world.restart()
    world.blocked(4)
    assert changes(world.second()) == ALL_OF_A


def test_only_the_spouts_that_feed_it_are_paced() -> None:
    world = World()
    world.blocked(8)
    assert changes(world.second()) == {3: PaceChange.SLOW}


def test_the_slower_of_two_bottlenecks_counts_and_both_must_be_relieved() -> None:
    def time_us(*blocked: int) -> int:
        world = flowing()
        world.blocked(*blocked)
        order = dict(world.second())[1]
        assert isinstance(order, Pace)
        return order.time_us

    assert time_us(4) != time_us(9)
    assert time_us(4, 9) == max(time_us(4), time_us(9))
    world = flowing()
    world.blocked(4, 9)
    world.obey(world.second(), 1_000)
    world.relieved(9)
    assert changes(world.second(4)) == {**ALL_OF_A, 3: PaceChange.RELIEVE}  # b does not feed the other one
    world.relieved(4)
    assert changes(world.second())[1] is PaceChange.RELIEVE


def flowing() -> World:
    """Five seconds in which all tasks have done something."""
    world = World()
    for _ in range(5):
        for task, rate in ((1, 30), (2, 50), (3, 40), (4, 300), (5, 200), (9, 100)):
            world.flow(task, rate)
        world.second()
    return world


# -- how long ----------------------------------------------------------------------------------------------------------


def test_with_one_task_each_it_is_the_execute_time() -> None:
    world = World(sources={"bolt": frozenset({"spout"})}, tasks={"spout": (1,), "bolt": (2,)})
    for _ in range(5):
        world.flow(1, 100)
        world.flow(2, 100)
        world.second()
    world.blocked(2)
    world.flow(1, 100)
    world.flow(2, 100)
    order = dict(world.second())[1]
    assert isinstance(order, Pace)
    assert order.time_us == pytest.approx(10_000, rel=0.2)  # but for the 90 that wait: they were emitted too


def test_amplified_and_waiting_tuples_count() -> None:
    world = World(sources={"bolt": frozenset({"spout"})}, tasks={"spout": (1, 2), "bolt": (3, 4, 5, 6)})
    world.bolt(3, fill=4_000, capacity=5_000)  # ten for each of 400 that were emitted at the beginning
    world.flow(1, 400)
    for second in range(6):
        for task, rate in ((1, 50), (2, 40), (3, 250), (4, 250), (5, 200), (6, 200)):
            world.flow(task, rate)
        if second == 5:
            world.blocked(3, fill=4_000)
        orders = world.second()
    order = dict(orders)[1]
    assert isinstance(order, Pace)
    assert order.time_us == pytest.approx(2 * 10 / 900 * 1e6, rel=0.01)


def test_the_wait_for_a_bolt_that_hangs_is_long_but_bounded() -> None:
    world = World()
    world.second(5)
    world.blocked(4)
    order = world.second()[0][1]
    assert isinstance(order, Pace)
    assert 4e6 <= order.time_us <= 10e6


# -- steps -------------------------------------------------------------------------------------------------------------


def test_there_is_one_slow_in_a_period_and_the_same_order_is_sent_again_each_interval() -> None:
    world = throttled()
    steps = []
    for second in range(12):
        if not second % 2:
            world.blocked(4, 5)  # two tasks whose periods are not the same
        orders = world.second()
        world.obey(orders)
        steps.append({order.step for _, order in orders if isinstance(order, Pace)})
    assert all(len(step) == 1 for step in steps)  # a second has its order, and all tasks have the same
    assert len({next(iter(step)) for step in steps}) <= 4


def test_a_fill_between_the_marks_changes_nothing() -> None:
    world = throttled()
    world.bolt(4, fill=50)
    before = world.coordinator.log.count
    for _ in range(20):
        world.obey(world.second())
    assert set(changes(world.second()).values()) == {PaceChange.SLOW}  # the same step, again and again
    assert (world.coordinator.log.state, world.coordinator.log.count) == (THROTTLED, before)


def test_all_is_over_when_every_paced_task_has_reported_so_for_its_last_order() -> None:
    world = throttled()
    world.relieved(4)
    orders = world.second(2)
    assert changes(orders) == {1: PaceChange.RELIEVE, 2: PaceChange.RELIEVE}
    world.spout(1, wait_us=0)  # but of which order?
    assert not cleared(world.second())
    world.obey([order for order in orders if order[0] == 1], 0)
    assert not cleared(world.second())
    world.obey(orders, 0)
    orders = world.second()
    assert cleared(orders) == {4}
    assert world.coordinator.log.state == NORMAL
    assert [event.kind for event in world.coordinator.log.events] == [
        "BLOCKED", "THROTTLED", "SLOWED", "RELIEVED", "RELEASED", "RELEASED", "NORMAL"
    ]  # fmt: skip


def test_readings_that_are_one_order_late_do_not_keep_it_throttled() -> None:
    world = World()
    world.blocked(8)
    world.obey(world.second(), wait_us=100)
    world.bolt(8, flagged=False, verdict=PressureVerdict.NONE)
    orders = world.second()
    for _ in range(5):  # the gauge looks at the moment at which the next order is under way
        late, orders = orders, world.second()
        world.obey(late, wait_us=0)
    assert world.coordinator.log.state == NORMAL


def test_a_task_that_no_order_reaches_does_not_keep_it_throttled() -> None:
    world = throttled()
    world.relieved(4)
    for _ in range(10):
        orders = world.second()
        world.obey([(task, order) for task, order in orders if task != 2], wait_us=0)
        world.spout(2, wait_us=0)  # its lease has ended
    assert world.coordinator.log.state == NORMAL


def test_a_clear_that_was_lost_is_sent_again() -> None:
    world = throttled()
    world.relieved(4)
    world.obey(world.second(2), 0)
    assert cleared(world.second()) == {4}
    assert cleared(world.second()) == {4}
    world.bolt(4, flagged=False)
    assert world.second() == []


# -- lost and new tasks ------------------------------------------------------------------------------------------------


def test_a_flagged_task_that_reports_nothing_any_more_is_relieved() -> None:
    world = throttled()
    world.silent.add(4)
    world.second(6)
    assert world.coordinator.view().components["left"].tasks == ()
    orders = world.second()
    assert changes(orders) == {1: PaceChange.RELIEVE, 2: PaceChange.RELIEVE}
    assert all(order.busy == 0.0 for _, order in orders if isinstance(order, Pace))  # no bolt is busy: to 0 at once


def test_a_lost_spout_does_not_keep_it_throttled() -> None:
    world = throttled()
    world.relieved(4)
    orders = world.second(2)
    world.obey([order for order in orders if order[0] == 1], 0)
    world.silent.add(2)
    world.second(7)
    assert world.coordinator.log.state == NORMAL


def test_another_coordinator_finds_the_waiting_spouts_and_goes_on() -> None:
    world = throttled()
    world.restart()
    orders = world.second()
    assert world.coordinator.log.state == THROTTLED
    assert {spout.why for spout in world.coordinator.view().spouts} == {("left",)}
    assert {order.epoch for _, order in orders if isinstance(order, Pace)} == {2}
    world.obey(orders)
    world.relieved(4)
    world.obey(world.second(2), 0)
    assert cleared(world.second()) == {4}


def test_another_coordinator_remembers_what_has_happened() -> None:
    world = throttled()
    before = world.coordinator
    world.restart()
    world.coordinator.log.remember(before.log)
    world.second()
    kinds = [event.kind for event in world.coordinator.view().events]
    assert kinds == ["BLOCKED", "THROTTLED", "SLOWED", "BLOCKED", "THROTTLED"]
    assert world.coordinator.log.count == 5


def test_another_coordinator_that_finds_a_spout_waiting_without_cause_releases_it() -> None:
    world = throttled()
    world.bolt(4, flagged=False)
    world.restart()
    world.second()
    orders = world.second()
    assert set(changes(orders).values()) == {PaceChange.RELIEVE}
    world.obey(orders, 0)
    world.second()
    assert world.coordinator.log.state == NORMAL


def test_a_restarted_task_gets_the_wait_of_the_others() -> None:
    world = throttled()
    world.spout(2, wait_us=0, epoch=0, step=0)
    order = dict(world.second())[2]
    assert isinstance(order, Pace)
    assert order.others_us == 1_000


def test_readings_of_unknown_tasks_or_of_the_wrong_kind_are_ignored() -> None:
    world = World(sources={"bolt": frozenset({"spout"})}, tasks={"spout": (1,), "bolt": (2,)})
    world.bolts[77] = world.bolts[2]
    world.bolt(77, task=77)
    world.spouts[2] = world.spouts[1]
    world.spout(2, task=2, wait_us=5)  # a bolt's task does not wait
    world.second(3)
    assert world.coordinator.log.state == NORMAL


# -- settings ----------------------------------------------------------------------------------------------------------


def test_switched_off_it_forgets_all_and_sends_nothing() -> None:
    world = throttled()
    world.coordinator.update(Settings(enable=False), world.now_s, world.now_s)
    view = world.coordinator.view()
    assert (view.enabled, view.state, view.spouts) == (False, NORMAL, ())
    assert world.second(3) == []
    assert [event.kind for event in view.events][-2:] == ["UPDATED", "NORMAL"]


def test_a_shorter_lease_begins_when_it_is_set() -> None:
    """A reading within the old lease is still valid: no task is lost, no spout stops waiting."""
    world = throttled()
    before = world.coordinator.log.count
    world.now_s += 0.9
    world.coordinator.update(Settings(interval_s=0.1), world.now_s, world.now_s)
    world.now_s += 0.4
    assert world.coordinator.tick(world.now_s, world.now_s) != []
    view = world.coordinator.view()
    assert [event.kind for event in list(view.events)[before:]] == ["UPDATED"]
    assert (view.state, {spout.why for spout in view.spouts}) == (THROTTLED, {("left",)})


def test_a_view_names_the_tasks_and_reasons() -> None:
    world = throttled()
    view = world.coordinator.view()
    (task,) = view.components["left"].tasks
    assert (task.task_id, task.fill, task.blocked) == (4, 0.9, True)
    assert view.components["last"].fill == 0
    assert [(s.component, s.task_id, s.wait_s, s.why) for s in view.spouts] == [
        ("a", 1, 0.001, ("left",)),
        ("a", 2, 0.001, ("left",)),
    ]


def test_24_idle_hours_change_nothing() -> None:
    world = World()
    for _ in range(24 * 60):
        world.now_s += 59
        assert world.second() == []
    assert (world.coordinator.log.state, world.coordinator.log.count, world.coordinator.idle) == (NORMAL, 0, True)


def test_other_samples_measure_rates_over_another_period() -> None:
    """One bolt, one spout: 100 tuples a second, then 10. After two intervals a period of one has only the 10."""
    tasks = {"spout": (1,), "bolt": (2,)}

    def time_us(*, before: int, after: int) -> int:
        world = World(Settings(samples=before), sources={"bolt": frozenset({"spout"})}, tasks=tasks)
        executed = 0
        for rate in (100, 100, 100, 100):
            executed += rate
            world.bolt(2, executed=executed)
            world.second()
        world.coordinator.update(Settings(samples=after), world.now_s, world.now_s)
        for rate in (10, 10):
            executed += rate
            world.bolt(2, executed=executed)
            world.second()
        world.blocked(2)
        executed += 10
        world.bolt(2, executed=executed)
        [time_us] = {order.time_us for _, order in world.second() if isinstance(order, Pace)}
        return time_us

    assert time_us(before=4, after=1) == 100_000
    assert time_us(before=4, after=2) == 100_000
    assert time_us(before=4, after=4) == int(4e6 / 130)
    assert time_us(before=4, after=8) == 100_000  # measured anew: nothing of before the change is in it


def test_a_blocked_task_that_is_lost_is_reported() -> None:
    world = throttled()
    world.silent.add(4)
    world.second(30)
    assert [
        (event.kind, event.component) for event in world.coordinator.log.events if event.text == "task 4 is lost"
    ] == [("RELIEVED", "left")]


def test_one_of_two_causes_that_blocks_again_is_enough_for_another_step() -> None:
    world = World()
    world.blocked(4, 5, 6, 7, 9, 10)
    first = world.second()
    assert changes(first)[1] == PaceChange.SLOW
    world.obey(first, 1_000)
    world.second(4)
    world.blocked(4, 5, 6, 7)  # `last` stays as it is
    [step] = {order.step for task, order in world.second() if task == 1 and isinstance(order, Pace)}
    assert step > max(order.step for task, order in first if task == 1 and isinstance(order, Pace))


def test_a_relief_says_how_busy_the_slow_component_was() -> None:
    world = throttled()
    world.bolt(8, busy=0.9)  # of another spout
    world.relieved(4, busy=0.25)
    orders = [order for _ in range(8) for _, order in world.second() if isinstance(order, Pace)]
    assert {order.busy for order in orders if order.change is PaceChange.RELIEVE} == {0.25}
