"""Coordinator: the limits of its decisions: when exactly a step is taken, and what does not count for one."""

from __future__ import annotations

import pytest

from aiostorm.backpressure import NORMAL, Pace, PaceChange, Settings

from .parts import World, changes, cleared
from .test_coordinator import throttled


def test_switched_on_again_it_begins_anew() -> None:
    world = throttled()
    world.coordinator.update(Settings(enable=False), world.now_s, world.now_s)
    world.bolt(4, flagged=False)
    for task in (1, 2):
        world.spout(task, wait_us=0)  # they have released themselves
    world.coordinator.update(Settings(), world.now_s, world.now_s)
    assert world.coordinator.idle
    assert world.second() == []


def test_a_component_that_is_triggered_gets_no_clear() -> None:
    """Another ratio triggers it, and there is no new verdict that would pace its spouts."""
    world = World(Settings(ratio=0.5))
    world.blocked(4)
    world.relieved(5)
    assert cleared(world.second()) == {5}
    world.coordinator.update(Settings(ratio=0.1), world.now_s, world.now_s)
    assert world.second() == []
    assert world.coordinator.log.state == NORMAL


@pytest.mark.parametrize(("seconds", "is_new"), [(2, False), (3, True)])
def test_three_quarters_of_a_period_are_between_two_slow_orders(seconds: int, is_new: bool) -> None:
    world = throttled()  # its order is one second old
    before = {order.step for _, order in world.second(seconds - 2) if isinstance(order, Pace)} if seconds > 2 else {1}
    world.blocked(5)
    after = {order.step for _, order in world.second() if isinstance(order, Pace)}
    assert (after != before) is is_new


def test_what_was_emitted_before_spouts_were_paced_does_not_count_for_long() -> None:
    """A thousand tuples are between two processes: no reading contains them."""
    world = World(sources={"bolt": frozenset({"spout"})}, tasks={"spout": (1,), "bolt": (2,)})
    world.flow(1, 1_000)
    found: list[int] = []
    for second in range(24):
        world.flow(1, 100)
        world.flow(2, 100)
        if second % 4 == 3:
            world.blocked(2, fill=0)
        found += [order.time_us for _, order in world.second() if isinstance(order, Pace)]
    assert found[0] < 5_000
    assert found[-1] == pytest.approx(10_000, rel=0.02)


def test_a_component_that_is_lost_is_not_busy() -> None:
    world = World()
    world.blocked(8)
    world.obey(world.second(), 1_000)
    world.silent.add(8)
    orders = world.second(7)
    assert changes(orders) == {3: PaceChange.RELIEVE}
    assert {order.busy for _, order in orders if isinstance(order, Pace)} == {0.0}
