"""Worker lifecycle: the states of one worker, for its parent. Pure: events in, decisions out, the time passed in.

               Spawn                  ready                      exited
    begin ─► STARTING ──────────────► RUNNING ────────────────► BACKOFF ──delay_s──► STARTING …
                │ 60 s without `ready`    │ 5 s without a sign of life
                ╰────────► Kill ◄─────────╯                      stop ─► STOPPING ── exited ─► ENDED

1. A worker that ends is started again: at once, then after 0.2, 1 and 5 s, then always after 5 s. Each end is logged,
   and the parent never gives up: the fifth end within 30 s makes the worker degraded, and so does a start that fails.
   With exactly-once, what a worker has done for a committed snapshot is progress: after it, delays begin at 0 again.
2. The worker is not degraded any more when it has run for `period_s` without an end.
3. A running worker renews its lease by any sign of life. When the lease is over, the worker is frozen or unreachable:
   it is killed, and treated as after any end. While it starts (imports may be slow) the limit is `start_limit_s`. A
   remote worker (`awaited`) has that time after it has joined; until then the parent waits, and the worker is degraded.
4. A worker that was asked to stop has ended with its process; it is killed after `stop_limit_s`.

From: OTP's restart intensity and Storm's supervisor (Slot.java), whose workers have `supervisor.worker.timeout.secs`
and `supervisor.worker.start.timeout.secs`; theirs are 30 s and 120 s.
"""

from __future__ import annotations

import enum
from collections import deque
from dataclasses import dataclass

from ...runtime import LIVENESS, LivenessSettings


@dataclass(frozen=True, slots=True)
class LifecycleTimings:
    """Seconds. `degraded_after` ends within `period_s` make a worker degraded.

    `monitor_s`, `stall_s`, `shutdown_s` and `replace_s` are for the shell around the machine (worker_handle.py).
    """

    backoff_s: tuple[float, ...] = (0.0, 0.2, 1.0, 5.0)
    period_s: float = 30.0
    degraded_after: int = 5
    lease_s: float = LIVENESS.worker_timeout_s
    start_limit_s: float = LIVENESS.worker_start_timeout_s
    stop_limit_s: float = LIVENESS.worker_stop_timeout_s
    monitor_s: float = LIVENESS.worker_monitor_s
    stall_s: float = LIVENESS.parent_stall_s
    shutdown_s: float = LIVENESS.worker_shutdown_s
    replace_s: float = LIVENESS.worker_replace_timeout_s

    @classmethod
    def of(cls, settings: LivenessSettings) -> LifecycleTimings:
        """The timings of a topology with these settings."""
        return cls(
            lease_s=settings.worker_timeout_s,
            start_limit_s=settings.worker_start_timeout_s,
            stop_limit_s=settings.worker_stop_timeout_s,
            monitor_s=settings.worker_monitor_s,
            stall_s=settings.parent_stall_s,
            shutdown_s=settings.worker_shutdown_s,
            replace_s=settings.worker_replace_timeout_s,
        )


class Phase(enum.StrEnum):
    """The state of a worker."""

    STARTING = "STARTING"
    RUNNING = "RUNNING"
    BACKOFF = "BACKOFF"
    STOPPING = "STOPPING"
    ENDED = "ENDED"


@dataclass(frozen=True, slots=True)
class Spawn:
    """Start a process."""


@dataclass(frozen=True, slots=True)
class Kill:
    """Kill the process; `exited` is called at its end."""

    reason: str


@dataclass(frozen=True, slots=True)
class Degraded:
    """Log that the worker does not stay alive, or does not join. It is started again."""

    reason: str


@dataclass(frozen=True, slots=True)
class Recovered:
    """Log that the worker has stayed alive, or has joined."""


Decision = Spawn | Kill | Degraded | Recovered


class _Ends:
    """When the last processes of a worker ended, and how many of them since it made progress."""

    def __init__(self, timings: LifecycleTimings) -> None:
        self._timings = timings
        self._times: deque[float] = deque(maxlen=timings.degraded_after)
        self._in_vain = 0

    @property
    def well_s(self) -> float:
        """When the worker has run long enough since its last end."""
        return self._times[-1] + self._timings.period_s

    def add(self, now_s: float) -> tuple[int, float]:
        """A process has ended: how many did within the period, and how long to wait until the next is started."""
        timings = self._timings
        self._times.append(now_s)
        self._in_vain += 1
        recent = sum(end_s > now_s - timings.period_s for end_s in self._times)
        return recent, timings.backoff_s[min(recent, self._in_vain, len(timings.backoff_s)) - 1]

    def forgive(self) -> None:
        """The next process to end is started again at once."""
        self._in_vain = 0


class WorkerLifecycle:
    """The states of one worker, over all its processes. Times are monotonic seconds."""

    def __init__(self, timings: LifecycleTimings | None = None, *, awaited: bool = False) -> None:
        self.phase = Phase.BACKOFF
        self.restarts = 0
        """How often it was restarted."""
        self.degraded = ""
        """Why it is degraded; empty if it is not."""
        self.is_missed = False
        """Is it degraded because it has not joined?"""
        self.is_absent = False
        """Is it a remote worker that has not joined yet?"""
        self._awaited = awaited
        self._timings = timings or LifecycleTimings()
        self._ends = _Ends(self._timings)
        self._stop_limit_s = self._timings.stop_limit_s
        self._due_s: float | None = None
        self._killed = False
        self._too_slow = False

    @property
    def due_s(self) -> float | None:
        """When to call `tick` next; None: after the next event."""
        times = [self._due_s] if self._due_s is not None else []
        if self.degraded and self.phase is Phase.RUNNING:
            times.append(self._ends.well_s)
        return min(times, default=None)

    def begin(self, now_s: float) -> list[Decision]:
        """Start the worker for the first time."""
        return self._spawn(now_s)

    def joined(self, now_s: float) -> list[Decision]:
        """The remote worker has joined."""
        if self.phase is not Phase.STARTING or not self.is_absent:
            return []
        self.is_absent = False
        self._due_s = now_s + self._timings.start_limit_s
        if not self.is_missed:
            return []
        self.is_missed, self.degraded = False, ""
        return [Recovered()]

    def ready(self, now_s: float) -> list[Decision]:
        """The worker is set up."""
        if self.phase is Phase.STARTING and not self._killed:
            self.phase = Phase.RUNNING
            self._due_s = now_s + self._timings.lease_s
        return []

    def alive(self, now_s: float) -> list[Decision]:
        """A sign of life has arrived."""
        if self.phase is Phase.RUNNING and not self._killed:
            self._due_s = now_s + self._timings.lease_s
        return []

    def progressed(self) -> None:
        """What its tasks have done is kept: it does not end again and again for the same reason."""
        if self.phase is Phase.RUNNING and not self._killed:
            self._ends.forgive()

    def exited(self, now_s: float, why: str) -> list[Decision]:
        """The process has ended, or could not be started."""
        if self.phase in (Phase.STOPPING, Phase.ENDED):
            self.phase, self._due_s = Phase.ENDED, None
            return []
        timings = self._timings
        recent, delay_s = self._ends.add(now_s)
        self.phase = Phase.BACKOFF
        self._due_s = now_s + delay_s
        decisions: list[Decision] = []
        if not self.degraded and (recent >= timings.degraded_after or self._too_slow):
            times = f"it ended {recent} times in {timings.period_s:g} s, the last time: "
            self.degraded = why if self._too_slow else times + why
            decisions.append(Degraded(self.degraded))
        return decisions + self.tick(now_s)

    def stop(self, now_s: float, limit_s: float | None = None) -> list[Decision]:
        """The worker was asked to end within `limit_s` (None: the usual time)."""
        if self.phase is Phase.BACKOFF:
            self.phase, self._due_s = Phase.ENDED, None
        elif self.phase in (Phase.STARTING, Phase.RUNNING):
            self.phase = Phase.STOPPING
            self._stop_limit_s = self._timings.stop_limit_s if limit_s is None else limit_s
            self._due_s = None if self._killed else now_s + self._stop_limit_s
        return []

    def tick(self, now_s: float) -> list[Decision]:
        """Time has passed."""
        decisions: list[Decision] = []
        timings = self._timings
        if self.degraded and self.phase is Phase.RUNNING and now_s >= self._ends.well_s:
            self.degraded = ""
            decisions.append(Recovered())
        if self._due_s is None or now_s < self._due_s:
            return decisions
        match self.phase:
            case Phase.BACKOFF:
                self.restarts += 1
                return decisions + self._spawn(now_s)
            case Phase.STARTING if self.is_absent:
                self._due_s = None
                if not self.degraded:
                    self.is_missed, self.degraded = True, f"it has not joined for {timings.start_limit_s:g} s"
                    decisions.append(Degraded(self.degraded))
                return decisions
            case Phase.STARTING:
                self._too_slow = True
                return decisions + self._kill(f"it was not ready {timings.start_limit_s:g} s after its start")
            case Phase.RUNNING:
                return decisions + self._kill(f"no sign of life for {timings.lease_s:g} s")
            case _:
                return decisions + self._kill(f"it did not end within {self._stop_limit_s:g} s")

    def _spawn(self, now_s: float) -> list[Decision]:
        self.phase = Phase.STARTING
        self._killed = self._too_slow = False
        self.is_absent = self._awaited
        self._due_s = now_s + self._timings.start_limit_s
        return [Spawn()]

    def _kill(self, reason: str) -> list[Decision]:
        self._killed = True
        self._due_s = None
        return [Kill(reason)]
