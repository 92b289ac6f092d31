"""The programs of the commands of a cluster: submit, list, show, activate, deactivate, rebalance, kill, nodes.

1. Each opens the store, orders or looks, and ends. Nothing but what it waits for keeps it.
2. Exit codes: 0 done; 1 a topology has failed, or does not run in time; 2 it cannot be done; 69 there is no cluster,
   its store cannot be reached, or no nimbus leads which would carry the order out.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from ..cluster import Cluster, NoClusterError, NotRunningError
from .cluster_view import (
    list_text,
    nodes_document,
    nodes_text,
    revoked_text,
    runs_text,
    show_text,
    tokens_text,
    topology_document,
)
from .errors import CommandError, UnavailableCommandError
from .logs import log_to

if TYPE_CHECKING:
    from ..topology import Config
    from .options import ClusterOptions

STILL_S: Final = 5.0
"""How often a command that waits says so."""

LEADER_S, LEADER_LOOK_S = 5.0, 0.2
"""How long, and how often, it is looked for a leader."""

CLUSTER_S, CLUSTER_LOOK_S = 30.0, 0.2
"""How long at most, and how often, it is looked for a cluster, and its leader, to which a topology is submitted."""


@dataclass(frozen=True, slots=True)
class Submission:
    """What is to be submitted (see Cluster.submit). `wait_s`: how long to wait until it runs.

    `replace`: the topology whose code is replaced; empty: it is a new one.
    """

    target: str
    arguments: tuple[str, ...]
    name: str
    config: Config
    code: Path | None = None
    files: tuple[Path, ...] = ()
    workers: int | None = None
    parallelism: Mapping[str, int] = field(default_factory=dict)
    replace: str = ""
    labels: tuple[str, ...] = ()
    pins: Mapping[str, frozenset[str]] = field(default_factory=dict)
    fewer: bool = False
    worker_memory_bytes: int = 0
    worker_cores: float = 0.0
    active: bool = True
    check: bool = True
    check_timeout_s: float = 30.0
    wait_s: float = 30.0


@dataclass(frozen=True, slots=True)
class Rebalance:
    """What is to be changed (see Cluster.rebalance). `wait_s`: how long to wait until it runs so."""

    workers: int | None = None
    parallelism: Mapping[str, int] = field(default_factory=dict)
    pins: Mapping[str, frozenset[str]] = field(default_factory=dict)
    drain_s: float | None = None
    wait_s: float = 60.0
    check: bool = True


def run(options: ClusterOptions, work: Callable[[Cluster], Awaitable[int]], *, within_s: float = 0.0) -> int:
    """Open the cluster and do this. The exit code; CommandError.

    `within_s`: how long to wait for a cluster where there is none: its daemons may have been started a moment ago.
    """

    async def once() -> int:
        cluster_of = Cluster(
            options.store,
            home=options.home,
            token_file=options.token_file,
            ca=options.ca,
            certificate=options.certificate,
        )
        async with cluster_of as cluster:
            return await work(cluster)

    async def opened() -> int:
        loop = asyncio.get_running_loop()
        until_s, said = loop.time() + within_s, False
        while True:
            try:
                return await once()
            except NoClusterError as error:
                if loop.time() >= until_s:
                    raise
                if not said:
                    click.echo(f"{error}; waits {within_s:g} s for that", err=True)
                said = True
            await asyncio.sleep(CLUSTER_LOOK_S)

    handler = logging.StreamHandler()
    log_to(handler, "warning")
    handler.setFormatter(logging.Formatter("Warning: %(message)s"))
    try:
        return asyncio.run(opened())
    except ValueError as error:
        raise CommandError(str(error)) from error
    except NotRunningError as error:
        click.echo(f"Error: {error}", err=True)
        return 1


async def submit(cluster: Cluster, given: Submission, *, as_json: bool) -> int:
    """Hand a topology over, and wait until it runs."""
    found = await cluster.submit(
        given.replace or given.name,
        given.target,
        given.config,
        arguments=given.arguments,
        code=given.code,
        files=given.files,
        workers=given.workers,
        parallelism=given.parallelism,
        replace=bool(given.replace),
        labels=given.labels,
        pins=given.pins,
        fewer=given.fewer,
        worker_memory_bytes=given.worker_memory_bytes,
        worker_cores=given.worker_cores,
        initial="ACTIVE" if given.active else "INACTIVE",
        check=given.check,
        check_timeout_s=given.check_timeout_s,
    )
    if not given.wait_s:
        _print(f"{found.name} is submitted", topology_document(found), as_json=as_json)
        return 0
    await _check_leader(cluster, found.name, min(given.wait_s, CLUSTER_S))
    click.echo(f"{found.name} is submitted; waits until it runs", err=True)
    return await _wait_running(cluster, found.name, given.wait_s, found.generation, as_json=as_json)


async def list_topologies(cluster: Cluster, *, as_json: bool) -> int:
    """All topologies."""
    found = await cluster.topologies()
    _print(list_text(found), {"topologies": [topology_document(each) for each in found]}, as_json=as_json)
    return 0


async def show(cluster: Cluster, name: str, *, as_json: bool) -> int:
    """One topology."""
    found, errors = await cluster.topology(name), await cluster.errors(name)
    _print(show_text(found, errors), topology_document(found, errors), as_json=as_json)
    return 0


async def nodes(cluster: Cluster, *, as_json: bool) -> int:
    """Who leads, and the supervisors."""
    leader, found = await cluster.leader(), await cluster.nodes()
    _print(nodes_text(leader, found), nodes_document(leader, found), as_json=as_json)
    return 0


async def list_tokens(cluster: Cluster, *, as_json: bool) -> int:
    """The tokens, as nimbus has them."""
    click.echo(tokens_text(await cluster.tokens(), as_json=as_json))
    return 0


async def revoke_token(cluster: Cluster, name: str) -> int:
    """Revoke a token."""
    await cluster.revoke_token(name)
    return 0


async def revoke_certificate(cluster: Cluster, sha256: str, ends_s: float) -> int:
    """Revoke the certificate of a client. `ends_s`: Unix time of its end; 0: not known."""
    await cluster.revoke_certificate(sha256, ends_s)
    return 0


async def list_revoked(cluster: Cluster, *, as_json: bool) -> int:
    """The certificates that were revoked."""
    click.echo(revoked_text(await cluster.revoked_certificates(), as_json=as_json))
    return 0


async def set_active(cluster: Cluster, name: str, *, active: bool, as_json: bool) -> int:
    """Activate or deactivate a topology."""
    await (cluster.activate(name) if active else cluster.deactivate(name))
    word = "active" if active else "inactive"
    _print(f"{name} is to be {word}", topology_document(await cluster.topology(name)), as_json=as_json)
    return 0


async def rebalance(cluster: Cluster, name: str, given: Rebalance, *, as_json: bool) -> int:
    """Spread a topology anew, and wait until it runs so."""
    generation = await cluster.rebalance(
        name,
        given.workers,
        parallelism=given.parallelism,
        pins=given.pins,
        drain_s=given.drain_s,
        check=given.check,
    )
    if not given.wait_s:
        _print(f"{name} is to be rebalanced", topology_document(await cluster.topology(name)), as_json=as_json)
        return 0
    return await _wait_running(cluster, name, given.wait_s, generation, as_json=as_json)


async def _wait_running(cluster: Cluster, name: str, wait_s: float, generation: int, *, as_json: bool) -> int:
    await _check_leader(cluster, name)
    running = await cluster.wait_running(name, wait_s, generation=generation)
    if running is None or running.wanted == "KILLED":
        _print(f"{name} has ended", {"name": name, "state": "ENDED"}, as_json=as_json)
    else:
        _print(runs_text(running), topology_document(running), as_json=as_json)
    return 0


async def kill(cluster: Cluster, name: str, drain_s: float | None, *, as_json: bool) -> int:
    """End a topology, and wait until it has ended."""
    await cluster.kill(name, drain_s)
    await _check_leader(cluster, name)
    waited_s = 0.0
    try:
        click.echo(f"{name} is ending; Ctrl-C leaves it to that", err=True)
        while True:
            try:
                await cluster.wait_ended(name, STILL_S)
            except TimeoutError:
                waited_s += STILL_S
                click.echo(f"{name} is ending, for {waited_s:.0f} s", err=True)
            else:
                break
    except asyncio.CancelledError:
        click.echo(f"{name} goes on ending; `aiostorm list` shows it until it has ended", err=True)
        raise
    _print(f"{name} has ended", {"name": name, "state": "ENDED"}, as_json=as_json)
    return 0


async def _check_leader(cluster: Cluster, name: str, within_s: float = LEADER_S) -> None:
    """Wait a little for a leader: nimbus may have been started a moment ago, or another one takes over."""
    until_s = asyncio.get_running_loop().time() + within_s
    while await cluster.leader() is None:
        if asyncio.get_running_loop().time() >= until_s:
            break
        await asyncio.sleep(LEADER_LOOK_S)
    else:
        return
    raise UnavailableCommandError(
        f"no nimbus leads now: what is ordered of {name} is kept, and carried out when one does (aiostorm nimbus)"
    )


def _print(text: str, document: Any, *, as_json: bool) -> None:
    click.echo(json.dumps(document, indent=2, ensure_ascii=False) if as_json else text, file=sys.stdout)
