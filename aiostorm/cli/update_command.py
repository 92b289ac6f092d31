"""`aiostorm update`: change settings of a running topology."""

from __future__ import annotations

from pathlib import Path

import click

from .errors import CommandError, errors
from .options import debug_option


@click.command(epilog="Exit codes: 0 done, 2 cannot be done.")
@click.argument("name")
@click.option(
    "-c",
    "--set",
    "settings",
    metavar="KEY=VALUE",
    multiple=True,
    help="Set one setting, by JStorm's key or by name; overrides the file. Repeatable.",
)
@click.option("--config", "file", type=click.Path(path_type=Path), help="YAML file with settings.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@debug_option
def update(name: str, settings: tuple[str, ...], file: Path | None, as_json: bool, debug: bool) -> None:
    """Change settings of a running topology: NAME, or NAME@PID if two have the same name.

    It must be run by your own `aiostorm run` on this machine, with or without workers.

    \b
      aiostorm update word-count -c topology.backpressure.enable=false
      aiostorm update word-count -c topology.max.spout.pending=2000 -c topology.message.timeout.secs=60

    docs/storm.md lists the settings that can be changed while a topology runs, and why the others cannot.
    """
    with errors(debug=debug):
        if not settings and file is None:
            raise CommandError("nothing to change: use -c KEY=VALUE or --config FILE")
        from .control import run_update

        run_update(name, settings, file, as_json=as_json)
