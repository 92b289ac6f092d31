"""Processes that are prepared once, and fork a child for each run of tests: a line of JSON in, a line of JSON out.

    fresh      has imported the libraries and nothing of ours. The child imports the mutant in place of the module, then
               pytest and the tests: two seconds, and it works for every change
    collected  has collected the tests. The child puts the mutant's code into the functions that are there already, and
               runs the chosen tests: for changes inside functions that only tests call

A child that uses more CPU than its limit is killed, with all processes that it has started.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import IO, Final

from .codes import BROKEN, FAILED, Answer, Order

LIBRARIES: Final = ("pytest", "pytest_asyncio", "hypothesis", "hypothesis.extra", "aiohttp", "msgpack", "pydantic")
"""They take most of the time of a start, and no mutant is in them."""
MEMORY_BYTES: Final = 6 << 30
WALL: Final = 30
"""A child that waits for ever uses no CPU: it is killed after this many times its limit."""
OPTIONS: Final = (
    *("-q", "-n0", "--tb=short", "-p", "no:cacheprovider", "-m", "not slow and not spark"),
    "--hypothesis-profile=mutants",
    # What pytest would rewrite is imported already, on purpose.
    *("-W", "ignore::pytest.PytestAssertRewriteWarning"),
)


class Zygote:
    """The parent's end: one run at a time. With `paths`, tests to collect, it serves these `files`."""

    def __init__(self, folder: Path, files: Sequence[str] = (), paths: Sequence[str] = ()) -> None:
        folder = Path(tempfile.mkdtemp(dir=folder))
        command = [sys.executable, "-m", "tests.mutation.zygote", str(folder), ",".join(files), *paths]
        self._output = folder / "collected"
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, process_group=0
        )

    def run(self, order: Order) -> Answer:
        """Run tests in a fork. Raises EOFError if the process has ended."""
        answer = ""
        if self._process.stdin is not None and self._process.stdout is not None:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.write(json.dumps(asdict(order)) + "\n")
                self._process.stdin.flush()
                answer = self._process.stdout.readline()
        if not answer:
            why = self._output.read_text("utf-8", "replace") if self._output.exists() else ""
            raise EOFError(f"the process that runs the tests has ended\n{why[-5000:]}")
        return Answer(**json.loads(answer))

    def close(self) -> None:
        """End the process, and the run that goes on."""
        self._process.terminate()
        # A signal that arrives just before it reads the next order interrupts nothing: the end of the orders does.
        if self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()


# -- the process ---------------------------------------------------------------------------------------------------


Child = Callable[[Order, Path], int]
"""What a child does: it gives its exit code, and may write a survey into the file."""


class Server:
    """Forks a child for each order."""

    def __init__(self, folder: Path) -> None:
        # Copies: pytest redirects the standard streams.
        self._orders: IO[str] = os.fdopen(os.dup(0), "r")
        self._answers: IO[str] = os.fdopen(os.dup(1), "w")
        self._output, self._survey = folder / "output", folder / "survey"
        self._running: int | None = None
        signal.signal(signal.SIGTERM, self._end)

    def serve(self, child: Child) -> None:
        """Answer orders until there are no more."""
        while line := self._orders.readline():
            answer = self._answer(Order(**json.loads(line)), child)
            self._answers.write(json.dumps(asdict(answer)) + "\n")
            self._answers.flush()

    def _end(self, *_: object) -> None:
        self._kill()
        os._exit(0)

    def _kill(self) -> None:
        if self._running is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._running, signal.SIGKILL)

    def _answer(self, order: Order, child: Child) -> Answer:
        self._survey.unlink(missing_ok=True)
        pid = os.fork()
        if pid == 0:
            self._child(order, child)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.setpgid(pid, pid)  # the child does the same; the first of the two counts
        self._running = pid
        code = self._wait(pid, order.limit_s)
        self._kill()
        self._running = None
        found = json.loads(self._survey.read_text("utf-8")) if self._survey.exists() else {}
        return Answer(code, self._output.read_text("utf-8", "replace")[-20_000:], found)

    def _wait(self, pid: int, limit_s: float) -> int | None:
        """The exit code; None if the child was killed after its time."""
        end_s = time.monotonic() + WALL * limit_s
        while time.monotonic() < end_s:
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                code = os.waitstatus_to_exitcode(status)
                return None if code == -signal.SIGXCPU else code
            time.sleep(0.01)
        self._kill()
        os.waitpid(pid, 0)
        return None

    def _child(self, order: Order, child: Child) -> None:
        code = BROKEN
        try:
            with contextlib.suppress(PermissionError):
                os.setpgid(0, 0)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
            resource.setrlimit(resource.RLIMIT_CPU, (int(order.limit_s) + 1, resource.RLIM_INFINITY))
            redirect(self._output)
            try:
                code = child(order, self._survey)
            except BaseException:
                traceback.print_exc()
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code)


def redirect(output: Path) -> None:
    """Standard input is empty, output and errors go to a file."""
    file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for at, to in ((0, os.open(os.devnull, os.O_RDONLY)), (1, file), (2, file)):
        os.dup2(to, at)


def import_afresh(order: Order, _: Path) -> int:
    """A child of a fresh process."""
    import pytest

    from .overlay import Chosen, Overlay

    try:
        Overlay(order.file, order.source).install()
    except Exception as error:
        print(f"the mutant cannot be imported: {error!r}")
        return FAILED
    files = sorted({test.partition("::")[0] for test in order.chosen})
    return int(pytest.main(["-x", *OPTIONS, *files], plugins=[Chosen(order.chosen)]))


def main(folder: Path, files: Sequence[str], paths: Sequence[str]) -> None:
    """Prepare, and serve."""
    server = Server(folder)
    for name in LIBRARIES:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    if not paths:
        server.serve(import_afresh)
        return
    import pytest

    from .overlay import Collected

    redirect(folder / "collected")
    pytest.main([*OPTIONS, *paths], plugins=[Collected(server, files)])


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2].split(","), sys.argv[3:])
