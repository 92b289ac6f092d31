"""A Spark Connect server in a process of its own: `python -m tests.spark.connect_server FOLDER [PORT]`.

It prints its port and the process id of its JVM, and ends when its standard input does.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.spark.conftest import FAST, ROOT


@dataclass
class ConnectServer:
    """One that runs; `close` ends it surely."""

    process: subprocess.Popen[str]
    port: int
    jvm: int

    @property
    def remote(self) -> str:
        """Its address."""
        return f"sc://127.0.0.1:{self.port}"

    def python_workers(self) -> list[int]:
        """Processes in which functions of ours run: children of PySpark's daemon, a child of the JVM."""
        parents: dict[int, list[int]] = {}
        for status in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):  # it has ended
                parent = int(status.read_text().rpartition(")")[2].split()[1])
                parents.setdefault(parent, []).append(int(status.parent.name))
        return [worker for daemon in parents.get(self.jvm, []) for worker in parents.get(daemon, [])]

    def kill(self) -> None:
        """As a machine that loses its power: no good-bye."""
        for pid in (self.jvm, self.process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()
        if self.process.stdin is not None:
            self.process.stdin.close()

    def replace(self, folder: Path) -> None:
        """After `kill`: start another one at the same address, which knows nothing of the first one's sessions."""
        new = started(folder, self.port)
        self.process, self.jvm = new.process, new.jvm

    def close(self) -> None:
        """End it."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.kill()


def started(folder: Path, port: int = 0) -> ConnectServer:
    """Start one, and wait until it serves: 10 s and more."""
    path = os.pathsep.join((str(ROOT), os.environ.get("PYTHONPATH", ""))).rstrip(os.pathsep)
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.spark.connect_server", str(folder), str(port)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    with process.stdout:
        said = process.stdout.readline().split()
    if len(said) != 2:
        process.kill()
        raise RuntimeError(f"the server ended with {process.wait()}")
    return ConnectServer(process, int(said[0]), int(said[1]))


def main(folder: str, port: str = "0") -> None:
    """Serve until standard input ends."""
    from aiostorm.spark import make_session
    from aiostorm.spark.sessions import stop_session

    settings = {
        **FAST,
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": port,
        "spark.sql.warehouse.dir": folder,
    }
    session: Any = make_session(settings, master="local[2,2]", app_name="tests of Connect")
    services = session._jvm.org.apache.spark.sql.connect.service
    service = getattr(getattr(services, "SparkConnectService$"), "MODULE$")
    print(service.localPort(), session._sc._gateway.proc.pid, flush=True)
    sys.stdin.read()
    stop_session(session)


if __name__ == "__main__":
    main(*sys.argv[1:])
