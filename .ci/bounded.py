"""Run a program for a bounded time: `bounded.py SECONDS PROGRAM ARGUMENT...`.

At the bound, and at its end, whatever it started is killed with it. The exit code is the program's; 124 at the bound.
(`timeout` is not on every machine.)
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys


def main(limit_s: float, command: list[str]) -> int:
    """Run, wait, kill the process group at the bound."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        return process.wait(limit_s)
    except subprocess.TimeoutExpired:
        print(f"killed after {limit_s:g} s: {' '.join(command)}", file=sys.stderr)
        return 124
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)  # what it started and did not end
        except ProcessLookupError:
            process.poll()


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), sys.argv[2:]))
