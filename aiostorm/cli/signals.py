"""Interrupts: Ctrl-C and SIGTERM, for a program that runs an event loop.

    first SIGINT or SIGTERM ─► say so, wake whoever waits ─► the program drains and ends by itself
    second                  ─► the process ends, now
    stuck at the very end   ─► the process ends after `end_within` seconds

1. Handlers are Python's own (`signal.signal`), not the loop's: they run between two bytecodes of whatever runs, so a
   second Ctrl-C ends the process although user code blocks the loop. (Not while it is inside a C function.)
2. "Now" is `os._exit`: no user code gets in the way, neither an `except` that catches everything nor a thread that does
   not end. What a file has in its buffer is lost.
3. The exit code is 128 + the signal's number, as a shell has it: 130 and 143.
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
    """Handles SIGINT and SIGTERM from `with` on; afterwards too if one came, so that a second still ends a stuck exit.

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
        """Of a process that was interrupted."""
        return 128 + (self.signal or signal.SIGINT)

    def listen(self) -> asyncio.Event:
        """From within the loop: an event that the first signal sets."""
        self._loop = asyncio.get_running_loop()
        self._stopped = asyncio.Event()
        if self.signal is not None:  # it came before there was a loop
            self._first()
        return self._stopped

    def end_within(self, seconds: float, code: int, words: str) -> None:
        """End the process if it is still there in so many seconds: a thread of user code can hold up its exit."""
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
            except ValueError:  # not the main thread: signals are somebody else's
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
        """Between any two bytecodes of the main thread: touches nothing that might be half done."""
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
    """There is nothing to put away."""


def _write(text: str) -> None:
    """Past sys.stderr's buffer: the interrupted code may be in the middle of a write to it."""
    os.write(2, text.encode(errors="replace"))
