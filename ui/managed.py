"""Managed: the cluster whose store a page reads, and to which it gives orders.

1. A session with the store lasts for one question: while no page is open, nothing is asked.
2. All pages share an answer for FRESH_S: a hundred viewers read the store as often as one.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Final, NamedTuple

from ..runtime import LoopClock
from .cluster_model import ClusterTopology, NimbusRow, NodeProcess, NodeRow

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from ..cluster import Cluster, Home, NodeInfo, TopologyInfo
    from ..cluster.client import OrderedBy
    from ..runtime import Clock

FRESH_S: Final = 1.0


class Look(NamedTuple):
    """What the store said."""

    nimbuses: tuple[NimbusRow, ...]
    nodes: tuple[NodeInfo, ...]
    topologies: tuple[TopologyInfo, ...]


class ManagedCluster:
    """A cluster. `home`: its folder on this machine. `store`: its address.

    `open_cluster`: makes a client, for the orders of someone, or to look only.
    """

    def __init__(
        self,
        open_cluster: Callable[[OrderedBy | None], AbstractAsyncContextManager[Cluster]],
        home: Home,
        store: str,
        clock: Clock | None = None,
    ) -> None:
        self.open_cluster = open_cluster
        self.home = home
        self.store = store
        self._clock = clock or LoopClock()
        self._one = asyncio.Lock()
        self._last: Look | None = None
        self._last_s = 0.0

    async def look(self) -> Look:
        """What is there, at most FRESH_S old. NoClusterError, UnavailableError."""
        async with self._one:
            if self._last is None or self._clock.monotonic() - self._last_s >= FRESH_S:
                async with self.open_cluster(None) as cluster:
                    topologies, nodes = await cluster.topologies(), await cluster.nodes()
                    leader, there = await cluster.leader(), await cluster.nimbuses()
                self._last = Look(nimbus_rows(leader, there), tuple(nodes), tuple(topologies))
                self._last_s = self._clock.monotonic()
            return self._last

    def forget(self) -> None:
        """Something was ordered: the next look reads the store."""
        self._last = None

    async def topology(self, name: str) -> TopologyInfo | None:
        """One topology; None: there is none."""
        return next((each for each in (await self.look()).topologies if each.name == name), None)

    def logs(self, topology: str) -> Path:
        """The folder of the output of the processes of a topology of the cluster."""
        return self.home.logs(topology)


def nimbus_rows(leader: str | None, there: Collection[str]) -> tuple[NimbusRow, ...]:
    """All that are there, who leads first. A text that is none of ours is a name."""
    others = sorted(set(there) - {leader})
    texts = others if leader is None else [leader, *others]
    return tuple(_nimbus(text, leads=text == leader) for text in texts)


def _nimbus(text: str, *, leads: bool) -> NimbusRow:
    try:
        known = json.loads(text)
        name = str(known.get("id") or known["host"])
        return NimbusRow(name, str(known["host"]), int(known["pid"]), float(known.get("started", 0.0)), leads)
    except (ValueError, KeyError, TypeError, AttributeError):
        return NimbusRow(text[:200], "", 0, 0.0, leads)


def node_row(node: NodeInfo) -> NodeRow:
    """A node as the page shows it."""
    names = NodeRow.__dataclass_fields__
    return NodeRow(**{name: value for name, value in asdict(node).items() if name in names})


def topology_row(info: TopologyInfo, tasks: Mapping[str, int] | None) -> ClusterTopology:
    """A topology as the page shows it. `tasks`: of all its components; None: it has no pages here."""
    record = info.record
    return ClusterTopology(
        name=info.name,
        state=info.state,
        wanted=info.wanted,
        workers=info.workers,
        placed=max(0, len(info.where) - 1),
        generation=info.generation,
        running_generation=info.running_generation,
        where=info.where,
        degraded=info.degraded,
        waiting=info.waiting,
        target=record.target,
        submitted_by=record.submitted_by,
        submitted_s=info.submitted_s,
        started_s=info.started_s,
        shown=tasks is not None,
        tasks={**(tasks or {}), **record.parallelism},
        pins={name: tuple(sorted(labels)) for name, labels in sorted(record.pins.items())},
        taken_back=info.refused(0),
    )


def processes_on(
    node: str, topologies: Collection[TopologyInfo], has_log: Callable[[str, str], bool]
) -> list[NodeProcess]:
    """What is assigned to a node, by topology."""
    return [
        NodeProcess(each.name, process, each.state, each.generation, has_log(each.name, process))
        for each in topologies
        for process, on in each.where.items()
        if on == node
    ]
