"""Coordinator: which spouts are paced, and because of which bolts. Pure: readings in, orders out, the time passed in.

    readings ─► share of a component's tasks that are BLOCKED > ratio, or one stays BLOCKED: it is *triggered*
                  │ up its inputs to the source spouts
                  ▼
    NORMAL ──SLOW──► THROTTLED ──RELIEVE … RELIEVE──► every paced spout reports that it no longer waits ─► NORMAL
                        ╰─ SLOW while triggered, RELIEVE when nothing triggers any more, else HOLD           Clear

1. A spout task gets at most one SLOW in a period, and its last order again in each interval: an order is a lease. A
   reading is a lease too: a task that reports nothing for that long counts as lost, and its reading is removed.
2. All state is reported again in each interval: a restarted coordinator learns within one interval which tasks are
   flagged and which spouts wait, and continues from there. Its orders count as new ones because of their epoch.
3. SLOW says how long the component takes for *one tuple of one spout task*: with one task each, and one tuple made from
   each tuple, that is its execute time.
4. The capacity of a component that always has work is its rate; a component that ran out of work could do more, in
   proportion to its idle time (the utilization law). Each order contains the time for a tuple again, and the paced
   spouts follow it.
5. If several components pace a spout, the slowest counts; the spout is relieved when none of them triggers any more.
6. The state is NORMAL again when every paced spout task has reported, for its last order, that it no longer waits (or
   is lost; or has received no order for a lease, and does not wait).
7. A component triggers when *more than* the ratio of its tasks is blocked, as JStorm's text says; 1 means all. This is
   only a rule for the first period: a task that is BLOCKED for a second one triggers by itself, because with rows
   grouped by key it delays all others.

From: JStorm 2.1.1, BackpressureCoordinator. Its code says "at least" and has no second period; there, events are sent
once (jstorm#404: one lost stop, and spouts slept); execute time is measured for each task.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from .capacity import BoltState, Capacity, SpoutState, fill_of
from .flows import Flows
from .messages import BoltReading, Clear, Pace, Readings, SpoutReading
from .pacings import Pacing, Pacings
from .pressure_log import PressureLog
from .sampler import PressureVerdict
from .view import (
    NORMAL,
    THROTTLED,
    Backpressure,
    ComponentPressure,
    SpoutPacing,
    TaskPressure,
)

if TYPE_CHECKING:
    from .graph import Graph
    from .settings import Settings

SPACING: Final = 0.75
"""Share of a period (SLOW) or an interval (RELIEVE): an earlier verdict is mostly about the time before the step."""

Order = tuple[int, Pace | Clear]
"""An order and the task that it is for."""


class Coordinator:
    """The coordinator of one topology. `tasks`: component → its tasks. `epoch` differs for each coordinator."""

    def __init__(
        self,
        graph: Graph,
        tasks: Mapping[str, Sequence[int]],
        settings: Settings,
        epoch: int,
        wall_s: float = 0.0,
    ) -> None:
        self.settings = settings
        self.log = PressureLog(wall_s)
        self._graph = graph
        self._tasks = tasks
        self._component_of = {task: component for component, found in tasks.items() for task in found}
        self._bolts: dict[int, BoltState] = {}
        self._spouts: dict[int, SpoutState] = {}
        self._fresh: dict[str, set[PressureVerdict]] = {}
        self._pacings = Pacings(epoch)
        self._flows = Flows(settings.samples, graph.inputs)
        self._capacity = Capacity(graph, tasks, self._flows, self._bolts, self._spouts)

    @property
    def idle(self) -> bool:
        """Is there no order to renew, and no flagged task that could be lost?"""
        return not self._pacings and not any(bolt.reading.flagged for bolt in self._bolts.values())

    # -- events in ---------------------------------------------------------------------------------------------------

    def on_readings(self, readings: Readings, now_s: float, wall_s: float) -> list[Order]:
        """Process the readings of a monitor. Returns the orders to send at once."""
        if not self.settings.enable:
            return []
        self._expire(now_s, wall_s)
        for bolt in readings.bolts:
            self._on_bolt_reading(bolt, readings, now_s, wall_s)
        for spout in readings.spouts:
            self._on_spout_reading(spout, readings, now_s, wall_s)
        fills: dict[str, int] = {}
        for known in self._bolts.values():
            fills[known.component] = fills.get(known.component, 0) + known.reading.fill
        self._flows.end_interval(now_s, fills)
        return self._decide(now_s, wall_s)

    def tick(self, now_s: float, wall_s: float) -> list[Order]:
        """An interval is over: remove lost tasks, renew the orders."""
        if not self.settings.enable:
            return []
        self._expire(now_s, wall_s)
        orders = self._decide(now_s, wall_s)
        sent = {task for task, _ in orders}
        for component in self._pacings:
            orders += [order for order in self._paces(component) if order[0] not in sent]
        return orders

    def update(self, settings: Settings, now_s: float, wall_s: float) -> None:
        """Apply other settings. If switched off, clear all state: the spouts release themselves."""
        if settings == self.settings:
            return
        what = "on" if settings.enable else "off"
        self.log.add(wall_s, "UPDATED", "", f"backpressure is {what}, checked each {settings.interval_s:g} s")
        if not settings.enable:
            self._pacings.clear()
            self._fresh.clear()
            self._bolts.clear()
            self._spouts.clear()
            if self.log.state == THROTTLED:
                self.log.become(NORMAL, wall_s, "switched off: no spout waits")
        # A shorter lease starts now: no task was silent for longer than its old lease allowed.
        for bolt in self._bolts.values():
            bolt.reported_s = now_s
        for spout in self._spouts.values():
            spout.reported_s = now_s
        if settings.samples != self.settings.samples:
            self._flows = Flows(settings.samples, self._graph.inputs)
            self._capacity = Capacity(self._graph, self._tasks, self._flows, self._bolts, self._spouts)
        self.settings = settings

    # -- the state, for reports --------------------------------------------------------------------------------------

    def view(self) -> Backpressure:
        """The current state."""
        bolts: dict[str, list[BoltState]] = {component: [] for component in self._graph.sources}
        for bolt in self._bolts.values():
            bolts[bolt.component].append(bolt)
        components = {component: self._component_view(component, found) for component, found in bolts.items()}
        spouts = tuple(
            SpoutPacing(s.component, task, s.reading.wait_us / 1e6, s.since_s, self._why(s.component))
            for task, s in sorted(self._spouts.items())
            if s.reading.wait_us
        )
        log = self.log
        return Backpressure(self.settings.enable, log.state, log.since_s, components, spouts, tuple(log.events))

    def _component_view(self, component: str, bolts: Sequence[BoltState]) -> ComponentPressure:
        rate = self._capacity.rate(component)
        flagged = sorted((b for b in bolts if b.reading.flagged), key=lambda b: b.reading.task)
        tasks = tuple(
            TaskPressure(b.reading.task, fill_of(b.reading), b.blocked, b.since_s, 1 / rate if rate else 0.0)
            for b in flagged
        )
        return ComponentPressure(max((fill_of(b.reading) for b in bolts), default=0.0), tasks)

    def _why(self, component: str) -> tuple[str, ...]:
        pacing = self._pacings.get(component)
        return () if pacing is None else pacing.why

    # -- readings ----------------------------------------------------------------------------------------------------

    def _on_bolt_reading(self, reading: BoltReading, readings: Readings, now_s: float, wall_s: float) -> None:
        component = self._component_of.get(reading.task, "")
        if component not in self._graph.sources:
            return
        incarnation = readings.incarnation
        self._flows.count(component, reading.task, incarnation, readings.at_s, reading.executed)
        known = self._bolts.get(reading.task)
        before = (known.incarnation, known.reading.step) if known is not None else (incarnation, 0)
        was = known is not None and known.blocked
        bolt = BoltState(component, reading, incarnation, now_s, wall_s if known is None else known.since_s)
        self._bolts[reading.task] = bolt
        if reading.flagged and (incarnation, reading.step) != before:
            self._fresh.setdefault(component, set()).add(reading.verdict)
        if bolt.blocked != was:
            bolt.since_s = wall_s
            kind, how = ("BLOCKED", "cannot keep up") if bolt.blocked else ("RELIEVED", "can again")
            shown = f"task {reading.task} {how}: {reading.fill:,} tuples wait (mailbox: {reading.capacity:,})"
            self.log.add(wall_s, kind, component, shown)

    def _on_spout_reading(self, reading: SpoutReading, readings: Readings, now_s: float, wall_s: float) -> None:
        component = self._component_of.get(reading.task, "")
        if component not in self._tasks or component in self._graph.sources:
            return
        self._flows.count(component, reading.task, readings.incarnation, readings.at_s, reading.emitted)
        known = self._spouts.get(reading.task)
        waited = known is not None and known.reading.wait_us > 0
        since_s = known.since_s if known is not None and waited else wall_s
        self._spouts[reading.task] = SpoutState(component, reading, now_s, since_s)
        pacing = self._pacings.get(component)
        if reading.wait_us:
            if pacing is None:  # from an order of an earlier coordinator
                self._pacings.adopt(component, now_s, reading.wait_us)
                if self.log.state == NORMAL:
                    self.log.become(THROTTLED, wall_s, f"found {component} waiting")
            else:
                pacing.wait_us = reading.wait_us
        elif waited:
            self.log.add(wall_s, "RELEASED", component, f"task {reading.task} waits no more")

    def _expire(self, now_s: float, wall_s: float) -> None:
        since_s = now_s - self.settings.lease_s
        for task, bolt in [(t, b) for t, b in self._bolts.items() if b.reported_s < since_s]:
            del self._bolts[task]
            self._flows.remove_task(bolt.component, task)
            if bolt.blocked:
                self.log.add(wall_s, "RELIEVED", bolt.component, f"task {task} is lost")
        for task in [task for task, spout in self._spouts.items() if spout.reported_s < since_s]:
            del self._spouts[task]

    # -- decisions ---------------------------------------------------------------------------------------------------

    def _decide(self, now_s: float, wall_s: float) -> list[Order]:
        triggered = {component for component in self._graph.sources if self._is_triggered(component)}
        spouts = {spout for component in triggered for spout in self._graph.sources[component]}
        orders: list[Order] = []
        for spout in sorted(spouts.union(self._pacings)):
            if self._step_of(spout, triggered, now_s, wall_s):
                orders += self._paces(spout)
        self._fresh.clear()
        if self.log.state == THROTTLED and not triggered and all(self._is_released(s, now_s) for s in self._pacings):
            orders = [(task, Clear()) for task, bolt in self._bolts.items() if bolt.reading.flagged]
            self._pacings.clear()
            self.log.become(NORMAL, wall_s, "every spout waits no more")
        elif self.log.state == NORMAL and not triggered:  # the Clear of before was lost
            relieved = [t for t, b in self._bolts.items() if b.reading.flagged and not b.blocked]
            orders += [(task, Clear()) for task in relieved]
        return orders

    def _is_triggered(self, component: str) -> bool:
        tasks = self._tasks[component]
        blocked = [bolt for bolt in map(self._bolts.get, tasks) if bolt is not None and bolt.blocked]
        if any(bolt.stays_blocked for bolt in blocked):
            return True
        return len(blocked) / len(tasks) > self.settings.ratio or len(blocked) == len(tasks)  # not 0.7 * 10 > 7

    def _step_of(self, spout: str, triggered: set[str], now_s: float, wall_s: float) -> bool:
        """Take the next step with a spout component if it is time for one."""
        pacing = self._pacings.get(spout)
        passed_s = now_s - (-math.inf if pacing is None else pacing.at_s)
        causes = [c for c in sorted(triggered) if spout in self._graph.sources[c]]
        if causes:
            if pacing is not None and not pacing.why:  # it was already waiting when this coordinator started
                pacing.why = tuple(causes)
            is_new = any(PressureVerdict.BLOCKED in self._fresh.get(c, ()) for c in causes)
            if not is_new or passed_s < SPACING * self.settings.period_s:
                return False
            self._slow(spout, causes, now_s, wall_s)
            return True
        if pacing is None or passed_s < SPACING * self.settings.interval_s or not self._waits(spout):
            return False  # a task without a wait only has to report that; a new order would make it report again
        flagged = {
            b.component for b in self._bolts.values() if b.reading.flagged and spout in self._graph.sources[b.component]
        }
        if flagged and not any(PressureVerdict.RELIEVED in self._fresh.get(c, ()) for c in flagged):
            return False
        self._relieve(spout, pacing, flagged, now_s)
        return True

    def _slow(self, spout: str, causes: list[str], now_s: float, wall_s: float) -> None:
        time_us = max(self._capacity.time_us(component, self.settings) for component in causes)
        old = self._pacings.get(spout)
        self._pacings.slow(spout, now_s, tuple(causes), time_us)
        if self.log.state == NORMAL:
            self.log.become(THROTTLED, wall_s, f"{', '.join(causes)} cannot keep up")
            self._flows.reset_base(now_s, 2 * self.settings.period_s)
        if old is None or old.why != tuple(causes):
            shown = f"{time_us / 1000:.3g} ms for each tuple of a task, because of {', '.join(causes)}"
            self.log.add(wall_s, "SLOWED", spout, shown)

    def _relieve(self, spout: str, pacing: Pacing, flagged: Iterable[str], now_s: float) -> None:
        about = {*flagged, *pacing.why}
        busy = max((b.reading.busy for b in self._bolts.values() if b.component in about), default=0.0)
        self._pacings.relieve(spout, now_s, busy)

    def _waits(self, component: str) -> bool:
        """Does one of its tasks wait, according to its last reading?"""
        return any(self._spouts[t].reading.wait_us for t in self._tasks[component] if t in self._spouts)

    def _is_released(self, component: str, now_s: float) -> bool:
        """Has each task reported, for the last order or a lease after it, that it does not wait (or is it lost)?"""
        readings = [self._spouts[task].reading for task in self._tasks[component] if task in self._spouts]
        return self._pacings.is_released(component, readings, now_s, self.settings.lease_s)

    def _paces(self, component: str) -> list[Order]:
        """The last order, for all tasks of a spout component, including tasks that have joined since."""
        pace = self._pacings.order(component, self._capacity, self.settings)
        return [(task, pace) for task in self._tasks[component]]
