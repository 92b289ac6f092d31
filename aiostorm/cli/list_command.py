"""`aiostorm list`: list the topologies of a cluster."""

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
def list(as_json: bool, debug: bool, **options: Any) -> None:  # noqa: A001 - the name of the command
    """List the topologies of a cluster.

    What runs in an `aiostorm run` of its own is not among them: `aiostorm top` shows both, on this machine.

    \b
      aiostorm list
      aiostorm list --store zk://host1,host2/aiostorm --json
    """
    place = take_cluster_options(options)
    with errors(debug=debug):
        from . import cluster as program

        code = program.run(place, lambda opened: program.list_topologies(opened, as_json=as_json))
    sys.exit(code)
