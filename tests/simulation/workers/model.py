"""The model of a topology on several workers: besides the trees, which task emitted each row, in which incarnation.

1. A row is executed at most once by each of its target tasks, whatever the links repeat, and whichever worker died.
2. What a task gets of another comes in the order in which that incarnation of it sent it, and nothing of one comes once
   something of its successor has come.
3. Without ackers (at most once) a row that was not executed was lost with a death: the sender's, or that of a worker
   which hosts a task of the consumer, after it was emitted. Links that break lose nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from aiostorm.testing.simulation import World
from aiostorm.testing.simulation.process import Process

from ..model import Emission, Ids, Model

Incarnation = tuple[str, int]


@dataclass(slots=True)
class Row:
    """Which task emitted a row, when; which consumers get a copy for each task; which tasks have executed it."""

    sender: Incarnation
    at_s: float
    copied: frozenset[str]
    done: set[tuple[str, int]] = field(default_factory=set)


class WorkersModel(Model):
    """See the module. `tracked`: are there ackers?"""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.tracked = True
        self.hosts: dict[str, frozenset[str]] = {}
        """Component → the workers that have tasks of it."""
        self.rows: dict[int, Row] = {}
        self.deaths: list[tuple[float, Incarnation]] = []
        self._starts: Counter[str] = Counter()
        self._incarnation_of: dict[tuple[str, int], Incarnation] = {}
        self._senders: dict[tuple[Any, ...], list[int]] = {}

    # -- incarnations ------------------------------------------------------------------------------------------------

    def begins(self, worker: str, process: Process) -> Incarnation:
        """A process begins an incarnation as that worker. (Those of a worker's two processes are counted together.)"""
        self._starts[worker] += 1
        incarnation = self._incarnation_of[process.name, process.incarnation] = (worker, self._starts[worker])
        return incarnation

    def ends(self, incarnation: Incarnation) -> None:
        """It has died, or is taken for dead, or has ended."""
        self.deaths.append((self.world.now_s, incarnation))

    @property
    def incarnation(self) -> Incarnation:
        """Of the process that runs now."""
        process = self.world.current
        return self._incarnation_of[process.name, process.incarnation]

    # -- reports of components ---------------------------------------------------------------------------------------

    def emit(self, component: str, ids: Ids, stream: str = "default") -> int:
        node = super().emit(component, ids, stream)
        consumers = self._consumers.get((component, stream), ())
        copied = frozenset(consumer for consumer, copies in consumers if copies)
        self.rows[node] = Row(self.incarnation, self.world.now_s, copied)
        return node

    def arrived(self, component: str, index: int, tup: Any) -> None:
        node = tup["node"]
        sender = self.rows[node].sender
        if not self.world.current.alive:
            return
        here = (self.incarnation, component, index)
        way = (*here, sender, tup.source_task, tup.stream)
        if node <= self._last.get(way, 0):
            self.world.problem(f"{component}: row {node} of task {tup.source_task} comes after row {self._last[way]}")
        self._last[way] = node
        self._has_come(component, index, node)
        senders = self._senders.setdefault((*here, sender[0]), [])
        if sender[1] not in senders:
            senders.append(sender[1])
        elif senders[-1] != sender[1]:
            self.world.problem(
                f"{component} on {self.incarnation} gets row {node} of {sender}, after one of {senders[-1]}"
            )

    def done(self, component: str, index: int, ids: Iterable[Emission], node: int) -> None:
        if self.world.current.alive:
            row = self.rows[node]
            copy = (component, index if component in row.copied else 0)
            if copy in row.done:
                self.world.problem(f"{component} executes row {node} of {row.sender} again")
            row.done.add(copy)
        super().done(component, index, ids, node)

    def ack(self, emission: Emission) -> None:
        if self.tracked:
            super().ack(emission)
        elif self.world.current.alive:
            self.acked += 1  # as soon as it is emitted: that is the promise without ackers

    # -- at the end --------------------------------------------------------------------------------------------------

    def at_the_end(self) -> Iterator[str]:
        """Rows that were not executed, without a death."""
        if self.tracked:
            return
        for emission, tree in self.trees.items():
            if tree.failed:
                continue
            for node, consumer, _ in sorted(tree.open):
                row = self.rows[node]
                hosts = self.hosts[consumer]
                if not any(
                    incarnation == row.sender or (incarnation[0] in hosts and at_s >= row.at_s)
                    for at_s, incarnation in self.deaths
                ):
                    yield f"{emission}: row {node} of {row.sender} was not executed by {consumer}, without a death"
                    return
