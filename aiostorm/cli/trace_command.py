"""`aiostorm trace`: show one tuple tree of a running topology, from its spout to its ack."""

from __future__ import annotations

import click

from .errors import errors
from .options import debug_option, json_option

MOST_S = 300.0


@click.command(epilog="Exit codes: 0 printed, 2 not reachable or nothing to trace, 130 Ctrl-C.")
@click.argument("name")
@click.option("--component", "-C", metavar="ID", help="Only a tree that passes this component.")
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(0.1, MOST_S),
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for a tree.",
)
@click.option("--last", is_flag=True, help="Show the last tree that was sampled, without waiting for another.")
@json_option
@debug_option
def trace(name: str, component: str | None, timeout_s: float, last: bool, as_json: bool, debug: bool) -> None:
    """Trace one tuple tree of a running topology: NAME, or NAME@PID if two have the same name.

    The next tree is followed through all tasks that handle it. It is shown when it is complete: how long its tuples
    waited in mailboxes (░), how long they were executed (█), and which way took longest.

    \b
      aiostorm trace orders
      aiostorm trace orders --component store --json
    """
    with errors(debug=debug):
        from .trace import run_trace

        run_trace(name, component, timeout_s, last=last, as_json=as_json)
