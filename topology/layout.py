"""Layout: where the nodes of a graph are drawn: in layers, with few crossings. The same graph gives the same picture.

    edges that close a cycle are set aside ─► layers by the longest path ─► a bend in each layer that an edge passes
      ─► order within the layers by medians ─► positions near the neighbours, at least one apart

1. Every other edge leads to a higher layer.
2. Two nodes of one layer are at least 1 apart; a bend is at least BEND apart from what is next to it.
3. It is bounded: large graphs are sorted less often.

From: Sugiyama, Tagawa, Toda (1981); medians and sweeps: Gansner, Koutsofios, North, Vo, "A technique for drawing
directed graphs" (1993).
"""

from __future__ import annotations

import itertools
from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

BEND: Final = 0.5
SWEEPS: Final = 8
MANY: Final = 4_000
"""Nodes and bends above which the order is that of the first sweep."""

Point = tuple[float, float]
"""(layer, position)."""
Edge = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Layout:
    """`nodes`: their points. `ways`: the points of each other edge, ends included. `back`: those that close a cycle."""

    nodes: Mapping[str, Point]
    ways: Mapping[Edge, tuple[Point, ...]]
    back: frozenset[Edge]
    layers: int
    width: float


def layered(nodes: Sequence[str], edges: Iterable[Edge]) -> Layout:
    """The layout of a graph; the nodes are given in the order in which a search for cycles begins."""
    distinct = list(dict.fromkeys(edges))
    back = _back_edges(nodes, distinct)
    forward = [edge for edge in distinct if edge not in back]
    layer_of = _longest_paths(nodes, forward)
    rows = _Rows(nodes, forward, layer_of)
    rows.sort()
    positions = rows.positions()
    least = min(positions, default=0.0)
    points = [(float(layer), round(position - least, 3)) for layer, position in zip(rows.layer, positions, strict=True)]
    ways = {edge: tuple(points[one] for one in chain) for edge, chain in rows.chains.items()}
    width = max((position for _, position in points), default=0.0)
    placed = {node: points[number] for number, node in enumerate(nodes)}
    return Layout(placed, ways, back, len(rows.order), width)


def _back_edges(nodes: Sequence[str], edges: Sequence[Edge]) -> frozenset[Edge]:
    """Those that lead to a node on the way from the start of a depth-first search."""
    targets: dict[str, list[str]] = {node: [] for node in nodes}
    for source, target in edges:
        targets[source].append(target)
    found: set[Edge] = set()
    done: set[str] = set()
    for start in nodes:
        if start in done:
            continue
        path = {start}
        stack = [(start, iter(targets[start]))]
        while stack:
            node, left = stack[-1]
            for target in left:
                if target in path:
                    found.add((node, target))
                elif target not in done:
                    path.add(target)
                    stack.append((target, iter(targets[target])))
                    break
            else:
                stack.pop()
                path.remove(node)
                done.add(node)
    return frozenset(found)


def _longest_paths(nodes: Sequence[str], forward: Sequence[Edge]) -> dict[str, int]:
    """Node → the number of edges on the longest path that leads to it."""
    missing = dict.fromkeys(nodes, 0)
    targets: dict[str, list[str]] = {node: [] for node in nodes}
    for source, target in forward:
        missing[target] += 1
        targets[source].append(target)
    found = dict.fromkeys(nodes, 0)
    ready = [node for node in nodes if not missing[node]]
    for node in ready:  # it grows
        for target in targets[node]:
            found[target] = max(found[target], found[node] + 1)
            missing[target] -= 1
            if not missing[target]:
                ready.append(target)
    return found


class _Rows:
    """The layers. Nodes and bends are numbers: those of the nodes come first.

    `layer` of each; `order`: the numbers in each layer; `chains`: edge → its numbers, from end to end; `above` and
    `below`: neighbours in the next layers.
    """

    def __init__(self, nodes: Sequence[str], forward: Sequence[Edge], layer_of: Mapping[str, int]) -> None:
        number = {node: i for i, node in enumerate(nodes)}
        self.nodes = len(nodes)
        self.layer = [layer_of[node] for node in nodes]
        self.chains: dict[Edge, list[int]] = {}
        for source, target in forward:
            between = range(layer_of[source] + 1, layer_of[target])
            bends = range(len(self.layer), len(self.layer) + len(between))
            self.layer += between
            self.chains[source, target] = [number[source], *bends, number[target]]
        self.above: list[list[int]] = [[] for _ in self.layer]
        self.below: list[list[int]] = [[] for _ in self.layer]
        for chain in self.chains.values():
            for upper, lower in itertools.pairwise(chain):
                self.below[upper].append(lower)
                self.above[lower].append(upper)
        self.order: list[list[int]] = [[] for _ in range(max(self.layer, default=-1) + 1)]
        for one, layer in enumerate(self.layer):
            self.order[layer].append(one)

    def sort(self) -> None:
        """Order the layers, so that few edges cross."""
        best, crossings = self.order, self._crossings()
        for sweep in range(1 if len(self.layer) > MANY else SWEEPS):
            self.order = [list(row) for row in self.order]
            pairs = list(zip(self.order, self.order[1:], strict=False))
            for upper, lower in pairs if sweep % 2 == 0 else ():
                _sort_row(lower, upper, self.above)
            for upper, lower in reversed(pairs) if sweep % 2 else ():
                _sort_row(upper, lower, self.below)
            now = self._crossings()
            if now < crossings:
                best, crossings = self.order, now
        self.order = best

    def positions(self) -> list[float]:
        """The position of each number."""
        found = [0.0] * len(self.layer)
        for row in self.order:
            for one, offset in zip(row, self._offsets(row), strict=True):
                found[one] = offset
        for sweep in range(4):
            down = sweep % 2 == 0
            for row in self.order if down else reversed(self.order):
                self._place_row(row, self.above if down else self.below, found)
        return found

    def _crossings(self) -> int:
        total = 0
        for upper, lower in zip(self.order, self.order[1:], strict=False):
            place = {one: i for i, one in enumerate(lower)}
            seen: list[int] = []
            for one in upper:
                ends = sorted(place[other] for other in self.below[one])
                total += sum(len(seen) - bisect_left(seen, end + 1) for end in ends)
                for end in ends:
                    insort(seen, end)
        return total

    def _offsets(self, row: list[int]) -> list[float]:
        """The least positions that keep them apart."""
        found: list[float] = []
        at = 0.0
        for i, one in enumerate(row):
            if i:
                at += 1.0 if one < self.nodes and row[i - 1] < self.nodes else BEND + BEND / 2
            found.append(at)
        return found

    def _place_row(self, row: list[int], near_by: list[list[int]], found: list[float]) -> None:
        """Each near the mean of its neighbours: the least squares of all, in their order and apart (pool adjacent
        violators)."""
        offsets = self._offsets(row)
        blocks: list[tuple[float, int]] = []  # (mean, how many)
        for one, offset in zip(row, offsets, strict=True):
            near = [found[other] for other in near_by[one]]
            mean, count = (sum(near) / len(near) if near else found[one]) - offset, 1
            while blocks and blocks[-1][0] > mean:
                before, many = blocks.pop()
                mean, count = (before * many + mean * count) / (many + count), many + count
            blocks.append((mean, count))
        moved = [mean for mean, count in blocks for _ in range(count)]
        for one, offset, mean in zip(row, offsets, moved, strict=True):
            found[one] = mean + offset


def _sort_row(row: list[int], fixed: Sequence[int], near_by: Sequence[Sequence[int]]) -> None:
    """Sort by the medians of the neighbours in the row that is fixed; what has none there keeps its place."""
    place = {one: i for i, one in enumerate(fixed)}
    medians = {one: _median(sorted(place[other] for other in near_by[one])) for one in row}
    moving = sorted((one for one in row if medians[one] is not None), key=lambda one: medians[one] or 0.0)
    fresh = iter(moving)
    row[:] = [one if medians[one] is None else next(fresh) for one in row]


def _median(places: Sequence[int]) -> float | None:
    if not places:
        return None
    middle = len(places) // 2
    return float(places[middle]) if len(places) % 2 else (places[middle - 1] + places[middle]) / 2
