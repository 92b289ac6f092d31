"""Coordinator: which snapshot is taken now, when it counts, and what happens if it fails. Pure: the time is passed in.

    RESTORING ─ on_restored ─► COMMITTING ─ all have committed ─► IDLE ─ due, or requested ─► TAKING ─ all are done ─┐
        ▲                       ▲   ╰ late: Commit again           ▲                            │                    ▼
        │                       └────────── on_written ────────────┼────────────────────────────┼───────────── WRITING
        │                                                          └── failed, late: Abort ─────┴────────────────────┤
        └──────────── worker lost, rows lost, failed too often, outcome not known: Rollback ─────────────────────────┘

1. One snapshot at a time. Its number is greater than every number that was ever used: after a rollback, and after a
   restart of the process (`highest`). So a number that a store, a sink or a late message names is never ambiguous.
2. A number has one outcome. It is committed if its manifest is written, and only after that; else it is aborted.
   While the manifest is being written, nothing else decides: a failure waits for the answer of the store, and there is
   no timeout (data goes on, and no further snapshot begins).
3. If it is not known whether the manifest was written, the tasks are rolled back: the snapshot that the store loads
   then is the answer.
4. Sinks may have missed a commit when a process ended. So the restored snapshot is committed again, always, before the
   next one begins; and a commit that is not confirmed within the timeout is sent again. Sinks commit idempotently.
5. Every message of a task has the incarnation of the tasks. Each Rollback makes a new one, and messages of older ones
   are ignored.
6. Snapshots that fail or are late in a row (`max_failures`) cause a rollback. A store that cannot be written does not:
   a rollback would not repair it. Then the next attempt waits twice as long, at most the timeout.
7. The first snapshot after a restore begins after a part of the interval: output that was taken back is late.
8. Requested snapshots (such as savepoints) and the final one of a drain wait for no interval. Each takes a snapshot
   that begins after the request. A rollback keeps requests, but drops the final snapshot: sources repeat rows after it,
   so the topology must be drained again.

From: Flink's CheckpointCoordinator and two-phase commit sinks; JStorm's SnapshotStateMaster.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from .blobs import BlobRef


@dataclass(frozen=True, slots=True)
class SnapshotSettings:
    """`interval_s`: the shortest time between two triggers. `timeout_s`: the longest time of a snapshot or commit."""

    interval_s: float = 1.0
    timeout_s: float = 60.0
    max_failures: int = 3


MOST_DOUBLINGS: Final = 30
"""Of the wait after a failure of the store: a power of two stays a small number."""


# -- what tasks report -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Done:
    """A task has saved its state. `sizes`: how many keys each section has. `loop_ms`: the time of the event loop."""

    number: int
    task: int
    incarnation: int
    blobs: tuple[BlobRef, ...] = ()
    loop_ms: float = 0.0
    sizes: Mapping[int, int] = field(default_factory=dict[int, int])


@dataclass(frozen=True, slots=True)
class Failed:
    """A task could not save its state, for this reason. `lost`: rows to it were lost or arrived twice (see Aligner).

    `final`: it would fail again. `stored`: the store could not be written.
    """

    number: int
    task: int
    incarnation: int
    reason: str
    lost: bool = False
    final: bool = False
    stored: bool = False


# -- what the coordinator decides --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Trigger:
    """Begin snapshot `number`: notify the spout tasks."""

    number: int
    incarnation: int


@dataclass(frozen=True, slots=True)
class WriteManifest:
    """Write the manifest of a snapshot, durably; then call `on_written` or `on_write_failed`.

    `savepoint`: it is kept until a user removes it.
    """

    number: int
    parts: Mapping[int, Done]
    savepoint: bool


@dataclass(frozen=True, slots=True)
class Commit:
    """The snapshot is durable: sinks commit what they have prepared, and spouts are notified.

    `tasks` have to confirm with `on_committed`. It may be sent again.
    """

    number: int
    incarnation: int
    tasks: frozenset[int]


@dataclass(frozen=True, slots=True)
class Abort:
    """The snapshot has failed and will never count: all tasks release what waits for it."""

    number: int
    reason: str


@dataclass(frozen=True, slots=True)
class Rollback:
    """End all tasks, load snapshot `number` (None: begin from the start), build them again, call `on_restored`.

    If that snapshot cannot be loaded, an older one may be. The tasks belong to `incarnation` from then on.
    """

    number: int | None
    incarnation: int
    reason: str


@dataclass(frozen=True, slots=True)
class Answer:
    """The snapshot that was requested is committed."""

    requests: tuple[Any, ...]
    number: int


@dataclass(frozen=True, slots=True)
class Closed:
    """The final snapshot is committed. The coordinator decides nothing more."""

    number: int


FIRST_SHARE: Final = 0.2
"""Of the interval: when the first snapshot after a restore begins."""

Action = Trigger | WriteManifest | Commit | Abort | Rollback | Answer | Closed


class Phase(enum.Enum):
    """What the coordinator waits for."""

    RESTORING = "the tasks are built"
    IDLE = "the next snapshot is due"
    TAKING = "tasks save their state"
    WRITING = "the manifest is written"
    COMMITTING = "tasks commit"
    CLOSED = "nothing"


@dataclass(slots=True)
class _Snapshot:
    """The snapshot in progress. `missing`: the tasks that have not answered in this phase."""

    number: int
    since_s: float
    missing: set[int]
    requests: tuple[Any, ...] = ()
    final: bool = False
    savepoint: bool = False
    parts: dict[int, Done] = field(default_factory=dict[int, Done])
    rollback: str | None = None
    """Why the tasks must be rolled back as soon as the store has answered."""


class _Requests:
    """What was requested and is in no snapshot yet."""

    __slots__ = ("final", "ids", "savepoint")

    def __init__(self) -> None:
        self.ids: list[Any] = []
        self.final = False
        self.savepoint = False

    def __bool__(self) -> bool:
        return bool(self.ids) or self.final

    def take(self) -> tuple[tuple[Any, ...], bool, bool]:
        taken = tuple(self.ids), self.final, self.savepoint
        self.ids, self.final, self.savepoint = [], False, False
        return taken

    def put_back(self, snapshot: _Snapshot) -> None:
        """The snapshot has failed: another one answers its requests."""
        self.ids = [*snapshot.requests, *self.ids]
        self.final |= snapshot.final
        self.savepoint |= snapshot.savepoint
        snapshot.requests = ()


class Coordinator:
    """The coordinator of one topology. It begins in RESTORING: call `on_restored` when the first tasks are built.

    `tasks`: all that save state or commit; each of them answers. `highest`: the greatest number that any file of the
    store names, or 0.
    """

    def __init__(
        self, tasks: Iterable[int], settings: SnapshotSettings, *, incarnation: int = 1, highest: int = 0
    ) -> None:
        self.settings = settings
        self.incarnation = incarnation
        self.phase = Phase.RESTORING
        self.durable: int | None = None
        """The number of the newest snapshot that counts."""
        self._tasks = frozenset(tasks)
        self._highest = highest
        self._current: _Snapshot | None = None
        self._requests = _Requests()
        self._failures = 0
        self._due_s = 0.0  # the next snapshot without a request
        self._store_failures = 0
        self._blocked_s = 0.0  # no snapshot begins before, after the store has failed

    @property
    def number(self) -> int | None:
        """The number of the snapshot in progress."""
        return None if self._current is None else self._current.number

    @property
    def next_s(self) -> float | None:
        """When to call `on_time`; None: not before something else has happened."""
        if self.phase is Phase.IDLE:
            return self._blocked_s if self._requests else max(self._due_s, self._blocked_s)
        if self._current is not None and self.phase in (Phase.TAKING, Phase.COMMITTING):
            return self._current.since_s + self.settings.timeout_s
        return None

    # -- events in ---------------------------------------------------------------------------------------------------

    def on_time(self, now_s: float) -> list[Action]:
        """Time has passed: begin a snapshot that is due, end one that is late."""
        next_s = self.next_s
        if next_s is None or now_s < next_s:
            return []
        return self._trigger(now_s) if self._current is None else self._late(self._current, now_s)

    def postpone(self, until_s: float) -> None:
        """The governor's answer: no snapshot before this time, unless one is requested."""
        self._due_s = max(self._due_s, until_s)

    def on_many_held(self, now_s: float) -> list[Action]:
        """A sink holds many rows: no interval is waited for, and no governor, but the store after it has failed."""
        self._due_s = min(self._due_s, now_s)
        return self.on_time(now_s) if self.phase is Phase.IDLE else []

    def on_more_space(self, now_s: float) -> list[Action]:
        """The store may take snapshots again: its last failure delays none."""
        self._blocked_s = min(self._blocked_s, now_s)
        return self.on_time(now_s) if self.phase is Phase.IDLE else []

    def on_request(self, request: Any, now_s: float, *, savepoint: bool = True) -> list[Action]:
        """A snapshot is requested, for now or as a savepoint. `Answer` names the request."""
        if self.phase is not Phase.CLOSED:
            self._requests.ids.append(request)
            self._requests.savepoint |= savepoint
        return self.on_time(now_s) if self.phase is Phase.IDLE else []

    def on_drained(self, incarnation: int, now_s: float) -> list[Action]:
        """The topology is idle and will emit nothing more: take the final snapshot, then `Closed`."""
        if incarnation != self.incarnation or self.phase in (Phase.RESTORING, Phase.CLOSED):
            return []
        self._requests.final = True
        return self.on_time(now_s) if self.phase is Phase.IDLE else []

    def on_done(self, done: Done, now_s: float) -> list[Action]:
        """A task has saved its state."""
        current = self._reported(done.number, done.incarnation, Phase.TAKING)
        if current is None or done.task not in current.missing:
            return []
        current.missing.discard(done.task)
        current.parts[done.task] = done
        if current.missing:
            return []
        self.phase = Phase.WRITING
        current.since_s = now_s
        return [WriteManifest(current.number, current.parts, current.savepoint)]

    def on_failed(self, failed: Failed, now_s: float) -> list[Action]:
        """A task could not save its state. If rows were lost, the tasks are rolled back."""
        current = self._reported(failed.number, failed.incarnation, Phase.TAKING)
        if current is None:
            return []
        if failed.lost:
            return self._roll_back(failed.reason)
        if failed.stored:
            return self._store_failed(current, failed.reason, now_s)
        return self._fail(current, failed.reason, now_s)

    def on_written(self, number: int, now_s: float) -> list[Action]:
        """The manifest is durable: the snapshot counts."""
        current = self._in_progress(number, Phase.WRITING)
        if current is None:
            return []
        self.durable = number
        self._failures = self._store_failures = 0
        if current.rollback is not None:
            return self._roll_back(current.rollback, unknown=True)
        return [self._commit(current, now_s)]

    def on_write_failed(self, number: int, reason: str, now_s: float, *, certain: bool) -> list[Action]:
        """The manifest was not written. `certain`: it is not in the store, and will not be.

        If that is not certain, the tasks are rolled back: see `on_restored`.
        """
        current = self._in_progress(number, Phase.WRITING)
        if current is None:
            return []
        if not certain:
            return self._roll_back(current.rollback or reason, unknown=True)
        if current.rollback is not None:
            return self._roll_back(current.rollback)
        return self._store_failed(current, reason, now_s)

    def on_committed(self, number: int, incarnation: int, tasks: Iterable[int], now_s: float) -> list[Action]:
        """These tasks have committed the snapshot."""
        current = self._reported(number, incarnation, Phase.COMMITTING)
        if current is None:
            return []
        current.missing.difference_update(tasks)
        return [] if current.missing else self._complete(current, now_s)

    def on_worker_lost(self, reason: str) -> list[Action]:
        """A worker process has ended, or a task has failed for good: all tasks are rolled back."""
        if self.phase is Phase.CLOSED:
            return []
        if self.phase is Phase.WRITING and self._current is not None:
            self._current.rollback = reason
            return []
        return self._roll_back(reason, unknown=self.phase is Phase.RESTORING)

    def on_restored(self, incarnation: int, number: int | None, now_s: float) -> list[Action]:
        """The tasks are built, with the state of this snapshot (None: without).

        The store has removed, durably, every newer manifest that could not be loaded.
        """
        if self.phase is not Phase.RESTORING or incarnation != self.incarnation:
            return []
        unknown, self._current = self._current, None
        actions: list[Action] = []
        if unknown is not None and unknown.number != number:
            actions.append(Abort(unknown.number, "the store has no manifest of it"))
        self.durable = number
        self._highest = max(self._highest, number or 0)
        self._due_s = now_s + self.settings.interval_s * (1.0 if number is None else FIRST_SHARE)
        if number is None:
            self.phase = Phase.IDLE
            return actions + self.on_time(now_s)
        self._current = _Snapshot(number, now_s, set())
        return [*actions, self._commit(self._current, now_s)]

    # -- decisions ---------------------------------------------------------------------------------------------------

    def _reported(self, number: int, incarnation: int, phase: Phase) -> _Snapshot | None:
        """The snapshot that a task's message is about, if it is the current one."""
        return self._in_progress(number, phase) if incarnation == self.incarnation else None

    def _in_progress(self, number: int, phase: Phase) -> _Snapshot | None:
        """The snapshot in progress, if it has this number and is in this phase."""
        return self._current if self.phase is phase and self.number == number else None

    def _trigger(self, now_s: float) -> list[Action]:
        self._highest += 1
        requests, final, savepoint = self._requests.take()
        self._current = _Snapshot(self._highest, now_s, set(self._tasks), requests, final, savepoint)
        self.phase = Phase.TAKING
        self._due_s = now_s + self.settings.interval_s
        return [Trigger(self._highest, self.incarnation)]

    def _late(self, current: _Snapshot, now_s: float) -> list[Action]:
        tasks = ", ".join(map(str, sorted(current.missing)[:10]))
        if self.phase is Phase.TAKING:
            reason = f"after {self.settings.timeout_s:g} s tasks have not saved their state: {tasks}"
            return self._fail(current, reason, now_s)
        self._failures += 1
        if self._failures >= self.settings.max_failures:
            return self._roll_back(f"snapshot {current.number} is not committed by tasks {tasks}")
        current.since_s = now_s
        return [Commit(current.number, self.incarnation, frozenset(current.missing))]

    def _fail(self, current: _Snapshot, reason: str, now_s: float) -> list[Action]:
        self._failures += 1
        if self._failures >= self.settings.max_failures:
            return self._roll_back(f"{self._failures} snapshots in a row have failed: {reason}")
        return self._abort(current, reason, now_s)

    def _store_failed(self, current: _Snapshot, reason: str, now_s: float) -> list[Action]:
        self._blocked_s = now_s + min(self.settings.interval_s * 2.0**self._store_failures, self.settings.timeout_s)
        self._store_failures = min(self._store_failures + 1, MOST_DOUBLINGS)
        return self._abort(current, reason, now_s)

    def _abort(self, current: _Snapshot, reason: str, now_s: float) -> list[Action]:
        self._current = None
        self.phase = Phase.IDLE
        self._requests.put_back(current)
        return [Abort(current.number, reason), *self.on_time(now_s)]

    def _commit(self, current: _Snapshot, now_s: float) -> Commit:
        self.phase = Phase.COMMITTING
        current.since_s = now_s
        current.missing = set(self._tasks)
        return Commit(current.number, self.incarnation, self._tasks)

    def _complete(self, current: _Snapshot, now_s: float) -> list[Action]:
        self._current = None
        self._failures = 0
        actions: list[Action] = [Answer(current.requests, current.number)] if current.requests else []
        if current.final:
            self.phase = Phase.CLOSED
            return [*actions, Closed(current.number)]
        self.phase = Phase.IDLE
        return actions + self.on_time(now_s)

    def _roll_back(self, reason: str, *, unknown: bool = False) -> list[Action]:
        """`unknown`: whether the snapshot in progress counts is not known before the tasks are restored."""
        actions: list[Action] = []
        current = self._current
        if current is not None:
            self._requests.put_back(current)
            if not unknown:
                self._current = None
                if current.number != self.durable:
                    actions.append(Abort(current.number, reason))
        self._requests.final = False
        self._failures = 0
        self.incarnation += 1
        self.phase = Phase.RESTORING
        return [*actions, Rollback(self.durable, self.incarnation, reason)]
