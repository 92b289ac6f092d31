"""Interrupts: Ctrl-C and SIGTERM, for a program that runs an event loop.

first SIGINT or SIGTERM ─► print a message, wake the program ─► the program drains and ends by itself
second                  ─► the process ends now
stuck at the very end   ─► the process ends after `end_within` seconds

1. The handlers are Python's own (`signal.signal`), not the event loop's: they run between two bytecodes of any
   code, so a second Ctrl-C ends the process even if user code blocks the loop. (Not while it is inside a C
   function.)
2. "Now" is `os._exit`: user code cannot prevent it, neither with an `except` for everything nor with a thread that
   does not end. Unwritten buffers of files are lost.
3. The exit code is 128 + the signal's number, as in a shell: 130 and 143.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Self

HANDLED = (signal.SIGINT, signal.SIGTERM)

_SHOW_CURSOR = "\x1b[?25h"


class Interrupts:
    """Handles SIGINT and SIGTERM inside `with`, and after it if one came, so that a second one can end a stuck exit.

    `first_message` and `last_message` return the text for the standard error. With `on_first`, the first text goes
    there, called from the event loop (a live table must not be torn); without it, the text is written at once,
    whatever the loop is doing. `before_end` is called before a second signal ends the process.
    """

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None
        self.first_message: Callable[[], str] = str
        self.last_message: Callable[[], str] = str
        self.on_first: Callable[[str], None] | None = None
        self.before_end: Callable[[], None] = _nothing
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopped: asyncio.Event | None = None
        self._previous: dict[signal.Signals, Any] = {}

    @property
    def exit_code(self) -> int:
        """The exit code of an interrupted process."""
        return 128 + (self.signal or signal.SIGINT)

    def listen(self) -> asyncio.Event:
        """Call it in the event loop: returns an event that the first signal sets."""
        self._loop = asyncio.get_running_loop()
        self._stopped = asyncio.Event()
        if self.signal is not None:  # it came before the loop started
            self._first()
        return self._stopped

    def end_within(self, seconds: float, code: int, words: str) -> None:
        """End the process if it is still running in `seconds`: a thread of user code can delay its exit."""
        if seconds <= 0 or not hasattr(signal, "setitimer"):
            return

        def end(number: int, frame: FrameType | None) -> None:
            try:
                _write(f"{words}\n")
            finally:
                os._exit(code)

        signal.signal(signal.SIGALRM, end)
        signal.setitimer(signal.ITIMER_REAL, seconds)

    def __enter__(self) -> Self:
        for number in HANDLED:
            try:
                self._previous[number] = signal.signal(number, self._handle)
            except ValueError:  # not the main thread: other code handles the signals
                break
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._loop = None
        if self.signal is None:
            for number, handler in self._previous.items():
                signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        """Runs between any two bytecodes of the main thread: it must not use state that may be half changed."""
        if self.signal is not None:
            try:
                show_cursor = _SHOW_CURSOR if self.on_first is not None else ""
                _write(f"{show_cursor}\n{self.last_message()}\n")
                self.before_end()
            finally:
                os._exit(128 + number)
        self.signal = signal.Signals(number)
        if self.on_first is None:
            _write(f"\n{self.first_message()}\n")
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._first)

    def _first(self) -> None:
        if self.on_first is not None:
            self.on_first(self.first_message())
        if self._stopped is not None:
            self._stopped.set()


def _nothing() -> None:
    """The default of `before_end`."""


def _write(text: str) -> None:
    """Write past sys.stderr's buffer: the interrupted code may be in the middle of a write to it."""
    os.write(2, text.encode(errors="replace"))
