"""The model that watches random topologies, and the spouts of these: what was emitted, and what became of it.

It knows nothing of XOR. Every tuple carries the emissions it descends from (spout task, message id, attempt); the model
notes when each emission is settled and when its tuples are executed:

1. every emission is acked or failed exactly once;
2. no tuple of an emission is executed after it was acked (an ack before the last leaf would show here);
3. an emission of which a bolt failed or forgot a tuple is not acked, and only such a one fails;
4. no mailbox holds more than its capacity (where there is no cycle), and nothing is executed after the end.

What a generator spout emits is replayed by the framework under one attempt; there 2 and 3 hold until it first fails.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from aiostorm import Failure, Fields, Spout, TaskHook, spout
from aiostorm.actors import Mailbox

Emission = tuple[str, int, int]
Ids = tuple[Emission, ...]
FIELDS = ("ids", "n", "hops")
RETRIES = 3
"""How often the framework replays what a generator spout gave."""


@dataclass
class Model:
    """What happened to each emission."""

    emitted: Counter[Emission] = field(default_factory=Counter)
    acked: Counter[Emission] = field(default_factory=Counter)
    failed: Counter[Emission] = field(default_factory=Counter)
    replayed: set[Emission] = field(default_factory=set)
    spoiled: set[Emission] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)
    boxes: list[Mailbox] = field(default_factory=list)
    cyclic: bool = False
    over: bool = False
    executed: int = 0
    restarts: int = 0

    def execute(self, component: str, ids: Ids) -> None:
        self.executed += 1
        for emission in ids:
            if self.acked[emission] and emission not in self.replayed:
                self.problems.append(f"{component} executed a tuple of {emission} after its ack")
        if self.over:
            self.problems.append(f"{component} executed a tuple after the end")
        if not self.cyclic and any(box.gate.fill > box.gate.capacity for box in self.boxes):
            self.problems.append("a mailbox holds more than its capacity")

    def settle(self, emission: Emission, failure: Failure | None) -> None:
        replays = failure is not None and failure.attempts <= RETRIES and emission[0].startswith("g")
        if replays:
            self.replayed.add(emission)
        else:
            (self.acked if failure is None else self.failed)[emission] += 1
        if self.acked[emission] + self.failed[emission] > 1 - replays:
            self.problems.append(f"{emission} was settled twice")
        if failure is None:
            if emission in self.spoiled and emission not in self.replayed:
                self.problems.append(f"{emission} was acked though a tuple of it failed")
        elif failure.reason == "timeout":
            # A forgotten tuple fails its own messages, and no others of its tree.
            if emission not in self.spoiled:
                self.problems.append(f"{emission} timed out though no bolt forgot a tuple of it")
        elif emission not in self.spoiled:
            self.problems.append(f"{emission} failed though no tuple of it did: {failure}")

    def check(self) -> None:
        for emission, times in self.emitted.items():
            if times != 1:
                self.problems.append(f"{emission} was emitted {times} times under one attempt")
            if not self.acked[emission] and not self.failed[emission]:
                self.problems.append(f"{emission} was never settled")


class Numbers(Spout):
    """Emits `count` messages on two streams and replays what fails, a few times. Untracked tuples go between them."""

    outputs = {"default": Fields(*FIELDS), "side": Fields(*FIELDS)}  # noqa: RUF012

    def __init__(self, model: Model, count: int, rng_seed: int, style: str, max_replays: int, odd: float) -> None:
        self.model, self.count, self.seed, self.style, self.max_replays = model, count, rng_seed, style, max_replays
        self.odd = odd

    def __deepcopy__(self, memo: Any) -> Numbers:
        return Numbers(self.model, self.count, self.seed, self.style, self.max_replays, self.odd)

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
                stream = "side" if self.rng.random() < self.odd else "default"
                self.collector.emit(((emission,), self.rng.randrange(20), 0), message_id=(n, attempt), stream=stream)
                if self.rng.random() < self.odd:
                    stream = self.rng.choice(["default", "side"])
                    self.collector.emit(((), self.rng.randrange(20), 0), stream=stream)

    def ack(self, message_id: Any) -> None:
        self.model.settle((self.name, *message_id), None)

    def fail(self, message_id: Any, failure: Any) -> None:
        self.model.settle((self.name, *message_id), failure)
        n, attempt = message_id
        if attempt < self.max_replays:
            self.todo.append((n, attempt + 1))


reported_to = Model()
"""Where the hooks of generator spouts report: hooks are named by an import string, so this cannot be an argument."""


class OutcomeHook(TaskHook):
    """Reports to the model what became of a generator's messages."""

    def prepare(self, context: Any) -> None:
        self.name, self.model = f"{context.component}[{context.task_id}]", reported_to

    def spout_ack(self, message_id: Any, task_id: int, complete_latency_s: float) -> None:
        self.model.settle((self.name, message_id, 0), None)

    def spout_fail(self, message_id: Any, task_id: int, failure: Failure) -> None:
        self.model.settle((self.name, message_id, 0), failure)


def generator_spout(model: Model, count: int, seed: int, *, tracked: bool, lists: float) -> Any:
    """A generator of rows, some of them lists. Its name begins with "g"."""

    @spout(outputs=list(FIELDS), tracked=tracked, config={"auto_task_hooks": [f"{__name__}:OutcomeHook"]})
    def numbers(context: Any) -> Iterator[Any]:
        name, rng = f"{context.component}[{context.task_id}]", random.Random(seed)
        for n in range(count):
            emission = (name, n, 0)
            if tracked:
                model.emitted[emission] += 1
            row = ((emission,) if tracked else (), rng.randrange(20), 0)
            yield list(row) if rng.random() < lists else row

    return numbers
