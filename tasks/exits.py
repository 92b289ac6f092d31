"""Exits: user code that raises SystemExit, KeyboardInterrupt or another BaseException does not end the process.

    raised once              the row fails like any other, and is reported with its component
    again within the window  the topology fails (topology.restart.period.secs; in one process)

1. The exception becomes the cause of a UserExitError, which is handled like other errors.
2. What a signal handler of the program raised is not an error of user code, though it was raised there: it propagates.
   So does a KeyboardInterrupt where Python's own handler is installed, because that handler leaves no trace.
3. GeneratorExit is left alone: a coroutine that is closed receives it and must end. From user code it fails the
   topology.

Storm ends the worker, and its supervisor starts another, for ever (depart).
"""

from __future__ import annotations

import signal
import traceback
from collections.abc import Callable
from functools import partial
from types import CodeType

from ..runtime import AiostormError


class UserExitError(AiostormError):
    """User code raised an exception that is not an Exception: see `__cause__`."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__(f"user code raised {cause!r:.200}, which does not end a process here")
        self.__cause__ = cause


class Exits:
    """Counts such exceptions in one process. `gave_up` is called when there was one too many in the window."""

    def __init__(
        self,
        within_s: float = 0.0,
        allowed: int = 1,
        gave_up: Callable[[str, BaseException], None] = lambda path, error: None,
    ) -> None:
        self._within_s = within_s
        self._allowed = min(allowed, 1)
        self._gave_up = gave_up
        self._raised_s: list[float] = []

    def add(self, path: str, error: BaseException, now_s: float) -> None:
        """Count a reported error of user code, if it is a UserExitError."""
        if not isinstance(error, UserExitError):
            return
        self._raised_s = [raised_s for raised_s in self._raised_s if raised_s > now_s - self._within_s] + [now_s]
        if len(self._raised_s) > self._allowed:
            self._gave_up(path, error)


def is_of_program(error: BaseException) -> bool:
    """Did a signal handler raise it, while user code ran?"""
    handlers = [signal.getsignal(number) for number in signal.valid_signals()]
    if isinstance(error, KeyboardInterrupt) and signal.default_int_handler in handlers:
        return True
    codes = {_code(handler) for handler in handlers} - {None}
    return any(frame.f_code in codes for frame, _ in traceback.walk_tb(error.__traceback__))


def _code(handler: object) -> CodeType | None:
    while isinstance(handler, partial):
        handler = handler.func
    return getattr(handler, "__code__", None)
