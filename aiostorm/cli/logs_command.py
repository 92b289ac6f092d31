"""`aiostorm logs`: show what the processes of a topology of a cluster have logged."""

from __future__ import annotations

import sys
from typing import Any

import click

from .errors import errors
from .options import client_options, debug_option, json_option, take_cluster_options


@click.command(
    epilog="Exit codes: 0 shown, 2 there are no such logs, 69 no node with logs, or no nimbus, answers, 77 the token "
    "is refused, 130 Ctrl-C."
)
@click.argument("name")
@click.argument("process", required=False, default="")
@click.option(
    "-n",
    "--lines",
    type=click.IntRange(0),
    default=100,
    show_default=True,
    metavar="LINES",
    help="How many of the last lines of each process.",
)
@click.option("-f", "--follow", is_flag=True, help="Show what comes, too, until Ctrl-C.")
@json_option
@client_options
@debug_option
def logs(name: str, process: str, lines: int, follow: bool, as_json: bool, debug: bool, **options: Any) -> None:
    """Show what the processes of a topology of a cluster have logged.

    PROCESS is `parent`, or a worker as `worker-1`; without it the lines of all are shown, each with its process. With
    --nimbus they are those of all nodes, each with its node; with -f until the topology ends. Without it they are those
    of this machine: `aiostorm show NAME` says where the others are. With --json they are objects with `process`, `line`
    and, of all nodes, `node`.

    \b
      aiostorm logs orders
      aiostorm logs orders worker-1 -n 1000 -f
      aiostorm logs orders -f --nimbus aiostorm://10.0.0.1:6700 --token-file ann.token --ca ca.pem
    """
    if follow and as_json:
        raise click.UsageError("--json is one document, and -f has no end: leave out one of them.")
    place = take_cluster_options(options)
    with errors(debug=debug):
        if place.asks_nimbus:
            from . import cluster as program
            from .cluster_logs import show_logs as show_all

            sys.exit(
                program.run(
                    place, lambda opened: show_all(opened, name, process, lines, follow=follow, as_json=as_json)
                )
            )
        from .log_files import show_logs

        show_logs(place.home, name, process, lines, follow=follow, as_json=as_json)
