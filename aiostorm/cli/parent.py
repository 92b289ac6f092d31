"""The program of `aiostorm parent`: a submitted topology, with the sockets and folders of this machine's home."""

from __future__ import annotations

import asyncio
import logging
import os
import platform
import sys
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from ..cluster import ControlSocket, Home, LocalCluster, ProcessBackend
from ..cluster.coordination import CoordinationError, open_coordination
from ..cluster.submitted import NO_STORE, ParentPlace, ParentProcess, SubmittedTopology
from ..runtime import LoopClock, ProcessIdentity, loop_factory
from ..topology import Config
from ..transport import Credentials

if TYPE_CHECKING:
    from ..cluster.nimbus import ParentRecord, TopologyRecord
    from .signals import Interrupts

log = logging.getLogger("aiostorm.parent")


def run_parent(name: str, folder: Path, store: str, supervisor: str, interrupts: Interrupts) -> int:
    """Run the topology until it has ended in order: returns the exit code then. Else the process ends here."""
    interrupts.first_message = lambda: f"{name}: its parent ends; its workers go on"
    interrupts.last_message = lambda: f"{name}: ends now"
    with interrupts, asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(_run(name, Home(folder), store, supervisor, interrupts))


async def _run(name: str, home: Home, store: str, supervisor: str, interrupts: Interrupts) -> int:
    stop = interrupts.listen()
    clock = LoopClock()
    credentials = Credentials.from_file(home.credentials)
    place = ParentPlace(supervisor, platform.node(), os.getpid(), str(ProcessIdentity.own()))

    def make_cluster(
        topology: TopologyRecord, workers: Collection[str], abandoned: Callable[[str, int], None]
    ) -> LocalCluster:
        if topology.blob:
            sys.path.insert(0, str(home.code(topology.blob)))
        home.sockets(name).mkdir(mode=0o700, parents=True, exist_ok=True)
        backend = ProcessBackend(home.socket(name, "parent"), credentials)
        base = Config(state_dir=str(home.state(name)))
        return LocalCluster(base, remote_workers=list(workers), backend=backend, on_abandoned=abandoned)

    code = NO_STORE
    try:
        async with open_coordination(store, clock) as coordination:
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
