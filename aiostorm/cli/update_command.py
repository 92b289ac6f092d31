"""`aiostorm update`: change settings of a running topology."""

from __future__ import annotations

from pathlib import Path

import click

from .errors import CommandError, errors
from .options import debug_option


@click.command(epilog="Exit codes: 0 done, 2 it cannot be done.")
@click.argument("name")
@click.option(
    "-c",
    "--set",
    "settings",
    metavar="KEY=VALUE",
    multiple=True,
    help="One setting, by JStorm's key or by name; over the file. May be repeated.",
)
@click.option("--config", "file", type=click.Path(path_type=Path), help="Settings from a YAML file.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@debug_option
def update(name: str, settings: tuple[str, ...], file: Path | None, as_json: bool, debug: bool) -> None:
    """Change settings of a running topology: NAME, or NAME@PID if two have the name.

    It is one that an `aiostorm run` of yours runs on this machine, with or without workers.

    \b
      aiostorm update word-count -c topology.backpressure.enable=false
      aiostorm update word-count -c topology.max.spout.pending=2000 -c topology.message.timeout.secs=60

    docs/storm.md lists what can be changed while it runs, and why not the rest.
    """
    with errors(debug=debug):
        if not settings and file is None:
            raise CommandError("nothing to change: give -c KEY=VALUE, or --config FILE")
        from .control import run_update

        run_update(name, settings, file, as_json=as_json)
