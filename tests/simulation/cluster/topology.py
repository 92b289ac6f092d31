"""The topology of the world: numbers that are offered over time, each until it is acked. What was done is kept here."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

from aiostorm import BasicBolt, BasicCollector, Config, Spout, Topology, TopologyBuilder, Tuple

TARGET = f"{__name__}:numbers"
OTHER_TARGET = f"{__name__}:numbers_again"
BROKEN_TARGET = f"{__name__}:broken"
CRASHING_TARGET = f"{__name__}:crashing"
"""Code that ends the process which imports it: there is no such function."""


class Done:
    """What was offered, acked and executed, by all processes of this world.

    `here`: the name of the process that asks. `last_ran_in`: the processes that have executed tasks of `last`.
    """

    def __init__(self) -> None:
        self.offered = 0
        self.acked: set[int] = set()
        self.executed: Counter[int] = Counter()
        self.failed = 0
        self.here: Callable[[], str] = str
        self.last_ran_in: set[str] = set()


done = Done()


def begin() -> Done:
    """Another world begins."""
    global done  # processes of one world import the same module
    done = Done()
    return done


class Numbers(Spout):
    """What was offered, and is not acked."""

    outputs = "n"

    def open(self, context: Any, collector: Any) -> None:
        self.collector = collector
        self.next = 0
        self.again = [n for n in range(done.offered) if n not in done.acked]
        self.next = done.offered

    def next_tuple(self) -> None:
        if self.again:
            self._emit(self.again.pop())
        elif self.next < done.offered:
            self._emit(self.next)
            self.next += 1

    def _emit(self, n: int) -> None:
        self.collector.emit((n,), message_id=n)

    def ack(self, message_id: int) -> None:
        done.acked.add(message_id)

    def fail(self, message_id: int, failure: Any) -> None:
        done.failed += 1
        self.again.append(message_id)


class Twice(BasicBolt):
    outputs = "n"

    async def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        await asyncio.sleep(0.01)
        collector.emit((tup["n"],))


class Last(BasicBolt):
    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        done.executed[tup["n"]] += 1
        done.last_ran_in.add(done.here())


def numbers() -> Topology:
    """Two spout tasks would offer everything twice: there is one."""
    builder = TopologyBuilder()
    builder.set_spout("numbers", Numbers)
    builder.set_bolt("twice", Twice, 2).shuffle_grouping("numbers")
    builder.set_bolt("last", Last, 2).fields_grouping("twice", "n")
    return builder.create_topology(config=Config(max_spout_pending=20, message_timeout_s=30.0))


def numbers_again() -> Topology:
    """Other code that does the same."""
    return numbers()


class Broken(BasicBolt):
    def prepare(self, context: Any) -> None:
        raise ValueError("it cannot be prepared")

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        raise NotImplementedError


def broken() -> Topology:
    """Code that does not run."""
    builder = TopologyBuilder()
    builder.set_spout("numbers", Numbers)
    builder.set_bolt("twice", Broken, 2).shuffle_grouping("numbers")
    return builder.create_topology(config=Config(message_timeout_s=30.0))
