"""`aiostorm graph`: print the graph of a topology."""

from __future__ import annotations

from typing import Final

import click

from .errors import errors
from .importing import import_target
from .options import TARGET_HELP, debug_option

FORMATS: Final[tuple[str, ...]] = ("text", "mermaid", "dot", "svg", "json")


@click.command(help=f"Print the graph of a topology.\n\n    {TARGET_HELP}")
@click.argument("target")
@click.argument("args", nargs=-1)
@click.option("--format", "form", type=click.Choice(FORMATS), default="text", show_default=True)
@debug_option
def graph(target: str, args: tuple[str, ...], form: str, debug: bool) -> None:
    """Print the graph of a topology."""
    with errors(debug=debug):
        _, topology = import_target(target, args)
        makers = (topology.describe, topology.to_mermaid, topology.to_dot, topology.to_svg, topology.to_json)
        click.echo(makers[FORMATS.index(form)]())
