"""Run a program for a bounded time: `bounded.py [--give-way] SECONDS PROGRAM ARGUMENT...`.

At the bound, at its end, and when this process's parent has ended, the program is killed with all that it has started.
The exit code is the program's; 124 at the bound. (`timeout` is not on every machine.) With --give-way the program has
the processor only while nothing else wants it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path


def main(limit_s: float, command: list[str], *, gives_way: bool) -> int:
    """Run, wait, kill the process group at the bound."""
    # A script that is started with `&` has Ctrl-C ignored, and so has all that it starts: tests of Ctrl-C would fail.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    if gives_way:
        give_way(process.pid)
    parent, deadline_s = os.getppid(), time.monotonic() + limit_s
    try:
        while time.monotonic() < deadline_s and os.getppid() == parent:  # another parent: the gate was stopped
            try:
                return process.wait(min(1.0, limit_s))
            except subprocess.TimeoutExpired:
                continue
        print(f"killed after {limit_s:g} s, or because the gate was stopped: {' '.join(command)}", file=sys.stderr)
        return 124
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)  # what it started and did not end
        except ProcessLookupError:
            process.poll()


def give_way(pid: int) -> None:
    """The lowest priority, for it and what it starts from now on."""
    os.setpriority(os.PRIO_PGRP, pid, 19)
    # Linux may share time out among sessions first, and this is one of its own: then that is what counts.
    group = Path(f"/proc/{pid}/autogroup")
    if group.exists():
        try:
            group.write_text("19", encoding="ascii")
        except OSError as error:
            print(f"it does not give way: {error}", file=sys.stderr)


if __name__ == "__main__":
    words = sys.argv[1:]
    gives_way = words[0] == "--give-way"
    limit, *command = words[gives_way:]
    sys.exit(main(float(limit), command, gives_way=gives_way))
