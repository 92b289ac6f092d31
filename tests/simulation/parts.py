"""Sources and bolts of every kind, which report to the model what they do. The seed decides what they do."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from aiostorm import BasicBolt, Bolt, Fields, bolt
from aiostorm.testing.simulation import Source

from .model import FIELDS, Ids, Model


class BoltFailedError(Exception):
    """Raised by a bolt on purpose."""


class ModelSource(Source):
    """Offers numbers; each attempt is an emission of its own."""

    model: Model
    style = "plain"
    side = 0.0

    def __deepcopy__(self, memo: dict[int, Any]) -> ModelSource:
        view = super().__deepcopy__(memo)
        view.model, view.style, view.side = self.model, self.style, self.side
        return view

    def offer_between(self, begin_s: float, end_s: float) -> None:
        """In half of the seeds many at once, so that trees are of several messages."""
        super().offer_between(begin_s, end_s)
        state = self._state
        step_s = state.world.chance.stream(f"bursts of {state.name}").choice((0.0, 0.0, 2.0, 10.0))
        if step_s:
            state.offers_s = [begin_s + (at_s - begin_s) // step_s * step_s for at_s in state.offers_s]

    def open(self, context: Any, collector: Any) -> None:
        super().open(context, collector)
        self.component = context.component
        incarnation = f"{self.component} {context.task_id} {self._state.world.current.incarnation}"
        self.rng = self._state.world.chance.stream(f"source {incarnation} {self._state.emitted.total()}")

    def next_tuple(self) -> Any:
        if self.style == "async" or (self.style == "mixed" and self.rng.random() < 0.3):
            return self._later()
        self._some()
        return None

    async def _later(self) -> None:
        if self.rng.random() < 0.5:
            await asyncio.sleep(self.rng.choice([0, 0.001, 0.5]))
        self._some()
        if self.rng.random() < 0.2:
            await self._collector.drain()
            self._some()

    def _some(self) -> None:
        state = self._state
        for _ in range(self.rng.choice([1, 1, 1, 2, 5])):
            message = state.next_due() if state.world.current.effect() else None
            if message is None:
                return
            emission = (self.component, message, state.emitted[message])
            stream = "side" if self.rng.random() < self.side else "default"
            node = self.model.emit(self.component, (emission,), stream)
            self._collector.emit(((emission,), state.rows[message][0], 0, node), message_id=message, stream=stream)

    @property
    def read(self) -> Any:
        """What all of its tasks read."""
        return self._state

    def fail(self, message_id: Any, failure: Any) -> None:
        self.model.fail((self.component, message_id, self._state.emitted[message_id]), failure)
        super().fail(message_id, failure)

    def ack(self, message_id: Any) -> None:
        self.model.ack((self.component, message_id, self._state.emitted[message_id]))
        super().ack(message_id)


@dataclass
class Habits:
    """What a bolt does with a tuple. Bad luck gets rarer with each attempt, so that everything comes to an end."""

    model: Model
    name: str
    fail: float
    forget: float
    crash: float
    fan_out: int
    hold: int
    rng: random.Random
    pace_s: float = 0.0
    """What a tuple takes, of those kinds that can wait."""

    joins: bool = True
    """Is what comes of several tuples that were held anchored to all of them?"""

    def __deepcopy__(self, memo: Any) -> Habits:
        return self

    def unlucky(self, ids: Ids, chance: float) -> bool:
        attempt = max((attempt for _, _, attempt in ids), default=1)
        return bool(chance) and self.rng.random() < chance / attempt**2

    def children(self, hops: int) -> list[tuple[int, int]]:
        if hops >= 4:
            return []
        return [(self.rng.randrange(20), hops + 1) for _ in range(self.rng.randint(0, self.fan_out))]

    def rows(self, ids: Ids, hops: int) -> list[tuple[Any, ...]]:
        return [(ids, n, h, self.model.emit(self.name, ids)) for n, h in self.children(hops)]

    async def hangs(self, index: int) -> None:
        """Until it goes on; in pieces, since the process's clock is not true time."""
        world, hang = self.model.world, self.model.hang
        wait_s = hang.wait_s(self.name, index, world.now_s) if hang is not None else 0.0
        until_s = world.now_s + wait_s
        while world.now_s < until_s:  # noqa: ASYNC110
            await asyncio.sleep(min(1.0, until_s - world.now_s + 0.001))

    def fails(self, ids: Ids) -> None:
        if self.unlucky(ids, self.fail):
            self.model.failed(ids)
            raise BoltFailedError(self.name)


class Basic(BasicBolt):
    outputs = FIELDS

    def __init__(self, habits: Habits) -> None:
        self.habits = habits

    def prepare(self, context: Any) -> None:
        self.index = context.task_index

    def execute(self, tup: Any, collector: Any) -> None:
        ids, _, hops, node = tup.values
        self.habits.model.arrived(self.habits.name, self.index, tup)
        for row in self.habits.rows(ids, hops):
            collector.emit(row)
        self.habits.fails(ids)
        self.habits.model.done(self.habits.name, self.index, ids, node)


class Blocking(Basic):
    blocking = True


class AsyncBasic(Basic):
    async def execute(self, tup: Any, collector: Any) -> None:  # type: ignore[override]
        rng = self.habits.rng
        if rng.random() < 0.3 or self.habits.pace_s:
            await asyncio.sleep(self.habits.pace_s or rng.choice([0, 0.01, 0.03]))
        if self.habits.model.hang is not None:
            await self.habits.hangs(self.index)
        super().execute(tup, collector)
        if rng.random() < 0.1:
            await collector.drain()


class SometimesLater(Basic):
    """A plain `def` that gives back something to await, now and then."""

    def execute(self, tup: Any, collector: Any) -> Any:
        rng = self.habits.rng
        if rng.random() < 0.7 and not self.habits.pace_s:
            return super().execute(tup, collector)
        return self._later(tup, collector, self.habits.pace_s or rng.choice([None, 0, 0.01]))

    async def _later(self, tup: Any, collector: Any, wait_s: float | None) -> None:
        if wait_s is not None:
            await asyncio.sleep(wait_s)
        Basic.execute(self, tup, collector)


class Rich(Bolt):
    """Acks, fails, forgets, holds several and joins them, raises; at once, on a tick, or after a wait."""

    outputs = FIELDS

    def __init__(self, habits: Habits) -> None:
        self.habits = habits

    def prepare(self, context: Any, collector: Any) -> None:
        self.collector, self.index = collector, context.task_index
        self.held: list[Any] = []

    def execute(self, tup: Any) -> Any:
        ids = tup["ids"]
        habits, model = self.habits, self.habits.model
        model.arrived(habits.name, self.index, tup)
        if habits.unlucky(ids, habits.crash):
            for lost in (tup, *self.held):
                model.failed(lost["ids"])
            raise BoltFailedError(f"{habits.name} crashes")
        if habits.unlucky(ids, habits.fail):
            model.failed(ids)
            self.collector.fail(tup, "unlucky")
            return None
        if habits.unlucky(ids, habits.forget):
            model.failed(ids)
            return None
        self.held.append(tup)
        if len(self.held) <= habits.hold:
            return None
        if habits.rng.random() < 0.2 or habits.pace_s:
            return self._later()
        self.release()
        return None

    def on_tick(self) -> None:
        self.release()

    async def _later(self) -> None:
        await asyncio.sleep(self.habits.pace_s or self.habits.rng.choice([0, 0.01, 0.1]))
        self.release()
        if self.habits.rng.random() < 0.5:
            await self.collector.drain()

    def release(self) -> None:
        held, self.held = self.held, []
        if not held:
            return
        habits, model, rng = self.habits, self.habits.model, self.habits.rng
        if habits.joins:
            self._join(held)
        else:
            for tup in held:
                for row in habits.rows(tup["ids"], tup["hops"]):
                    self.collector.emit(row, anchors=tup)
        rng.shuffle(held)
        for tup in held:
            model.done(habits.name, self.index, tup["ids"], tup["node"])
            self.collector.ack(tup)
            self.collector.ack(tup)  # twice is harmless

    def _join(self, held: list[Any]) -> None:
        joined = tuple(dict.fromkeys(i for tup in held for i in tup["ids"]))
        anchors: Any = held if len(held) > 1 else held[0]
        if self.habits.rng.random() < 0.2:
            anchors = [*held, held[0]]  # one named twice
        for row in self.habits.rows(joined, max(tup["hops"] for tup in held)):
            self.collector.emit(row, anchors=anchors)


class Batch(BasicBolt):
    outputs = FIELDS

    def __init__(self, habits: Habits) -> None:
        self.habits = habits

    def prepare(self, context: Any) -> None:
        self.index = context.task_index

    def execute_batch(self, tuples: Any, collector: Any) -> None:
        habits = self.habits
        everyone = tuple(dict.fromkeys(i for tup in tuples for i in tup["ids"]))
        for tup in tuples:
            habits.model.arrived(habits.name, self.index, tup)
            if habits.rng.random() < 0.1:
                for row in habits.rows(everyone, tup["hops"]):
                    collector.emit(row)  # anchored to the whole batch
            else:
                for row in habits.rows(tup["ids"], tup["hops"]):
                    collector.emit(row, anchors=tup)
        if any(habits.unlucky(tup["ids"], habits.fail) for tup in tuples):
            habits.model.failed(everyone)
            raise BoltFailedError(habits.name)
        for tup in tuples:
            habits.model.done(habits.name, self.index, tup["ids"], tup["node"])


def generator_bolt(habits: Habits) -> Any:
    """A function that yields. (It runs in one task: it cannot know which.)"""

    @bolt(outputs=list(FIELDS))
    def execute(ids: Ids, n: int, hops: int, node: int) -> Any:
        yield from habits.rows(ids, hops)
        habits.fails(ids)
        habits.model.done(habits.name, 0, ids, node)

    return execute


def function_bolt(habits: Habits) -> Any:
    """A function that returns one row or nothing."""

    @bolt(outputs=list(FIELDS))
    def execute(ids: Ids, n: int, hops: int, node: int) -> Any:
        habits.fails(ids)
        row = next(iter(habits.rows(ids, hops)), None) if habits.fan_out == 1 else None
        habits.model.done(habits.name, 0, ids, node)
        return row

    return execute


def async_function_bolt(habits: Habits) -> Any:
    """An async function."""

    @bolt(outputs=list(FIELDS))
    async def execute(ids: Ids, n: int, hops: int, node: int) -> Any:
        if habits.rng.random() < 0.3 or habits.pace_s:
            await asyncio.sleep(habits.pace_s or habits.rng.choice([0, 0.05]))
        habits.fails(ids)
        habits.model.done(habits.name, 0, ids, node)

    return execute


def async_generator_bolt(habits: Habits) -> Any:
    """An async generator, which suspends between its rows and after some of them failed."""

    @bolt(outputs=list(FIELDS))
    async def execute(ids: Ids, n: int, hops: int, node: int) -> Any:
        for row in habits.rows(ids, hops):
            yield row
            if habits.rng.random() < 0.3:
                await asyncio.sleep(habits.rng.choice([0, 0.05]))
        habits.fails(ids)
        habits.model.done(habits.name, 0, ids, node)

    return execute


KINDS: dict[str, Callable[[Habits], Any]] = {
    "basic": Basic,
    "blocking": Blocking,
    "async": AsyncBasic,
    "later": SometimesLater,
    "rich": Rich,
    "batch": Batch,
    "generator": generator_bolt,
    "function": function_bolt,
    "async function": async_function_bolt,
    "async generator": async_generator_bolt,
}
SINGLE = ("generator", "function", "async function", "async generator")
"""Kinds whose tasks the model cannot distinguish: no all-grouping to several."""

__all__ = ["KINDS", "SINGLE", "Coroutine", "Fields", "Habits", "ModelSource"]
