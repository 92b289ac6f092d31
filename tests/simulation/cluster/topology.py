"""The topologies of the world: numbers that are offered over time, each until it is done. What was done is kept here.

`numbers` is at least once: done is what is acked. `exact` is exactly once: done is what is committed, once each.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from aiostorm import BasicBolt, BasicCollector, Config, Spout, Topology, TopologyBuilder, Tuple
from aiostorm.state import Sink

PLACE: Final = "sim://state"
"""Of the snapshots: all workers reach it."""


@dataclass(frozen=True, slots=True)
class Targets:
    """Where the code of a topology is: two versions that run, and what does not."""

    first: str
    other: str
    broken: str
    sink: str


TARGETS: Final = {
    "numbers": Targets(f"{__name__}:numbers", f"{__name__}:numbers_again", f"{__name__}:broken", "last"),
    "exact": Targets(f"{__name__}:exact", f"{__name__}:exact_again", f"{__name__}:broken_exact", "once"),
}
CRASHING_TARGET = f"{__name__}:crashing"
"""Code that ends the process which imports it: there is no such function."""


class Done:
    """What was offered and done, by all processes of this world. `twice`: what was committed more than once.

    `here`: the name of the process that asks. `last_ran_in`: the processes that have executed tasks of the last bolt.
    """

    def __init__(self) -> None:
        self.offered = 0
        self.acked: set[int] = set()
        self.executed: Counter[int] = Counter()
        self.twice: list[int] = []
        self.failed = 0
        self.here: Callable[[], str] = str
        self.last_ran_in: set[str] = set()
        self._last: dict[int, int] = {}

    def commit(self, task: int, number: int, rows: list[int]) -> None:
        """One transaction of a sink; nothing if its task has committed this number."""
        if self._last.get(task, -1) >= number:
            return
        self._last[task] = number
        for n in rows:
            self.executed[n] += 1
            if n in self.acked:
                self.twice.append(n)
            self.acked.add(n)


done: dict[str, Done] = {}


def begin() -> dict[str, Done]:
    """Another world begins."""
    done.clear()  # processes of one world import the same module
    done.update({name: Done() for name in TARGETS})
    return done


class Numbers(Spout):
    """What was offered, and is not acked."""

    outputs = "n"

    def open(self, context: Any, collector: Any) -> None:
        self.done = done["numbers"]
        self.collector = collector
        self.next = 0
        self.again = [n for n in range(self.done.offered) if n not in self.done.acked]
        self.next = self.done.offered

    def next_tuple(self) -> None:
        if self.again:
            self._emit(self.again.pop())
        elif self.next < self.done.offered:
            self._emit(self.next)
            self.next += 1

    def _emit(self, n: int) -> None:
        self.collector.emit((n,), message_id=n)

    def ack(self, message_id: int) -> None:
        self.done.acked.add(message_id)

    def fail(self, message_id: int, failure: Any) -> None:
        self.done.failed += 1
        self.again.append(message_id)


class Twice(BasicBolt):
    outputs = "n"

    async def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        await asyncio.sleep(0.01)
        collector.emit((tup["n"],))


class Last(BasicBolt):
    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        done["numbers"].executed[tup["n"]] += 1
        done["numbers"].last_ran_in.add(done["numbers"].here())


class Broken(BasicBolt):
    def prepare(self, context: Any) -> None:
        raise ValueError("it cannot be prepared")

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        raise NotImplementedError


def numbers(twice: type[BasicBolt] = Twice) -> Topology:
    """Two spout tasks would offer everything twice: there is one."""
    builder = TopologyBuilder()
    builder.set_spout("numbers", Numbers)
    builder.set_bolt("twice", twice, 2).shuffle_grouping("numbers")
    builder.set_bolt("last", Last, 2).fields_grouping("twice", "n")
    return builder.create_topology(config=Config(max_spout_pending=20, message_timeout_s=30.0))


def numbers_again() -> Topology:
    """Other code that does the same."""
    return numbers()


def broken() -> Topology:
    """Code that does not run."""
    return numbers(Broken)


# -- exactly once ------------------------------------------------------------------------------------------------------


class Positions(Spout):
    """What was offered, from a position that snapshots keep."""

    outputs = "n"

    def open(self, context: Any, collector: Any) -> None:
        self.collector = collector
        self.at = 0

    def next_tuple(self) -> None:
        if self.at < done["exact"].offered:
            self.at += 1
            self.collector.emit((self.at - 1,))

    def snapshot(self) -> int:
        return self.at

    def restore(self, at: int) -> None:
        self.at = at


class Once(Sink):
    """Commits to what is outside of all processes."""

    def prepare(self, context: Any) -> None:
        self.task = context.task_id
        self.rows: list[int] = []

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        self.rows.append(tup["n"])
        done["exact"].last_ran_in.add(done["exact"].here())

    def pre_commit(self, number: int) -> Any:
        rows, self.rows = self.rows, []
        return [self.task, number, *rows] if rows else None

    def commit(self, handle: Any) -> None:
        task, number, *rows = handle
        done["exact"].commit(task, number, rows)

    def abort(self, handle: Any) -> None:
        self.rows = [*handle[2:], *self.rows]


def exact(twice: type[BasicBolt] = Twice) -> Topology:
    """The same, exactly once."""
    builder = TopologyBuilder()
    builder.set_spout("numbers", Positions)
    builder.set_bolt("twice", twice, 2).shuffle_grouping("numbers")
    builder.set_bolt("once", Once, 1).global_grouping("twice")
    config = Config(
        guarantee="exactly-once",
        state_dir=PLACE,
        snapshot_interval_ms=1000,
        restart_max=100_000,
        message_timeout_s=30.0,
    )
    return builder.create_topology(config=config)


def exact_again() -> Topology:
    """Other code that does the same."""
    return exact()


def broken_exact() -> Topology:
    """Code that does not run."""
    return exact(Broken)
