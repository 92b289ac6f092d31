"""Bugs planted into backpressure, one at a time: the world of pressure finds each within a few seeds."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from aiostorm.actors import Lanes
from aiostorm.backpressure import Clear, Coordinator, PressureVerdict, Sampler, SpoutPace, Throttle
from aiostorm.backpressure import pacings as pacings_module
from aiostorm.backpressure.mailbox_limit import MailboxLimit
from aiostorm.backpressure.throttle import trim

from ..pressure.world import PressureResult, run
from .planting import SEEDS, Plant, first_that_finds, replaced


@contextlib.contextmanager
def a_clear_is_sent_once() -> Iterator[None]:
    """jstorm#404: the message that ends it is lost, and not repeated."""
    real = Coordinator._decide

    def decide(self: Coordinator, now_s: float, wall_s: float) -> list[Any]:
        before = self.log.state
        orders = real(self, now_s, wall_s)
        if before != self.log.state:
            return orders
        return [(task, order) for task, order in orders if not isinstance(order, Clear)]

    with replaced(Coordinator, "_decide", decide):
        yield


@contextlib.contextmanager
def a_lease_never_expires() -> Iterator[None]:
    """A spout waits until an order ends the wait."""
    with replaced(SpoutPace, "expire", lambda self, now_s: False):
        yield


@contextlib.contextmanager
def a_component_of_one_task_never_triggers() -> Iterator[None]:
    """A component triggers when more than a share of its tasks is blocked, and by nothing else: of 1, never."""

    def is_triggered(self: Coordinator, component: str) -> bool:
        tasks = self._tasks[component]
        return sum(self._bolts[t].blocked for t in tasks if t in self._bolts) / len(tasks) > self.settings.ratio

    with replaced(Coordinator, "_is_triggered", is_triggered):
        yield


@contextlib.contextmanager
def a_new_master_adopts_no_spout() -> Iterator[None]:
    """The spouts that wait because of the previous master are unknown to it; and there are no leases."""
    real = Coordinator._on_spout_reading

    def on_spout_reading(self: Coordinator, reading: Any, *args: Any) -> None:
        component = self._component_of.get(reading.task, "")
        if component not in self._pacings:
            reading = replace(reading, wait_us=0)
        real(self, reading, *args)

    with replaced(Coordinator, "_on_spout_reading", on_spout_reading), a_lease_never_expires():
        yield


@contextlib.contextmanager
def a_throttle_never_goes_to_zero() -> Iterator[None]:
    """A microsecond is left."""
    real = Throttle.relieve

    def relieve(self: Throttle, busy: float | None = None, *, bound: bool = True) -> None:
        real(self, busy, bound=bound)
        self.wait = max(self.wait, 1)

    with replaced(Throttle, "relieve", relieve):
        yield


@contextlib.contextmanager
def a_wait_is_trimmed_the_wrong_way() -> Iterator[None]:
    """A spout that feeds a full bolt is accelerated."""
    with replaced(pacings_module, "trim", lambda *args: -trim(*args)):
        yield


@contextlib.contextmanager
def a_flag_outlives_the_bolt() -> Iterator[None]:
    """JStorm's history: a bolt that has triggered dies, and the next instance is flagged as it was."""
    real = Sampler.sample

    def sample(self: Sampler, sample: Any, now_s: float) -> PressureVerdict:
        before = self.flagged, self.verdict
        found = real(self, replace(sample, instance=0), now_s)
        if before[0] and not self.flagged:
            self.flagged, self.verdict = before
        return found

    with replaced(Sampler, "sample", sample), replaced(Sampler, "clear", lambda self: None):
        yield


@contextlib.contextmanager
def an_order_counts_after_backpressure_is_switched_off() -> Iterator[None]:
    """Ours: the simulation found it."""

    def switch(self: SpoutPace, on: bool, now_s: float) -> None:
        if not on:
            self.release(now_s)

    with replaced(SpoutPace, "switch", switch):
        yield


@contextlib.contextmanager
def a_spout_ignores_its_pace() -> Iterator[None]:
    """It takes orders, and emits as before."""
    with replaced(SpoutPace, "wait_us", property(lambda self: 0)):
        yield


@contextlib.contextmanager
def a_mailbox_limit_ignores_execution_time() -> Iterator[None]:
    """What a row takes is not measured: the mailbox of a slow bolt holds as many as before."""
    with replaced(MailboxLimit, "measured", lambda self, *args: self.limit):
        yield


@contextlib.contextmanager
def only_one_parked_sender_is_woken() -> Iterator[None]:
    """A lost wake-up."""
    real = Lanes._open

    def open_gate(self: Lanes) -> None:
        while len(self._parked) > 1:
            self._parked.pop()
        real(self)

    with replaced(Lanes, "_open", open_gate):
        yield


PLANTED: dict[str, Plant] = {
    planted.__name__: planted
    for planted in (
        a_clear_is_sent_once,
        a_lease_never_expires,
        a_component_of_one_task_never_triggers,
        a_new_master_adopts_no_spout,
        a_throttle_never_goes_to_zero,
        a_wait_is_trimmed_the_wrong_way,
        a_flag_outlives_the_bolt,
        an_order_counts_after_backpressure_is_switched_off,
        a_spout_ignores_its_pace,
        a_mailbox_limit_ignores_execution_time,
        only_one_parked_sender_is_woken,
    )
}

FIRST_LOOK = {
    # Seeds that found a bug some time ago: the test looks there first. (Any change to the code may move them.)
    "a_clear_is_sent_once": 14,
    "a_lease_never_expires": 1,
    "a_component_of_one_task_never_triggers": 24,
    "a_new_master_adopts_no_spout": 1,
    "a_throttle_never_goes_to_zero": 1,
    "a_wait_is_trimmed_the_wrong_way": 8,
    "a_flag_outlives_the_bolt": 1,
    "an_order_counts_after_backpressure_is_switched_off": 15,
    "a_spout_ignores_its_pace": 4,
    "a_mailbox_limit_ignores_execution_time": 15,
    "only_one_parked_sender_is_woken": 3,
}


def found_by(planted: Plant, first: int = 0, seeds: int = SEEDS) -> PressureResult | None:
    return first_that_finds(run, planted, first, seeds)
