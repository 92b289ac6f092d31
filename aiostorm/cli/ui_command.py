"""`aiostorm ui`: show topologies that run in other programs in a browser."""

from __future__ import annotations

from typing import Any

import click

from .errors import errors
from .options import cluster_options, debug_option, security_options, take_cluster_options
from .page import DEFAULT, PageCommand, page_options, take_page_options


@click.command(
    cls=PageCommand,
    epilog="Exit codes: 2 not reachable, 78 open to others, 130 Ctrl-C.",
)
@click.argument("name", default="")
@page_options
@cluster_options
@security_options
@debug_option
def ui(name: str, debug: bool, **options: Any) -> None:
    """Show topologies that run in other programs in a browser, until Ctrl-C.

    NAME, or NAME@PID if two have the same name; without a name all of yours that run, also those that begin later.
    They need no option for it, and are asked for nothing while no page is open. A topology that has ended stays on
    the page as it was last, until one with its name runs again.

    Where a cluster was started (aiostorm nimbus), or with --home or --store, there are pages of it, too: its nodes, all
    topologies wherever they run, and the output of their processes on this machine. They change what the commands of a
    cluster change: --ui-read-only leaves that out.

    \b
      aiostorm ui
      aiostorm ui orders --ui 9000
      aiostorm ui --store zk://zk1,zk2/aiostorm
    """
    pages = take_page_options(options)
    place = take_cluster_options(options)
    with errors(debug=debug):
        from .remote import run_ui

        dashboard = pages._replace(address=pages.address or DEFAULT).dashboard(options)
        if dashboard is not None:
            run_ui(name, dashboard, place)
