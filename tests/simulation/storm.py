"""Storms: a random topology of every kind of component, in a world with every kind of fault, watched by the ghost."""

from __future__ import annotations

import asyncio
import logging
import random
import traceback
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from aiostorm import Config, Fields, Topology, TopologyBuilder
from aiostorm.testing.simulation import InvariantError, Outcome, Simulation, Source, World, world_loop

from ..flow.random_topologies import subscribe
from .ghost import FIELDS, Ghost
from .parts import KINDS, SINGLE, GhostSource, Habits

FAULTS_S = 600.0
SHORT_S = 150.0
LIVENESS_S = 1200.0
"""A thousand rows, five at a time, and forgotten ones that hold up the others for 30 s: that takes long."""


@dataclass
class Storm:
    """One run. `problems` is empty if every promise was kept."""

    seed: int
    world: World
    simulation: Simulation
    outcome: Outcome | None
    problems: list[str]
    executed: int = 0


class Host(Protocol):
    """What a topology is drawn for: a Simulation is one."""

    world: World
    sources: list[Source]


def draw(
    simulation: Host,
    ghost: Ghost,
    *,
    source: type[GhostSource] = GhostSource,
    counts: Sequence[int] = (100, 400, 1000),
    fails: bool = True,
    forgets: bool = True,
    paces: Sequence[float] = (0.0,),
) -> tuple[Topology, Config]:
    """A topology and its configuration.

    `counts`: of messages of a source; `fails`, `forgets`: may bolts do that? `paces`: what a tuple may take, seconds.
    """
    rng = simulation.world.chance.stream("topology")
    builder = TopologyBuilder()
    sources: list[str] = []
    for i in range(rng.randint(1, 2)):
        name = f"s{i}"
        builder.set_spout(name, _source(simulation, ghost, rng, source, counts), rng.choice([1, 1, 2, 3]))
        sources.append(name)
    cyclic = rng.random() < 0.15
    forget = rng.choice([0, 0, 0, 0.02])
    names = [f"b{i}" for i in range(rng.randint(1, 5))]
    for i, name in enumerate(names):
        kind = rng.choice([*KINDS, "rich"])
        habits = Habits(
            ghost,
            name,
            fail=rng.choice([0, 0, 0.02, 0.2]) * fails,
            forget=forget * forgets,
            crash=rng.choice([0, 0, 0, 0.005]) * fails,
            fan_out=rng.choice([0, 1, 1, 2, 3]),
            hold=rng.choice([0, 0, 2, 10]),
            rng=simulation.world.chance.stream(f"habits {name}"),
            pace_s=simulation.world.chance.stream(f"pace {name}").choice(paces),
        )
        parallelism = rng.choice([1, 1, 2, 3])
        declarer = builder.set_bolt(name, KINDS[kind](habits), parallelism)
        if kind == "rich":
            declarer.set_config(tick_tuple_freq_s=0.5)
        inputs = rng.sample(sources, min(len(sources), rng.choice([1, 1, 2, 3])))
        if i == 0:
            inputs = list(dict.fromkeys(["s0", *inputs]))
        if cyclic and rng.random() < 0.3:
            inputs.append(rng.choice(names))
        for source in dict.fromkeys(inputs):
            may_be_all = parallelism == 1 or kind not in SINGLE
            _subscribe(declarer, rng, source, "default", may_be_all)
            if source.startswith("s"):
                _subscribe(declarer, rng, source, "side", may_be_all)
        sources.append(name)
    config = _config(rng, cyclic)
    topology = builder.create_topology()
    ghost.watch(topology)
    return topology, config


def _config(rng: random.Random, cyclic: bool) -> Config:
    return Config(
        acker_tree_max_messages=rng.choice([1, 3, 64, 256]),
        acker_executors=rng.choice([1, 1, 2, 3]),
        mailbox_capacity_tuples=rng.choice([1, 2, 5, 64, 1024]),
        turn_max_tuples=rng.choice([1, 4, 256]),
        max_spout_pending=rng.choice([None, 1, 5, 50]),
        message_timeout_s=30 if cyclic else rng.choice([3, 10, 30]),
        restart_max=100_000,
        restart_backoff_s=(0, 0.1),
    )


def _source(
    simulation: Host, ghost: Ghost, rng: random.Random, kind: type[GhostSource], counts: Sequence[int]
) -> GhostSource:
    count = rng.choice(counts)
    made = kind(
        simulation.world,
        f"source {len(simulation.sources)}",
        [(rng.randrange(20),) for _ in range(count)],
        Fields("n"),
        None,
    )
    made.outputs = {"default": Fields(*FIELDS), "side": Fields(*FIELDS)}  # type: ignore[misc]
    made.ghost = ghost
    made.style = rng.choice(["plain", "plain", "async", "mixed"])
    made.side = rng.choice([0, 0, 0.3])
    simulation.sources.append(made)
    return made


def _subscribe(declarer: Any, rng: random.Random, source: str, stream: str, may_be_all: bool) -> None:
    kinds = ["shuffle", "fields", "fields", "global", "none", "partial", "local", "first", *["all"] * may_be_all]
    subscribe(declarer, rng.choice(kinds), source, stream)


def run(
    seed: int, faults: str | None = None, only: Collection[int] | None = None, *, faults_s: float = FAULTS_S
) -> Storm:
    """Run one seed. It raises nothing that a seed can make."""
    loop = world_loop(seed)
    simulation = Simulation(loop.world, faults, only)
    ghost = Ghost(loop.world)
    storm = Storm(seed, loop.world, simulation, None, [])

    async def main() -> None:
        topology, config = draw(simulation, ghost)
        storm.outcome = await simulation.run(topology, config, faults_s=faults_s, liveness_s=LIVENESS_S)

    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)  # hundreds of bolts fail on purpose
    try:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(main())
    except InvariantError as broken:
        storm.problems = broken.problems
    except Exception as error:  # a world that stands still, or polls for ever, is a finding too
        storm.problems = [f"{type(error).__name__}: {error}", *traceback.format_exception(error)[-3:]]
    finally:
        logging.disable(disabled)
    storm.executed = ghost.executed
    return storm
