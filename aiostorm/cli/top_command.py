"""`aiostorm top`: show running topologies in the terminal."""

from __future__ import annotations

import click

from .errors import errors
from .options import debug_option


@click.command(epilog="Exit codes: 0 shown, 2 not reachable, 130 Ctrl-C.")
@click.argument("name", default="")
@click.option("--once", is_flag=True, help="Print one second of it, and end.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON: one line a second; with --once one document.")
@debug_option
def top(name: str, once: bool, as_json: bool, debug: bool) -> None:
    """Show running topologies in the terminal: rates, mailboxes, latencies, why spouts wait, errors.

    NAME, or NAME@PID if two have the same name; without a name all of yours that run. `?` shows the keys. Into a pipe,
    or without rich, each second's text follows the one before.
    """
    with errors(debug=debug):
        from .top import run_top

        run_top(name, once=once, as_json=as_json)
