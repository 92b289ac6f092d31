"""`aiostorm kill`: end a topology of a cluster."""

from __future__ import annotations

import sys
from typing import Any

import click

from .errors import errors
from .options import client_options, debug_option, json_option, take_cluster_options


@click.command(
    epilog="Exit codes: 0 it has ended, 2 cannot be done, 69 no cluster here, or no nimbus leads, 130 Ctrl-C."
)
@click.argument("name")
@click.option(
    "-w",
    "--wait",
    "drain_s",
    type=click.FloatRange(0),
    metavar="SECONDS",
    help="How long messages under way may take, after its spouts have stopped. Default: its message timeout.",
)
@json_option
@client_options
@debug_option
def kill(name: str, drain_s: float | None, as_json: bool, debug: bool, **options: Any) -> None:
    """End a topology of a cluster.

    Its spouts stop, messages under way are processed, and its processes end. The command waits for that. Ctrl-C ends
    the command only: the topology goes on ending.

    \b
      aiostorm kill orders
      aiostorm kill -w 0 orders
    """
    place = take_cluster_options(options)
    with errors(debug=debug):
        from . import cluster as program

        code = program.run(place, lambda opened: program.kill(opened, name, drain_s, as_json=as_json))
    sys.exit(code)
