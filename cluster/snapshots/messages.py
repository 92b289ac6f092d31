"""Messages of snapshots between a parent and its workers. In one process they are passed by calls.

parent ─ SnapshotSetup (with Connect), TakeSnapshot, CommitSnapshot, AbortSnapshot ─► worker
         HoldSpouts, EndTasks, Rebuild
worker ─ TasksSaved, SaveFailed, TasksCommitted, RowsFailed, RowsHeld ─► parent
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...tasks import AbortSnapshot, CommitSnapshot, HoldSpouts, TakeSnapshot

if TYPE_CHECKING:
    from ...state import Done, Failed


@dataclass(frozen=True, slots=True)
class SnapshotSetup:
    """How the tasks of an incarnation begin: from snapshot `number` (None: from the start) in `place`.

    `place`: a folder that all workers see, or a URL of fsspec.
    """

    incarnation: int
    number: int | None
    place: str


@dataclass(frozen=True, slots=True)
class EndTasks:
    """End all tasks at once; a command that waits for them ends, too. Rebuild comes next."""


@dataclass(frozen=True, slots=True)
class Rebuild:
    """End all tasks at once, and the links to other workers. Connect, Prepare and Open come next.

    The answer is the last StatusReport of these tasks, with what is new (see GetStatus).
    """

    errors: int = 0
    stalls: int = 0
    events: int = 0


@dataclass(frozen=True, slots=True)
class TasksSaved:
    """Tasks of a worker have saved their state, durably."""

    parts: tuple[Done, ...]


@dataclass(frozen=True, slots=True)
class SaveFailed:
    """A task of a worker cannot save its state."""

    failed: Failed


@dataclass(frozen=True, slots=True)
class TasksCommitted:
    """Tasks of a worker have committed a snapshot."""

    number: int
    incarnation: int
    tasks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RowsFailed:
    """A row was not processed, for this reason. Nothing that the worker saves later counts."""

    incarnation: int
    component: str
    task: int
    reason: str


@dataclass(frozen=True, slots=True)
class RowsHeld:
    """A task of a sink holds so many rows for a snapshot, of about so many bytes. `level`: see HeldLevel."""

    incarnation: int
    component: str
    task: int
    level: int
    rows: int
    size_bytes: int


SnapshotCommand = TakeSnapshot | CommitSnapshot | AbortSnapshot | HoldSpouts
SnapshotReport = TasksSaved | SaveFailed | TasksCommitted | RowsFailed | RowsHeld
