"""LimitedWarnings: warnings that peers can cause, a limited number a minute, so that no peer can fill the log."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ...runtime import Clock

_log = logging.getLogger(__name__)

MOST: Final = 10
"""Warnings of one cause in PERIOD_S."""

PERIOD_S: Final = 60.0

_CAUSES: Final = 100


class LimitedWarnings:
    """The cause of a warning is its text without the arguments. `log`: where the warnings go."""

    def __init__(self, clock: Clock, log: logging.Logger = _log) -> None:
        self._clock = clock
        self._log = log
        self._counts: dict[str, tuple[float, int]] = {}

    def warn(self, message: str, *arguments: object, level: int = logging.WARNING) -> None:
        """Log the message, unless its cause has reached the limit."""
        now_s = self._clock.monotonic()
        begun_s, count = self._counts.get(message, (float("-inf"), 0))
        if now_s - begun_s >= PERIOD_S:
            if count > MOST:
                self._log.log(level, "%d more warnings like this: %s", count - MOST, message)
            begun_s, count = now_s, 0
        if len(self._counts) >= _CAUSES:  # there are a dozen causes: a caller has put varying text into the message
            self._counts.clear()
        self._counts[message] = begun_s, count + 1
        if count < MOST:
            self._log.log(level, message, *arguments)
