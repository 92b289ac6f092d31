"""The command in this process (`aiostorm`) and in one of its own (`start`), and the changed state, restored."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from aiostorm.cli import cli

JOBS = str(Path(__file__).with_name("jobs.py"))


@dataclass(frozen=True)
class Outcome:
    """The outcome of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The standard output as one document."""
        return json.loads(self.out)


Command = Callable[..., Outcome]


@pytest.fixture(autouse=True)
def runtime(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where running topologies are found, for this test alone. A short path: it contains sockets.

    The folder for temporary files is replaced too: runs without XDG_RUNTIME_DIR use it.
    """
    tmp_path_factory.getbasetemp()  # where pytest puts its own: not into ours
    with tempfile.TemporaryDirectory(prefix="a") as folder, tempfile.TemporaryDirectory(prefix="b") as temporary:
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        monkeypatch.setenv("TMPDIR", temporary)
        monkeypatch.setattr(tempfile, "tempdir", temporary)
        yield Path(folder)


@pytest.fixture
def aiostorm(capsys: pytest.CaptureFixture[str]) -> Iterator[Command]:
    """Run the command in this process."""
    handlers, level, path = logging.root.handlers[:], logging.root.level, sys.path[:]
    modules = set(sys.modules)

    def run(*arguments: str) -> Outcome:
        with pytest.raises(SystemExit) as ended:
            cli.main([str(argument) for argument in arguments], prog_name="aiostorm")
        said = capsys.readouterr()
        return Outcome(int(ended.value.code or 0), said.out, said.err)

    yield run
    logging.root.handlers[:] = handlers
    logging.root.setLevel(level)
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        if not name.startswith(("aiostorm", "rich", "uvloop", "yaml")):
            sys.modules.pop(name)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


class Process:
    """The command in a process of its own. `until_*` read up to the line with a text."""

    def __init__(self, *arguments: str, cwd: Path | None = None, **env: str) -> None:
        self._running = subprocess.Popen(
            [sys.executable, "-u", "-m", "aiostorm", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=cwd,
            env={**os.environ, **env},
        )
        self.out = self.err = ""

    def until_out(self, text: str) -> None:
        """Read the standard output."""
        self.out += _until(self._running.stdout, text)

    def until_err(self, text: str) -> None:
        """Read the standard error."""
        self.err += _until(self._running.stderr, text)

    def send(self, number: signal.Signals) -> None:
        """A signal."""
        self._running.send_signal(number)

    def end(self) -> Outcome:
        """Wait until it ends by itself."""
        out, err = self._running.communicate(timeout=60)
        return Outcome(self._running.returncode, self.out + out, self.err + err)

    def kill(self) -> None:
        """For good."""
        self._running.kill()
        self._running.communicate()


def _until(stream: Any, text: str) -> str:
    lines = []
    for line in stream:
        lines.append(line)
        if text in line:
            return "".join(lines)
    pytest.fail(f"ended without a line that holds {text!r}:\n{''.join(lines)}")


@pytest.fixture
def start() -> Iterator[Callable[..., Process]]:
    """Start the command in a process of its own."""
    started: list[Process] = []

    def begin(*arguments: str, cwd: Path | None = None, **env: str) -> Process:
        started.append(Process(*arguments, cwd=cwd, **env))
        return started[-1]

    yield begin
    for process in started:
        process.kill()
