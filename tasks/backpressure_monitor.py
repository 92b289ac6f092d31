"""BackpressureMonitor: samples the mailboxes of all tasks in this process at each check interval, and reports to the
topology master.

    sampling: ─ interval ─► sample bolts, end leases of spouts ─► Readings ─► topology master
    asleep ◄─ nothing has moved, nothing is flagged, held or paced            sampling ◄─ a spout emits, a bolt executes

1. One backpressure monitor serves all tasks of a process, so a task that works is not woken to be sampled.
2. It sleeps while nothing moves: an idle topology has no timer, and nothing can be triggered in it.
3. If nothing at all has moved for STILL_S, the flagged tasks hang and pacing cannot help: every pace is released and
   the monitor sleeps. A deadlock has no timer.
4. A report is valid for a lease; a task whose component was restarted reports as a new one.

Storm: none. JStorm 2.1.1: BackpressureTrigger in each task's executor.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ..actors import Actor, Timer
from ..backpressure import BoltReading, Readings, Settings

if TYPE_CHECKING:
    from ..actors import Message
    from .bolt_task import BoltTask
    from .environment import Environment
    from .spout_task import SpoutTask

log = logging.getLogger("aiostorm.backpressure")

_TICK: Final = object()
_WAKE: Final = object()

STILL_S: Final = 300.0
"""Spouts are not paced for a bolt that takes longer than this for one tuple: its full mailbox slows them down."""


class BackpressureMonitor(Actor):
    """The monitor of one process. `master` is the topology master's task id."""

    def __init__(
        self, env: Environment, settings: Settings, master: int, spouts: Sequence[SpoutTask], bolts: Sequence[BoltTask]
    ) -> None:
        self._env = env
        self._settings = settings
        self._master = master
        self._spouts = spouts
        self._bolts = bolts
        self._incarnation = int.from_bytes(env.rng.token_bytes(8), "big") >> 1
        self._moved = self._last = -1
        self._last_s = 0.0
        self._timer: Timer | None = None

    def started(self) -> None:
        """Asleep until something moves; sampling if an earlier instance left flags or paces that must end."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        self._env.wake = self._wake
        self._env.sampling = not self._settings.enable
        self._switch_spouts()
        if self._settings.enable and not self._is_idle:
            self._wake()

    def update(self, settings: Settings) -> None:
        """Apply other settings at once. If backpressure is off now, no spout of this process waits any more."""
        self._settings = settings
        for bolt in self._bolts:
            bolt.sampling.update(settings)
        self._switch_spouts()
        ticks = self._timer is not None and self._timer.active
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.after(settings.interval_s, _TICK) if ticks and settings.enable else None
        self._env.sampling = self._timer is not None or not settings.enable

    def receive(self, message: Message) -> None:
        """The timer, and the wake-up."""
        if message is _WAKE:
            if self._timer is None and self._settings.enable:
                self._timer = self.after(self._settings.interval_s, _TICK)
        elif message is _TICK:
            self._timer = None
            self._tick()
        else:
            raise TypeError(f"a backpressure monitor takes no messages: {message!r:.200}")

    def _switch_spouts(self) -> None:
        for spout in self._spouts:
            spout.aim(self._settings.target_s)
            spout.pace.switch(self._settings.enable, self._env.clock.monotonic())
            spout.wake()

    def _wake(self) -> None:
        self._env.sampling = True
        self.mailbox.post(_WAKE)

    def _tick(self) -> None:
        if not self._settings.enable:
            return
        now_s = self._env.clock.monotonic()
        moves = self._moves(now_s)
        if now_s - self._last_s >= max(STILL_S, self._settings.lease_s):
            self._release_all(now_s)
        bolts = tuple(bolt.sampling.sample(now_s) for bolt in self._bolts if bolt.ready.done())
        for spout in self._spouts:
            if spout.pace.expire(now_s):
                log.warning("%s is no longer paced: no order from the topology master for a whole lease", spout.name)
                spout.wake()
        self._report(now_s, bolts)
        if not (moves or any(bolt.sampling.sampler.high for bolt in self._bolts)) and self._is_idle:
            for bolt in self._bolts:
                bolt.sampling.sampler.forget()
            self._moved = -1
            self._env.sampling = False
        else:
            self._timer = self.after(self._settings.interval_s, _TICK)

    def _report(self, now_s: float, bolts: tuple[BoltReading, ...]) -> None:
        env = self._env
        if not env.reaches(self._master) or not (self._bolts or self._spouts):
            return  # reported at the next tick
        readings = Readings(self._incarnation, now_s, bolts, tuple(spout.reading() for spout in self._spouts))
        sender = (*self._bolts, *self._spouts)[0].task.task_id
        env.mailbox_of(sender, self._master).post(readings)

    def _moves(self, now_s: float) -> bool:
        """Has anything moved since the previous tick?"""
        tasks = (*self._spouts, *self._bolts)
        moved = sum(task.counters.executed + task.counters.emitted + task.counters.replayed for task in tasks)
        if moved != self._last:
            self._last, self._last_s = moved, now_s
        before, self._moved = self._moved, moved
        return moved != before

    def _release_all(self, now_s: float) -> None:
        for bolt in self._bolts:
            bolt.sampling.sampler.forget()
        for spout in self._spouts:
            spout.pace.release(now_s)
            spout.wake()

    @property
    def _is_idle(self) -> bool:
        """Is no spout paced, and no bolt flagged?"""
        paced = any(spout.pace.wait_us or spout.pace.has_order for spout in self._spouts)
        return not (paced or any(bolt.sampling.sampler.flagged for bolt in self._bolts))
