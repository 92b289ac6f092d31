"""`aiostorm supervisor`: the daemon that runs processes of topologies on one node of a cluster."""

from __future__ import annotations

import platform
import sys
from typing import TYPE_CHECKING, Any, Final

import click

from .errors import CommandError, errors
from .options import (
    cluster_options,
    debug_option,
    log_format_option,
    log_level_option,
    node_options,
    take_cluster_options,
    take_node_options,
)
from .quantities import duration, size

if TYPE_CHECKING:
    from .logs import LogFormat

MAX_SLOTS: Final = 1_000


@click.command(
    epilog="Exit codes: 0 Ctrl-C or SIGTERM, 1 an unexpected error, 2 the folder or the store cannot be used, "
    "75 another supervisor has this name, 78 other machines reach --host and there is no TLS or token, or the other "
    "supervisors could not connect to it."
)
@cluster_options
@click.option("--id", "name", metavar="NAME", help="Its name in the cluster. Default: the name of the machine.")
@click.option(
    "--slots",
    type=click.IntRange(1, MAX_SLOTS),
    default=4,
    show_default=True,
    help="How many workers it may run. Parents of topologies need no slot.",
)
@click.option(
    "--memory",
    "memory_bytes",
    type=size,
    default="0",
    metavar="SIZE",
    help="What its workers may have together, as 8GiB, by what was declared with submit. Default: it is not counted.",
)
@click.option(
    "--cores",
    type=click.FloatRange(0),
    default=0.0,
    metavar="N",
    help="Cores that its workers may have together, likewise. Default: they are not counted.",
)
@click.option(
    "--label", "labels", multiple=True, metavar="LABEL", help="Topologies may ask for nodes with a label. Repeatable."
)
@click.option(
    "--keep-logs",
    "keep_logs_s",
    type=duration,
    metavar="TIME",
    default="7d",
    show_default=True,
    help="How long the logs of topologies that have ended are kept.",
)
@click.option(
    "--log-quota",
    "log_quota_bytes",
    type=size,
    metavar="SIZE",
    default="4GiB",
    show_default=True,
    help="What all logs may take: the oldest of ended topologies are removed before.",
)
@click.option(
    "--keep-free",
    "keep_free_bytes",
    type=size,
    metavar="SIZE",
    default="64MiB",
    show_default=True,
    help="Begin no process while less than that is free on the disk of --home. 0: it is not looked.",
)
@click.option(
    "--cgroup",
    metavar="auto|none|DIR",
    default="auto",
    show_default=True,
    help="Folder of cgroup v2 that is delegated to this supervisor, for a cgroup of each process. auto: that of its "
    "container or systemd unit, if it is delegated; else, and with none, limits are those of rlimit.",
)
@node_options
@log_level_option
@log_format_option
@debug_option
def supervisor(
    name: str | None,
    slots: int,
    memory_bytes: int,
    cores: float,
    labels: tuple[str, ...],
    keep_logs_s: float,
    log_quota_bytes: int,
    keep_free_bytes: int,
    cgroup: str,
    log_level: str,
    log_format: LogFormat,
    debug: bool,
    **options: Any,
) -> None:
    """Run the supervisor of a node: it runs the topologies that nimbus assigns to it.

    Its processes outlive it: when it is started again, it adopts them. (Under systemd that needs KillMode=process.) It
    listens at no port; its processes find each other by sockets in its folder, and only this user can reach them.

    In a cluster of several machines each says its own address. There its processes listen for those of the others, and
    it for requests of nimbus for logs, with the certificate and the token that `aiostorm certs init --node` has made:

    \b
      aiostorm supervisor --slots 8 --label gpu
      aiostorm supervisor --store zk://zoo1,zoo2,zoo3/aiostorm --host 10.0.0.2 --credentials 10.0.0.2
    """
    with errors(debug=debug):
        from .. import __version__
        from ..cluster import check_name
        from ..cluster.supervisor import LogRetention
        from .daemons import SupervisorOptions, run_supervisor
        from .start import check_open_files, configure_daemon, take_credentials

        name = platform.node() if name is None else name
        try:
            check_name(name)
        except ValueError as error:
            raise CommandError(f"--id: {str(error).replace('a topology', 'a supervisor')}") from error
        if not all(label and label.isprintable() and len(label) <= 100 for label in labels):
            raise CommandError("--label: a label has 1 to 100 printable characters")
        take_credentials()
        check_open_files(slots)
        configure_daemon(log_level, log_format)
        more = ("--log-level", log_level, "--log-format", log_format)
        given = SupervisorOptions(
            name,
            slots,
            take_node_options(options),
            frozenset(labels),
            __version__,
            more,
            LogRetention(keep_logs_s, log_quota_bytes),
            memory_bytes,
            cores,
            cgroup,
            keep_free_bytes,
        )
        code = run_supervisor(take_cluster_options(options), given)
    sys.exit(code)
