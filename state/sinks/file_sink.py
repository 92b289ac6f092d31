"""FileSink: the rows between two snapshots are one file of a task, which gets its name when the snapshot is durable.

    pre_commit(n)   rows ─► .pending-<n>-<prefix>-<task>.jsonl, synced      handle: the names
    commit          renamed to <prefix>-<task>-<n>.jsonl, folder synced

1. A reader that ignores names with a dot finds complete files, each row once.
2. A rename is atomic: there is the pending file or the final one. So a repeated commit finds what is done already.
3. A file that a failed snapshot has prepared stays, and belongs to the next handle. After a restore, `restored` removes
   the pending files of later numbers.

From: Flink's FileSink (in progress, pending, finished), with one part for each snapshot.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from ...runtime import NewFile, make_folders, sync_folder
from ..errors import SaveError
from .sink import Sink, SinkError

if TYPE_CHECKING:
    from ...topology import BasicCollector, TopologyContext, Tuple

_PENDING = ".pending-"


class Folder(Protocol):
    """The file operations of a FileSink, in one folder. Blocking; OSError."""

    def write(self, name: str, data: Sequence[bytes]) -> None:
        """Write a whole file durably: it has its content when it has its name."""
        ...

    def rename(self, name: str, new: str) -> None: ...

    def exists(self, name: str) -> bool: ...

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        ...

    def names(self) -> list[str]: ...

    def sync(self) -> None:
        """Make renames and removals durable."""
        ...


class LocalFolder:
    """A folder of the local file system. It is made if it is missing."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = os.path.abspath(path)
        make_folders(self._path)

    def write(self, name: str, data: Sequence[bytes]) -> None:
        with NewFile(self._of(f".new-{name}"), mode=0o666) as new:
            new.write(b"".join(data))
            new.sync()
            new.replace(self._of(name))
        self.sync()

    def rename(self, name: str, new: str) -> None:
        os.rename(self._of(name), self._of(new))

    def exists(self, name: str) -> bool:
        return os.path.lexists(self._of(name))

    def remove(self, name: str) -> None:
        try:
            os.unlink(self._of(name))
        except FileNotFoundError:
            return

    def names(self) -> list[str]:
        return sorted(os.listdir(self._path))

    def sync(self) -> None:
        sync_folder(self._path)

    def _of(self, name: str) -> str:
        return os.path.join(self._path, name)


class FileSink(Sink):
    """Writes rows to files of a folder, each once: one file for each task and snapshot with rows.

    `prefix`: the beginning of the files' names; None: the name of the component. Two sinks of one folder need two.
    `encode` makes the bytes of a row, a line of JSON with its fields; override it for another format. `suffix` is the
    end of the names. Rows are kept in memory until the next snapshot. Methods run in the task's own thread.
    """

    blocking: ClassVar[bool] = True
    suffix: ClassVar[str] = ".jsonl"

    def __init__(self, path: str | os.PathLike[str], *, prefix: str | None = None) -> None:
        self._path = path
        self._prefix = prefix
        self._task = 0
        self._rows: list[bytes] = []
        self._aborted: list[int] = []  # numbers of failed snapshots, whose files belong to the next handle
        self._folder: Folder | None = None

    def prepare(self, context: TopologyContext) -> None:
        """Make the folder."""
        self._task = context.task_id
        if self._prefix is None:
            self._prefix = context.component
        self._folder = self.open_folder()

    def open_folder(self) -> Folder:
        """The folder: a local one."""
        return LocalFolder(self._path)

    def encode(self, tup: Tuple) -> bytes:
        """The bytes of a row: a line of JSON."""
        return json.dumps(tup.as_dict(), ensure_ascii=False).encode() + b"\n"

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        """Keep the row until the next snapshot."""
        self._rows.append(self.encode(tup))

    def pre_commit(self, number: int) -> dict[str, Any] | None:
        """Write the rows to a pending file, durably. Returns the task, and the numbers of its pending files.

        SaveError if the folder cannot be written: the rows are kept.
        """
        if self._rows:
            if self._files.exists(self._final(self._task, number)):
                raise SinkError(f"{self._final(self._task, number)} exists already. {_ADVICE}")
            self._write_pending(self._pending(self._task, number))
            self._rows = []
            self._aborted.append(number)
        numbers, self._aborted = self._aborted, []
        return {"task": self._task, "numbers": numbers} if numbers else None

    def _write_pending(self, name: str) -> None:
        try:
            self._files.write(name, self._rows)
        except OSError as error:
            with contextlib.suppress(OSError):
                self._files.remove(name)
            raise SaveError(
                f"{os.fspath(self._path)}: {name} was not written ({error.strerror or error}): its rows are kept in "
                "memory and tried again. Free some space, or correct the rights of the folder"
            ) from error

    def commit(self, handle: dict[str, Any]) -> None:
        """Give the pending files their names. SinkError if one is lost."""
        task: int = handle["task"]
        for number in handle["numbers"]:
            pending, final = self._pending(task, number), self._final(task, number)
            is_pending, is_final = self._files.exists(pending), self._files.exists(final)
            if is_pending and is_final:
                raise SinkError(f"{final} and {pending} both exist. {_ADVICE}")
            if is_pending:
                self._files.rename(pending, final)
            elif not is_final:
                raise SinkError(f"{pending} is lost: neither it nor {final} is in {os.fspath(self._path)}")
        self._files.sync()

    def abort(self, handle: dict[str, Any]) -> None:
        """Keep the files for the next snapshot."""
        self._aborted = [*handle["numbers"], *self._aborted]

    def held_rows(self) -> int:
        """The rows that are in no file yet."""
        return len(self._rows)

    def restored(self, number: int | None) -> None:
        """Remove the pending files of later numbers."""
        ending = f"-{self._prefix}-"
        for name in self._files.names():
            found, _, rest = name.removeprefix(_PENDING).partition("-")
            if not name.startswith(_PENDING) or not found.isdecimal() or not f"-{rest}".startswith(ending):
                continue
            task = rest.removeprefix(ending[1:]).removesuffix(self.suffix)
            if task.isdecimal() and int(found) > (number or 0):
                self._files.remove(name)
        self._files.sync()

    @property
    def _files(self) -> Folder:
        if self._folder is None:
            raise SinkError(f"{type(self).__name__} is not prepared: prepare() must call super().prepare(context)")
        return self._folder

    def _pending(self, task: int, number: int) -> str:
        return f"{_PENDING}{number}-{self._prefix}-{task}{self.suffix}"

    def _final(self, task: int, number: int) -> str:
        return f"{self._prefix}-{task}-{number}{self.suffix}"


_ADVICE = (
    "The folder has files of another run, which began without the snapshots of this one: use another folder or prefix, "
    "or remove these files"
)
