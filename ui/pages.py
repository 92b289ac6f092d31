"""Pages: the topologies that a server shows, each with its feed. What the handlers know."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from ..cluster import State
from .feed import Feed
from .reading import graph_of, targets_of, tick_of
from .recent import Recent

if TYPE_CHECKING:
    from ..cluster import RunningTopology
    from .guard import Guard
    from .model import Graph

Topologies = Callable[[], Mapping[str, "RunningTopology"]]
"""The running topologies, by name."""

OVER = (State.KILLED, State.FAILED)


class Watched:
    """One running topology, its drawing and its feed."""

    def __init__(self, running: RunningTopology) -> None:
        self.running = running
        self.graph: Graph = graph_of(running)
        targets, recent = targets_of(running.topology), Recent()
        self.feed = Feed(
            tuple(running.topology.components),
            lambda second, at_s: tick_of(running, second, at_s, targets, recent),
            lambda: running.state in OVER,
        )


class Pages:
    """What a server shows. A topology is kept as long as it runs; another one with its name is another one."""

    def __init__(self, topologies: Topologies, guard: Guard) -> None:
        self.guard = guard
        self._topologies = topologies
        self._watched: dict[str, Watched] = {}

    def topologies(self) -> list[RunningTopology]:
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

    def close(self) -> None:
        """End all feeds."""
        for watched in self._watched.values():
            watched.feed.close()
