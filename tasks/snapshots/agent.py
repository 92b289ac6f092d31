"""SnapshotAgent: what tasks need of their process to take snapshots. The cluster implements it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ...runtime import LoopTurns
    from ...state import Blob, Done, Failed
    from ...topology import TaskSpec
    from .saved import RestoredTask


class SnapshotAgent(Protocol):
    """The snapshots of one process. `incarnation`: of its tasks. `strict`: check that every changed key was marked.

    `turns`: in which its tasks capture and pack large states.
    """

    incarnation: int
    strict: bool
    turns: LoopTurns

    async def restored(self, task: TaskSpec) -> RestoredTask | None:
        """What the tasks of its component had saved; None: begin from the start. StateError, StoreError."""
        ...

    async def write(self, blob: Blob) -> None:
        """Write a part of a task's state. SaveError."""
        ...

    def done(self, done: Done) -> None:
        """A task has written its state."""
        ...

    def failed(self, failed: Failed) -> None:
        """A task cannot save its state."""
        ...

    def committed(self, task: int, number: int) -> None:
        """A task has committed a snapshot."""
        ...

    def rows_held(self, component: str, task: int, level: int, rows: int, size_bytes: int) -> None:
        """A sink holds so many rows, of about so many bytes: this is another HeldLevel than before."""
        ...

    def row_failed(self, component: str, task: int, error: str) -> None:
        """A row was not processed: all tasks must go back to the last snapshot."""
        ...
