"""Feedback: the edges of a topology that close a cycle."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .streams import StreamId

if TYPE_CHECKING:
    from .topology import Topology

Edge = tuple[StreamId, str]
"""A stream and the component that reads it."""


def edges_of(topology: Topology) -> dict[str, list[Edge]]:
    """Component → its outgoing edges, in the order of declaration."""
    edges: dict[str, list[Edge]] = {component: [] for component in topology.components}
    for spec in topology.components.values():
        for subscription in spec.inputs:
            if subscription.source.component in edges:
                edges[subscription.source.component].append((subscription.source, spec.id))
    return edges


def feedback_edges(topology: Topology) -> frozenset[Edge]:
    """The back edges of a depth-first search from the spouts."""
    edges = edges_of(topology)
    starts = [spec.id for spec in topology.spouts] + [spec.id for spec in topology.bolts]
    found: set[Edge] = set()
    done: set[str] = set()
    for start in starts:
        if start in done:
            continue
        # Entered and not yet left: an edge to such a component closes a cycle.
        path = {start}
        stack = [(start, iter(edges[start]))]
        while stack:
            component, remaining = stack[-1]
            for edge in remaining:
                target = edge[1]
                if target in path:
                    found.add(edge)
                elif target not in done:
                    path.add(target)
                    stack.append((target, iter(edges[target])))
                    break
            else:
                stack.pop()
                path.remove(component)
                done.add(component)
    return frozenset(found)
