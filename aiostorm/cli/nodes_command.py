"""`aiostorm nodes`: list the nodes of a cluster, and who leads."""

from __future__ import annotations

import sys
from typing import Any

import click

from .errors import errors
from .options import client_options, debug_option, json_option, take_cluster_options


@click.command(epilog="Exit codes: 0 listed, 2 cannot be done, 69 no cluster here, or its store cannot be reached.")
@json_option
@client_options
@debug_option
def nodes(as_json: bool, debug: bool, **options: Any) -> None:
    """List the nodes of a cluster, and who leads.

    A node is a machine with `aiostorm supervisor`: its slots, how many of them workers use, and its labels.

    \b
      aiostorm nodes
    """
    place = take_cluster_options(options)
    with errors(debug=debug):
        from . import cluster as program

        code = program.run(place, lambda opened: program.nodes(opened, as_json=as_json))
    sys.exit(code)
