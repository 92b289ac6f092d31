"""Prepared files: the files of one task that wait for a snapshot to be durable (exactly once). Blocking.

    add ─► .aiostorm-pending/<sink>-<task>-<token>-<n>.tmp, durable ─ pre_commit ─► handle ─ commit ─► its own name
                                                                          ╰─ abort ─► belongs to the next handle
    restored ─► what no snapshot has is removed

1. A file has its name only when the snapshot with its rows is durable. Readers ignore the folder, which has a dot.
2. A commit that is repeated, also by another task or process, finds the pending file, or the one with its name.
3. Rows that belong to no chunk are in files that name the sink (topology and component). If a run begins from the start
   in a folder with such files, it would write these rows twice: it is refused.

From: FileSink (state/sinks). Here files are written as they come, which bounds the memory between snapshots.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import SinkError
from .parquet_names import is_pending_of, pending_name, rows_name
from .parquet_store import store_errors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...topology import TopologyContext
    from .parquet_store import FileStore


class PreparedFiles:
    """The files of one task. `sink`: a name of topology and component; `token`: of this instance."""

    def __init__(self, store: FileStore, context: TopologyContext, sink: str, token: str) -> None:
        self._store = store
        self._sink = sink
        self._task, self._tasks = context.task_index, context.parallelism
        self._component = context.component
        self._token = token
        self._number = 0
        self._waiting: list[tuple[str, str]] = []  # pending name, name
        self._handed_out: set[str] = set()

    @property
    def is_empty(self) -> bool:
        """Whether all files are committed."""
        return not self._waiting and not self._handed_out

    def rows_name(self, number: int) -> str:
        """The unique name of a file of rows that belong to no chunk."""
        return rows_name(self._component, self._task, f"{self._sink}-{self._token}", number)

    def add(self, name: str, data: Any) -> str:
        """Write a file durably that gets this name later. Returns the path that it will have. OSError, SinkError."""
        self._number += 1
        pending = pending_name(self._sink, self._task, self._token, self._number)
        self._store.put(pending, data)
        self._waiting.append((pending, name))
        return f"{self._store.root}/{name}"

    def pre_commit(self) -> list[tuple[str, str]] | None:
        """The handle: the files since the last one."""
        files, self._waiting = self._waiting, []
        self._handed_out.update(pending for pending, _ in files)
        return files or None

    def commit(self, handle: Sequence[Sequence[str]]) -> None:
        """Give the files their names. SinkError if one is lost."""
        with store_errors(self._store.root):
            for pending, name in handle:
                if not self._store.publish(pending, name):
                    error = SinkError(f"{self._store.root}/{pending} is lost: neither it nor {name} is there")
                    error.final = True
                    raise error
                self._handed_out.discard(pending)

    def abort(self, handle: Sequence[Sequence[str]]) -> None:
        """The files belong to the next handle."""
        files = [(pending, name) for pending, name in handle]
        self._handed_out.difference_update(pending for pending, _ in files)
        self._waiting = [*files, *self._waiting]

    def restored(self, *, from_start: bool) -> None:
        """Remove what later snapshots had prepared. SinkError if a run has written here that is not continued."""
        with store_errors(self._store.root):
            for name in self._store.pending():
                if is_pending_of(name, self._sink, self._task, self._tasks):
                    self._store.remove(name)
            written = [name for name in self._store.names() if f"-{self._sink}-" in name] if from_start else []
        if written:
            error = SinkError(
                f"{self._store.root} has {len(written):,} files of a run of this topology that is not continued "
                f"({written[0]}, …), and this run begins from the start: its rows would be there twice. Give it the "
                "state_dir of that run, or another folder for its output, or remove these files"
            )
            error.final = True
            raise error
