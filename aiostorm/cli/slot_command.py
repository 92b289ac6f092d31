"""`aiostorm slot`: a process of a supervisor that has imported what workers and parents need, and waits for its task.

    {"log": "/…/worker-1.log", "arguments": ["worker", "--name", "worker-1", …]}      one line on its standard input

1. It begins the task only after the line. Without one it ends: its supervisor was killed, or does not need it.
2. It can become a worker or a parent, and nothing else.
3. From then on its output goes to the log, and its standard input is empty.
4. `ps -e`, `top` and `pgrep` then name it by what it has become: `worker-1:words`. The system keeps 15 bytes of that.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from .errors import CommandError

MAX_LINE_BYTES: Final = 64 * 1024
COMMANDS: Final = ("worker", "parent")
NAME_BYTES: Final = 15
"""Of the name of a process, in Linux."""


class Task(NamedTuple):
    """What a slot becomes. `log`: the file for its output."""

    log: Path
    arguments: list[str]


@click.command(hidden=True)
@click.option("--websockets", is_flag=True, help="Its task will use TCP.")
def slot(websockets: bool) -> None:
    """Wait for a task (see the module). Not for use by hand: a supervisor starts it."""
    from .. import cluster, transport
    from . import worker

    network = transport.WebSocketNetwork if websockets else transport.SocketNetwork
    imported = (worker, network, cluster.LocalCluster, cluster.ProcessBackend)
    line = sys.stdin.buffer.readline(MAX_LINE_BYTES)
    if not line or not imported:
        return
    task = parse(line)
    _redirect(task.log)
    _name_process(f"{task.log.stem}:{task.log.parent.name}")
    from .app import cli

    cli.main(task.arguments, prog_name="aiostorm")


def parse(line: bytes) -> Task:
    """The task in a line. CommandError."""
    try:
        found: Any = json.loads(line)
        log, arguments = found["log"], found["arguments"]
        valid = (
            isinstance(log, str)
            and os.path.isabs(log)
            and isinstance(arguments, list)
            and all(isinstance(word, str) for word in arguments)
            and arguments[0] in COMMANDS
        )
    except (ValueError, LookupError, TypeError) as error:
        raise CommandError(f"the task of a slot is one line of JSON with a log and arguments: {error!r}") from error
    if not valid:
        raise CommandError(f"a slot becomes one of {', '.join(COMMANDS)}, with an absolute path for its log")
    return Task(Path(log), arguments)


def _redirect(log: Path) -> None:
    """Send the output to the log. CommandError, which goes to where the output went before."""
    from ..runtime.processes import open_log

    try:
        fd = open_log(log)
    except OSError as error:
        raise CommandError(f"{log} cannot be written: {error.strerror or error}") from error
    os.dup2(fd, 1)
    os.dup2(fd, 2)
    os.close(fd)
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)


def _name_process(name: str) -> None:
    """Show this name in lists of processes, where the system has one to set (Linux)."""
    with contextlib.suppress(OSError), open("/proc/self/comm", "wb", buffering=0) as file:
        file.write(name.encode()[:NAME_BYTES])
