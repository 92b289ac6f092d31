"""JVM guard: a small process that kills Spark's JVM, should it outlive this process.

    this process ══ pipe ══► guard: reads …  "done": ends        the pipe ends: waits GUARD_S, kills the JVM

A JVM that works ends by itself when its standard input does. One that hangs would stay for ever, whatever ended this
process: Ctrl-C, an exit without ceremony, kill -9.
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
    """Of one JVM."""

    def __init__(self, pid: int) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        if os.name == "posix":
            self._process = subprocess.Popen(  # noqa: S603 - our own words
                ["/bin/sh", "-c", _SCRIPT, str(pid), str(GUARD_S)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is for those in front
            )

    def done(self) -> None:
        """The JVM has ended. Twice is once."""
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(OSError):
                process.communicate(b"done\n")
