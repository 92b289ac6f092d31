"""`aiostorm pressure`: show the backpressure of a running topology."""

from __future__ import annotations

import click

from .errors import errors
from .options import debug_option


@click.command(epilog="Exit codes: 0 printed, 2 not reachable, 130 Ctrl-C.")
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--watch", is_flag=True, help="Print once a second until the topology ends; with --json, one line each.")
@debug_option
def pressure(name: str, as_json: bool, watch: bool, debug: bool) -> None:
    """Show the backpressure of a running topology: NAME, or NAME@PID if two have the same name.

    It lists full components, their blocked tasks, the waits of spouts with their reasons, and recent events.
    """
    with errors(debug=debug):
        from .control import run_pressure

        run_pressure(name, as_json=as_json, watch=watch)
