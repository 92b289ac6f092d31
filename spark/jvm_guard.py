"""JVM guard: a small process that kills Spark's JVM if the JVM outlives this process.

    this process ══ pipe ══► guard: reads …  "done": ends        the pipe ends: waits GUARD_S, kills the JVM

A working JVM ends when its standard input is closed. A JVM that hangs would stay for ever, however this process ended:
by Ctrl-C, os._exit or kill -9.

It is not started by runtime's PythonSpawner: such a child dies with its parent, needs an event loop, and is a Python of
30 MB. This one outlives its parent, is started in any thread, and is a shell.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from typing import Final

GUARD_S: Final = 10

_SCRIPT: Final = """trap '' INT TERM HUP
read word
[ "$word" = done ] && exit
sleep "$1"
kill -9 "$0" 2>/dev/null"""


class JvmGuard:
    """The guard of one JVM."""

    def __init__(self, pid: int) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        if os.name == "posix":
            self._process = subprocess.Popen(  # noqa: S603 - a constant script
                ["/bin/sh", "-c", _SCRIPT, str(pid), str(GUARD_S)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # not interrupted by Ctrl-C
            )

    def done(self) -> None:
        """The JVM has ended: end the guard. May be called twice."""
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(OSError):
                process.communicate(b"done\n")
