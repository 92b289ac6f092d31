"""`aiostorm show`: show a topology of a cluster."""

from __future__ import annotations

import sys
from typing import Any

import click

from .errors import errors
from .options import client_options, debug_option, json_option, take_cluster_options


@click.command(epilog="Exit codes: 0 shown, 2 cannot be done, 69 no cluster here, or its store cannot be reached.")
@click.argument("name")
@json_option
@client_options
@debug_option
def show(name: str, as_json: bool, debug: bool, **options: Any) -> None:
    """Show a topology of a cluster: what was submitted, where it runs, its last errors.

    On the machine where its parent runs, `aiostorm top`, `ui`, `pressure`, `trace` and `update` find it by its name, as
    they find an `aiostorm run`; `aiostorm snapshots` lists its snapshots.

    \b
      aiostorm show orders
    """
    place = take_cluster_options(options)
    with errors(debug=debug):
        from . import cluster as program

        code = program.run(place, lambda opened: program.show(opened, name, as_json=as_json))
    sys.exit(code)
