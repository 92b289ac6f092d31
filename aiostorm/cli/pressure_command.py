"""`aiostorm pressure`: show the backpressure of a running topology."""

from __future__ import annotations

import click

from .errors import errors
from .options import debug_option


@click.command(epilog="Exit codes: 0 told, 2 it cannot be asked, 130 Ctrl-C.")
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--watch", is_flag=True, help="Once a second, until it ends; with --json, a document in a line.")
@debug_option
def pressure(name: str, as_json: bool, watch: bool, debug: bool) -> None:
    """Show the backpressure of a running topology: NAME, or NAME@PID if two have the name.

    Which components are full, which of their tasks are blocked, which spouts wait how long and why, what happened last.
    """
    with errors(debug=debug):
        from .control import run_pressure

        run_pressure(name, as_json=as_json, watch=watch)
