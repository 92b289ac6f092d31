"""`aiostorm worker`: be a worker of an `aiostorm run` somewhere else."""

from __future__ import annotations

import sys
from typing import Any, Final

import click

from .errors import errors
from .options import debug_option, security_options

SPARE: Final = object()
"""Who runs `worker` as this was a spare before."""

OTHERS: Final = 1
"""Other processes that a worker speaks to, at least."""


@click.command(
    help="""Be a worker: a process that does a part of a topology's work for an `aiostorm run` somewhere else.

    `aiostorm run --workers N` starts its own. Start one by hand on another machine, for `--remote-workers`:

    \b
      aiostorm worker --name remote-1 --connect main.example:6700 --listen here.example:6701 \\
          --credentials here --target mypackage.jobs:topology

    It loads that target, and no other. It needs its code, in the same version. It ends with its topology, or 5 s after
    it last heard of it.
    """,
    epilog="Exit codes: 0 told to end, 69 nobody there, 78 exposed without TLS and token, 143 SIGTERM.",
)
@click.option("--name", required=True, help="Its name, as `aiostorm run` has said it.")
@click.option("--connect", required=True, metavar="HOST:PORT", help="Where `aiostorm run` listens.")
@click.option(
    "--listen",
    default="127.0.0.1:0",
    show_default=True,
    metavar="HOST:PORT",
    help="Where other workers reach this one.",
)
@click.option(
    "--target",
    "targets",
    required=True,
    multiple=True,
    metavar="TARGET",
    help="What it may be told to load, as `aiostorm run` has it; with any arguments, if it names none. Repeatable.",
)
@click.option(
    "--allow-different-code", "any_code", is_flag=True, help="Work with another version of the topology's code."
)
@click.option("--path", "paths", multiple=True, metavar="DIR", help="Look for modules there, too. May be repeated.")
@click.option(
    "--loop", type=click.Choice(["auto", "uvloop", "asyncio"]), default="auto", show_default=True, help="Event loop."
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"], case_sensitive=False),
    default="info",
    show_default=True,
    help="Log lines to show on the standard error.",
)
@security_options
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
    from_stdin: bool,
    debug: bool,
    **security: Any,
) -> None:
    """See `help`."""
    from ..runtime import die_with_parent

    child = die_with_parent() or click.get_current_context().obj is SPARE
    with errors(debug=debug):
        from .signals import Interrupts
        from .start import check_open_files, check_worker_name, take_credentials
        from .worker import add_module_paths, configure_logging, options_of, run_worker, security_of

        take_credentials()
        check_worker_name(name)
        check_open_files(OTHERS)
        configure_logging(log_level, child=child)
        add_module_paths(paths)
        options = options_of(name, connect, listen, targets, child=child, any_code=any_code)
        code = run_worker(options, security_of(from_stdin=from_stdin, **security), Interrupts(), loop, child=child)
    sys.exit(code)
