"""Exits: user code that raises SystemExit, KeyboardInterrupt or another BaseException does not end the process.

    raised once              the row fails like any other, and is reported with its component
    again within the window  the topology fails (topology.restart.window.secs; in one process)

1. It becomes a UserExitError, whose cause it is: from there on it is an error like others.
2. What a signal handler of the program raised is not user code's, though it came up there: it goes on. So does a
   KeyboardInterrupt where Python's own handler stands, which leaves no trace of itself.
3. GeneratorExit is left alone: a coroutine that is closed gets it, and must end. From user code it fails the topology.

Storm ends the worker, and its supervisor starts another, for ever (depart).
"""

from __future__ import annotations

import signal
import traceback
from collections.abc import Callable
from functools import partial
from types import CodeType
from typing import Any

from ..runtime import AiostormError


class UserExitError(AiostormError):
    """User code raised what is no Exception: see `__cause__`."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__(f"it raised {cause!r:.200}, but user code ends no process here")
        self.__cause__ = cause


class Exits:
    """How often user code of one process has raised such. `gave_up` is called when it was once too often."""

    def __init__(
        self,
        window_s: float = 0.0,
        allowed: int = 1,
        gave_up: Callable[[str, BaseException], None] = lambda path, error: None,
    ) -> None:
        self._window_s = window_s
        self._allowed = min(allowed, 1)
        self._gave_up = gave_up
        self._seen_s: list[float] = []

    def add(self, path: str, error: BaseException, now_s: float) -> None:
        """An error of user code was reported; others than UserExitError are not counted."""
        if not isinstance(error, UserExitError):
            return
        self._seen_s = [seen_s for seen_s in self._seen_s if seen_s > now_s - self._window_s] + [now_s]
        if len(self._seen_s) > self._allowed:
            self._gave_up(path, error)


def is_of_program(error: BaseException) -> bool:
    """Has a signal handler raised it, while user code ran?"""
    handlers = [signal.getsignal(number) for number in signal.valid_signals()]
    if isinstance(error, KeyboardInterrupt) and signal.default_int_handler in handlers:
        return True
    codes = {_code(handler) for handler in handlers} - {None}
    return any(frame.f_code in codes for frame, _ in traceback.walk_tb(error.__traceback__))


def _code(handler: Any) -> CodeType | None:
    while isinstance(handler, partial):
        handler = handler.func
    return getattr(handler, "__code__", None)
