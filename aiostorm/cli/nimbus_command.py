"""`aiostorm nimbus`: the daemon that assigns topologies to the nodes of a cluster."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .errors import errors
from .options import cluster_options, debug_option, log_format_option, log_level_option, take_cluster_options

if TYPE_CHECKING:
    from .logs import LogFormat


@click.command(
    epilog="Exit codes: 0 Ctrl-C or SIGTERM, 1 an unexpected error, 2 the folder, the store or --blobs cannot be used."
)
@cluster_options
@click.option(
    "--blobs",
    metavar="URL",
    help="Folder or fsspec URL for the code of submitted topologies, which all nodes reach. Default: the folder of "
    "--home, for a cluster of one machine. It is the same for all of the cluster's life.",
)
@log_level_option
@log_format_option
@debug_option
def nimbus(blobs: str | None, log_level: str, log_format: LogFormat, debug: bool, **options: Any) -> None:
    """Run the nimbus of a cluster: it decides on which nodes topologies run.

    Start it, and a supervisor on each node; then submit topologies. Several may run: one leads, and another one takes
    over when that one ends. Topologies go on while none runs. It listens at no port: it reads and writes the store.

    \b
      aiostorm nimbus &
      aiostorm supervisor --slots 4 &
      aiostorm submit mypackage.jobs:topology
    """
    with errors(debug=debug):
        from .daemons import run_nimbus
        from .start import configure_daemon, take_credentials

        take_credentials()
        configure_daemon(log_level, log_format)
        if blobs is not None and "://" not in blobs:
            blobs = str(Path(blobs).expanduser().absolute())
        code = run_nimbus(take_cluster_options(options), blobs)
    sys.exit(code)
