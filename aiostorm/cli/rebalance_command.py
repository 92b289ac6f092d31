"""`aiostorm rebalance`: spread a topology of a cluster anew over its nodes."""

from __future__ import annotations

import sys
from typing import Any

import click

from .errors import errors
from .options import client_options, debug_option, json_option, parallelism_option, pin_option, take_cluster_options


@click.command(
    epilog="Exit codes: 0 done, 1 it does not run so (then it runs as before), or not in time, 2 cannot be done, 69 no "
    "cluster here, or no nimbus leads."
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
@parallelism_option
@pin_option
@click.option(
    "-w",
    "--drain",
    "drain_s",
    type=click.FloatRange(0),
    metavar="SECONDS",
    help="How long messages under way may take, after its spouts have stopped. Default: its message timeout.",
)
@click.option("--no-check", is_flag=True, help="Do not check the numbers of tasks against its code.")
@click.option(
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
def rebalance(name: str, no_check: bool, as_json: bool, debug: bool, **options: Any) -> None:
    """Spread a topology of a cluster anew over its nodes.

    After a node has joined; with another number of workers; with other numbers of tasks; or with other pins. Its spouts
    stop, messages under way are processed (with exactly once a snapshot is taken), and it goes on with the new plan, in
    the processes that stay where they are. If that does not run, it goes back to the plan before.

    \b
      aiostorm rebalance orders --workers 6
      aiostorm rebalance orders -e split=4 -e count=8
      aiostorm rebalance orders --pin detect=gpu
    """
    place = take_cluster_options(options)
    with errors(debug=debug):
        from . import cluster as program

        given = program.Rebalance(check=not no_check, **options)
        code = program.run(place, lambda opened: program.rebalance(opened, name, given, as_json=as_json))
    sys.exit(code)
