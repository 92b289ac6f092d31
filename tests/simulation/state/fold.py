"""Fold: what sinks must have in the end, by a plain fold of the sources: no tasks, no order, no snapshots.

A row of a sink is compared by its *facets*, whatever task it came through:

| of | facet | how often |
|---|---|---|
| a row of a source | ("row", n) | once for each path from the spout to the sink |
| a count | ("count", bolt, key, count) | once for each path from the bolt to the sink |
| a window by time | ("window", key, start, rows or sum) | once |
| a window of so many rows | ("fired", key) and ("row", n) of each of its rows | as many as are full; once a path |
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from aiostorm.windows import Counts

from ..windows.watched import reference_of

Facet = tuple[Any, ...]
Positions = Mapping[tuple[str, int], int]


@dataclass(frozen=True, slots=True)
class SourceRow:
    """A row of a source: `n` differs for each row of the world. `offered_s`: not before this time."""

    n: int
    key: str
    at_ms: int
    offered_s: float


@dataclass(slots=True)
class Node:
    """A component: a spout, pass, count, total, window or sink.

    `wrap`: a count that reaches it begins again; `windows`: what it fires by; `style`: of its executor, or windows.
    """

    name: str
    kind: str
    inputs: list[str] = field(default_factory=list)
    key_fields: tuple[str, ...] = ("key",)
    wrap: int = 0
    windows: Any = None
    style: str = ""


@dataclass(slots=True)
class Flow:
    """What comes out of a node."""

    rows: Counter[int] = field(default_factory=Counter)
    counts: Counter[Facet] = field(default_factory=Counter)

    def add(self, other: Flow) -> None:
        """Also what comes out of another."""
        self.rows.update(other.rows)
        self.counts.update(other.counts)


@dataclass(frozen=True, slots=True)
class Expected:
    """Of a sink: what it must have, and what it may have at the most."""

    exact: Counter[Facet]
    most: Counter[Facet]
    is_whole_at_cuts: bool


class Fold:
    """The fold of one topology. `logs`: spout, index of its task → rows; `nodes`: inputs come first."""

    def __init__(self, nodes: Sequence[Node], logs: Mapping[tuple[str, int], Sequence[SourceRow]]) -> None:
        self.nodes = {node.name: node for node in nodes}
        self.logs = logs
        self.rows = {row.n: row for log in logs.values() for row in log}
        self._spout_of = {row.n: spout for (spout, _), log in logs.items() for row in log}

    @property
    def n_spouts(self) -> int:
        """How many spout tasks there are."""
        return len(self.logs)

    def key_of(self, n: int, fields: Sequence[str]) -> str:
        """The key of a row, as text."""
        return "|".join(self.rows[n].key if name == "key" else self._spout_of[n] for name in fields)

    def flows(self, positions: Positions | None = None) -> dict[str, Flow]:
        """What comes out of each node, of the rows before these positions (None: of all)."""
        found: dict[str, Flow] = {}
        for node in self.nodes.values():
            flow = found[node.name] = Flow()
            for (spout, index), log in self.logs.items():
                if spout == node.name:
                    until = len(log) if positions is None else positions[spout, index]
                    flow.rows.update(row.n for row in log[:until])
            for name in node.inputs:
                flow.add(found[name])
            if node.kind == "count":
                flow.counts = Counter(
                    ("count", node.name, key, nth % node.wrap + 1 if node.wrap else nth + 1)
                    for key, total in self.totals(node, flow).items()
                    for nth in range(total)
                )
        return found

    def totals(self, node: Node, flow: Flow) -> Counter[str]:
        """How many rows of each key a node has had."""
        totals: Counter[str] = Counter()
        for n, often in flow.rows.items():
            totals[self.key_of(n, node.key_fields)] += often
        return totals

    def expected(self, positions: Positions | None = None) -> dict[str, Expected]:
        """What each sink must have."""
        flows, found = self.flows(positions), {}
        for node in self.nodes.values():
            if node.kind != "sink":
                continue
            of = self.nodes[node.inputs[0]]
            if of.kind == "window":
                found[node.name] = self._of_windows(of, flows[of.name])
            else:
                flow = flows[node.name]
                exact = Counter({("row", n): often for n, often in flow.rows.items()}) + flow.counts
                found[node.name] = Expected(exact, exact, is_whole_at_cuts=True)
        return found

    def states(self) -> dict[str, Any]:
        """What the results of bolts with state are in the end: keys and counts, or a number of rows."""
        flows, found = self.flows(), dict[str, Any]()
        for node in self.nodes.values():
            if node.kind == "total":
                found[node.name] = flows[node.name].rows.total()
            elif node.kind == "count":
                totals = self.totals(node, flows[node.name])
                left = {key: total % node.wrap if node.wrap else total for key, total in totals.items()}
                found[node.name] = {key: count for key, count in left.items() if count}
        return found

    def facets(self, sink: str, row: Sequence[Any]) -> Iterator[Facet]:
        """Those of a row of this sink."""
        of = self.nodes[self.nodes[sink].inputs[0]]
        if of.kind != "window":
            _, n, _, _, by, key, count = row
            yield "row", n
            if by:
                yield "count", by, key, count
            return
        key, result, start, _ = row
        if isinstance(of.windows, Counts):
            yield "fired", key
            yield from (("row", n) for n in result)
        else:
            yield "window", key, start, tuple(sorted(result)) if isinstance(result, list | tuple) else result

    def _of_windows(self, node: Node, flow: Flow) -> Expected:
        if isinstance(node.windows, Counts):
            size, kept = node.windows.size, node.style == "kept"  # where rows are kept, the last ones fire at the end
            totals = self.totals(node, flow)
            fired: Counter[Facet] = Counter(
                {("fired", key): -(-n // size) if kept else n // size for key, n in totals.items()}
            )
            most = fired + Counter({("row", n): often for n, often in flow.rows.items()})
            return Expected(most if kept else +fired, most, is_whole_at_cuts=False)
        reference = reference_of(node.windows, 0)
        by_time: dict[int, list[Any]] = defaultdict(list)
        for n in flow.rows.elements():
            by_time[self.rows[n].at_ms].append((self.rows[n].key, self.rows[n].at_ms, n))
        reference.add([row for at_ms in sorted(by_time) for row in by_time[at_ms]])
        exact: Counter[Facet] = Counter()
        for (start, _), key, numbers in reference.advance(10**17):
            exact["window", key, start, sum(numbers) if node.style == "sum" else tuple(sorted(numbers))] += 1
        return Expected(exact, exact, is_whole_at_cuts=False)
