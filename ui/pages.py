"""Pages: the topologies that a server shows, each with its feed. What the handlers know."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from ..cluster import RemoteTopology, State
from .feed import Feed
from .logs import LogRing
from .reading import graph_of, targets_of, tick_of
from .recent import Recent

if TYPE_CHECKING:
    from .guard import Guard
    from .managed import ManagedCluster
    from .model import Graph
    from .reading import Shown

Topologies = Callable[[], Mapping[str, "Shown"]]
"""The running topologies, by name."""

STALE_S: Final = 1.2
"""What is known of a topology of another program is read again before it is shown, if it is older."""

OVER = (State.KILLED, State.FAILED)


class Watched:
    """One running topology, its drawing and its feed."""

    def __init__(self, running: Shown) -> None:
        self.running = running
        self.graph: Graph = graph_of(running)
        targets, recent = targets_of(running.topology), Recent()
        self.feed = Feed(
            tuple(running.topology.components),
            lambda second, at_s: tick_of(running, second, _read_at_s(running, at_s), targets, recent),
            lambda: running.state in OVER,
        )


class Pages:
    """What a server shows. `cluster`: the one that it is of, if any.

    A topology is kept as long as it runs; another one with its name is another one.
    """

    def __init__(self, topologies: Topologies, guard: Guard, cluster: ManagedCluster | None = None) -> None:
        self.guard = guard
        self.cluster = cluster
        self._topologies = topologies
        self.logs = LogRing()
        self._watched: dict[str, Watched] = {}

    def topologies(self) -> list[Shown]:
        """Those that run, by name. A topology that still starts has no tasks to show, but is listed."""
        running = self._topologies()
        for name, watched in list(self._watched.items()):
            if running.get(name) is not watched.running:
                watched.feed.close()
                del self._watched[name]
        return [running[name] for name in sorted(running)]

    def watched(self, name: str) -> Watched | None:
        """The topology with this name; None if there is none."""
        found = {running.name: running for running in self.topologies()}.get(name)
        if found is None:
            return None
        if name not in self._watched:
            self._watched[name] = Watched(found)
        return self._watched[name]

    async def refresh(self, name: str = "") -> None:
        """Read a topology of another program again, or all of them; those of this one are read when they are shown."""
        found = self._topologies()
        wanted = [found[name]] if name in found else () if name else found.values()
        async with asyncio.TaskGroup() as group:
            for one in wanted:
                if isinstance(one, RemoteTopology):
                    group.create_task(one.refresh(STALE_S), name=f"read {one.name}")

    def close(self) -> None:
        """End all feeds."""
        for watched in self._watched.values():
            watched.feed.close()


def _read_at_s(running: Shown, now_s: float) -> float:
    """When it was as it is shown: rates are wrong otherwise."""
    return running.read_at_s if isinstance(running, RemoteTopology) else now_s
