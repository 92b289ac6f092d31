"""Capacity: what a component could process, and which wait of its spout tasks follows. All numbers by hand."""

from __future__ import annotations

from typing import Any

import pytest

from aiostorm.backpressure import BoltReading, Graph, PressureVerdict, Settings, SpoutReading
from aiostorm.backpressure.capacity import BoltState, Capacity, SpoutState, fill_of
from aiostorm.backpressure.flows import Flows
from aiostorm.backpressure.throttle import MAX_WAIT

from .parts import SOURCES, TASKS


class Known:
    """What the tasks of `a ─► left ─► last ◄─ right ◄─ b` have reported after four seconds."""

    def __init__(self, *balanced: str) -> None:
        self.flows = Flows(4, SOURCES)
        self.bolts: dict[int, BoltState] = {}
        self.spouts: dict[int, SpoutState] = {}
        graph = Graph(SOURCES, SOURCES, frozenset(balanced))
        self.capacity = Capacity(graph, TASKS, self.flows, self.bolts, self.spouts)

    def bolt(self, task: int, rate: int, now: int | None = None, fill: int = 0, **reading: Any) -> None:
        """It has executed `rate` tuples a second, and `now` in the last one."""
        component = self._count(task, rate, now)
        found = BoltReading(task, fill, reading.pop("capacity", 100), 4 * rate, **reading)
        self.bolts[task] = BoltState(component, found, 1, 4.0, 0.0)

    def spout(self, task: int, rate: int, **reading: Any) -> None:
        """It has emitted `rate` tuples a second."""
        component = self._count(task, rate, None)
        self.spouts[task] = SpoutState(component, SpoutReading(task, 4 * rate, **reading), 4.0, 0.0)

    def _count(self, task: int, rate: int, now: int | None) -> str:
        component = next(name for name, tasks in TASKS.items() if task in tasks)
        until = 4 * rate - (rate if now is None else now)
        for at_s, so_far in ((0.0, 0), (3.0, until), (4.0, 4 * rate)):
            self.flows.count(component, task, 1, at_s, so_far)
        self.flows.end_interval(4.0, {})
        return component


# -- rate --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other", "rate"),
    [
        ({"flagged": True, "load": 0.5}, {}, 60 + 40),  # never without work: its rate is its capacity
        ({"starved": True, "load": 0.5}, {}, 60 + 40),  # not flagged: what it could do does not matter
        ({"flagged": True, "starved": True, "load": 0.5}, {}, (80 + 50) / 0.5),
        ({"flagged": True, "starved": True, "load": 0.1}, {}, (80 + 50) / 0.25),
        ({"flagged": True, "starved": True, "load": 0.5}, {"load": 0.9}, (80 + 50) / 0.5),
        ({"flagged": True, "starved": True, "load": 0.5}, {"flagged": True, "load": 0.8}, (80 + 50) / 0.8),
    ],
)
def test_the_busiest_flagged_task_limits_a_component_that_ran_out_of_work(
    one: dict[str, Any], other: dict[str, Any], rate: float
) -> None:
    known = Known()
    known.bolt(4, 60, 80, **one)
    known.bolt(5, 40, 50, **other)
    assert known.capacity.rate("left") == pytest.approx(rate)


def test_the_rate_of_the_period_is_the_least_capacity() -> None:
    known = Known()
    known.bolt(4, 60, 10, flagged=True, starved=True, load=0.5)
    assert known.capacity.rate("left") == 60
    assert known.capacity.rate("right") == 0


def test_each_task_counts_for_itself_if_tuples_go_to_any_with_free_capacity() -> None:
    known = Known("left")
    known.bolt(4, 60, 80, load=0.5)  # always with work
    known.bolt(5, 40, 50, starved=True, load=0.5)
    known.bolt(6, 30, 5, starved=True, load=0.5)
    known.bolt(7, 10, 20, starved=True, load=0.1)
    assert known.capacity.rate("left") == pytest.approx(60 + 1.02 * (50 / 0.5 + 30 + 20 / 0.25))


# -- waits -------------------------------------------------------------------------------------------------------------


def test_the_time_of_a_tuple_is_in_tuples_that_the_spout_emits() -> None:
    known = Known()
    known.spout(1, 50)
    known.bolt(4, 200)  # four for each
    assert known.capacity.time_us("left", Settings()) == 20_000


@pytest.mark.parametrize(("samples", "wait_us"), [(2, 4_000_000), (8, 8_000_000), (60, MAX_WAIT)])
def test_a_stuck_component_takes_one_tuple_in_the_time_that_it_was_observed(samples: int, wait_us: int) -> None:
    known = Known()
    known.spout(1, 50)
    known.bolt(4, 0)
    assert known.capacity.time_us("left", Settings(samples=samples)) == wait_us


@pytest.mark.parametrize(
    ("spouts", "wait_us"),
    [
        ([], 10_000),
        ([(1, 40, {"active": False})], 10_000),
        ([(1, 80, {"wait_us": 20_000}), (3, 80, {"wait_us": 20_000})], 10_000),  # 3 is of `b`, which does not feed it
        ([(1, 80, {"wait_us": 20_000})], 10_000),
        ([(1, 80, {"wait_us": 20_000}), (2, 80, {"wait_us": 20_000, "active": False})], 10_000),
        ([(1, 80, {"wait_us": 20_000}), (2, 80, {"wait_us": 20_000})], 20_000),
        ([(1, 80, {"wait_us": 20_000}), (2, 45, {"wait_us": 20_000})], 20_000),  # 0.9 of what it may: limited
        ([(1, 80, {"wait_us": 20_000}), (2, 20, {"wait_us": 20_000})], 12_500),  # the other may emit 100 - 20
        ([(1, 80, {"wait_us": 20_000}), (2, 90, {"wait_us": 1_000})], 20_000),  # its own half, though the other has 90
        ([(1, 10, {"wait_us": 20_000}), (2, 20, {"wait_us": 20_000})], 20_000),  # none is limited: equal shares
    ],
)
def test_spout_tasks_share_what_the_component_can_do(
    spouts: list[tuple[int, int, dict[str, Any]]], wait_us: int
) -> None:
    known = Known()
    for task, rate, reading in spouts:
        known.spout(task, rate, **reading)
    # Without any count it is taken for one tuple a period: a hundred a second.
    assert known.capacity.time_us("left", Settings(interval_s=0.01, samples=1)) == wait_us


def test_no_wait_is_longer_than_the_longest() -> None:
    rare = Settings(interval_s=60.0)
    known = Known()
    assert known.capacity.time_us("left", rare) == MAX_WAIT
    known.spout(1, 1)
    assert known.capacity.time_us("left", rare) == MAX_WAIT
    known.spout(2, 1000, wait_us=MAX_WAIT)
    assert known.capacity.time_us("left", rare) == MAX_WAIT


def test_the_time_to_follow_is_of_the_slowest_flagged_component_behind_the_spout() -> None:
    known = Known()
    known.spout(1, 100)
    assert known.capacity.follow_us("a") == 0
    known.bolt(4, 50)
    assert known.capacity.follow_us("a") == 0, "it is not flagged"
    known.bolt(8, 1, flagged=True)
    assert known.capacity.follow_us("a") == 0, "it is behind the other spout"
    known.bolt(5, 50, flagged=True)
    known.bolt(9, 200, 200, flagged=True, starved=True, load=0.25)  # two for each, and 800 would be possible
    assert known.capacity.follow_us("a") == 10_000
    known.bolt(6, 0, flagged=True)
    known.bolt(10, 0, flagged=True)
    assert known.capacity.follow_us("a") == 10_000
    stuck = Known()
    stuck.spout(1, 100)
    stuck.bolt(4, 0, flagged=True)
    assert stuck.capacity.follow_us("a") == 0


# -- fill --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("fill", "capacity", "share"), [(0, 10, 0.0), (5, 10, 0.5), (20, 10, 1.0), (5, 0, 0.0)])
def test_the_fill_of_a_mailbox_is_a_share(fill: int, capacity: int, share: float) -> None:
    assert fill_of(BoltReading(1, fill, capacity, 0)) == share


def test_the_fullest_flagged_task_and_the_work_in_all_mailboxes_of_its_component() -> None:
    settings = Settings(low=0.1, high=0.7)
    known = Known()
    assert known.capacity.fullest("a", settings) == (pytest.approx(0.4), settings.period_s)
    known.bolt(4, 30, fill=90)
    known.bolt(5, 20, fill=60, flagged=True)
    known.bolt(6, 0, fill=20, flagged=True)
    known.bolt(9, 7, fill=50, flagged=True)
    assert known.capacity.fullest("a", settings) == (0.6, 300 / 50)
    assert known.capacity.fullest("b", settings) == (0.5, 100 / 7)
    stuck = Known()
    stuck.bolt(4, 0, fill=30, flagged=True)
    assert stuck.capacity.fullest("a", settings) == (0.3, settings.period_s)


def test_the_fill_is_the_mean_if_tuples_go_to_any_task_with_free_capacity() -> None:
    known = Known("left")
    known.bolt(4, 30, fill=90)
    known.bolt(5, 20, fill=60, flagged=True)
    assert known.capacity.fullest("a", Settings()) == (0.75, 200 / 50)


@pytest.mark.parametrize(
    ("flagged", "verdict", "blocks", "blocked", "stays"),
    [
        (True, PressureVerdict.BLOCKED, 1, True, False),
        (True, PressureVerdict.BLOCKED, 2, True, True),
        (False, PressureVerdict.BLOCKED, 2, False, False),
        (True, PressureVerdict.RELIEVED, 2, False, False),
    ],
)
def test_a_task_stays_blocked_from_its_second_period_on(
    flagged: bool, verdict: PressureVerdict, blocks: int, blocked: bool, stays: bool
) -> None:
    state = BoltState("left", BoltReading(4, 0, 1, 0, flagged, verdict, blocks=blocks), 1, 0.0, 0.0)
    assert (state.blocked, state.stays_blocked) == (blocked, stays)
