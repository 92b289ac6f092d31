"""`aiostorm worker`: run a worker for an `aiostorm run` on another machine."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from .errors import errors
from .options import debug_option, log_format_option, security_options

if TYPE_CHECKING:
    from .logs import LogFormat

SPARE: Final = object()
"""The context object of a `worker` command that runs in a spare process."""

OTHERS: Final = 1
"""The least number of other processes to which a worker connects."""


@click.command(
    help="""Run a worker: a process that runs a part of a topology for an `aiostorm run` on another machine.

    `aiostorm run --workers N` starts its own workers. Start one by hand on another machine, for `--remote-workers`:

    \b
      aiostorm worker --name remote-1 --connect main.example:6700 --listen here.example:6701 \\
          --credentials here --target mypackage.jobs:topology

    The worker imports only that target, and needs its code in the same version. It ends with its topology, or 5 s after
    the last message from the parent.
    """,
    epilog="Exit codes: 0 stopped by the parent, 69 no parent, 78 exposed without TLS and token, 143 SIGTERM.",
)
@click.option("--name", required=True, help="Name of the worker, as printed by `aiostorm run`.")
@click.option("--connect", default="", metavar="HOST:PORT", help="Address at which `aiostorm run` listens.")
@click.option(
    "--listen",
    default="127.0.0.1:0",
    show_default=True,
    metavar="HOST:PORT",
    help="Address at which other workers connect to this one.",
)
@click.option(
    "--target",
    "targets",
    required=True,
    multiple=True,
    metavar="TARGET",
    help="Target that it may import, as given to `aiostorm run`; with any arguments, if it names none. Repeatable.",
)
@click.option("--allow-different-code", "any_code", is_flag=True, help="Allow another version of the topology's code.")
@click.option("--path", "paths", multiple=True, metavar="DIR", help="Additional folder with modules. Repeatable.")
@click.option(
    "--loop", type=click.Choice(["auto", "uvloop", "asyncio"]), default="auto", show_default=True, help="Event loop."
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"], case_sensitive=False),
    default="info",
    show_default=True,
    help="Lowest level of log lines to show on stderr.",
)
@log_format_option
@security_options
@click.option("--generation", type=click.IntRange(0), default=0, hidden=True)
@click.option(
    "--outlive-parent", "outlive_s", type=click.FloatRange(0, 86_400, min_open=True), metavar="SECONDS", hidden=True
)
@click.option("--data-limit", "data_bytes", type=click.IntRange(1), metavar="BYTES", hidden=True)
@click.option("--parent-file", type=click.Path(path_type=Path), hidden=True)
@click.option("--topology", default="", hidden=True)
@click.option("--credentials-from-stdin", "from_stdin", is_flag=True, hidden=True)
@debug_option
def worker(
    name: str,
    connect: str,
    listen: str,
    targets: tuple[str, ...],
    paths: tuple[str, ...],
    any_code: bool,
    loop: str,
    log_level: str,
    log_format: LogFormat,
    outlive_s: float | None,
    data_bytes: int | None,
    parent_file: Path | None,
    topology: str,
    generation: int,
    from_stdin: bool,
    debug: bool,
    **security: Any,
) -> None:
    """Run a worker."""
    from ..runtime.processes import die_with_parent

    if not connect and parent_file is None:
        raise click.UsageError("Missing option '--connect': the address at which `aiostorm run` listens.")
    child = die_with_parent() or click.get_current_context().obj is SPARE
    with errors(debug=debug):
        from .signals import Interrupts
        from .start import check_open_files, check_worker_name, limit_data, take_credentials
        from .worker import add_module_paths, configure_logging, options_of, run_worker, security_of

        take_credentials()
        check_worker_name(name)
        check_open_files(OTHERS)
        if data_bytes is not None:
            limit_data(data_bytes)
        configure_logging(log_level, log_format, child=child)
        add_module_paths(paths)
        options = options_of(
            name,
            connect,
            listen,
            targets,
            child=child,
            any_code=any_code,
            outlive_s=outlive_s,
            parent_file=parent_file,
            generation=generation,
        )
        proved = security_of(from_stdin=from_stdin, **security)
        if topology:
            proved = proved.derived(topology)
        code = run_worker(options, proved, Interrupts(), loop, child=child)
    sys.exit(code)
