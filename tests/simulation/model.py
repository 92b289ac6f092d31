"""The model: an independent model of every tuple tree. Sets of names; it knows nothing of XOR, edges or segments.

    emission (source, message, attempt) ─► nodes that are not executed yet ─► none: it may be acked

1. Each emitted row has a node of its own; it is open once for each consumer (for all-grouping: for each task of it).
2. A node is closed when its tuple was executed to its end (rich bolts: acked). What it emitted was opened before.
3. An emission is acked only when all its nodes are closed and none of them failed; after that none of it is executed.
4. What one task sends another on a stream arrives in the order in which it was emitted (nodes are numbered).
5. A row is executed at most once by each consumer: by one of its tasks, or by each with all-grouping.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from aiostorm import Failure, Topology
from aiostorm.testing.simulation import World

if TYPE_CHECKING:
    from .progress import Hang

Emission = tuple[str, int, int]
Ids = tuple[Emission, ...]
FIELDS = ("ids", "n", "hops", "node")


@dataclass(slots=True)
class Tree:
    open: set[tuple[int, str, int]] = field(default_factory=set)
    failed: bool = False
    acked: bool = False
    over: bool = False
    """The spout received FAIL."""


class Model:
    """The model of one simulated run. Components report what they do; the model reports broken promises."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.trees: dict[Emission, Tree] = {}
        self.executed = 0
        self.acked = 0
        self.touched_s: dict[str, float] = {}
        """Source → when something of it was done last."""
        self.waiting: dict[tuple[int, str, int], tuple[Emission, float]] = {}
        """Rows that were emitted and have not come to a task: one of its emissions, and since when."""
        self.complete: dict[Emission, float] = {}
        """Emissions of which all was executed, not settled yet: since when."""
        self.hang: Hang | None = None
        self.on_failure: Callable[..., None] | None = None
        self._consumers: dict[tuple[str, str], list[tuple[str, int]]] = {}
        self._nodes = itertools.count(1)
        self._last: dict[tuple[Any, ...], int] = {}

    def __deepcopy__(self, memo: Any) -> Self:
        return self

    def watch(self, topology: Topology) -> None:
        """The consumers of each stream: copies is 0 for one task of a consumer, else the number of its tasks."""
        for spec in topology.components.values():
            for given in spec.inputs:
                copies = spec.parallelism if given.kind == "all" else 0
                source = (given.source.component, given.source.stream)
                self._consumers.setdefault(source, []).append((spec.id, copies))

    def emit(self, component: str, ids: Ids, stream: str = "default") -> int:
        """A row is emitted, anchored to these emissions; its node."""
        node = next(self._nodes)
        now_s = self.world.now_s
        opened = [
            (node, consumer, copy)
            for consumer, copies in self._consumers.get((component, stream), ())
            for copy in range(max(1, copies))
        ]
        for emission in ids:
            self.trees.setdefault(emission, Tree()).open.update(opened)
            self.touched_s[emission[0]] = now_s
        if ids:
            self.waiting.update(dict.fromkeys(opened, (ids[0], now_s)))
        return node

    def arrived(self, component: str, index: int, tup: Any) -> None:
        """A task begins to execute a tuple: does it come in order?"""
        node = tup["node"]
        way = (self.world.current.incarnation, tup.source_task, tup.stream, component, index)
        if node <= self._last.get(way, 0) and self.world.current.alive:
            self.world.problem(f"{component}: row {node} of task {way[1]} comes after row {self._last[way]}")
        self._last[way] = node
        self._has_come(component, index, node)

    def _has_come(self, component: str, index: int, node: int) -> None:
        if self.waiting.pop((node, component, index), None) is None:
            self.waiting.pop((node, component, 0), None)

    def done(self, component: str, index: int, ids: Iterable[Emission], node: int) -> None:
        """A tuple was executed to its end by the `index`-th task of a component."""
        self.executed += 1
        self._has_come(component, index, node)
        now_s = self.world.now_s
        for emission in ids:
            tree = self.trees[emission]
            self.touched_s[emission[0]] = now_s
            if tree.acked and self.world.current.alive:
                self.world.problem(f"{component} executes a tuple of {emission} after its ack")
            opened = (node, component, index)
            if opened not in tree.open:
                opened = (node, component, 0)
            if opened in tree.open:
                tree.open.discard(opened)
            elif self.world.current.alive and not tree.acked:
                self.world.problem(f"{component} executes row {node} again")
            if not (tree.open or tree.failed or tree.acked or tree.over):
                self.complete.setdefault(emission, now_s)

    def failed(self, ids: Iterable[Emission]) -> None:
        """A tuple of these failed, or is forgotten: they may not be acked."""
        for emission in ids:
            self.trees[emission].failed = True
            self.complete.pop(emission, None)
            self.touched_s[emission[0]] = self.world.now_s

    def fail(self, emission: Emission, failure: Failure) -> None:
        """The spout receives FAIL."""
        if not self.world.current.alive:
            return
        self._settles(emission)
        tree = self.trees.setdefault(emission, Tree())
        tree.over = True
        if self.on_failure is not None:
            self.on_failure(emission, failure, len(tree.open), harmed=tree.failed)

    def _settles(self, emission: Emission) -> None:
        self.complete.pop(emission, None)
        self.touched_s[emission[0]] = self.world.now_s

    def ack(self, emission: Emission) -> None:
        """The spout receives ACK."""
        if not self.world.current.alive:
            return
        self.acked += 1
        self._settles(emission)
        tree = self.trees.get(emission)
        if tree is None:
            return  # no consumer
        if tree.open:
            waiting = ", ".join(f"{consumer}: row {node}" for node, consumer, _ in sorted(tree.open)[:3])
            self.world.problem(f"{emission} is acked, but {len(tree.open)} of its tuples were not executed ({waiting})")
        if tree.failed:
            self.world.problem(f"{emission} is acked, but a tuple of it failed or was forgotten")
        tree.acked = True
        tree.open.clear()
