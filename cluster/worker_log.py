"""Worker log: what workers print and log, line by line, in the parent's log.

    worker:  log record ─► "\\x1e<level> <logger> <component[task]>\\x1f<line>" on its standard error
             print ──────► the line as it is
    parent:  ─► logger aiostorm.worker: "worker-1 count[7] my.module: line"

1. Each line of a record (a traceback has many) is marked, so lines of several processes can be told apart.
2. A line that is marked only with PULSE says that the process lives, and is not shown (see pulse).
3. What a worker prints never reaches the parent's standard output: that has results.
4. The last lines of each are kept, for the error that says why it ended.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import Final

from ..actors import ChildLine

log = logging.getLogger("aiostorm.worker")

PULSE: Final = "\x05"
_MARK, _END = "\x1e", "\x1f"
KEPT: Final = 20


class WorkerLog:
    """The parent's side."""

    def __init__(self) -> None:
        self._last: dict[str, deque[str]] = {}

    def line(self, line: ChildLine) -> None:
        """A worker has printed a line."""
        text = line.text.removesuffix(PULSE)
        if not text and line.text:
            return
        level, where = logging.INFO, line.name
        if text.startswith(_MARK):
            head, _, text = text[1:].partition(_END)
            number, _, rest = head.partition(" ")
            level = int(number) if number.isdecimal() else logging.INFO
            logger, _, task = rest.partition(" ")
            where = " ".join(part for part in (line.name, task, logger) if part)
        self._last.setdefault(line.name, deque(maxlen=KEPT)).append(text)
        log.log(level, "%s: %s", where, text)

    def last(self, worker: str) -> list[str]:
        """What it said last."""
        return list(self._last.get(worker, ()))

    def forget(self, worker: str) -> None:
        """It is gone."""
        self._last.pop(worker, None)


class MarkedFormatter(logging.Formatter):
    """The worker's side: a record as marked lines."""

    def format(self, record: logging.LogRecord) -> str:
        """See the module."""
        head = f"{_MARK}{record.levelno} {record.name} {_task_of(record)}{_END}"
        return "\n".join(head + line for line in super().format(record).split("\n"))


def _task_of(record: logging.LogRecord) -> str:
    """Which task's code it comes from: "count[7]"; empty if from none's."""
    thread = record.threadName or ""
    if thread.startswith("aiostorm-") and "[" in thread:  # a blocking component's own
        return thread.removeprefix("aiostorm-").partition("]")[0] + "]"
    try:
        current = asyncio.current_task()
    except RuntimeError:  # no loop runs in this thread
        return ""
    name = current.get_name() if current is not None else ""
    found = name.rpartition("/")[2].partition(":")[0]
    return found if found.endswith("]") and "[" in found else ""
