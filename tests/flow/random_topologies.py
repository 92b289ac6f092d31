"""Random topologies: any graph, any bolt, any size of queue, drawn from a seed.

The model that checks them knows nothing of XOR. Every tuple carries the emissions it descends from (spout task, message
id, attempt); the model notes when each emission is settled and when its tuples are executed:

1. every emission is acked or failed exactly once;
2. no tuple of an emission is executed after it was acked (an ack before the last leaf would show here);
3. an emission of which a bolt failed or forgot a tuple is not acked, and only such a one fails;
4. in the end nothing is pending, in the ledgers, in the mailboxes, parked, or running.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from aiostorm import BasicBolt, Bolt, Config, Failure, LocalCluster, Spout, Topology, TopologyBuilder, bolt
from aiostorm.acker import AckerActor

Ids = tuple[tuple[str, int, int], ...]
FIELDS = ("ids", "n", "hops")


class BoltFailedError(Exception):
    """Raised by a bolt on purpose."""


@dataclass
class Model:
    """What happened to each emission."""

    emitted: Counter[tuple[str, int, int]] = field(default_factory=Counter)
    acked: Counter[tuple[str, int, int]] = field(default_factory=Counter)
    failed: Counter[tuple[str, int, int]] = field(default_factory=Counter)
    spoiled: set[tuple[str, int, int]] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)
    forgets: bool = False
    executed: int = 0
    restarts: int = 0

    def execute(self, who: str, ids: Ids) -> None:
        self.executed += 1
        for emission in ids:
            if self.acked[emission]:
                self.problems.append(f"{who} executed a tuple of {emission} after its ack")

    def settle(self, emission: tuple[str, int, int], failure: Failure | None) -> None:
        (self.acked if failure is None else self.failed)[emission] += 1
        if self.acked[emission] + self.failed[emission] > 1:
            self.problems.append(f"{emission} was settled twice")
        if failure is None:
            if emission in self.spoiled:
                self.problems.append(f"{emission} was acked though a tuple of it failed")
        elif failure.reason == "timeout":
            # A forgotten tuple takes its whole tree with it; without one, nothing may be left hanging.
            if not self.forgets:
                self.problems.append(f"{emission} timed out though no bolt forgot a tuple")
        elif emission not in self.spoiled:
            self.problems.append(f"{emission} failed though no tuple of it did: {failure}")

    def check(self) -> None:
        for emission, times in self.emitted.items():
            if times != 1:
                self.problems.append(f"{emission} was emitted {times} times under one attempt")
            if not self.acked[emission] and not self.failed[emission]:
                self.problems.append(f"{emission} was never settled")


class Numbers(Spout):
    """Emits `count` messages and replays what fails, a few times."""

    outputs = FIELDS

    def __init__(self, model: Model, count: int, rng_seed: int, style: str, max_replays: int) -> None:
        self.model, self.count, self.seed, self.style, self.max_replays = model, count, rng_seed, style, max_replays

    def __deepcopy__(self, memo: Any) -> Numbers:
        return Numbers(self.model, self.count, self.seed, self.style, self.max_replays)

    def open(self, context: Any, collector: Any) -> None:
        self.collector = collector
        self.name = f"{context.component}[{context.task_id}]"
        self.rng = random.Random(self.seed * 1000 + context.task_index)
        self.todo = [(n, 0) for n in range(self.count)]

    def next_tuple(self) -> Any:
        if self.style == "async" or (self.style == "mixed" and self.rng.random() < 0.3):
            return self._later()
        return self._some()

    async def _later(self) -> None:
        if self.rng.random() < 0.5:
            await asyncio.sleep(self.rng.choice([0, 0.001, 0.5]))
        self._some()
        if self.rng.random() < 0.2:
            await self.collector.drain()
            self._some()

    def _some(self) -> None:
        for _ in range(self.rng.choice([1, 1, 1, 2, 5])):
            if self.todo:
                n, attempt = self.todo.pop()
                emission = (self.name, n, attempt)
                self.model.emitted[emission] += 1
                self.collector.emit(((emission,), self.rng.randrange(20), 0), message_id=(n, attempt))

    def ack(self, message_id: Any) -> None:
        self.model.settle((self.name, *message_id), None)

    def fail(self, message_id: Any, failure: Any) -> None:
        self.model.settle((self.name, *message_id), failure)
        n, attempt = message_id
        if attempt < self.max_replays:
            self.todo.append((n, attempt + 1))


class Spoiler:
    """Decides, from the seed, what a bolt does with a tuple. Bad luck gets rarer with each attempt."""

    def __init__(self, model: Model, seed: int, fail: float, fan_out: int, max_hops: int) -> None:
        self.model, self.seed, self.fail, self.fan_out, self.max_hops = model, seed, fail, fan_out, max_hops
        self.rng = random.Random(seed)

    def __deepcopy__(self, memo: Any) -> Spoiler:
        return self

    def unlucky(self, ids: Ids) -> bool:
        attempts = max((attempt for _, _, attempt in ids), default=0)
        return self.rng.random() < self.fail / (1 + attempts)

    def spoil(self, ids: Ids) -> None:
        self.model.spoiled.update(ids)

    def children(self, hops: int) -> list[tuple[int, int]]:
        if hops >= self.max_hops:
            return []
        return [(self.rng.randrange(20), hops + 1) for _ in range(self.rng.randint(0, self.fan_out))]


class Basic(BasicBolt):
    outputs = FIELDS

    def __init__(self, name: str, spoiler: Spoiler) -> None:
        self.name, self.spoiler = name, spoiler

    def execute(self, tup: Any, collector: Any) -> None:
        ids, _, hops = tup.values
        self.spoiler.model.execute(self.name, ids)
        for n, h in self.spoiler.children(hops):
            collector.emit((ids, n, h))
        if self.spoiler.unlucky(ids):
            self.spoiler.spoil(ids)
            raise BoltFailedError(self.name)


class AsyncBasic(Basic):
    async def execute(self, tup: Any, collector: Any) -> None:  # type: ignore[override]
        if self.spoiler.rng.random() < 0.3:
            await asyncio.sleep(self.spoiler.rng.choice([0, 0.01]))
        super().execute(tup, collector)
        if self.spoiler.rng.random() < 0.1:
            await collector.drain()


class Rich(Bolt):
    """Acks, fails, forgets, holds several and joins them, raises; at once or later."""

    outputs = FIELDS

    def __init__(self, name: str, spoiler: Spoiler, hold: int, forget: float, crash: float) -> None:
        self.name, self.spoiler, self.hold, self.forget, self.crash = name, spoiler, hold, forget, crash

    def prepare(self, context: Any, collector: Any) -> None:
        self.collector = collector
        self.held: list[Any] = []

    def execute(self, tup: Any) -> None:
        ids, _, hops = tup.values
        rng, spoiler = self.spoiler.rng, self.spoiler
        spoiler.model.execute(self.name, ids)
        if rng.random() < self.crash and hops < 3:
            for lost in (tup, *self.held):
                spoiler.spoil(lost["ids"])
            spoiler.model.restarts += 1
            raise BoltFailedError(f"{self.name} crashes")
        if spoiler.unlucky(ids):
            spoiler.spoil(ids)
            self.collector.fail(tup, "unlucky")
            return
        if rng.random() < self.forget:
            spoiler.spoil(ids)
            return
        self.held.append(tup)
        if len(self.held) > self.hold:
            self.release(hops)

    def on_tick(self) -> None:
        self.release(0)

    def release(self, hops: int) -> None:
        held, self.held = self.held, []
        anchors = held if len(held) != 1 else held[0]
        joined = tuple(dict.fromkeys(i for tup in held for i in tup["ids"]))
        if held:
            anchors = [*held, held[0]] if self.spoiler.rng.random() < 0.2 else anchors  # one named twice
            for n, h in self.spoiler.children(max(hops, *(t["hops"] for t in held), 0)):
                self.collector.emit((joined, n, h), anchors=anchors)
        for tup in held:
            self.collector.ack(tup)
            self.collector.ack(tup)  # twice is harmless


def function_bolt(name: str, spoiler: Spoiler) -> Any:
    @bolt(outputs=list(FIELDS))
    def execute(ids: Ids, n: int, hops: int) -> Any:
        spoiler.model.execute(name, ids)
        if spoiler.unlucky(ids):
            spoiler.spoil(ids)
            raise BoltFailedError(name)
        for m, h in spoiler.children(hops):
            yield (ids, m, h)

    return execute


class Batch(BasicBolt):
    outputs = FIELDS

    def __init__(self, name: str, spoiler: Spoiler) -> None:
        self.name, self.spoiler = name, spoiler

    def execute_batch(self, tuples: Any, collector: Any) -> None:
        for tup in tuples:
            self.spoiler.model.execute(self.name, tup["ids"])
        everyone = tuple(dict.fromkeys(i for tup in tuples for i in tup["ids"]))
        for tup in tuples:
            for n, h in self.spoiler.children(tup["hops"]):
                if self.spoiler.rng.random() < 0.2:
                    collector.emit((everyone, n, h))  # anchored to the whole batch
                else:
                    collector.emit((tup["ids"], n, h), anchors=tup)
        for tup in tuples:
            if self.spoiler.unlucky(tup["ids"]):
                for each in tuples:
                    self.spoiler.spoil(each["ids"])
                raise BoltFailedError(self.name)


def draw(seed: int, tree_sizes: tuple[int, ...]) -> tuple[Topology, Config, Model]:
    """A topology, its configuration and the model that watches it."""
    rng = random.Random(seed)
    model = Model()
    builder = TopologyBuilder()
    sources: list[str] = []
    for i in range(rng.randint(1, 2)):
        name = f"s{i}"
        style = rng.choice(["sync", "sync", "async", "mixed"])
        count = rng.choice([1, 3, 20, 60])
        builder.set_spout(name, Numbers(model, count, seed + i, style, rng.choice([0, 1, 3])), rng.choice([1, 1, 2]))
        sources.append(name)
    forget = rng.choice([0, 0, 0, 0.02])
    model.forgets = forget > 0
    names = [f"b{i}" for i in range(rng.randint(1, 5))]
    for i, name in enumerate(names):
        spoiler = Spoiler(model, seed * 31 + i, rng.choice([0, 0, 0.02, 0.2]), rng.choice([0, 1, 1, 2, 3]), 4)
        kind = rng.choice(["basic", "async", "rich", "rich", "function", "batch"])
        made: Any
        if kind == "basic":
            made = Basic(name, spoiler)
        elif kind == "async":
            made = AsyncBasic(name, spoiler)
        elif kind == "function":
            made = function_bolt(name, spoiler)
        elif kind == "batch":
            made = Batch(name, spoiler)
        else:
            made = Rich(name, spoiler, rng.choice([0, 0, 2]), forget, rng.choice([0, 0, 0.02]))
        declarer = builder.set_bolt(name, made, rng.choice([1, 1, 2, 3]))
        if kind == "rich":
            declarer.set_config(tick_tuple_freq_s=0.5)
        subscribed = rng.sample(sources, min(len(sources), rng.choice([1, 1, 2, 3])))
        if rng.random() < 0.15:  # a cycle: the hops bound it
            subscribed.append(rng.choice(names))
        if i == 0:
            subscribed = [s for s in subscribed if s in sources] or sources[:1]
        for source in dict.fromkeys(subscribed):
            _subscribe(declarer, rng, source)
        sources.append(name)
    config = Config(
        acker_tree_max_messages=rng.choice(tree_sizes),
        acker_executors=rng.choice([1, 1, 2, 3]),
        mailbox_capacity_tuples=rng.choice([1, 1, 2, 5, 64, 1024]),
        turn_max_tuples=rng.choice([1, 4, 256]),
        max_spout_pending=rng.choice([None, 1, 5, 50]),
        message_timeout_s=rng.choice([30, 60]),
        spout_wait_max_ms=rng.choice([100, 2_000]),
        restart_max=100_000,
        restart_backoff_s=(0, 0.1),
    )
    return builder.create_topology(), config, model


def _subscribe(declarer: Any, rng: random.Random, source: str) -> None:
    kind = rng.choice(["shuffle", "fields", "fields", "all", "global", "none", "partial", "local", "first"])
    match kind:
        case "shuffle":
            declarer.shuffle_grouping(source)
        case "fields":
            declarer.fields_grouping(source, "n")
        case "all":
            declarer.all_grouping(source)
        case "global":
            declarer.global_grouping(source)
        case "none":
            declarer.none_grouping(source)
        case "partial":
            declarer.partial_key_grouping(source, "n")
        case "local":
            declarer.local_or_shuffle_grouping(source)
        case "first":
            declarer.local_first_grouping(source)


async def run(seed: int, tree_sizes: tuple[int, ...] = (1, 3, 64)) -> Model:
    """Run one to its end; AssertionError with every problem found."""
    topology, config, model = draw(seed, tree_sizes)
    tasks_before = asyncio.all_tasks()
    async with LocalCluster() as cluster:
        running = await cluster.submit("random", topology, config)
        await running.wait_idle()
        model.check()
        assert running.metrics().pending == 0, running.pending()
        await running.deactivate()  # a spout that is asked ten times a second for a minute proves nothing
        # Ownerless rows (a restart's late acks) go with the timeout; the rest must be gone already.
        await asyncio.sleep(config.message_timeout_s * 1.2)
        await running.wait_idle()
        for task_id, ref in running._crew.refs.items():
            box = running._crew.mailboxes[task_id]
            actor = ref._cell._actor
            if box.fill or box.parked or not box.gate_open or box.has_control or box.has_data:
                model.problems.append(f"{ref.path}: {box.fill=} {box.parked=} {box.gate_open=}")
            if isinstance(actor, AckerActor) and len(actor.ledger):
                model.problems.append(f"{ref.path}: {len(actor.ledger)} rows left")
        await running.kill()
        assert cluster.dead_letters == 0
    left = asyncio.all_tasks() - tasks_before
    assert not left, f"leaked: {left}"
    assert not model.problems, "\n".join([f"seed {seed}:", *model.problems[:20]])
    return model
