"""DeadLetters: accepted messages that were never processed."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .messages import DeadLetter

log = logging.getLogger("aiostorm.actors")


class DeadLetters:
    """Accepted messages that were never processed: the count of all, the last thousand, and an optional listener."""

    def __init__(self, kept: int = 1000) -> None:
        self.count = 0
        self.last: deque[DeadLetter] = deque(maxlen=kept)
        self.listener: Callable[[DeadLetter], None] | None = None

    def add(self, letter: DeadLetter) -> None:
        """Count a dead letter, and pass it to the listener."""
        self.count += 1
        self.last.append(letter)
        log.debug("dead letter for %s: %s", letter.path, letter.reason)
        if self.listener is not None:
            try:
                self.listener(letter)
            except Exception:  # raised while an actor ends, which must continue
                log.exception("the listener of dead letters failed")
