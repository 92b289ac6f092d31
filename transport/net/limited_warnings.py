"""LimitedWarnings: warnings that others cause, so many a minute of each cause: whoever knocks all day fills no disk."""

from __future__ import annotations

import logging
from typing import Final

from ...runtime import Clock

_log = logging.getLogger(__name__)

MOST: Final = 10
"""Of one cause, in PERIOD_S."""

PERIOD_S: Final = 60.0

_CAUSES: Final = 100


class LimitedWarnings:
    """A cause is the text of a warning, without what stands in it. `log`: where they go."""

    def __init__(self, clock: Clock, log: logging.Logger = _log) -> None:
        self._clock = clock
        self._log = log
        self._said: dict[str, tuple[float, int]] = {}

    def warn(self, message: str, *arguments: object, level: int = logging.WARNING) -> None:
        """Log it, unless enough was said of that cause."""
        now_s = self._clock.monotonic()
        begun_s, said = self._said.get(message, (float("-inf"), 0))
        if now_s - begun_s >= PERIOD_S:
            if said > MOST:
                self._log.log(level, "and %d times more like that: %s", said - MOST, message)
            begun_s, said = now_s, 0
        if len(self._said) >= _CAUSES:  # there are a dozen: somebody has put what differs into the text
            self._said.clear()
        self._said[message] = begun_s, said + 1
        if said < MOST:
            self._log.log(level, message, *arguments)
