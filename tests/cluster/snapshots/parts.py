"""Topologies for exactly once: numbered sources, bolts with state of each kind, and a sink whose rows can be counted.

What a sink has committed stays in a Database: outside of the topology, as a real one would.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from aiostorm import BasicBolt, Bolt, Config, Fields, Spout, Topology, TopologyBuilder, bolt
from aiostorm.state import KeyedState, Sink, ValueState


@dataclass
class Database:
    """Where sinks write. `rows` were committed; `numbers`: by which snapshots, by sink and task."""

    rows: list[tuple[Any, ...]] = field(default_factory=list)
    numbers: dict[tuple[str, int], int] = field(default_factory=dict)
    fail_commits: int = 0

    def __deepcopy__(self, memo: object) -> Database:
        return self  # shared by all tasks and runs, as a server is

    def write(self, sink: str, handle: dict[str, Any]) -> None:
        """One transaction."""
        if self.fail_commits:
            self.fail_commits -= 1
            raise ConnectionError("the database does not answer")
        key = sink, handle["task"]
        if self.numbers.get(key, 0) < handle["number"]:
            self.numbers[key] = handle["number"]
            self.rows += map(tuple, handle["rows"])


class Numbers(Spout):
    """Emits its share of 0 … count - 1, `each` with every call."""

    outputs = Fields("n")

    def __init__(self, count: int, *, each: int = 1, wait: bool = True) -> None:
        self.count = count
        self.each = each
        self.wait = wait
        self.committed_numbers: list[int] = []

    def open(self, context: Any, collector: Any) -> None:
        self.collector = collector
        self.at, self.step = context.task_index, context.parallelism

    def next_tuple(self) -> None:
        for _ in range(self.each):
            if self.at >= self.count:
                self.collector.finish()
                return
            self.collector.emit((self.at,))
            self.at += self.step

    def snapshot(self) -> int:
        return self.at

    def restore(self, position: int) -> None:
        self.at = position

    def committed(self, number: int) -> None:
        self.committed_numbers.append(number)


class SlowNumbers(Numbers):
    """As Numbers, with a wait before each call."""

    async def next_tuple(self) -> None:  # type: ignore[override]
        import asyncio

        await asyncio.sleep(0.003)
        super().next_tuple()


class BlockingNumbers(Numbers):
    blocking: ClassVar[bool] = True


class Failing:
    """Raises once for each of these numbers, over all runs."""

    def __init__(self, numbers: Sequence[int] = ()) -> None:
        self.left = set(numbers)

    def __deepcopy__(self, memo: object) -> Failing:
        return self

    def check(self, number: int) -> None:
        if number in self.left:
            self.left.discard(number)
            raise ValueError(f"{number} cannot be processed this time")


class Keyed(BasicBolt):
    """n → key, n."""

    outputs = Fields("key", "n")

    def __init__(self, keys: int, failing: Failing | None = None) -> None:
        self.keys = keys
        self.failing = failing or Failing()

    def execute(self, tup: Any, collector: Any) -> None:
        number = tup["n"]
        self.failing.check(number)
        collector.emit((f"k{number % self.keys}", number))


class CountByKey(BasicBolt):
    """key, n → key, n, how many of the key have come."""

    outputs = Fields("key", "n", "count")
    state = KeyedState(key="key")

    def prepare(self, context: Any) -> None:
        self.counts = context.state

    def execute(self, tup: Any, collector: Any) -> None:
        key = tup["key"]
        self.counts[key] = count = self.counts.get(key, 0) + 1
        collector.emit((key, tup["n"], count))


class BatchCountByKey(CountByKey):
    def execute_batch(self, tuples: Any, collector: Any) -> None:
        for tup in tuples:
            self.execute(tup, collector)


class BlockingCountByKey(CountByKey):
    blocking: ClassVar[bool] = True


class AsyncCountByKey(CountByKey):
    async def execute(self, tup: Any, collector: Any) -> None:  # type: ignore[override]
        import asyncio

        await asyncio.sleep(0)
        super().execute(tup, collector)


class RichCountByKey(Bolt):
    """Acks by threes."""

    outputs = Fields("key", "n", "count")
    state = KeyedState(key="key")

    def prepare(self, context: Any, collector: Any) -> None:
        self.collector, self.counts = collector, context.state
        self.held: list[Any] = []

    def execute(self, tup: Any) -> None:
        self.held.append(tup)
        if len(self.held) == 3:
            self.flush()

    def flush(self) -> None:
        for tup in self.held:
            key = tup["key"]
            self.counts.mark(key)
            self.counts[key] = count = self.counts.get(key, 0) + 1
            self.collector.emit((key, tup["n"], count), tup)
            self.collector.ack(tup)
        self.held.clear()


@bolt(outputs=("key", "n", "count"), state=KeyedState(key="key"))
def count_by_key(key: str, n: int, *, state: Any) -> tuple[str, int, int]:
    state[key] = count = state.get(key, 0) + 1
    return key, n, count


class Total(BasicBolt):
    """Passes rows on, and counts them in one value."""

    outputs = Fields("key", "n", "count")
    state = ValueState(0)

    def prepare(self, context: Any) -> None:
        self.total = context.state

    def execute(self, tup: Any, collector: Any) -> None:
        self.total.value += 1
        collector.emit(tup.values)

    def result(self) -> int:
        return self.total.value


class Store(Sink):
    """Writes to a Database."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.rows: list[Any] = []

    def prepare(self, context: Any) -> None:
        self.component, self.task = context.component, context.task_id

    def execute(self, tup: Any, collector: Any) -> None:
        self.rows.append(tup.values)

    def pre_commit(self, number: int) -> dict[str, Any] | None:
        rows, self.rows = self.rows, []
        return {"task": self.task, "number": number, "rows": rows} if rows else None

    def commit(self, handle: dict[str, Any]) -> None:
        self.database.write(self.component, handle)

    def abort(self, handle: dict[str, Any]) -> None:
        self.rows = [*handle["rows"], *self.rows]


class BlockingStore(Store):
    blocking: ClassVar[bool] = True


COUNTERS: dict[str, Callable[[], Any]] = {
    "basic": CountByKey,
    "batch": BatchCountByKey,
    "blocking": BlockingCountByKey,
    "async": AsyncCountByKey,
    "rich": RichCountByKey,
    "function": lambda: count_by_key,
}


def counting(
    database: Database,
    *,
    spout: Any = None,
    counter: str = "basic",
    count: int = 1000,
    keys: int = 17,
    tasks: tuple[int, int, int, int] = (2, 2, 3, 2),
    failing: Failing | None = None,
    keyed: type[Keyed] = Keyed,
) -> Topology:
    """numbers → keyed → count → total → store."""
    builder = TopologyBuilder()
    builder.set_spout("numbers", spout or Numbers(count), tasks[0])
    builder.set_bolt("keyed", keyed(keys, failing), tasks[1]).shuffle_grouping("numbers")
    builder.set_bolt("count", COUNTERS[counter](), tasks[2]).fields_grouping("keyed", "key")
    builder.set_bolt("total", Total(), tasks[3]).local_or_shuffle_grouping("count")
    builder.set_bolt("store", Store(database), tasks[3]).shuffle_grouping("total")
    return builder.create_topology()


def check_counting(database: Database, count: int = 1000, keys: int = 17) -> None:
    """Each number was committed once, and the counts of each key are 1, 2, 3, …"""
    numbers = Counter(n for _, n, _ in database.rows)
    assert sorted(numbers) == list(range(count)), "lost"
    assert max(numbers.values()) == 1, "twice"
    of_key: dict[str, list[int]] = {}
    for key, n, counted in database.rows:
        assert key == f"k{n % keys}"
        of_key.setdefault(key, []).append(counted)
    for key, counted_so_far in of_key.items():
        assert sorted(counted_so_far) == list(range(1, len(counted_so_far) + 1)), key


def exactly_once(folder: object, **settings: Any) -> Config:
    settings = {"snapshot_interval_ms": 10, "testing_always_try_serialize": True, **settings}
    return Config(guarantee="exactly-once", state_dir=str(folder), **settings)


def chances(seed: int) -> random.Random:
    return random.Random(seed)
