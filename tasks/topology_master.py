"""Topology master: one actor of every running topology, which decides which spouts are paced; see backpressure.

    Readings ─► coordinator ─► Pace, Clear ─► tasks          each interval ─► coordinator ─► the same again

1. It has a task id, so it is reached like a task, by its control lane, wherever it runs.
2. It knows only what was reported within a lease: another instance, or one in another process, can continue.
3. An order for a task that cannot be reached is dropped: orders are repeated at each interval.

Storm: none. JStorm 2.1.1: TopologyMaster, BackpressureCoordinator.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from ..actors import Actor, Timer
from ..backpressure import Backpressure, Coordinator, Graph, Order, Readings, Settings

if TYPE_CHECKING:
    from ..actors import Message
    from .environment import Environment

log = logging.getLogger("aiostorm.backpressure")

_TICK: Final = object()


class TopologyMaster(Actor):
    """The master of one topology."""

    def __init__(self, env: Environment, settings: Settings, master: int) -> None:
        self._env = env
        self._settings = settings
        self._task_id = master
        self._timer: Timer | None = None
        self._coordinator = self._new()

    def started(self) -> None:
        """After a failure only the event history is kept; all readings arrive again within an interval."""
        self._timer = None
        before, self._coordinator = self._coordinator, self._new()
        self._coordinator.log.remember(before.log)

    @property
    def event_count(self) -> int:
        """How many events this instance has recorded."""
        return self._coordinator.log.count

    def view(self) -> Backpressure:
        """The state as it is known now."""
        return self._coordinator.view()

    def update(self, settings: Settings) -> None:
        """Apply other settings at once."""
        self._settings = settings
        clock, events_before = self._env.clock, self._coordinator.log.count
        self._coordinator.update(settings, clock.monotonic(), clock.now())
        if self._timer is not None and self._timer.active:
            self._timer.cancel()
            self._timer = self.after(settings.interval_s, _TICK)
            # Leases under the old settings may end before the new interval is over.
            self._post(self._coordinator.tick(clock.monotonic(), clock.now()))
        self._log(events_before)

    def receive(self, message: Message) -> None:
        """Readings of a backpressure monitor, or the end of an interval."""
        clock = self._env.clock
        events_before = self._coordinator.log.count
        if type(message) is Readings:
            self._post(self._coordinator.on_readings(message, clock.monotonic(), clock.now()))
        elif message is _TICK:
            self._timer = None
            self._post(self._coordinator.tick(clock.monotonic(), clock.now()))
        else:
            raise TypeError(f"a topology master does not understand {message!r:.200}")
        self._log(events_before)
        if self._timer is None and not self._coordinator.idle:
            self._timer = self.after(self._settings.interval_s, _TICK)

    def _new(self) -> Coordinator:
        env = self._env
        tasks = {component: env.plan.tasks_of[component] for component in env.topology.components}
        epoch = (int.from_bytes(env.rng.token_bytes(8), "big") >> 1) or 1
        return Coordinator(Graph.of(env.topology), tasks, self._settings, epoch, env.clock.now())

    def _post(self, orders: Iterable[Order]) -> None:
        for task, order in orders:
            if self._env.reaches(task):
                self._env.mailbox_of(self._task_id, task).post(order)

    def _log(self, events_before: int) -> None:
        new = self._coordinator.log.count - events_before
        for event in list(self._coordinator.log.events)[-new:] if new else ():
            log.info("%s: %s %s: %s", self._env.name, event.kind, event.component or "topology", event.text)
