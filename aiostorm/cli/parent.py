"""The program of `aiostorm parent`: a submitted topology, with the folders of this machine's home.

Its workers listening it by a socket in the home folder; or, with a host, at any port of that, from other nodes, too.
"""

from __future__ import annotations

import asyncio
import logging
import os
import platform
import sys
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from ..cluster import ControlSocket, Home, LocalCluster, ProcessBackend
from ..cluster.coordination import CoordinationError, open_coordination
from ..cluster.nimbus import NO_STORE
from ..cluster.submitted import ParentPlace, ParentProcess, SubmittedTopology
from ..cluster.supervisor import Listening
from ..runtime import LoopClock, ProcessIdentity, loop_factory
from ..topology import Config

if TYPE_CHECKING:
    from ..cluster.nimbus import ParentRecord, TopologyRecord
    from .options import NodeOptions
    from .signals import Interrupts

log = logging.getLogger("aiostorm.parent")


@dataclass(frozen=True, slots=True)
class ParentOptions:
    """Of `aiostorm parent`. `folder`: the home folder; `node`: how other nodes listening this one."""

    name: str
    folder: Path
    store: str
    supervisor: str
    node: NodeOptions


def run_parent(given: ParentOptions, interrupts: Interrupts) -> int:
    """Run the topology until it has ended in order: returns the exit code then. Else the process ends here."""
    interrupts.first_message = lambda: f"{given.name}: its parent ends; its workers go on"
    interrupts.last_message = lambda: f"{given.name}: ends now"
    with interrupts, asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(_run(given, interrupts))


async def _run(given: ParentOptions, interrupts: Interrupts) -> int:
    stop = interrupts.listen()
    clock = LoopClock()
    name, home, host = given.name, Home(given.folder), given.node.host
    security = given.node.security(home).derived(name)
    place = ParentPlace(given.supervisor, platform.node(), os.getpid(), str(ProcessIdentity.own()))

    def make_cluster(
        topology: TopologyRecord, workers: Collection[str], abandoned: Callable[[str, int], None]
    ) -> LocalCluster:
        if topology.blob:
            sys.path.insert(0, str(home.code(topology.blob)))
        home.sockets(name).mkdir(mode=0o700, parents=True, exist_ok=True)
        address = Listening(host).listen if host else home.socket(name, "parent")
        backend = ProcessBackend(address, security.credentials, security.tls, insecure=security.insecure)
        # Where it may go on at another node, no folder of this one holds its snapshots.
        base = Config() if host else Config(state_dir=str(home.state(name)))
        return LocalCluster(base, remote_workers=list(workers), backend=backend, on_abandoned=abandoned)

    code = NO_STORE
    try:
        async with open_coordination(given.store, clock) as coordination:
            process = ParentProcess(make_cluster, _leave, lambda running: ControlSocket(running).serve(), _has_ended)
            code = await SubmittedTopology(name, coordination, clock, place, process).run(stop)
    except* CoordinationError as group:
        log.error("%s: %s", name, group.exceptions[0])
    return code


def _has_ended(record: ParentRecord) -> bool:
    return record.host == platform.node() and bool(record.process) and ProcessIdentity.parse(record.process).has_ended


def _leave(code: int) -> NoReturn:
    """End this process now: nothing is sent to its workers, which go on."""
    logging.shutdown()
    os._exit(code)
