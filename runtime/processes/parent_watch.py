"""ParentWatch: a child process dies with its parent, however the parent ended (kill -9, out of memory, a crash).

    parent                                     child
    only process with the pipe's write end ──► a thread reads: the end of the pipe is the end of the parent
    forks in its main thread               ──► Linux: requests SIGKILL for that thread's end (PR_SET_PDEATHSIG)

1. The pipe works on every POSIX system, and is never too late: if the parent died before the child started to read, the
   pipe is at its end. The thread needs the interpreter for a moment, so it waits for an extension that blocks it.
2. The kernel's signal does not need the child's interpreter. But it is sent at the end of the *thread* that forked, so
   it is only requested if that was the parent's main thread. The child requests it itself when it starts: no code runs
   between fork and exec.
3. If the child leads a process group, as a spawner's children do, the whole group is killed.
4. A process that the parent forks without exec inherits the write end, and keeps the child alive.
5. On Windows neither exists: there a child keeps running.

From: prctl(2); the "death pipe" of many supervisors.
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
"""The variable with the child's parent watch: `<descriptor> <pid of the parent> <1: use the kernel's signal, too>`."""

_PR_SET_PDEATHSIG: Final = 1


class ParentWatch:
    """The parent's side: one pipe for one child."""

    __slots__ = ("_read_fd", "_write_fd")

    def __init__(self) -> None:
        self._read_fd, self._write_fd = (-1, -1) if sys.platform == "win32" else os.pipe()

    def added_to(self, environment: Mapping[str, str]) -> dict[str, str]:
        """The child's environment with this parent watch in it, and no other."""
        extended = {key: value for key, value in environment.items() if key != PARENT_WATCH}
        if self._read_fd >= 0:
            forked_by_main = threading.current_thread() is threading.main_thread()
            extended[PARENT_WATCH] = f"{self._read_fd} {os.getpid()} {int(forked_by_main)}"
        return extended

    def start_options(self) -> dict[str, Any]:
        """Options for starting the process."""
        return {"pass_fds": (self._read_fd,)} if self._read_fd >= 0 else {}

    def close_child_end(self) -> None:
        """The child has its end of the pipe: close our copy."""
        if self._read_fd >= 0:
            os.close(self._read_fd)
            self._read_fd = -1

    def release(self) -> None:
        """Close the pipe. A child that still runs dies."""
        self.close_child_end()
        if self._write_fd >= 0:
            os.close(self._write_fd)
            self._write_fd = -1


def die_with_parent() -> bool:
    """Make this process die with the spawner that started it; False if there is none, or the system cannot do it.

    Call it first in the child's `__main__`, in its main thread. A second call has no effect.
    """
    given = os.environ.pop(PARENT_WATCH, "")  # processes started by this one get another parent watch, or none
    if not given or sys.platform == "win32":
        return False
    read_fd, parent, by_kernel = map(int, given.split())
    if not _is_pipe(read_fd):
        return False  # the variable was inherited through a process that did not call this function
    os.set_inheritable(read_fd, False)
    threading.Thread(target=_watch, args=(read_fd,), name="aiostorm-parent_watch", daemon=True).start()
    if by_kernel and sys.platform == "linux" and os.getppid() == parent:
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        # If the parent died just before, the thread notices.
    return True


def _is_pipe(fd: int) -> bool:
    with contextlib.suppress(OSError):
        return stat.S_ISFIFO(os.fstat(fd).st_mode)
    return False


def _watch(read_fd: int) -> None:
    while os.read(read_fd, 1):
        pass  # no process writes; the read waits for the end of the pipe
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)
