"""A cluster as a feed (see replay): a node that is full, topologies that run, wait, are degraded and end."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from aiostorm.ui.cluster_model import (
    ClusterStatus,
    ClusterTopology,
    NimbusRow,
    NodeDetail,
    NodeProcess,
    NodeRow,
    ProcessLog,
    ProcessLogs,
)

STORE = "zk://zk-1,zk-2,zk-3/aiostorm"
SUBMITTED_S = 1_795_000_000.0

NIMBUSES = (
    NimbusRow("nimbus-1", "machine-1", 811, SUBMITTED_S - 90_000, True),
    NimbusRow("nimbus-2", "machine-2", 640, SUBMITTED_S - 80_000, False),
)
NODES = (
    NodeRow("machine-1", "machine-1", "10.0.0.1", 4, 4, ("orders",), ("gpu", "ssd"), "0.1.0", "orders", "cgroup"),
    NodeRow("machine-2", "machine-2", "10.0.0.2", 4, 2, ("sensors",), (), "0.1.0", "", "rlimit"),
    NodeRow("machine-3", "machine-3", "10.0.0.3", 4, 0, (), ("ssd",), "0.0.9"),
)
WHERE = {"parent": "machine-1", **{f"worker-{i}": f"machine-{1 if i < 4 else 2}" for i in range(1, 5)}}
SENSORS = {"parent": "machine-2", "worker-1": "machine-1", "worker-2": "machine-2"}
WAITS = "40 slots are needed, and 6 are free: start more supervisors; or kill a topology, or ask for 6"


def _topology(name: str, state: str, wanted: str, workers: int, where: dict[str, str], **more: Any) -> ClusterTopology:
    known: dict[str, Any] = {
        "generation": 1,
        "running_generation": 1 if where else None,
        "degraded": "",
        "waiting": "",
        "target": f"jobs.{name}:topology",
        "submitted_by": "ann@desk",
        "submitted_s": SUBMITTED_S,
        "started_s": SUBMITTED_S + 2,
        "shown": False,
    }
    placed = max(0, len(where) - 1)
    return ClusterTopology(
        name=name, state=state, wanted=wanted, workers=workers, placed=placed, where=where, **known | more
    )


TOPOLOGIES = (
    _topology("large", "WAITING", "ACTIVE", 40, {}, waiting=WAITS),
    _topology("old", "ENDING", "KILLED", 1, {"parent": "machine-2", "worker-1": "machine-2"}),
    _topology(
        "orders",
        "ACTIVE",
        "ACTIVE",
        4,
        WHERE,
        degraded="worker-4 is away",
        generation=3,
        running_generation=2,
        tasks={"split": 4, "detect": 2},
        pins={"detect": ("gpu", "ssd")},
    ),
    _topology("sensors", "INACTIVE", "INACTIVE", 2, SENSORS, shown=True),
)
OUTPUT = "".join(f"12:00:{i:02} INFO    aiostorm.worker: worker-1 has done {i * 1000:,} of it\n" for i in range(60))


def cluster_feed(*, read_only: bool = False) -> dict[str, Any]:
    """The documents of a page of that cluster."""
    processes = [
        NodeProcess(each.name, process, each.state, each.generation, each.name == "orders")
        for each in TOPOLOGIES
        for process, on in each.where.items()
        if on == "machine-1"
    ]
    logs = "cluster/topologies/orders/logs"
    output = ProcessLog("orders", "worker-1", OUTPUT, len(OUTPUT), 123_456, False)
    documents: dict[str, Any] = {
        "cluster": ClusterStatus(STORE, read_only, NIMBUSES, NODES, TOPOLOGIES),
        "nodes/machine-1": NodeDetail(NODES[0], tuple(processes)),
        "nodes/machine-3": NodeDetail(NODES[2], ()),
        logs: ProcessLogs("orders", ("parent", "worker-1")),
        f"{logs}/worker-1": output,
        f"{logs}/parent": ProcessLog("orders", "parent", "", 0, 0, False),
    }
    return {
        "topologies": {"version": "0.1.0", "read_only": read_only, "topologies": [], "cluster": True},
        "documents": {},
        "cluster": {path: asdict(each) for path, each in documents.items()},
    }
