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
    epilog="Exit codes: 0 Ctrl-C or SIGTERM, 1 an unexpected error, 2 the folder, the store, --blobs or --listen "
    "cannot be used, 78 other machines could ask it without TLS."
)
@cluster_options
@click.option(
    "--blobs",
    metavar="URL",
    help="Folder or fsspec URL for the code of submitted topologies, which all nodes reach. Default: the folder of "
    "--home, for a cluster of one machine. It is the same for all of the cluster's life.",
)
@click.option(
    "--listen",
    metavar="HOST:PORT",
    help="Answer clients (--nimbus) at this address. Default: at a socket in the folder of --home, for this user only.",
)
@click.option(
    "--certificates",
    type=click.Path(path_type=str, exists=True, file_okay=False),
    metavar="DIR",
    help="Folder with certificate.pem, key.pem and ca.pem, of `aiostorm certs node`: for --listen at an address that "
    "other machines can reach.",
)
@click.option(
    "--credentials",
    type=click.Path(path_type=str, file_okay=False),
    metavar="DIR",
    help="Folder with the files of a node, of `aiostorm certs node`: with it nimbus reads the logs of other nodes, for "
    "`aiostorm logs --nimbus`. Default: that of --certificates, if it has the cluster's token.",
)
@log_level_option
@log_format_option
@debug_option
def nimbus(
    blobs: str | None,
    listen: str | None,
    certificates: str | None,
    credentials: str | None,
    log_level: str,
    log_format: LogFormat,
    debug: bool,
    **options: Any,
) -> None:
    """Run the nimbus of a cluster: it decides on which nodes topologies run.

    Start it, and a supervisor on each node; then submit topologies. Several may run: one leads, and another one takes
    over when that one ends. Topologies go on while none runs. With --listen, those who have a token (`aiostorm token`)
    or a certificate (`aiostorm certs client`) order from other machines and accounts; else it listens at no port.

    \b
      aiostorm nimbus &
      aiostorm supervisor --slots 4 &
      aiostorm submit mypackage.jobs:topology
    """
    with errors(debug=debug):
        from .answering import answering_of
        from .daemons import run_nimbus
        from .start import configure_daemon, take_credentials

        take_credentials()
        configure_daemon(log_level, log_format)
        if blobs is not None and "://" not in blobs:
            blobs = str(Path(blobs).expanduser().absolute())
        place = take_cluster_options(options)
        code = run_nimbus(place, blobs, answering_of(place.home, listen, certificates, credentials))
    sys.exit(code)
