"""Parts that many tests here are built of: a line of components, shared notes, bolts that do what a test asks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, Self

from aiostorm import BasicBolt, Bolt, Spout, Topology, TopologyBuilder
from aiostorm.metrics import SpanRing, mask_of
from aiostorm.tasks.emit.tracing import TaskTracer


class Notes(list[Any]):
    """A list that components share with the test: each task gets a copy of its component, but never of this."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self


class Gate:
    """An event that components share with the test."""

    def __init__(self, *, is_open: bool = False) -> None:
        self._event = asyncio.Event()
        if is_open:
            self._event.set()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def open(self) -> None:
        self._event.set()

    async def wait(self) -> None:
        await self._event.wait()


def line(spout: Any, /, **bolts: Any) -> Topology:
    """spout ─► first bolt ─► second …, one task each; the spout's id is "spout"."""
    builder = TopologyBuilder()
    builder.set_spout("spout", spout)
    source = "spout"
    for name, component in bolts.items():
        builder.set_bolt(name, component).shuffle_grouping(source)
        source = name
    return builder.create_topology()


class Numbers(Spout):
    """Emits 0, 1, … `count` - 1 with themselves as message ids, one a call, then finishes; notes its acks and fails.

    `outcomes`: ("ack", id) and ("fail", id, failure).
    """

    outputs = "n"

    def __init__(self, count: int, *, each_call: int = 1) -> None:
        self.count, self.each_call = count, each_call
        self.outcomes = Notes()

    def open(self, context: Any, collector: Any) -> None:
        self.collector = collector
        self.next = 0

    def next_tuple(self) -> None:
        for _ in range(min(self.each_call, self.count - self.next)):
            self.collector.emit((self.next,), message_id=self.next)
            self.next += 1
        if self.next == self.count:
            self.collector.finish()

    def ack(self, message_id: Any) -> None:
        self.outcomes.append(("ack", message_id))

    def fail(self, message_id: Any, failure: Any) -> None:
        self.outcomes.append(("fail", message_id, failure))

    @property
    def acked(self) -> list[Any]:
        return [note[1] for note in self.outcomes if note[0] == "ack"]

    @property
    def failed(self) -> dict[Any, Any]:
        return {note[1]: note[2] for note in self.outcomes if note[0] == "fail"}


class Does(BasicBolt):
    """A basic bolt that runs a function of (tuple, collector)."""

    outputs = "out"

    def __init__(self, act: Callable[[Any, Any], Any], outputs: Any = "out") -> None:
        self.act = act
        self.outputs = outputs  # type: ignore[misc]

    def execute(self, tup: Any, collector: Any) -> Any:
        return self.act(tup, collector)


class DoesRich(Bolt):
    """A rich bolt that runs a function of (tuple, collector); without one it holds every tuple.

    `held` has what came, `collectors` the collector of each instance.
    """

    def __init__(self, act: Callable[[Any, Any], Any] | None = None, outputs: Any = "out") -> None:
        self.act = act
        self.outputs = outputs  # type: ignore[misc]
        self.held = Notes()
        self.collectors = Notes()

    def prepare(self, context: Any, collector: Any) -> None:
        self.collector = collector
        self.collectors.append(collector)

    def execute(self, tup: Any) -> Any:
        self.held.append(tup)
        return self.act(tup, self.collector) if self.act is not None else None


def tracer(ring: SpanRing | None = None, one_in: int = 0) -> TaskTracer:
    """Of a task without a clock: its time is 0."""
    return TaskTracer(ring or SpanRing(), mask_of(one_in), 1, float, float)


def rows(values: Iterable[Any]) -> list[tuple[Any]]:
    """One-field rows."""
    return [(value,) for value in values]
