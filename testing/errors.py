"""Errors of the testing room: what ends a test that would otherwise hang."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..runtime import AiostormError

if TYPE_CHECKING:
    from .tracked import FailedMessage


class DeadlockError(AiostormError):
    """Nothing in the loop can ever run again; the message lists every asyncio task with the line it waits at."""


class TimeLimitError(AiostormError):
    """A bound of the virtual loop is used up: something polls forever, never lets time pass, or never comes back."""


class WaitTimeoutError(AiostormError, TimeoutError):
    """What a test waited for did not happen in time; the message says what did."""


class NotAckedError(AiostormError, AssertionError):
    """Messages failed that a test expected to be acked; `failures` has them, with the reasons."""

    def __init__(self, message: str, failures: Sequence[FailedMessage]) -> None:
        super().__init__(message)
        self.failures = list(failures)


class ScriptError(AiostormError, ValueError):
    """What a test told a spout to emit, or a topology to be fed with, makes no sense."""
