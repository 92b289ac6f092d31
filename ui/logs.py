"""Logs: the last log records of this process, and the lines of its workers, which come as records of `aiostorm.worker`.

1. It keeps KEPT records, each as text of at most MOST_CHARS: nothing that was logged is kept alive.
2. It changes nothing for others: where logging is not configured, warnings still go to the standard error, as Python
   does it for a program without handlers.
3. Of an embedded page (`all_loggers` is false) only our own records are kept: the others are not a topology's.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import Any, Final

from ..cluster.worker import where_of
from .model import LogLine

KEPT: Final = 1_000
MOST_CHARS: Final = 4_000

OURS: Final = "aiostorm"


class LogRing(logging.Handler):
    """Keeps the last records while it is attached to a logger."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: deque[LogLine] = deque(maxlen=KEPT)
        self._count = 0
        self._logger: logging.Logger | None = None

    def attach(self, *, all_loggers: bool) -> None:
        """Keep records from now on: of all loggers if logging is configured, else ours."""
        root = logging.getLogger()
        # A handler of the root would make a later `basicConfig` of the program do nothing.
        self._logger = root if all_loggers and root.handlers else logging.getLogger(OURS)
        self._logger.addHandler(self)

    def detach(self) -> None:
        """Keep no more."""
        if self._logger is not None:
            self._logger.removeHandler(self)
            self._logger = None

    def since(self, number: int) -> tuple[LogLine, ...]:
        """The records after that number, the oldest first."""
        self.acquire()  # other threads log, too
        try:
            return tuple([line for line in self._lines if line.number > number])
        finally:
            self.release()

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a record."""
        try:
            line = self._line(record)
        except Exception:  # arguments that do not fit: logging says so
            self.handleError(record)
            return
        self._lines.append(line)
        last = logging.lastResort
        if last is not None and record.levelno >= last.level and self._is_alone(record.name):
            last.handle(record)

    def _line(self, record: logging.LogRecord) -> LogLine:
        known: dict[str, Any] = dict(getattr(record, "aiostorm", None) or where_of(record.threadName or ""))
        text = str(known.get("text") or record.getMessage())
        if record.exc_info and record.exc_info[0] is not None:
            text += "\n" + logging.Formatter().formatException(record.exc_info)
        if len(text) > MOST_CHARS:
            text = text[: MOST_CHARS // 2] + "\n…\n" + text[-MOST_CHARS // 2 :]
        self._count += 1
        return LogLine(
            number=self._count,
            at_s=record.created,
            level=record.levelname,
            logger=str(known.get("logger") or record.name),
            topology=str(known.get("topology") or ""),
            worker=str(known.get("worker") or ""),
            component=str(known.get("component") or ""),
            task=known.get("task"),
            text=text,
        )

    def _is_alone(self, name: str) -> bool:
        """Does no other handler get the records of that logger?"""
        logger: logging.Logger | None = logging.getLogger(name)
        while logger is not None:
            if any(handler is not self for handler in logger.handlers):
                return False
            logger = logger.parent if logger.propagate else None
        return True


def levels() -> dict[str, str]:
    """Logger → the level that was set for it; the root logger is ``."""
    known = logging.Logger.manager.loggerDict
    found = {name: logger.level for name, logger in list(known.items()) if isinstance(logger, logging.Logger)}
    shown = {name: logging.getLevelName(level) for name, level in sorted(found.items()) if level}
    return {"": logging.getLevelName(logging.getLogger().level), **shown}
