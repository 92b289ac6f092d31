"""`aiostorm spare`: a process that has imported a worker's modules, and waits for the arguments of a worker."""

from __future__ import annotations

import sys
from typing import Final

import click

from .worker_command import SPARE, worker

MAX_ARGUMENTS_BYTES: Final = 64 * 1024


@click.command(hidden=True)
@click.option("--websockets", is_flag=True, help="The worker will connect over TCP.")
def spare(websockets: bool) -> None:
    """Wait for the arguments of a worker (see runtime.WarmPool). All modules of a worker are imported before."""
    from ..runtime.processes import die_with_parent

    die_with_parent()
    import json

    from .. import transport
    from . import worker as process

    ready = (process, transport.WebSocketNetwork if websockets else transport.SocketNetwork)
    line = sys.stdin.buffer.readline(MAX_ARGUMENTS_BYTES)
    if line and ready:
        _, *arguments = json.loads(line)  # "worker" and its options
        worker.main(arguments, prog_name="aiostorm worker", obj=SPARE)
