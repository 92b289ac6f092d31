"""Graph: what a coordinator has to know of a topology."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from ..topology import Topology

BALANCED: Final = frozenset({"shuffle", "local_or_shuffle", "local_first", "none", "partial_key"})
"""Groupings that pass over a task that is full while another is not (by partial key, the other one of the two)."""


@dataclass(frozen=True, slots=True)
class Graph:
    """`sources`: bolt → the spouts whose tuples reach it; `inputs`: bolt → the components that it takes tuples from.

    `balanced` are the bolts all of whose tuples go to whichever task has room: a slow one does not hold up the others.
    """

    sources: Mapping[str, frozenset[str]]
    inputs: Mapping[str, Collection[str]]
    balanced: frozenset[str] = frozenset()

    @classmethod
    def of(cls, topology: Topology) -> Graph:
        """Of a topology."""
        balanced = (b.id for b in topology.bolts if all(s.kind in BALANCED for s in b.inputs))
        return cls(sources_of(topology), _inputs_of(topology), frozenset(balanced))


def sources_of(topology: Topology) -> dict[str, frozenset[str]]:
    """Bolt → the spouts whose tuples reach it, by whatever way. Cycles are gone round once."""
    inputs = _inputs_of(topology)
    found: dict[str, frozenset[str]] = {}
    for bolt in topology.bolts:
        visited = {bolt.id}
        waiting = [bolt.id]
        while waiting:
            new = inputs.get(waiting.pop(), frozenset()) - visited
            visited |= new
            waiting += new
        found[bolt.id] = frozenset(visited - inputs.keys())
    return found


def _inputs_of(topology: Topology) -> dict[str, frozenset[str]]:
    components = topology.components
    return {b.id: frozenset(s.source.component for s in b.inputs).intersection(components) for b in topology.bolts}
