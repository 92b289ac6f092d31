"""ParentWatch: a child dies with its parent, however the parent ended (kill -9, out of memory, a crash).

    parent                                     child
    pipe: holds the writing end, alone ──────► a thread reads: the end of the pipe is the end of the parent
    forks in its main thread           ──────► Linux: asks for SIGKILL at that thread's end (PR_SET_PDEATHSIG)

1. The pipe works on every POSIX system, and cannot come too late: a parent that died before the child looked has left
   the pipe at its end. Its thread needs the interpreter for an instant, so it waits behind an extension that holds it.
2. The kernel's signal needs nothing of the child. But it is sent at the end of the *thread* that forked, so it is asked
   for only if that was the parent's main thread. It is asked for by the child itself, when it starts: nothing runs
   between fork and exec.
3. What dies is the child's whole process group if the child leads it, which a spawner's children do.
4. A process that the parent forks without exec inherits the writing end, and keeps the child alive with it.
5. Windows has neither: there a child lives on.

From: prctl(2); the "death pipe" of many a supervisor.
"""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import sys
import threading
from collections.abc import Mapping
from typing import Any, Final

PARENT_WATCH: Final = "AIOSTORM_PARENT_WATCH"
"""The variable that tells a child of its parent watch: `<descriptor> <pid of the parent> <1: by the kernel, too>`."""

_PR_SET_PDEATHSIG: Final = 1


class ParentWatch:
    """The parent's side: one pipe for one child."""

    __slots__ = ("_read_fd", "_write_fd")

    def __init__(self) -> None:
        self._read_fd, self._write_fd = (-1, -1) if sys.platform == "win32" else os.pipe()

    def added_to(self, environment: Mapping[str, str]) -> dict[str, str]:
        """The child's environment with the parent watch in it, and no other."""
        extended = {key: value for key, value in environment.items() if key != PARENT_WATCH}
        if self._read_fd >= 0:
            forked_by_main = threading.current_thread() is threading.main_thread()
            extended[PARENT_WATCH] = f"{self._read_fd} {os.getpid()} {int(forked_by_main)}"
        return extended

    def start_options(self) -> dict[str, Any]:
        """What is passed to the start of the process."""
        return {"pass_fds": (self._read_fd,)} if self._read_fd >= 0 else {}

    def close_child_end(self) -> None:
        """The child has its end: close ours of it."""
        if self._read_fd >= 0:
            os.close(self._read_fd)
            self._read_fd = -1

    def release(self) -> None:
        """Let go. A child that still runs dies."""
        self.close_child_end()
        if self._write_fd >= 0:
            os.close(self._write_fd)
            self._write_fd = -1


def die_with_parent() -> bool:
    """From now on this process dies with the spawner that started it; False if none did, or the system cannot.

    To be called first of all in the child's `__main__`, in its main thread. Twice is once.
    """
    given = os.environ.pop(PARENT_WATCH, "")  # what this process starts itself has another parent watch, or none
    if not given or sys.platform == "win32":
        return False
    read_fd, parent, by_kernel = map(int, given.split())
    if not _is_pipe(read_fd):
        return False  # the variable has come by way of a process that did not call this
    os.set_inheritable(read_fd, False)
    threading.Thread(target=_watch, args=(read_fd,), name="aiostorm-parent_watch", daemon=True).start()
    if by_kernel and sys.platform == "linux" and os.getppid() == parent:
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        # A parent that died just before is noticed by the thread.
    return True


def _is_pipe(fd: int) -> bool:
    with contextlib.suppress(OSError):
        return stat.S_ISFIFO(os.fstat(fd).st_mode)
    return False


def _watch(read_fd: int) -> None:
    while os.read(read_fd, 1):
        pass  # nobody writes; the end is what is waited for
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)
