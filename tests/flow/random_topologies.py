"""Random topologies: any graph, any spout, any bolt, any size of queue, drawn from a seed; random_model.py checks them.

In the end nothing is pending, in the ledgers, in the mailboxes, parked, or running: also when they are killed at any
moment (`run_killed`).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine
from typing import Any

from aiostorm import BasicBolt, Bolt, Config, LocalCluster, RunningTopology, Topology, TopologyBuilder, bolt
from aiostorm.acker import AckerActor
from aiostorm.testing.simulation.chance import SeededRng

from . import random_model
from .random_model import FIELDS, Ids, Model, Numbers, generator_spout

HANGS = 0.3
"""Of the seeds: a task of a bolt is in one call for seconds, once or twice. That is below any message timeout."""


class BoltFailedError(Exception):
    """Raised by a bolt on purpose."""


class Spoiler:
    """Decides, from the seed, what a bolt does with a tuple. Bad luck gets rarer with each attempt."""

    def __init__(self, model: Model, seed: int, fail: float, fan_out: int, max_hops: int) -> None:
        self.model, self.seed, self.fail, self.fan_out, self.max_hops = model, seed, fail, fan_out, max_hops
        self.rng = random.Random(seed)
        self.hangs = 0
        """So often a task of the bolt will be in one call for seconds."""

    def __deepcopy__(self, memo: Any) -> Spoiler:
        return self

    def unlucky(self, ids: Ids) -> bool:
        attempts = max((attempt for _, _, attempt in ids), default=0)
        return self.rng.random() < self.fail / (1 + attempts)

    async def hang(self) -> None:
        if self.hangs and self.rng.random() < 0.2:
            self.hangs -= 1
            await asyncio.sleep(self.rng.choice([0.5, 1.5, 4, 9]))

    def spoil(self, ids: Ids) -> None:
        self.model.spoiled.update(ids)

    def error(self, name: str) -> BaseException:
        return asyncio.CancelledError() if self.rng.random() < 0.1 else BoltFailedError(name)

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
            raise self.spoiler.error(self.name)


class AsyncBasic(Basic):
    async def execute(self, tup: Any, collector: Any) -> None:  # type: ignore[override]
        if self.spoiler.rng.random() < 0.3:
            await asyncio.sleep(self.spoiler.rng.choice([0, 0.01]))
        super().execute(tup, collector)
        if self.spoiler.rng.random() < 0.1:
            await collector.drain()


class SometimesLater(Basic):
    """A plain `def` that gives back something to await, now and then: a coroutine, or a task."""

    def execute(self, tup: Any, collector: Any) -> Any:
        rng = self.spoiler.rng
        if rng.random() < 0.7:
            return super().execute(tup, collector)
        return self._later(tup, collector, rng.choice([None, 0, 0.01]))

    def _later(self, tup: Any, collector: Any, wait_s: float | None) -> Coroutine[Any, Any, None]:
        async def wait() -> None:
            if wait_s is not None:
                await asyncio.get_running_loop().create_task(asyncio.sleep(wait_s))
            Basic.execute(self, tup, collector)

        return wait()


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
            raise spoiler.error(name)
        for m, h in spoiler.children(hops):
            yield (ids, m, h)

    return execute


def plain_bolt(name: str, spoiler: Spoiler) -> Any:
    """A function that returns one result, a list now and then, or nothing."""

    @bolt(outputs=list(FIELDS))
    def execute(ids: Ids, n: int, hops: int) -> Any:
        spoiler.model.execute(name, ids)
        if spoiler.unlucky(ids):
            spoiler.spoil(ids)
            raise spoiler.error(name)
        for m, h in spoiler.children(hops)[:1]:
            return [ids, m, h] if m == 0 else (ids, m, h)
        return None

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


class HangsBasic(AsyncBasic):
    async def execute(self, tup: Any, collector: Any) -> None:
        await self.spoiler.hang()
        await super().execute(tup, collector)
        await self.spoiler.hang()


class HangsRich(Rich):
    async def execute(self, tup: Any) -> None:  # type: ignore[override]
        await self.spoiler.hang()
        super().execute(tup)
        await self.spoiler.hang()


class HangsBatch(Batch):
    async def execute_batch(self, tuples: Any, collector: Any) -> None:  # type: ignore[override]
        await self.spoiler.hang()
        super().execute_batch(tuples, collector)
        await self.spoiler.hang()


def hangs_function(name: str, spoiler: Spoiler) -> Any:
    @bolt(outputs=list(FIELDS))
    async def execute(ids: Ids, n: int, hops: int) -> Any:
        spoiler.model.execute(name, ids)
        await spoiler.hang()
        if spoiler.unlucky(ids):
            spoiler.spoil(ids)
            raise spoiler.error(name)
        for m, h in spoiler.children(hops):
            yield (ids, m, h)
            await spoiler.hang()

    return execute


def _hangs(seed: int, at: int, name: str, spoiler: Spoiler) -> Any:
    """In some seeds one bolt is of those that hang; else None. (Of a stream of its own: the other seeds stay.)"""
    rng = random.Random(f"hangs {seed}")
    if rng.random() > HANGS or at != rng.randrange(2):
        return None
    spoiler.hangs = rng.choice([1, 2])
    kind = rng.choice([HangsBasic, HangsRich, HangsBatch, hangs_function])
    return HangsRich(name, spoiler, rng.choice([0, 3]), 0.0, 0.0) if kind is HangsRich else kind(name, spoiler)


def draw(seed: int, tree_sizes: tuple[int, ...]) -> tuple[Topology, Config, Model]:
    """A topology, its configuration and the model that watches it."""
    rng = random.Random(seed)
    model = Model()
    builder = TopologyBuilder()
    random_model.reported_to = model
    sources = [_add_spout(builder, rng, model, seed, i) for i in range(rng.randint(1, 2))]
    forget = rng.choice([0, 0, 0, 0.02])
    names = [f"b{i}" for i in range(rng.randint(1, 5))]
    for i, name in enumerate(names):
        spoiler = Spoiler(model, seed * 31 + i, rng.choice([0, 0, 0.02, 0.2]), rng.choice([0, 1, 1, 2, 3]), 4)
        kind = rng.choice(["basic", "async", "rich", "rich", "function", "plain", "later", "batch"])
        made: Any
        if kind == "basic":
            made = Basic(name, spoiler)
        elif kind == "async":
            made = AsyncBasic(name, spoiler)
        elif kind == "later":
            made = SometimesLater(name, spoiler)
        elif kind == "function":
            made = function_bolt(name, spoiler)
        elif kind == "plain":
            made = plain_bolt(name, spoiler)
        elif kind == "batch":
            made = Batch(name, spoiler)
        else:
            made = Rich(name, spoiler, rng.choice([0, 0, 2, 7]), forget, rng.choice([0, 0, 0.02]))
        hanging = _hangs(seed, i, name, spoiler)
        made = hanging or made
        declarer = builder.set_bolt(name, made, rng.choice([1, 1, 2, 3]))
        if isinstance(made, Rich):
            declarer.set_config(tick_tuple_freq_s=0.5)
        subscribed = rng.sample(sources, min(len(sources), rng.choice([1, 1, 2, 3])))
        if rng.random() < 0.15:  # a cycle: the hops bound it
            subscribed.append(rng.choice(names))
            model.cyclic = True
        if i == 0:
            subscribed = [s for s in subscribed if s in sources] or sources[:1]
        for source in dict.fromkeys(subscribed):
            _subscribe(declarer, rng, source)
            if source.startswith("s") and rng.random() < 0.5:
                _subscribe(declarer, rng, source, "side")
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


def _add_spout(builder: TopologyBuilder, rng: random.Random, model: Model, seed: int, i: int) -> str:
    count = rng.choice([1, 3, 20, 60])
    if rng.random() < 0.4:
        count = rng.choice([count, 300])
        tracked, lists = rng.random() < 0.8, rng.choice([0, 0, 0.1])
        made: Any = generator_spout(model, count, seed + i, tracked=tracked, lists=lists)
        name = f"g{i}"
    else:
        style = rng.choice(["sync", "sync", "async", "mixed"])
        made = Numbers(model, count, seed + i, style, rng.choice([0, 1, 3]), rng.choice([0, 0, 0.2]))
        name = f"s{i}"
    builder.set_spout(name, made, rng.choice([1, 1, 2]))
    return name


def _subscribe(declarer: Any, rng: random.Random, source: str, stream: str = "default") -> None:
    kind = rng.choice(["shuffle", "fields", "fields", "all", "global", "none", "partial", "local", "first"])
    subscribe(declarer, kind, source, stream)


def subscribe(declarer: Any, kind: str, source: str, stream: str) -> None:
    """By a grouping of this kind."""
    match kind:
        case "shuffle":
            declarer.shuffle_grouping(source, stream=stream)
        case "fields":
            declarer.fields_grouping(source, "n", stream=stream)
        case "all":
            declarer.all_grouping(source, stream=stream)
        case "global":
            declarer.global_grouping(source, stream=stream)
        case "none":
            declarer.none_grouping(source, stream=stream)
        case "partial":
            declarer.partial_key_grouping(source, "n", stream=stream)
        case "local":
            declarer.local_or_shuffle_grouping(source, stream=stream)
        case "first":
            declarer.local_first_grouping(source, stream=stream)


async def _start(cluster: LocalCluster, seed: int, tree_sizes: tuple[int, ...]) -> tuple[RunningTopology, Model]:
    topology, config, model = draw(seed, tree_sizes)
    factory = getattr(asyncio, "eager_task_factory", None)  # Python 3.12
    if factory is not None and seed % 5 == 0:
        asyncio.get_running_loop().set_task_factory(factory)
    running = await cluster.submit("random", topology, config)
    model.boxes = list(running._task_set.tasks.mailboxes.values())
    return running, model


async def run(seed: int, tree_sizes: tuple[int, ...] = (1, 3, 64, 256), order: int = 0) -> Model:
    """Run one to its end; AssertionError with every problem found. `order`: another one of shuffles and ids."""
    rng = random.Random(~seed)
    tasks_before = asyncio.all_tasks()
    async with LocalCluster(rng=_order(seed, order)) as cluster:
        running, model = await _start(cluster, seed, tree_sizes)
        config = running.config
        for _ in range(rng.choice([0, 0, 1, 3])):
            await _a_while(rng)
            await running.deactivate()
            await _a_while(rng)
            await running.activate()
        await running.wait_idle()
        model.check()
        assert running.metrics().pending == 0, running.pending()
        await running.deactivate()  # a spout that is asked ten times a second for a minute proves nothing
        # Ownerless rows (late acks after a restart) expire with the timeout; all others have been removed before.
        await asyncio.sleep(config.message_timeout_s * 1.2)
        await running.wait_idle()
        for task_id, ref in running._task_set.refs.items():
            box = running._task_set.tasks.mailboxes[task_id]
            actor = ref.cell.supervision.actor
            if box.gate.fill or box.parked or not box.gate.is_open or box.has_control or box.has_data:
                model.problems.append(f"{ref.path}: {box.gate.fill=} {box.parked=} {box.gate.is_open=}")
            if isinstance(actor, AckerActor) and len(actor.ledger):
                model.problems.append(f"{ref.path}: {len(actor.ledger)} rows left")
        await running.kill()
        assert cluster.dead_letters == 0
    left = asyncio.all_tasks() - tasks_before
    assert not left, f"leaked: {left}"
    assert not model.problems, "\n".join([f"seed {seed}:", *model.problems[:20]])
    return model


async def run_killed(seed: int, tree_sizes: tuple[int, ...] = (1, 3, 64, 256)) -> Model:
    """Run one and kill it somewhere on the way; AssertionError with every problem found."""
    rng = random.Random(~seed)
    tasks_before = asyncio.all_tasks()
    async with LocalCluster(rng=_order(seed)) as cluster:
        running, model = await _start(cluster, seed, tree_sizes)
        await _a_while(rng)
        await running.kill(rng.choice([0, 0, 0.01, None]))
        model.over = True
        await asyncio.sleep(100)
        for task in running._task_set.tasks.bolts:
            steps, working = task.steps, task.execution.working
            if steps.open_turn is not None or steps.raised is not None or working:
                model.problems.append(f"{task.name}: {steps.open_turn=} {steps.raised=} {working=}")
    left = asyncio.all_tasks() - tasks_before
    assert not left, f"leaked: {left}"
    assert not model.problems, "\n".join([f"seed {seed}:", *model.problems[:20]])
    return model


def _order(seed: int, order: int = 0) -> SeededRng:
    """Shuffles and ids that are the same in each run of a seed."""
    return SeededRng(random.Random(f"order {order} of {seed}"))


async def _a_while(rng: random.Random) -> None:
    """A few rounds of the loop, or some time."""
    for _ in range(rng.choice([0, 1, 3, 10, 30])):
        await asyncio.sleep(0)
    if rng.random() < 0.3:
        await asyncio.sleep(rng.choice([0.001, 0.1, 2]))
