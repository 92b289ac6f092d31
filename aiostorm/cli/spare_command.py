"""`aiostorm spare`: a process that has imported a worker's modules, and waits for the arguments of a worker."""

from __future__ import annotations

import sys
from typing import Final

import click

from .worker_command import SPARE, worker

MAX_ARGUMENTS_BYTES: Final = 64 * 1024


@click.command(hidden=True)
def spare() -> None:
    """Wait for the arguments of a worker (see runtime.WarmPool). All modules of a worker are imported before."""
    from ..runtime import die_with_parent

    die_with_parent()
    import json

    from ..transport import WebSocketNetwork
    from . import worker as process

    ready = (process, WebSocketNetwork)
    line = sys.stdin.buffer.readline(MAX_ARGUMENTS_BYTES)
    if line and ready:
        _, *arguments = json.loads(line)  # "worker" and its options
        worker.main(arguments, prog_name="aiostorm worker", obj=SPARE)
