"""What a slot becomes: a worker or a parent, and nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from aiostorm.cli.errors import CommandError
from aiostorm.cli.slot_command import Task, parse


def line(log: object, arguments: object) -> bytes:
    return json.dumps({"log": log, "arguments": arguments}).encode()


def test_a_task() -> None:
    assert parse(line("/logs/a.log", ["worker", "--name", "a"])) == Task(Path("/logs/a.log"), ["worker", "--name", "a"])


@pytest.mark.parametrize(
    "text",
    [
        b"\n",
        b"{",
        b"[]",
        b'{"log": "/a"}',
        line("/a", []),
        line("/a", ["run", "x:y"]),
        line("/a", ["worker", 3]),
        line("/a", "worker"),
        line("a.log", ["worker"]),
        line(3, ["worker"]),
        b"\xff",
    ],
)
def test_anything_else_is_refused(text: bytes) -> None:
    with pytest.raises(CommandError, match="slot"):
        parse(text)


@pytest.mark.slow
def test_its_output_goes_to_the_log(tmp_path: Path) -> None:
    log = tmp_path / "logs" / "worker-1.log"
    command = [sys.executable, "-m", "aiostorm", "slot"]
    run = subprocess.run(command, input=line(str(log), ["worker", "--help"]), capture_output=True, timeout=60)
    assert (run.returncode, run.stdout, run.stderr) == (0, b"", b"")
    assert log.read_text().startswith("Usage: aiostorm worker")
    ended = subprocess.run(command, input=b"", capture_output=True, timeout=60)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"", b"")


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/comm").exists(), reason="processes have no name to set")
def test_it_is_named_by_what_it_has_become(tmp_path: Path) -> None:
    log = tmp_path / "words" / "worker-1.log"
    program = (
        "import atexit\n"
        "atexit.register(lambda: print('named', open('/proc/self/comm').read()))\n"
        "from aiostorm.cli.app import cli\n"
        "cli(['slot'])\n"
    )
    task = line(str(log), ["worker", "--help"])
    subprocess.run([sys.executable, "-c", program], input=task, capture_output=True, timeout=60, check=True)
    assert "named worker-1:words\n" in log.read_text()
