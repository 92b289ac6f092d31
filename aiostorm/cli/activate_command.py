"""`aiostorm activate`: let the spouts of a topology of a cluster emit again."""

from __future__ import annotations

import sys
from typing import Any

import click

from .errors import errors
from .options import client_options, debug_option, json_option, take_cluster_options


@click.command(epilog="Exit codes: 0 ordered, 2 cannot be done, 69 no cluster here, or its store cannot be reached.")
@click.argument("name")
@json_option
@client_options
@debug_option
def activate(name: str, as_json: bool, debug: bool, **options: Any) -> None:
    """Let the spouts of a topology of a cluster emit again.

    \b
      aiostorm activate orders
    """
    place = take_cluster_options(options)
    with errors(debug=debug):
        from . import cluster as program

        code = program.run(place, lambda opened: program.set_active(opened, name, active=True, as_json=as_json))
    sys.exit(code)
