"""Importing: the topology and the settings of a command line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from ..topology import Config, Topology


def import_target(target: str, args: tuple[str, ...]) -> tuple[str, Topology]:
    """The default name of the topology, and the topology."""
    from ..cluster import import_topology

    found, topology = import_topology(target, args)
    return found.default_name, topology


def settings_of(file: Path | None, settings: tuple[str, ...], base: Config | None) -> Config:
    """`base` (the topology's own), overridden by the file, the environment and the options. ConfigError."""
    from ..topology import Config

    found = Config.load(file, overrides=settings, base=base)
    print_ignored(found)
    return found


def print_ignored(found: Config) -> None:
    """Print the keys of Storm that have no effect here."""
    if found.ignored:
        click.echo(f"Ignored, because they have no effect here: {', '.join(found.ignored)}", err=True)
