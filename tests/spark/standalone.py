"""A standalone Spark of this machine: a master and workers from PySpark's own jars, on loopback. Nothing is left of it.

with standalone(workers=2, cores=2) as master: …        python -m tests.spark.standalone: until Ctrl-C
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from aiostorm.spark import find_java
from aiostorm.spark.needs import require

FAST = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:MetaspaceSize=128m")
READY_S = 60.0


@contextlib.contextmanager
def standalone(workers: int = 2, cores: int = 2, memory: str = "1g") -> Iterator[str]:
    """Its address, once all workers have registered."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="spark-", ignore_cleanup_errors=True)))
        port = _free_port()
        address = f"spark://127.0.0.1:{port}"
        here = ("--host", "127.0.0.1", "--webui-port", "0")
        log = folder / "master.log"
        stack.enter_context(_daemon(folder, log, "org.apache.spark.deploy.master.Master", *here, "--port", str(port)))
        _until(log, "Started Master", "I have been elected leader", count=1)
        for i in range(workers):
            worker = ("org.apache.spark.deploy.worker.Worker", *here)
            more = ("--cores", str(cores), "--memory", memory, "--work-dir", str(folder / f"worker-{i}"), address)
            stack.enter_context(_daemon(folder, folder / f"worker-{i}.log", *worker, *more))
        _until(log, "Registering worker", count=workers)
        yield address


@contextlib.contextmanager
def _daemon(folder: Path, log: Path, *words: str) -> Iterator[None]:
    """A process group of its own: all that it starts ends with it."""
    home = Path(require("pyspark").__file__).parent
    java = Path(find_java().home) / "bin" / "java"
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_DIRS": str(folder),
        "SPARK_SCALA_VERSION": "2.13",
    }
    modules = "--add-opens=java.base/java.nio=ALL-UNNAMED", "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED"
    more = "--add-opens=java.base/java.lang=ALL-UNNAMED", "--add-opens=java.base/java.util=ALL-UNNAMED"
    command = [str(java), *FAST, "-Xmx256m", *modules, *more, "-cp", str(home / "jars" / "*"), *words]
    with log.open("w") as out:
        process = subprocess.Popen(
            command,
            stdout=out,
            stderr=out,
            env=environment,
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            preexec_fn=_die_with_us,
        )
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _die_with_us() -> None:
    """Linux: a test that is killed leaves no daemon behind."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)


def _until(log: Path, *texts: str, count: int) -> None:
    limit_s = time.monotonic() + READY_S
    while not any(log.read_text(errors="replace").count(text) >= count for text in texts):
        if time.monotonic() > limit_s:
            raise TimeoutError(f"no {texts[0]!r} in {READY_S:g} s:\n{log.read_text(errors='replace')[-2000:]}")
        time.sleep(0.1)


def _free_port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return int(bound.getsockname()[1])


if __name__ == "__main__":
    with standalone() as found, contextlib.suppress(KeyboardInterrupt):
        print(found, flush=True)
        sys.stdin.read()
