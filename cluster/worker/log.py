"""Worker log: what workers print and log, line by line, in the parent's log.

    worker:  log record ─► "\\x1e<level> <logger> <component[task]>\\x1f<line>" on its standard error
             print ──────► the same, where it was printed; the logger is "stdout" or "stderr"
    parent:  ─► logger aiostorm.worker: "worker-1 count[7] my.module: line"

1. Each line of a record (a traceback has many) is marked, so that lines of several processes are not mixed up.
2. A line that consists of HEARTBEAT_MARKER is a heartbeat, and is not shown (see heartbeat).
3. A line that begins with PROFILE_MARKER is a profile of a stall, and is not shown either (see `profile_in`).
4. Unmarked lines (of an extension in C, of a child process) are shown as they are, with the worker's name.
5. The output of a worker never reaches the parent's standard output, which contains results only.
6. The last lines of each worker are kept, for the error that says why it ended.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, TextIO

from ...runtime import Profile

if TYPE_CHECKING:
    from ...runtime.processes import ChildLine

log = logging.getLogger("aiostorm.worker")

HEARTBEAT_MARKER: Final = "\x05"
PROFILE_MARKER: Final = "\x06"
_MARKER, _END = "\x1e", "\x1f"
KEPT: Final = 20


class WorkerLog:
    """The parent's side."""

    def __init__(self) -> None:
        self._last: dict[str, deque[str]] = {}

    def line(self, line: ChildLine) -> None:
        """A worker has printed a line."""
        text = line.text.removesuffix(HEARTBEAT_MARKER)
        if not text and line.text:
            return
        level, where = logging.INFO, line.name
        known: dict[str, str | int] = {"worker": line.name, "text": text}
        if text.startswith(_MARKER):
            head, _, text = text[1:].partition(_END)
            number, _, rest = head.partition(" ")
            level = int(number) if number.isdecimal() else logging.INFO
            logger, _, task = rest.partition(" ")
            where = " ".join(part for part in (line.name, task, logger) if part)
            known |= {"text": text, "logger": logger, **_parts(task)}
        self._last.setdefault(line.name, deque(maxlen=KEPT)).append(text)
        log.log(level, "%s: %s", where, text, extra={"aiostorm": known})  # for log lines in JSON

    def last(self, worker: str) -> list[str]:
        """The last lines of a worker."""
        return list(self._last.get(worker, ()))

    def forget(self, worker: str) -> None:
        """The worker has ended: drop its lines."""
        self._last.pop(worker, None)


def profile_in(line: ChildLine) -> Profile | None:
    """The profile that a worker has written while its loop is blocked; None if this line is another one."""
    if line.stream != "stderr" or not line.text.startswith(PROFILE_MARKER):
        return None
    return profile_of(line.name, line.text.removeprefix(PROFILE_MARKER))


def profile_of(worker: str, text: str) -> Profile | None:
    """The profile that a worker has sent while its loop is blocked; None if this is another text."""
    try:
        return Profile.from_line(text)
    except ValueError as error:
        log.debug("%s has sent no profile: %s", worker, error)
        return None


def plain_line(text: str) -> str:
    """A line without its prefix; empty for a heartbeat."""
    text = text.removesuffix(HEARTBEAT_MARKER)
    if not text.startswith(_MARKER):
        return text
    head, _, line = text[1:].partition(_END)
    _, _, rest = head.partition(" ")
    logger, _, task = rest.partition(" ")
    where = " ".join(part for part in (task, logger) if part)
    return f"{where}: {line}" if where else line


class MarkedFormatter(logging.Formatter):
    """The worker's side: formats a record as marked lines."""

    def format(self, record: logging.LogRecord) -> str:
        head = f"{_MARKER}{record.levelno} {record.name} {_task_in(record.threadName or '')}{_END}"
        return "\n".join(head + line for line in super().format(record).split("\n"))


class MarkedStream:
    """The worker's side: replaces `sys.stdout` or `sys.stderr`; puts a prefix before each line. Nothing is buffered.

    If several tasks write parts of a line, the line belongs to the first.
    """

    def __init__(self, stream: TextIO, name: str) -> None:
        self._stream = stream
        self._name = name
        self._at_start = True

    def write(self, text: str) -> int:
        head = f"{_MARKER}{logging.INFO} {self._name} {_task_in(threading.current_thread().name)}{_END}"
        *whole, rest = text.split("\n")
        for line in whole:
            self._stream.write(f"{head if self._at_start else ''}{line}\n")
            self._at_start = True
        if rest:
            self._stream.write(f"{head if self._at_start else ''}{rest}")
            self._at_start = False
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        self.write("".join(lines))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def where_of(thread: str) -> dict[str, str | int]:
    """The topology, the component and the task whose code runs in the thread of that name, as far as they are known."""
    found: dict[str, str | int] = {}
    topology = _name_of_current().removeprefix("/").partition("/")[0]
    parts = _parts(_task_in(thread))
    if parts and not thread.startswith("aiostorm-"):
        found["topology"] = topology
    return {**found, **parts}


def _parts(task: str) -> dict[str, str | int]:
    component, _, number = task.removesuffix("]").rpartition("[")
    return {"component": component, "task": int(number)} if number.isdecimal() else {}


def _name_of_current() -> str:
    """The name of the current asyncio task; empty: none."""
    try:
        current = asyncio.current_task()
    except RuntimeError:  # no loop runs in this thread
        return ""
    return current.get_name() if current is not None else ""


def _task_in(thread: str) -> str:
    """The task whose code runs in the thread of that name: "count[7]"; empty: none."""
    if thread.startswith("aiostorm-") and "[" in thread:  # the thread of a blocking component
        return thread.removeprefix("aiostorm-").partition("]")[0] + "]"
    found = _name_of_current().rpartition("/")[2].partition(":")[0]
    return found if found.endswith("]") and "[" in found else ""
