"""Batch progress: a folder from which a batch resumes after a crash: the state of each task, in its own store.

    PATH/task-0/progress.blob, PATH/task-1/progress.blob, …     each: a header (of which source), Partitions.state()

1. A task writes only its own store, completely and atomically (DirectoryStore: 0600, one process at a time), and reads
   those of all tasks when it starts: so the next run may have more tasks, or fewer.
2. The header identifies the source and its data: another source is refused, and nothing is overwritten.
3. Two runs with one folder: the first task of the second run finds the store in use, and is refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ...runtime import DirectoryStore, LoopClock, StoreError
from ..errors import SparkSourceError
from .partitions import SavedProgress, merged
from .position import difference

if TYPE_CHECKING:
    from ..calls import SparkCalls

SAVE_S: Final = 1.0
"""The interval in which the progress is saved."""

_BLOB: Final = "progress"
_VERSION: Final = 2
_MAX_BYTES: Final = 64 * 1024 * 1024


class Earlier(NamedTuple):
    """What earlier runs have done: partitions of this task, rows that this task reports, a note for the user."""

    partitions: int = 0
    rows: int = 0
    note: str = ""


class BatchProgress:
    """The progress of one task in the folder. `header`: plain data that must be the same in each run."""

    def __init__(self, folder: str, index: int, header: Mapping[str, Any], calls: SparkCalls) -> None:
        self._folder = Path(folder).absolute()
        self._header = {"version": _VERSION, **header}
        self._calls = calls
        self._own = f"task-{index}"
        self._store = DirectoryStore(self._folder / self._own, max_bytes=_MAX_BYTES)
        self._written = b""
        self._changed = False
        self._saved_s = LoopClock().monotonic()
        self.saved_at = ""
        """When an earlier run last saved its progress; empty if there was none."""

    async def open(self) -> tuple[SavedProgress, SavedProgress]:
        """The progress of all tasks, and of this one. SparkSourceError if it is of another source, or in use."""
        try:
            own = await self._store.read(_BLOB)  # takes the lock
        except StoreError as error:
            if "in use" in str(error):
                raise SparkSourceError(
                    f"progress={self._folder} is in use by another run: wait until it has ended, or give this one a "
                    "folder of its own"
                ) from error
            raise SparkSourceError(
                f"progress={self._folder} cannot be used ({error}): give a folder that can be made and written here"
            ) from error
        blobs, self.saved_at = await self._calls.run(_read_all, self._folder)
        states = {name: self._checked(name, blob) for name, blob in blobs.items()}
        mine = [self._checked(self._own, own)] if own is not None else []
        return self._joined([state for name, state in states.items() if name != self._own] + mine), self._joined(mine)

    def changed(self) -> None:
        """There is something to save."""
        self._changed = True

    def is_due(self, now_s: float) -> bool:
        """Whether to save now."""
        return self._changed and now_s - self._saved_s >= SAVE_S

    async def save(self, state: Mapping[str, Any]) -> None:
        """Save the state: it is durable when this returns."""
        self._changed, self._saved_s = False, LoopClock().monotonic()
        data = json.dumps({**self._header, **state}).encode()
        if data != self._written:
            await self._store.write(_BLOB, data)
            await self._store.sync()
            self._written = data

    async def close(self) -> None:
        """Release the folder. May be called twice."""
        await self._store.close()

    def _checked(self, name: str, blob: bytes) -> Mapping[str, Any]:
        try:
            found = json.loads(blob)
            if not isinstance(found, dict) or found.get("version") != _VERSION:
                raise ValueError("it is of another version of aiostorm, or no progress file")
        except ValueError as error:
            raise self._unreadable(name, error) from error
        if changed := difference(found, self._header):
            raise SparkSourceError(
                f"progress={self._folder} is of another source, or of other data: its {changed}; give each source its "
                "own folder, or remove this one to start again"
            )
        return found

    def _joined(self, states: list[Mapping[str, Any]]) -> SavedProgress:
        try:
            return merged(states)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise self._unreadable("a task", error) from error

    def _unreadable(self, name: str, error: Exception) -> SparkSourceError:
        return SparkSourceError(
            f"progress={self._folder}: the progress of {name} cannot be read ({error!s:.200}); remove the folder to "
            "start again"
        )


def _read_all(folder: Path) -> tuple[dict[str, bytes], str]:
    """Read the progress of all tasks, and its time: without locks, since files are replaced as a whole. Blocks."""
    found, newest_s = {}, 0.0
    for place in sorted(folder.glob("task-*")):
        file = place / f"{_BLOB}.blob"
        if file.is_file() and file.stat().st_size <= _MAX_BYTES:
            found[place.name] = file.read_bytes()
            newest_s = max(newest_s, file.stat().st_mtime)
    return found, datetime.fromtimestamp(newest_s, UTC).strftime("%Y-%m-%d %H:%M UTC") if found else ""
