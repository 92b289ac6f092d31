"""Topologies that cannot keep up: how they are made, how slow which of their bolts are, and when. All from the seed."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from aiostorm import Config, Topology, TopologyBuilder

from .scene import Demand, DemandSpout, Load, Scene, Slow, Stint

SHAPES = ("line", "diamond", "innocent", "several", "cycle", "amplified")
TIMES = ("constant", "bursty", "healed", "hung", "some")
LONG_S = 100_000.0
"""A message timeout that is never needed: only a death loses a tuple, and deaths are reported."""


@dataclass(frozen=True, slots=True)
class Bolt:
    """Before it is made: what it reads, what comes of a tuple, and whether it is one of the slow."""

    name: str
    reads: tuple[str, ...]
    fan_out: int = 1
    slow: bool = False
    hops: int = 99


@dataclass(frozen=True, slots=True)
class Shape:
    """A topology, its configuration, and what was drawn about it. `innocent`: a spout that asks for next to nothing."""

    topology: Topology
    config: Config
    kind: str
    interval_s: float
    innocent: str | None


def draw(
    scene: Scene, begin_s: float, intervals: int, kind: str | None = None, interval_s: float | None = None
) -> Shape:
    """For faults from `begin_s` on, so many check intervals long."""
    chance = scene.world.chance.stream("shape")
    drawn, step_s = chance.choice(SHAPES), chance.choice((0.1, 0.1, 0.25, 1.0))
    kind, interval_s = kind or drawn, interval_s or step_s
    bolts, spouts = _parts(kind, chance)
    a_interval = 2 * 6 ** chance.random()
    """So many tuples of the slow one in an interval."""
    builder = TopologyBuilder()
    config = _config(chance, interval_s).merge(_mailboxes(scene.world.chance.stream("mailboxes")))
    per_emitted = _flow(bolts)
    rate = a_interval / interval_s * chance.choice((1.3, 1.6, 2.5))
    slowest = max(per_emitted[bolt.name] for bolt in bolts if bolt.slow)
    for i, spout in enumerate(spouts):
        trickle = kind == "innocent" and i == 1
        own = 0.05 * a_interval / interval_s if trickle else rate / slowest / (len(spouts) - (kind == "innocent"))
        scene.demands[spout] = Demand(scene.world, spout, own, 1e9 if trickle else max(3.0, 2 * own * interval_s))
        tap = DemandSpout(scene, spout, interval_s / 8, waits=chance.random() < 0.5)
        builder.set_spout(spout, tap, 1 if trickle else chance.choice((1, 1, 2, 3)))
    for bolt in bolts:
        parallelism = chance.choice((1, 1, 2, 4) if bolt.slow else (1, 2))
        declarer: Any = builder.set_bolt(bolt.name, Slow(scene, bolt.name, bolt.fan_out, bolt.hops), parallelism)
        for source in bolt.reads:
            if chance.random() < 0.7:
                declarer.shuffle_grouping(source)
            else:
                declarer.fields_grouping(source, "n")
        if bolt.slow:
            takes_s = parallelism * interval_s / a_interval * chance.choice((1, 1, 1.5))
            period_s = interval_s * config.backpressure_sample_number
            scene.loads[bolt.name] = _load(
                chance, parallelism, takes_s, period_s, begin_s, begin_s + intervals * interval_s
            )
    if kind == "cycle":
        scene.overfilled = {"b0"}
    return Shape(builder.create_topology(), config, kind, interval_s, "s1" if kind == "innocent" else None)


def _parts(kind: str, chance: random.Random) -> tuple[list[Bolt], list[str]]:
    match kind:
        case "line":
            at = chance.randrange(3)
            return [Bolt(f"b{i}", (f"b{i - 1}" if i else "s0",), 1, i == at) for i in range(3)], ["s0"]
        case "diamond":
            late = chance.random() < 0.5
            left, right = Bolt("b1", ("b0",), 1, not late), Bolt("b2", ("b0",))
            return [Bolt("b0", ("s0",)), left, right, Bolt("b3", ("b1", "b2"), 1, late)], ["s0"]
        case "innocent":
            return [Bolt("b0", ("s0", "s1"), 1, True), Bolt("b1", ("b0",))], ["s0", "s1"]
        case "several":
            two = Bolt("b1", ("b0", "s1"), 1, True)
            return [Bolt("b0", ("s0",), 1, True), two, Bolt("b2", ("s1",), 1, chance.random() < 0.3)], ["s0", "s1"]
        case "cycle":
            return [Bolt("b0", ("s0", "b1"), 1), Bolt("b1", ("b0",), 1, True, hops=3)], ["s0"]
        case _:
            return [Bolt("b0", ("s0",), chance.choice((2, 3))), Bolt("b1", ("b0",), 1, True)], ["s0"]


def _flow(bolts: list[Bolt]) -> dict[str, float]:
    """Bolt → tuples that come to it for each that one spout emits. (A cycle counts once.)"""
    found: dict[str, float] = {}
    fan_out = {bolt.name: bolt.fan_out for bolt in bolts}
    for bolt in bolts:
        found[bolt.name] = sum(
            1.0 if source.startswith("s") else found.get(source, 1.0) * fan_out[source] for source in bolt.reads
        )
    return found


def _config(chance: random.Random, interval_s: float) -> Config:
    return Config(
        mailbox_capacity_tuples=chance.choice((1, 2, 5, 20, 20, 60)),
        mailbox_target_ms=0,  # in half of the seeds: see _mailboxes
        turn_max_tuples=chance.choice((1, 4, 256)),
        max_spout_pending=chance.choice((None, None, 3, 200)),
        message_timeout_s=LONG_S,
        restart_max=100_000,
        restart_backoff_s=chance.choice(((0.0, interval_s), (0.0,), (2 * interval_s,))),
        spout_wait_ms=interval_s * 1000 / 16,
        spout_wait_max_ms=interval_s * 1000 / 4,
        backpressure_check_interval_ms=interval_s * 1000,
        **marks(chance),
    )


def _mailboxes(chance: random.Random) -> dict[str, Any]:
    """In half of the seeds mailboxes hold a time. Then they are larger: of one that is small it holds all."""
    if chance.random() < 0.5:
        return {}
    return {"mailbox_target_ms": 200, "mailbox_capacity_tuples": chance.choice((20, 60, 200, 1024))}


def marks(chance: random.Random) -> dict[str, Any]:
    """Other marks, and when they count."""
    return {
        "backpressure_sample_number": chance.choice((2, 4, 4, 8)),
        "backpressure_sample_rate": chance.choice((0.5, 0.75, 0.75, 1.0)),
        "backpressure_trigger_ratio": chance.choice((0.1, 0.1, 0.5, 1.0)),
        "backpressure_high_mark": chance.choice((0.5, 0.8, 0.8)),
        "backpressure_low_mark": chance.choice((0.05, 0.05, 0.2)),
    }


def _load(chance: random.Random, tasks: int, takes_s: float, period_s: float, begin_s: float, end_s: float) -> Load:
    kind = chance.choice(TIMES)
    every = frozenset(range(tasks))
    slow = frozenset(chance.sample(range(tasks), max(1, tasks // 2))) if kind == "some" else every
    stints: list[Stint] = []
    now_s = begin_s
    while now_s < end_s:
        stint = Stint(now_s, end_s, takes_s)
        if kind == "bursty":
            quick = bool(stints) and stints[-1].takes_s > 0
            stint = Stint(now_s, now_s + period_s * chance.uniform(1, 4), 0.0 if quick else takes_s)
        elif kind == "healed":
            stint = Stint(now_s, begin_s + (end_s - begin_s) * chance.uniform(0.2, 0.8), takes_s)
            return Load([stint], slow)
        elif kind == "hung":
            hangs = bool(stints) and not stints[-1].hangs
            stint = Stint(now_s, now_s + period_s * chance.uniform(1, 4), takes_s, hangs)
        stints.append(Stint(stint.from_s, min(stint.to_s, end_s), stint.takes_s, stint.hangs))
        now_s = stint.to_s
    return Load(stints, slow)
