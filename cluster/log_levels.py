"""Log levels: the level of a logger, changed while a topology runs: in its process, and in its workers.

1. It holds until the process ends: a worker that is started again has the level of its start.
2. Only loggers that exist are changed: logging keeps a logger for ever, so a name that is wrong would stay.

Storm: `storm set_log_level`.
"""

from __future__ import annotations

import logging
from typing import Final, Literal

from ..topology import nearest

LogLevel = Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL", ""]
"""Empty: that of the logger above it."""

LEVELS: Final[tuple[LogLevel, ...]] = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL", "")


def loggers() -> list[str]:
    """The names of the loggers of this process, without the root's."""
    known = logging.Logger.manager.loggerDict
    return sorted(name for name, found in list(known.items()) if isinstance(found, logging.Logger))


def check_level(logger: str, level: str) -> None:
    """ValueError for a logger that does not exist here, or a level that there is not."""
    if level not in LEVELS:
        known = ", ".join(filter(None, LEVELS))
        raise ValueError(f"{level!r} is no level; there are {known}, and empty for that of the logger above")
    if not logger and not level:
        raise ValueError("the root logger has none above it: name a level")
    if logger and logger not in loggers():
        like = nearest(logger, loggers())
        raise ValueError(f"no logger {logger!r} here" + (f"; did you mean {like}?" if like is not None else ""))


def set_level(logger: str, level: str) -> None:
    """Set it in this process."""
    logging.getLogger(logger or None).setLevel(level or logging.NOTSET)
