"""Errors of the testing tools: they end a test that would otherwise hang."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..runtime import AiostormError

if TYPE_CHECKING:
    from .tracked import FailedMessage


class DeadlockError(AiostormError):
    """Nothing in the loop can ever run again; the message lists every asyncio task with the line where it waits."""


class TimeLimitError(AiostormError):
    """A bound of the virtual loop is used up: something polls forever, never lets time pass, or never returns."""


class WaitTimeoutError(AiostormError, TimeoutError):
    """What a test waited for did not happen in time; the message says what did happen."""


class NotAckedError(AiostormError, AssertionError):
    """Messages failed that a test expected to be acked; `failures` has them, with the reasons."""

    def __init__(self, message: str, failures: Sequence[FailedMessage]) -> None:
        super().__init__(message)
        self.failures = list(failures)


class ScriptError(AiostormError, ValueError):
    """The rows or arguments that a test gave to a spout or topology are not valid."""
