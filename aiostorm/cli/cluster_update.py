"""The program of `aiostorm update` for a topology of a cluster.

1. The order is in the store when it returns. It waits a little for the topology, to say whether that could take it.
2. A name that the cluster does not have is left to the runs of this machine.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from ..cluster import NoClusterError
from ..topology import Config
from .cluster import run
from .errors import CommandError
from .importing import print_ignored

if TYPE_CHECKING:
    from ..cluster import Cluster, TopologyInfo
    from .options import ClusterOptions

LOOK_S: Final = 0.2


class Asked(NamedTuple):
    """What was asked for. `wait_s`: how long to wait until a topology that runs has taken the settings over."""

    name: str
    settings: tuple[str, ...]
    file: Path | None
    wait_s: float
    as_json: bool


def update_in_cluster(place: ClusterOptions, asked: Asked, *, only: bool) -> bool:
    """Change settings of this topology, if the cluster has it. `only`: it must. ConfigError, and those of Cluster."""
    if "@" in asked.name and not only:  # a process of this machine
        return False
    there = True

    async def work(cluster: Cluster) -> int:
        nonlocal there
        before = await (cluster.topology(asked.name) if only else cluster.find(asked.name))
        there = before is not None
        if before is not None:
            await _update(cluster, before, asked)
        return 0

    try:
        run(place, work)
    except NoClusterError:
        if only:
            raise
        return False
    return there


async def _update(cluster: Cluster, before: TopologyInfo, asked: Asked) -> None:
    name, wanted = before.name, Config.load(asked.file, {}, asked.settings)
    print_ignored(wanted)
    number = await cluster.update(name, wanted)
    found, holds = await _taken(cluster, name, number, asked.wait_s)
    if refused := found.refused_update(number) if number != before.record.update else "":
        raise CommandError(f"{name} cannot take this over, and goes on as before: {refused}")
    old, new = ({**info.record.config, **info.record.updates} for info in (before, found))
    changed = {key: (old.get(key), value) for key, value in sorted(new.items()) if key not in old or old[key] != value}
    if asked.as_json:
        pairs: dict[str, Any] = {key: {"before": was, "after": now} for key, (was, now) in changed.items()}
        click.echo(json.dumps({"topology": name, "update": number, "holds": holds, "changed": pairs}, indent=2))
        return
    for key, (was, now) in changed.items():
        shown = f"{key}: {json.dumps(now)}" if key not in old else f"{key}: {json.dumps(was)} → {json.dumps(now)}"
        click.echo(shown)
    if not changed:
        click.echo("no changes: all settings already have these values")
    elif not holds:
        click.echo(f"{name} is {found.state}: they hold when it runs", err=True)


async def _taken(cluster: Cluster, name: str, number: int, wait_s: float) -> tuple[TopologyInfo, bool]:
    """The topology when it has dealt with this update, does not run, or the time is over. Has it?"""
    loop = asyncio.get_running_loop()
    until_s = loop.time() + wait_s
    while True:
        found = await cluster.topology(name)
        holds = found.updated >= number
        if holds or found.running_generation is None or loop.time() >= until_s:
            return found, holds
        await asyncio.sleep(LOOK_S)
