"""`aiostorm update`: change settings of a running topology."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from .errors import CommandError, errors
from .options import client_options, debug_option, is_typed, take_cluster_options


@click.command(epilog="Exit codes: 0 done, 2 cannot be done, 69 the store of the cluster cannot be reached.")
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
@click.option(
    "--wait",
    "wait_s",
    metavar="SECONDS",
    type=click.FloatRange(0, 3600),
    default=10.0,
    show_default=True,
    help="How long to wait until a topology of the cluster has taken them over.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@client_options
@debug_option
def update(
    name: str,
    settings: tuple[str, ...],
    file: Path | None,
    wait_s: float,
    as_json: bool,
    debug: bool,
    **options: Any,
) -> None:
    """Change settings of a running topology.

    NAME is one of the cluster, on whatever machines it runs: what is changed holds until it ends, also in processes
    that start later. Else it is one that your own `aiostorm run` runs on this machine, with or without workers: what is
    changed holds in that run. NAME@PID is that one if two have the same name.

    \b
      aiostorm update word-count -c topology.backpressure.enable=false
      aiostorm update word-count -c topology.max.spout.pending=2000 -c topology.message.timeout.secs=60

    docs/storm.md lists the settings that can be changed while a topology runs, and why the others cannot.
    """
    named = any(is_typed(option) for option in ("home", "store", "nimbus"))
    place = take_cluster_options(options)
    with errors(debug=debug):
        if not settings and file is None:
            raise CommandError("nothing to change: use -c KEY=VALUE or --config FILE")
        from .cluster_update import Asked, update_in_cluster
        from .control import run_update

        if not update_in_cluster(place, Asked(name, settings, file, wait_s, as_json), only=named):
            run_update(name, settings, file, as_json=as_json)
