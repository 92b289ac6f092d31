"""Graph: the parts of a topology that a coordinator needs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ..topology import Topology

BALANCED: Final = frozenset({"shuffle", "local_or_shuffle", "local_first", "none", "partial_key"})
"""Groupings that avoid a full task while another one is not full (partial key: the other one of the two)."""


@dataclass(frozen=True, slots=True)
class Graph:
    """`sources`: bolt → the spouts whose tuples reach it; `inputs`: bolt → the components that it takes tuples from.

    `balanced`: the bolts whose tuples all go to any task with free capacity: a slow task does not delay the others.
    """

    sources: Mapping[str, frozenset[str]]
    inputs: Mapping[str, Collection[str]]
    balanced: frozenset[str] = frozenset()

    @classmethod
    def of(cls, topology: Topology) -> Graph:
        """The graph of a topology."""
        balanced = (b.id for b in topology.bolts if all(s.kind in BALANCED for s in b.inputs))
        return cls(sources_of(topology), _inputs_of(topology), frozenset(balanced))


def sources_of(topology: Topology) -> dict[str, frozenset[str]]:
    """Bolt → the spouts whose tuples reach it on any path. Cycles are followed once."""
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
