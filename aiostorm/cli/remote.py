"""The program of `aiostorm ui`: the page of topologies that run in other programs of this user, and of a cluster.

    control folder ─ each second ─► RemoteTopologies ─► Dashboard ─► browsers

1. It ends with Ctrl-C only: a topology that has ended stays to be looked at, and one that begins is shown.
2. What begins and ends is said on the standard error, and why something cannot be shown.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import click

from ..cluster import Cluster, RemoteTopologies, find
from ..cluster.coordination import is_there
from ..topology import printable
from ..transport import Security, open_network
from .errors import CommandError

if TYPE_CHECKING:
    from ..ui import Dashboard, ManagedCluster
    from .options import ClusterOptions

PERIOD_S: Final = 1.0


def run_ui(name: str, dashboard: Dashboard, options: ClusterOptions) -> None:
    """Serve the page until it is interrupted. CommandError and ControlError if a topology that is named cannot be."""
    asyncio.run(_serve(name, dashboard, options))


async def managed_cluster(options: ClusterOptions) -> ManagedCluster | None:
    """The cluster of these options; None: none was started here. CommandError for a URL that is none."""
    try:
        if not await asyncio.to_thread(is_there, options.store):
            return None
    except ValueError as error:
        raise CommandError(f"--store: {error}") from error
    from ..ui import ManagedCluster

    return ManagedCluster(
        lambda by: Cluster(options.store, home=options.home, ordered_by=by), options.home, options.store
    )


async def _serve(name: str, dashboard: Dashboard, options: ClusterOptions) -> None:
    managed = await managed_cluster(options)
    async with open_network("client", Security()) as network:
        if name:
            find(name)
        remote = RemoteTopologies(network, name)
        problems = await remote.scan()
        if name and not remote.topologies:
            raise CommandError("; ".join(problems) or f"{name} has ended")
        await dashboard.start(remote, managed)
        try:
            shown = ", ".join(str(one.target) for one in remote.topologies.values()) or "nothing yet: none runs"
            shown += "" if managed is None else f"; and the cluster of {managed.store}"
            _say(f"The page is at {dashboard.url} and shows {shown}. Ctrl-C ends this command, not what it shows.")
            await _watch(remote, problems)
        finally:
            await dashboard.stop()


async def _watch(remote: RemoteTopologies, problems: list[str]) -> None:
    """Follow what begins and ends; read what a page looks at."""
    for problem in problems:
        _say(problem)
    known = set(remote.topologies.values())
    while True:
        await asyncio.sleep(PERIOD_S)
        for words in await remote.scan():
            _say(f"{words}; the page shows how it was last" if words.endswith("has ended") else words)
        now = set(remote.topologies.values())
        for one in now - known:
            _say(f"{one.target} is shown, too")
        known = now
        await remote.refresh(PERIOD_S / 2, looked_at=True)


def _say(text: str) -> None:
    click.echo(printable(text), err=True)
