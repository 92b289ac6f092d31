"""Expiry: a spout task looks for messages without a verdict, a few times in each timeout.

Its deadline is one step after the acker's, which normally comes first: this one is for trees whose acker has died.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from ..acker import EXPIRY_STEPS, Key, Pending
from ..actors import Timer

_SWEEP = object()

LATE: Final = 1 + 1 / EXPIRY_STEPS


class Expiry:
    """The expiry of one spout task. `timeout_s` None: nothing expires. `after` makes a timer of the task."""

    __slots__ = ("_after", "_timeout_s", "_timer", "pending")

    def __init__(self, timeout_s: float | None, after: Callable[[float, Any], Timer]) -> None:
        self.pending = Pending(None if timeout_s is None else timeout_s * LATE)
        self._timeout_s = timeout_s
        self._after = after
        self._timer: Timer | None = None

    def time_out_after(self, timeout_s: float) -> None:
        """Change the timeout, also for messages that are open. Without a timeout it stays so."""
        if self._timeout_s is not None:
            self._timeout_s = timeout_s
            self.pending.time_out_after(timeout_s * LATE)

    def arm(self) -> None:
        """Start the timer, if a message is open."""
        if self._timer is None and self._timeout_s is not None and len(self.pending):
            self._timer = self._after(self._timeout_s / EXPIRY_STEPS, _SWEEP)

    def overdue(self, now_s: float) -> Sequence[Key]:
        """The timer has fired: the keys of the trees that are overdue."""
        self._timer = None
        return self.pending.overdue(now_s)
