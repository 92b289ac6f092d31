"""Storms: a random topology of every kind of component, in a world with every kind of fault, watched by the model."""

from __future__ import annotations

import asyncio
import logging
import random
import traceback
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from aiostorm import Config, Fields, Topology, TopologyBuilder
from aiostorm.testing.simulation import InvariantError, Outcome, Simulation, Source, World, world_loop

from ..flow.random_topologies import subscribe
from .bolt_behaviour import BoltBehaviour
from .model import FIELDS, Model
from .parts import KINDS, SINGLE, Habits, ModelSource
from .progress import Progress

FAULTS_S = 600.0
SHORT_S = 150.0
CALM = 0.25
"""So many of the seeds have no faults: then nothing may be late, and nothing may time out."""

CALM_TIMEOUT_S = 60.0
LIVENESS_S = 1200.0
"""A thousand rows, five at a time, and forgotten ones that hold up the others for 30 s: that takes long. With a message
timeout that is longer than that it takes as many times longer."""


@dataclass
class Storm:
    """One run. `problems` is empty if every promise was kept."""

    seed: int
    world: World
    simulation: Simulation
    outcome: Outcome | None
    problems: list[str]
    executed: int = 0


def _excused(simulation: Simulation, timeout_s: float) -> bool:
    """Is a fault at work, or may messages be open that it has spoilt?"""
    if simulation.over or simulation.is_up() is None:
        return True
    return bool(simulation.faults.kinds) and simulation.world.now_s < simulation.healed_s + 1.2 * timeout_s


def _beyond_capacity(simulation: Simulation) -> int:
    """The rows in mailboxes beyond their capacity: those of edges inside a cycle."""
    running = simulation.is_up()
    boxes = () if running is None else running._task_set.tasks.mailboxes.values()
    return sum(max(0, box.gate.fill - box.gate.capacity) for box in boxes)


class Host(Protocol):
    """What a topology is drawn for: a Simulation is one."""

    world: World
    sources: list[Source]


def draw(
    simulation: Host,
    model: Model,
    *,
    source: type[ModelSource] = ModelSource,
    counts: Sequence[int] = (100, 400, 1000),
    fails: bool = True,
    forgets: bool = True,
    paces: Sequence[float] = (0.0,),
    hangs_s: tuple[float, float] = (60.0, 60.0),
    local: bool = True,
) -> tuple[Topology, Config]:
    """A topology and its configuration.

    `counts`: of messages of a source; `fails`, `forgets`: may bolts do that? `paces`: what a tuple may take, seconds.
    `hangs_s`: when a task hangs, at the latest, and for how long at the most. `local`: may its rows stay local?
    """
    rng = simulation.world.chance.stream("topology")
    behaviour = BoltBehaviour.drawn(simulation.world)
    builder = TopologyBuilder()
    sources = [f"s{i}" for i in range(rng.randint(1, 2))]
    for name in sources:
        builder.set_spout(name, _source(simulation, model, rng, source, counts), rng.choice([1, 1, 2, 3]))
    cyclic = rng.random() < 0.15
    forget = rng.choice([0, 0, 0, 0.02])
    names = [f"b{i}" for i in range(rng.randint(1, 5))]
    for i, name in enumerate(names):
        kind = behaviour.kind(rng.choice([*KINDS, "rich"]), name)
        habits = _habits(simulation.world, model, rng, name, fails, forget * forgets)
        habits.pace_s = simulation.world.chance.stream(f"pace {name}").choice(paces)
        habits.joins = not behaviour.holds
        parallelism = rng.choice([1, 1, 2, 3])
        if name == behaviour.hung:
            parallelism = max(2, parallelism)
            model.hang = behaviour.hang(simulation.world, parallelism, hangs_s)
        declarer = builder.set_bolt(name, KINDS[kind](habits), parallelism)
        if kind == "rich":
            declarer.set_config(tick_tuple_freq_s=behaviour.tick_s)
            behaviour.holding += habits.hold * parallelism
        inputs = rng.sample(sources, min(len(sources), rng.choice([1, 1, 2, 3])))
        if i == 0:
            inputs = list(dict.fromkeys(["s0", *inputs]))
        if cyclic and rng.random() < 0.3:
            inputs.append(rng.choice(names))
        for source in dict.fromkeys(inputs):
            for stream in ["default", "side"] if source.startswith("s") else ["default"]:
                may_be_all = parallelism == 1 or kind not in SINGLE
                subscribe(declarer, behaviour.grouping(name, _grouping(rng, may_be_all), local), source, stream)
        sources.append(name)
    config = behaviour.settled(_config(rng, cyclic), forgets=bool(forget * forgets), local=local)
    topology = builder.create_topology()
    model.watch(topology)
    return topology, config


def _habits(world: World, model: Model, rng: random.Random, name: str, fails: bool, forget: float) -> Habits:
    return Habits(
        model,
        name,
        fail=rng.choice([0, 0, 0.02, 0.2]) * fails,
        forget=forget,
        crash=rng.choice([0, 0, 0, 0.005]) * fails,
        fan_out=rng.choice([0, 1, 1, 2, 3]),
        hold=rng.choice([0, 0, 2, 10]),
        rng=world.chance.stream(f"habits {name}"),
    )


def _grouping(rng: random.Random, may_be_all: bool) -> str:
    kinds = ["shuffle", "fields", "fields", "global", "none", "partial", "local", "first"]
    return rng.choice([*kinds, *["all"] * may_be_all])


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
    simulation: Host, model: Model, rng: random.Random, kind: type[ModelSource], counts: Sequence[int]
) -> ModelSource:
    count = rng.choice(counts)
    made = kind(
        simulation.world,
        f"source {len(simulation.sources)}",
        [(rng.randrange(20),) for _ in range(count)],
        Fields("n"),
        None,
    )
    made.outputs = {"default": Fields(*FIELDS), "side": Fields(*FIELDS)}  # type: ignore[misc]
    made.model = model
    made.style = rng.choice(["plain", "plain", "async", "mixed"])
    made.side = rng.choice([0, 0, 0.3])
    simulation.sources.append(made)
    return made


def run(
    seed: int, faults: str | None = None, only: Collection[int] | None = None, *, faults_s: float = FAULTS_S
) -> Storm:
    """Run one seed. It raises nothing that a seed can make. A third of the seeds have no faults, unless asked for."""
    loop = world_loop(seed)
    if faults is None and loop.world.chance.stream("calm").random() < CALM:
        faults = "none"
    simulation = Simulation(loop.world, faults, only)
    model = Model(loop.world)
    storm = Storm(seed, loop.world, simulation, None, [])

    async def main() -> None:
        topology, config = draw(simulation, model)
        if not simulation.faults.kinds:
            config = config.merge({"message_timeout_s": max(config.message_timeout_s, CALM_TIMEOUT_S)})
        sources = {f"s{i}": source for i, source in enumerate(simulation.sources)}
        bolts = len(topology.components) - len(sources)
        timeout_s = float(config.message_timeout_s)
        progress = Progress(
            model,
            sources,
            config,
            bolts,
            excused=lambda: _excused(simulation, timeout_s),
            calm=lambda: not simulation.faults.kinds,
            beyond=lambda: _beyond_capacity(simulation),
        )
        loop.world.call_at(loop.world.now_s + 2.0, progress.watch)
        liveness_s = LIVENESS_S * max(1.0, timeout_s / 30)
        storm.outcome = await simulation.run(topology, config, faults_s=faults_s, liveness_s=liveness_s)

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
    storm.executed = model.executed
    return storm
