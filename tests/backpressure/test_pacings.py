"""Pacings: the last order to each paced component, and when the component is released."""

from __future__ import annotations

import pytest

from aiostorm.backpressure import BoltReading, Graph, Pace, PaceChange, Settings, SpoutReading
from aiostorm.backpressure.capacity import BoltState, Capacity
from aiostorm.backpressure.flows import Flows
from aiostorm.backpressure.pacings import Pacings

SETTINGS = Settings(low=0.2, high=0.8)


def capacity(*, fill: int = 500, size: int = 1000, rate: int = 1000) -> Capacity:
    """One bolt (task 2) after one spout: `fill` of `size` rows in its mailbox, `rate` rows executed in a second."""
    flows = Flows(4, {"bolt": ("a",)})
    for second in range(2):
        flows.count("bolt", 2, 1, float(second), rate * second)
    reading = BoltReading(2, fill, size, rate, flagged=True)
    graph = Graph({"bolt": frozenset({"a"})}, {"bolt": ("a",)})
    return Capacity(graph, {"a": (1,), "bolt": (2,)}, flows, {2: BoltState("bolt", reading, 1, 1.0, 1.0)}, {})


def order(pacings: Pacings, component: str = "a", **of_bolt: int) -> Pace:
    return pacings.order(component, capacity(**of_bolt), SETTINGS)


def test_each_order_has_a_number_of_its_own_that_only_grows() -> None:
    pacings = Pacings(3)
    pacings.adopt("a", 1.0, 500)
    assert (order(pacings).epoch, order(pacings).step) == (3, 1)
    pacings.slow("b", 1.0, ("bolt",), 100)
    pacings.slow("a", 2.0, ("bolt",), 100)
    pacings.relieve("b", 3.0, 0.5)
    assert (order(pacings, "a").step, order(pacings, "b").step) == (3, 4)
    pacings.clear()
    assert (len(pacings), list(pacings), pacings.get("a")) == (0, [], None)
    pacings.adopt("a", 4.0, 1)
    assert order(pacings).step == 5, "also after all were released"


def test_an_adopted_component_keeps_its_wait() -> None:
    pacings = Pacings(1)
    pacings.adopt("a", 1.0, 500)
    assert (len(pacings), list(pacings)) == (1, ["a"])
    pacing = pacings.get("a")
    assert pacing is not None
    assert (pacing.at_s, pacing.why) == (1.0, ())
    found = order(pacings)
    assert (found.change, found.time_us, found.busy, found.others_us) == (PaceChange.HOLD, 0, 0.0, 500)


def test_an_order_says_what_to_do_and_for_how_long() -> None:
    pacings = Pacings(1)
    pacings.slow("a", 1.0, ("bolt",), 700)
    found = order(pacings)
    assert (found.change, found.time_us, found.busy, found.others_us) == (PaceChange.SLOW, 700, 0.0, 0)
    assert found.lease_s == SETTINGS.lease_s
    assert found.follow_us == 1_000, "a thousand rows a second"
    pacing = pacings.get("a")
    assert pacing is not None
    assert (pacing.at_s, pacing.why) == (1.0, ("bolt",))
    pacing.wait_us = 650  # as its tasks report
    pacings.slow("a", 2.0, ("bolt", "other"), 800)
    found = order(pacings)
    assert (found.change, found.time_us, found.others_us) == (PaceChange.SLOW, 800, 650)
    pacings.relieve("a", 3.0, 0.25)
    found = order(pacings)
    assert (found.change, found.time_us, found.busy, found.others_us) == (PaceChange.RELIEVE, 800, 0.25, 650)
    pacing = pacings.get("a")
    assert pacing is not None
    assert (pacing.at_s, pacing.why) == (3.0, ("bolt", "other"))


@pytest.mark.parametrize(
    ("rate", "slack_s"), [(1, 1.0), (250, 1.0), (500, 0.5), (1000, 0.25), (5000, 0.05), (9000, 0.05)]
)
def test_a_spout_may_make_up_for_a_quarter_of_what_the_mailboxes_contain(rate: int, slack_s: float) -> None:
    pacings = Pacings(1)
    pacings.slow("a", 1.0, ("bolt",), 700)
    assert order(pacings, rate=rate).slack_s == pytest.approx(slack_s)


@pytest.mark.parametrize(
    ("fill", "rate", "trim"),
    [
        (500, 1000, 0.0),
        (600, 1000, 0.016),
        (400, 1000, -0.016),
        (1000, 1000, 0.06),
        (0, 1000, -0.06),
        (600, 10_000, 0.0025),
    ],
)
def test_a_wait_is_trimmed_by_the_fill_between_its_marks(fill: int, rate: int, trim: float) -> None:
    """Less, the sooner a full mailbox is empty."""
    pacings = Pacings(1)
    pacings.slow("a", 1.0, ("bolt",), 700)
    assert order(pacings, fill=fill, rate=rate).trim == pytest.approx(trim)


@pytest.mark.parametrize(
    ("wait_us", "epoch", "step", "at_s", "released"),
    [
        (0, 4, 1, 10.0, True),
        (1, 4, 1, 10.0, False),
        (0, 3, 1, 10.0, False),
        (0, 4, 0, 10.0, False),
        (0, 4, 0, 15.0, False),
        (0, 4, 0, 15.1, True),
        (1, 4, 0, 15.1, False),
    ],
)
def test_a_task_is_released_that_reports_no_wait_for_the_last_order_or_after_a_lease(
    wait_us: int, epoch: int, step: int, at_s: float, released: bool
) -> None:
    pacings = Pacings(4)
    pacings.slow("a", 10.0, ("bolt",), 700)
    done = SpoutReading(2, 0, wait_us=0, epoch=4, step=1)
    reading = SpoutReading(1, 0, wait_us=wait_us, epoch=epoch, step=step)
    for readings in ([reading], [done, reading], [reading, done]):
        assert pacings.is_released("a", readings, at_s, lease_s=5.0) is released
    assert pacings.is_released("a", [], at_s, lease_s=5.0), "all of its tasks are lost"
