"""Processes: the other one of a workload between two. It runs a module's `serve`, and says where it can be reached.

    python -m benchmarks.processes MODULE PATH LOOP       PATH: of a unix socket, which it listens at

1. Both processes are of one machine and run the same kind of loop. They talk over a unix socket, as xoscar's do by
   itself where it can.
2. The processor time of a row is that of the process that measures; the other one's is not in it.
3. The other process ends with the block: it is killed.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

from .clocking import run_in

READY = "ready"
_ROOT = Path(__file__).resolve().parent.parent


@contextmanager
def other_process(module: str, loop: str) -> Iterator[str]:
    """Another process that runs `module.serve(path)`; gives the path."""
    with tempfile.TemporaryDirectory(prefix="aiostorm-") as folder:
        path = str(Path(folder) / "socket")
        command = [sys.executable, "-m", "benchmarks.processes", module, path, loop]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=_ROOT) as process:
            try:
                assert process.stdout is not None
                line = process.stdout.readline().strip()
                if line != READY:
                    raise RuntimeError(f"the other process has said {line!r}, not {READY!r}")
                yield path
            finally:
                process.kill()


def main() -> None:
    """Be the other process."""
    module, path, loop = sys.argv[1:]
    run_in(loop, _serve(module, path))


async def _serve(module: str, path: str) -> None:
    async with import_module(module).serve(path):
        print(READY, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    main()
