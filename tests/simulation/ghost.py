"""The ghost: an independent model of every tuple tree. Sets of names; it knows nothing of XOR, edges or segments.

    emission (source, message, attempt) ─► nodes that somebody has still to execute ─► none: it may be acked

1. Each emitted row has a node of its own; it is open once for each consumer (for all-grouping: for each task of it).
2. A node is closed when its tuple was executed to its end (rich bolts: acked). What it emitted was opened before.
3. An emission is acked only when all its nodes are closed and none of them failed; after that none of it is executed.
4. What one task sends another on a stream arrives in the order in which it was emitted (nodes are numbered).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Self

from aiostorm import Topology
from aiostorm.testing.simulation import World

Emission = tuple[str, int, int]
Ids = tuple[Emission, ...]
FIELDS = ("ids", "n", "hops", "node")


@dataclass(slots=True)
class Tree:
    open: set[tuple[int, str, int]] = field(default_factory=set)
    failed: bool = False
    acked: bool = False


class Ghost:
    """Of one simulated run. Components tell it what they do; it tells the world what was not kept."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.trees: dict[Emission, Tree] = {}
        self.executed = 0
        self.acked = 0
        self._consumers: dict[tuple[str, str], list[tuple[str, int]]] = {}
        self._nodes = itertools.count(1)
        self._last: dict[tuple[Any, ...], int] = {}

    def __deepcopy__(self, memo: Any) -> Self:
        return self

    def watch(self, topology: Topology) -> None:
        """Who consumes what: copies is 0 for one task of a consumer, else the number of its tasks."""
        for spec in topology.components.values():
            for given in spec.inputs:
                copies = spec.parallelism if given.kind == "all" else 0
                source = (given.source.component, given.source.stream)
                self._consumers.setdefault(source, []).append((spec.id, copies))

    def emit(self, component: str, ids: Ids, stream: str = "default") -> int:
        """A row is emitted, anchored to these emissions; its node."""
        node = next(self._nodes)
        for emission in ids:
            tree = self.trees.setdefault(emission, Tree())
            for consumer, copies in self._consumers.get((component, stream), ()):
                tree.open.update((node, consumer, copy) for copy in range(max(1, copies)))
        return node

    def arrived(self, component: str, index: int, tup: Any) -> None:
        """A task begins to execute a tuple: does it come in order?"""
        node = tup["node"]
        way = (self.world.current.incarnation, tup.source_task, tup.stream, component, index)
        if node <= self._last.get(way, 0) and self.world.current.alive:
            self.world.problem(f"{component}: row {node} of task {way[1]} comes after row {self._last[way]}")
        self._last[way] = node

    def done(self, component: str, index: int, ids: Iterable[Emission], node: int) -> None:
        """A tuple was executed to its end by the `index`-th task of a component."""
        self.executed += 1
        for emission in ids:
            tree = self.trees[emission]
            if tree.acked and self.world.current.alive:
                self.world.problem(f"{component} executes a tuple of {emission} after its ack")
            if (node, component, index) in tree.open:
                tree.open.discard((node, component, index))
            else:
                tree.open.discard((node, component, 0))

    def failed(self, ids: Iterable[Emission]) -> None:
        """A tuple of these failed, or is forgotten: they may not be acked."""
        for emission in ids:
            self.trees[emission].failed = True

    def ack(self, emission: Emission) -> None:
        """The spout is told ACK."""
        if not self.world.current.alive:
            return
        self.acked += 1
        tree = self.trees.get(emission)
        if tree is None:
            return  # nobody consumes it
        if tree.open:
            waiting = ", ".join(f"{who}: row {node}" for node, who, _ in sorted(tree.open)[:3])
            self.world.problem(f"{emission} is acked, but {len(tree.open)} of its tuples were not executed ({waiting})")
        if tree.failed:
            self.world.problem(f"{emission} is acked, but a tuple of it failed or was forgotten")
        tree.acked = True
        tree.open.clear()
