"""Forking: a process that user code has forked is no second copy of what runs here.

    user code: os.fork() ─┬─ parent: goes on
                          ╰─ child: runs the user's code on … returns to our code ─► ends, at once (70)

1. A child of `os.fork` has a copy of every actor, connection and file: if it went on, it would execute tuples twice,
   and write into the connections of its parent. So it ends where it comes back into a function of ours or of asyncio
   that had called the user's. Not before: what it does until then is its purpose, and children of multiprocessing end
   there.
2. That place is found by tracing: the functions below the fork that are ours are traced, in the child only. What the
   child calls anew is not.
3. It ends by `os._exit`: no `finally`, no `atexit`, and no buffer of the parent's that is written twice.

From: CPython's asyncio, which forgets the running loop in a child of a fork, from 3.12 on.
"""

from __future__ import annotations

import os
import sys
from types import FrameType
from typing import Any, Final

EXIT_CODE: Final = 70
"""EX_SOFTWARE: the user's code should have ended the child."""

_TRACED: Final = frozenset({__name__.partition(".")[0], "asyncio", "uvloop"})

_MESSAGE: Final = (
    "a process that was forked by code of a topology has come back to it: it ends here (70). End it with os._exit, or "
    "use subprocess or multiprocessing with the start method 'spawn'\n"
)

_running: set[int] = set()


def add_system(system: object) -> None:
    """That actor system runs in this process."""
    _running.add(id(system))


def remove_system(system: object) -> None:
    """It has ended."""
    _running.discard(id(system))


def _after_fork_in_child() -> None:
    """In a forked child, in its only thread, before the code that has forked goes on."""
    if not _running:
        return
    frame: FrameType | None = sys._getframe()
    ours = False
    while frame is not None:
        if (
            str(frame.f_globals.get("__name__")).partition(".")[0] in _TRACED
            and frame.f_code is not _after_fork_in_child.__code__
        ):
            frame.f_trace = _end
            ours = True
        frame = frame.f_back
    if ours:
        sys.settrace(_nothing)


def _nothing(frame: FrameType, event: str, argument: Any) -> None:
    """What is called from now on is not traced."""


def _end(frame: FrameType, event: str, argument: Any) -> Any:
    """It has come back."""
    try:
        os.write(2, _MESSAGE.encode())
    finally:
        os._exit(EXIT_CODE)


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_after_fork_in_child)
