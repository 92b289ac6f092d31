"""`aiostorm snapshots`: list the snapshots of a topology."""

from __future__ import annotations

import sys

import click

from .errors import errors
from .options import debug_option, json_option


@click.command(epilog="Exit codes: 0 listed, 1 a snapshot is damaged, 2 the place cannot be read.")
@click.argument("place", metavar="DIR")
@json_option
@debug_option
def snapshots(place: str, as_json: bool, debug: bool) -> None:
    """List the snapshots of a topology.

    DIR is their folder or URL: the value of topology.state.dir (--state), or .aiostorm/state/NAME. Each snapshot is
    read and checked; a damaged one is named with the reason. Nothing is changed, and the topology may be running.

    \b
      aiostorm snapshots .aiostorm/state/orders
      aiostorm snapshots s3://bucket/orders --json
    """
    with errors(debug=debug):
        from .snapshots import as_json as json_text
        from .snapshots import as_text, read_snapshots

        found = read_snapshots(place)
        click.echo(json_text(place, found) if as_json else as_text(place, found))
    sys.exit(1 if any(each.problem for each in found) else 0)
