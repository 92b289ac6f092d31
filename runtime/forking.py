"""Forking: a process that user code has forked must not run the topology a second time.

    user code: os.fork() ─┬─ parent: continues
                          ╰─ child: runs the user's code … returns to our code ─► exits at once (70)

1. A child of `os.fork` has a copy of every actor, connection and file: if it continued, it would execute tuples twice
   and write into its parent's connections. So it exits when it returns to a function of aiostorm or asyncio that called
   the user's code. Not earlier: the code before that is the purpose of the fork, and children of multiprocessing end
   there.
2. The place is found by tracing: the frames of aiostorm and asyncio below the fork are traced, in the child only. New
   calls of the child are not traced.
3. It exits with `os._exit`: no `finally`, no `atexit`, and buffers of the parent are not written twice.

From: CPython's asyncio, which forgets the running loop in a child of a fork since 3.12.
"""

from __future__ import annotations

import os
import sys
from types import FrameType
from typing import Final

EXIT_CODE: Final = 70
"""EX_SOFTWARE: the user's code should have ended the child."""

_TRACED: Final = frozenset({__name__.partition(".")[0], "asyncio", "uvloop"})

_MESSAGE: Final = (
    "a process that code of a topology has forked returned to aiostorm: it exits now (70). End it with os._exit, or "
    "use subprocess or multiprocessing with the start method 'spawn'\n"
)

_running: set[int] = set()


def add_system(system: object) -> None:
    """The actor system runs in this process."""
    _running.add(id(system))


def remove_system(system: object) -> None:
    """The actor system has ended."""
    _running.discard(id(system))


def _after_fork_in_child() -> None:
    """Runs in the forked child, in its only thread, before the code that called fork continues."""
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


def _nothing(frame: FrameType, event: str, argument: object) -> None:
    """Do not trace new calls."""


def _end(frame: FrameType, event: str, argument: object) -> object:
    """A traced function continues: exit."""
    try:
        os.write(2, _MESSAGE.encode())
    finally:
        os._exit(EXIT_CODE)


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_after_fork_in_child)
