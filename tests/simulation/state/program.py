"""The program of the world of state: a parent that runs the topology to its end, in its process or on workers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from aiostorm import LocalCluster, Topology
from aiostorm.testing.simulation.process import Process

from ..backend import WorldBackend, shared_store
from .shapes import Shape

PARENT = "parent"
TARGET = f"{__name__}:current"
PLACE = "memory://state"

SCALED = 0.5
"""So many of the starts are with other numbers of tasks."""

_topologies: list[Topology] = []


def current() -> Topology:
    """The topology of the world that runs: what workers import."""
    return _topologies[-1]


@contextlib.contextmanager
def importable(topology: Topology) -> Iterator[None]:
    """In the block it is what workers import."""
    _topologies.append(topology)
    try:
        yield
    finally:
        _topologies.pop()


class Program:
    """What the parent runs, in each incarnation. `results`: of the topology that has finished; None before."""

    def __init__(self, shape: Shape, workers: int) -> None:
        self.shape = shape
        self.workers = workers
        self.results: dict[str, list[Any]] | None = None
        self.process: Process

    async def main(self, process: Process) -> None:
        chance = process.world.chance.stream(f"tasks of start {process.incarnation}")
        if process.incarnation > 1 and chance.random() < SCALED:
            _topologies[-1] = self.shape.rescaled(chance)
        backend = WorldBackend(process) if self.workers else None
        async with LocalCluster(
            workers=self.workers,
            backend=backend,
            rng=process.rng,
            open_store=lambda place: shared_store(process, place),
        ) as cluster:
            running = await cluster.submit("exact", TARGET if self.workers else current())
            await running.wait_finished()
            results = await running.results()
        if process.alive:
            self.results = results

    def problems_at_the_end(self) -> Iterator[str]:
        """What differs from the fold: states, and what the sinks have committed."""
        results = self.results or {}
        for component, expected in self.shape.fold.states().items():
            found: Any = results.get(component)
            if isinstance(expected, int) and found is not None:
                found = sum(found)
            elif isinstance(expected, dict):
                if self.shape.fold.nodes[component].style == "function":  # it gives no results
                    continue
                found = {key: count for part in found or () for key, count in part}
            if found != expected:
                yield f"the state of {component} is {found}, and should be {expected}"
        yield from self.shape.outside.database.problems_at_the_end()
