"""`aiostorm parent`: the process that runs one topology of a cluster. Supervisors start it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .errors import errors
from .options import debug_option, log_format_option, node_options, take_node_options

if TYPE_CHECKING:
    from .logs import LogFormat


@click.command(hidden=True)
@click.argument("name")
@click.option("--home", required=True, type=click.Path(path_type=Path), help="Folder of this machine's daemons.")
@click.option("--store", required=True, metavar="URL", help="The coordination store.")
@click.option("--supervisor", required=True, metavar="ID", help="The supervisor that starts it.")
@node_options
@click.option("--log-level", default="info", help="Lowest level of log lines.")
@log_format_option
@debug_option
def parent(
    name: str,
    home: Path,
    store: str,
    supervisor: str,
    log_level: str,
    log_format: LogFormat,
    debug: bool,
    **options: Any,
) -> None:
    """Run a submitted topology. Exit codes: 0 ended in order; 69, 143 its workers go on without it."""
    with errors(debug=debug):
        import logging

        from .logs import formatter
        from .parent import ParentOptions, run_parent
        from .signals import Interrupts
        from .start import check_open_files, take_credentials

        take_credentials()
        check_open_files(1)
        handler = logging.StreamHandler()
        handler.setFormatter(formatter(log_format))
        logging.basicConfig(handlers=[handler], level=log_level.upper())
        given = ParentOptions(name, home, store, supervisor, take_node_options(options))
        code = run_parent(given, Interrupts())
    sys.exit(code)
