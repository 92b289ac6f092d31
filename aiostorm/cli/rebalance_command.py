"""`aiostorm rebalance`: spread a topology of a cluster anew over its nodes."""

from __future__ import annotations

import sys
from typing import Any

import click

from .errors import errors
from .options import client_options, debug_option, json_option, take_cluster_options


@click.command(
    epilog="Exit codes: 0 done, 1 it does not run in time, 2 cannot be done, 69 no cluster here, or no nimbus leads."
)
@click.argument("name")
@click.option(
    "-n",
    "--workers",
    "--num-workers",
    type=click.IntRange(1),
    metavar="N",
    help="Number of workers. Default: as it has.",
)
@click.option(
    "-w",
    "--wait",
    "wait_s",
    type=click.FloatRange(0),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait until it runs so; 0: do not wait.",
)
@json_option
@client_options
@debug_option
def rebalance(name: str, workers: int | None, wait_s: float, as_json: bool, debug: bool, **options: Any) -> None:
    """Spread a topology of a cluster anew over its nodes.

    Its processes end in order, and start where it is placed then: after a node has joined, or with another number of
    workers.

    \b
      aiostorm rebalance orders --workers 6
    """
    place = take_cluster_options(options)
    with errors(debug=debug):
        from . import cluster as program

        code = program.run(place, lambda opened: program.rebalance(opened, name, workers, wait_s, as_json=as_json))
    sys.exit(code)
