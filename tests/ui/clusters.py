"""A page of a cluster for tests: a store in a file with the records of daemons that do not run, and logs."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import aiohttp

from aiostorm import Cluster, LocalCluster
from aiostorm.cluster import Home
from aiostorm.cluster.coordination import Coordination, Create, Put, open_coordination
from aiostorm.cluster.nimbus import (
    ASSIGNMENTS,
    NIMBUSES,
    PARENTS,
    SUPERVISORS,
    TOPOLOGIES,
    AssignmentRecord,
    ParentRecord,
    SupervisorRecord,
    TopologyRecord,
    make_folders,
    pack,
    path_of,
    unpack,
)
from aiostorm.runtime import LoopClock
from aiostorm.ui import Dashboard, ManagedCluster

from .parts import Served

LEADER = b'{"host": "host-1", "pid": 11, "started": 1000.5}'
OTHER = b'{"id": "n2", "host": "host-2", "pid": 22, "started": 2000.5}'


@dataclass
class StoredCluster(Served):
    """A page of a cluster, and its store."""

    home: Home
    client: Coordination

    async def record(self, name: str) -> TopologyRecord:
        """What is wanted of a topology."""
        node = await self.client.get(path_of(TOPOLOGIES, name))
        assert node is not None
        return unpack(TopologyRecord, TOPOLOGIES, node.value)

    def log(self, topology: str, process: str) -> Path:
        """The output of a process; its folder is made."""
        path = self.home.log(topology, process)
        path.parent.mkdir(parents=True, exist_ok=True)
        return path


async def fill(client: Coordination, name: str = "orders", node: str = "node-a") -> None:
    """Two nimbuses, two nodes, a topology that runs, and one that waits."""
    await make_folders(client)
    wanted = TopologyRecord("jobs:orders", workers=2, submitted_by="me@host-1", submitted_s=3000.0)
    wanted = replace(wanted, parallelism={"split": 2}, pins={"detect": frozenset({"gpu", "big"})})
    waits = TopologyRecord("jobs:large", workers=99, submitted_by="me@host-1", submitted_s=4000.0)
    await client.commit(
        [
            Create("/leader", LEADER),
            Create("/leader/holder", LEADER, ephemeral=True),
            Create(f"{NIMBUSES}/1", LEADER, ephemeral=True),
            Create(f"{NIMBUSES}/2", OTHER, ephemeral=True),
            Create(
                path_of(SUPERVISORS, node), pack(SupervisorRecord("host-1", "10.0.0.1", 2, "0.1", frozenset({"gpu"})))
            ),
            Create(path_of(SUPERVISORS, "node-b"), pack(SupervisorRecord("host-2", "10.0.0.2", 4, "0.1"))),
            Create(path_of(TOPOLOGIES, name), pack(wanted)),
            Create(path_of(TOPOLOGIES, "large"), pack(waits)),
            Create(path_of(ASSIGNMENTS, name), pack(AssignmentRecord(1, node, (node, "node-b")))),
            Create(path_of(PARENTS, name), pack(ParentRecord(node, 1, 33, "host-1", "ACTIVE", "worker-2 is away"))),
        ]
    )


@contextlib.asynccontextmanager
async def stored_cluster(**options: Any) -> AsyncIterator[StoredCluster]:
    """A page of a cluster."""
    with tempfile.TemporaryDirectory(prefix="h") as folder:
        home = Home(Path(folder))
        home.make()
        async with open_coordination(home.store_url, LoopClock()) as client:
            await fill(client)
            managed = ManagedCluster(lambda by: Cluster(home=home, ordered_by=by), home, home.store_url)
            dashboard = Dashboard("127.0.0.1:0", **options)
            async with LocalCluster() as cluster, aiohttp.ClientSession() as session:
                await dashboard.start(cluster, managed)
                try:
                    yield StoredCluster(cluster, dashboard, session, home, client)
                finally:
                    await dashboard.stop()


__all__ = ["LEADER", "OTHER", "Put", "StoredCluster", "fill", "stored_cluster"]
