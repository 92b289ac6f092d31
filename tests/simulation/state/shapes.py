"""Shapes: the topologies of the world of state, drawn from the seed.

logs ─► spouts ─► pass, count, total … (each with one or two inputs) ─► sinks
                      └──► windows ─► a sink of their own
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from aiostorm import Config, Topology, TopologyBuilder
from aiostorm.testing.simulation import World
from aiostorm.windows import Counts, LatePolicy, Session, Sliding, Sum, Tumbling, WindowedBolt

from .database import Database
from .fold import Fold, Node, SourceRow
from .parts import BOLTS, RESULTS, SPOUTS, STORES, Kept, Outside, Own

BEGIN_MS = 1_000_000
LOG_ROWS = (15, 40, 80)


@dataclass(frozen=True, slots=True)
class Drawn:
    """A component of a topology. `inputs`: grouping, its arguments, and the stream."""

    name: str
    kind: str
    made: Any
    tasks: int
    inputs: list[tuple[str, tuple[str, ...], str]]


@dataclass(frozen=True, slots=True)
class Shape:
    """What was drawn. `parts`: of which the topology is built."""

    topology: Topology
    parts: list[Drawn]
    config: Config
    fold: Fold
    outside: Outside

    def rescaled(self, rng: random.Random) -> Topology:
        """The same with other numbers of tasks, where what is saved can be divided among them."""
        most = 4 if rng.random() < 0.5 else 3
        scaled = [
            replace(part, tasks=rng.randint(1, most)) if part.kind in SCALE else part  # (the rest is as it was)
            for part in self.parts
        ]
        return build(scaled, self.config)


SCALE = ("pass", "count", "window")
"""The kinds of nodes that may have another number of tasks after a restart."""


def build(parts: Sequence[Drawn], config: Config) -> Topology:
    """The topology of these parts."""
    builder = TopologyBuilder()
    for part in parts:
        if part.kind == "spout":
            builder.set_spout(part.name, part.made, part.tasks)
            continue
        declarer = builder.set_bolt(part.name, part.made, part.tasks)
        for grouping, arguments, stream in part.inputs:
            getattr(declarer, f"{grouping}_grouping")(*arguments, stream=stream)
    return builder.create_topology(config=config)


class Drawing:
    """Draws one. `load_s`: rows are offered for so long."""

    def __init__(self, world: World, durable: set[int], load_s: float) -> None:
        self.world = world
        self.rng: random.Random = world.chance.stream("shape")
        self.load_s = load_s
        self.span_ms = self.rng.choice((50, 1000, 20_000))
        self.parts: list[Drawn] = []
        self.nodes: list[Node] = []
        self.logs: dict[tuple[str, int], list[SourceRow]] = {}
        self.durable = durable
        self.outside: Outside
        self.keys = [f"k{i}" for i in range(self.rng.choice((1, 3, 10)))]

    def shape(self, workers: int, place: str) -> Shape:
        """All of it."""
        rng = self.rng
        tasks = {f"s{i}": rng.choice((1, 1, 2)) for i in range(rng.choice((1, 2)))}
        count = rng.choice(LOG_ROWS)
        for name, parallelism in tasks.items():
            self.nodes.append(Node(name, "spout"))
            for index in range(parallelism):
                self.logs[name, index] = self.log(count)
        for i in range(rng.choice((1, 2, 3, 4))):
            self.nodes.append(self.middle(f"b{i}"))
        ends = [node.name for node in self.nodes if not any(node.name in other.inputs for other in self.nodes)]
        for i in range(rng.choice((0, 1, 1, 2))):
            self.nodes.append(self.window(f"w{i}"))
        self.sinks(ends)
        fold = Fold(self.nodes, self.logs)
        self.outside = Outside(self.world, Database(self.world, fold, self.durable), self.logs)
        for node in self.nodes:
            self.draw(node, tasks)
        config = self.config(workers, place)
        return Shape(build(self.parts, config), self.parts, config, fold, self.outside)

    def log(self, count: int) -> list[SourceRow]:
        """Rows of one spout task, in the order of their time; offered one by one, or some at once."""
        rng, first = self.rng, sum(map(len, self.logs.values()))
        at_once = rng.choice((None, None, 3, 1))
        moments = sorted(rng.random() for _ in range(rng.choice((count, count, count // 3, 0))))
        rows = []
        for i, moment in enumerate(moments):
            offered = moment if at_once is None else int(moment * at_once) / at_once
            at_ms = BEGIN_MS + int(moment * self.span_ms)
            rows.append(SourceRow(first + i, rng.choice(self.keys), at_ms, self.world.now_s + offered * self.load_s))
        return rows

    # -- nodes ---------------------------------------------------------------------------------------------------------

    def middle(self, name: str) -> Node:
        """A bolt that passes rows on."""
        rng = self.rng
        before = [node.name for node in self.nodes]
        inputs = rng.sample(before, min(len(before), rng.choice((1, 1, 2))))
        if rng.random() < 0.5 and before[-1] not in inputs:
            inputs[0] = before[-1]
        node = Node(name, rng.choice(("pass", "count", "count", "total")), inputs)
        node.style = rng.choice([*BOLTS[node.kind]])
        if node.kind == "count":
            node.wrap = rng.choice((0, 0, 2, 3))
            node.key_fields = rng.choice((("key",), ("key",), ("key", "spout")))
        return node

    def window(self, name: str) -> Node:
        """A bolt with windows."""
        rng = self.rng
        inputs = [rng.choice([node.name for node in self.nodes if node.kind != "window" and not self.holds(node)])]
        style = rng.choice(("sum", "own", "kept"))
        size_ms = max(2, self.span_ms // rng.choice((2, 5, 12)))
        windows: Any = rng.choice(
            (
                Tumbling(size_ms),
                Sliding(size_ms, max(1, size_ms // rng.choice((2, 3)))),
                Session(max(1, size_ms // 6)),
                Counts(rng.choice((1, 2, 5, 9))),
            )
        )
        if isinstance(windows, Counts):
            style = rng.choice(("own", "kept"))
        return Node(name, "window", inputs, windows=windows, style=style)

    def holds(self, node: Node) -> bool:
        """May rows come out of it behind watermarks that came in behind them? Rich bolts that keep rows do that."""
        inputs = [other for other in self.nodes if other.name in node.inputs]
        return node.style == "rich" or any(map(self.holds, inputs))

    def sinks(self, ends: list[str]) -> None:
        """Each row goes to one of them; windows have their own."""
        rng = self.rng
        groups: list[list[str]] = [[], []]
        for name in ends:
            rng.choice(groups).append(name)
        inputs = [group for group in groups if group]
        inputs += [[node.name] for node in self.nodes if node.kind == "window"]
        self.nodes += [Node(f"sink{i}", "sink", of) for i, of in enumerate(inputs)]

    # -- the topology --------------------------------------------------------------------------------------------------

    def draw(self, node: Node, tasks: dict[str, int]) -> None:
        """Add a node to the parts of the topology."""
        rng, outside = self.rng, self.outside
        if node.kind == "spout":
            spout = rng.choice(SPOUTS)(outside, node.name, rng.choice((1, 3, 20)))
            self.parts.append(Drawn(node.name, node.kind, spout, tasks[node.name], []))
            return
        if node.kind == "sink":
            made: Any = rng.choice(STORES)(outside)
        elif node.kind == "window":
            made = self.windowed(node)
        else:
            made = BOLTS[node.kind][node.style](outside, node)
        self.parts.append(Drawn(node.name, node.kind, made, rng.choice((1, 2, 3)), []))
        for name in node.inputs:
            self.parts[-1].inputs.extend(self.inputs(node, name))

    def windowed(self, node: Node) -> Any:
        """A bolt with windows."""
        named: dict[str, Any] = {"key": "key"}
        if not isinstance(node.windows, Counts):
            settings = {"lag_ms": 0, "interval_ms": self.rng.choice((20, 100)), "idle_timeout_ms": 0}
            named |= {"timestamp": "at", "max_advance_ms": 0, "late": LatePolicy.STREAM, **settings}
        if node.style == "sum":
            return WindowedBolt(node.windows, Sum("n"), outputs=RESULTS, **named)
        return (Own if node.style == "own" else Kept)(node.windows, **named)

    def inputs(self, node: Node, name: str) -> Iterator[tuple[str, tuple[str, ...], str]]:
        """How it reads an input: by key where there is state, or anyhow."""
        of = next(other for other in self.nodes if other.name == name)
        if node.kind in ("count", "window"):
            yield "fields", (name, *node.key_fields), "default"
        else:
            kind = self.rng.choice(("shuffle", "fields", "local_or_shuffle", "global"))
            yield kind, (name, "key") if kind == "fields" else (name,), "default"
        if of.kind == "window" and not isinstance(of.windows, Counts):
            yield "global", (name,), "late"

    def config(self, workers: int, place: str) -> Config:
        """Short intervals, small mailboxes."""
        rng = self.rng
        return Config(
            guarantee="exactly-once",
            state_dir=place,
            workers=max(1, workers),
            snapshot_interval_ms=rng.choice((20, 60, 200)),
            snapshot_max_share=rng.choice((0.05, 1.0)),
            snapshot_timeout_ms=rng.choice((5_000, 60_000)),
            snapshot_keep=rng.choice((1, 2, 3)),
            snapshot_failures_max=rng.choice((1, 3)),
            sink_held_max_rows=self.world.chance.stream("held").choice((1_000_000, 1_000_000, 20, 3)),
            mailbox_capacity_tuples=rng.choice((1, 2, 8, 64)),
            turn_max_tuples=rng.choice((1, 4, 256)),
            testing_always_try_serialize=rng.random() < 0.5,
            restart_max=100_000,
            restart_backoff_s=(0, 0.1),
            spout_wait_max_ms=20,
            watermark_idle_timeout_ms=0,
            backpressure_enable=False,
        )
