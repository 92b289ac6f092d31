"""The components of the world of state: sources by log, bolts with state of each kind of executor, windows, sinks.

Each is copied for each task. `outside` is what they share in the whole world, and is not copied.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, ClassVar

from aiostorm import BasicBolt, Bolt, BufferedWindowBolt, Fields, Spout, WindowedBolt, bolt
from aiostorm.state import KeyedState, Sink, ValueState
from aiostorm.testing.simulation import World

from .database import Database
from .fold import Node, SourceRow

FIELDS = Fields("spout", "n", "key", "at", "by", "of", "count")
RESULTS = Fields("key", "result", "start", "end")


class Outside:
    """What is outside of all processes. `fails`: (bolt, n) of rows that raise the next time."""

    def __init__(self, world: World, database: Database, logs: dict[tuple[str, int], list[SourceRow]]) -> None:
        self.world = world
        self.database = database
        self.logs = logs
        self.fails: set[int] = set()
        self.fails_to_prepare = 0
        self.executed = 0

    def __deepcopy__(self, memo: object) -> Outside:
        return self

    def check(self, n: int) -> None:
        """A row is executed: it may raise, once."""
        if not self.world.current.alive:
            return
        self.executed += 1
        if n in self.fails:
            self.fails.discard(n)
            raise ValueError(f"row {n} raises this time")

    def prepare(self) -> None:
        """A sink prepares a commit."""
        if self.fails_to_prepare and self.world.current.alive:
            self.fails_to_prepare -= 1
            raise ConnectionError("the database does not prepare")


# -- sources -----------------------------------------------------------------------------------------------------------


class LogSpout(Spout):
    """A spout on logs, one for each of its tasks. It emits watermarks: no row is late."""

    outputs = FIELDS
    watermarks = True

    def __init__(self, outside: Outside, name: str, each: int) -> None:
        self.outside = outside
        self.name = name
        self.each = each

    def open(self, context: Any, collector: Any) -> None:
        self.collector = collector
        self.log = self.outside.logs[self.name, context.task_index]
        self.at = 0

    def next_tuple(self) -> None:
        for _ in range(self.each):
            if self.at == len(self.log):
                self.collector.finish()
                return
            row = self.log[self.at]
            if row.offered_s > self.outside.world.now_s:
                return
            self.at += 1
            self.collector.emit((self.name, row.n, row.key, row.at_ms, "", "", 0))
            self.collector.emit_watermark(row.at_ms)

    def snapshot(self) -> int:
        return self.at

    def restore(self, at: int) -> None:
        self.at = at


class AsyncLogSpout(LogSpout):
    async def next_tuple(self) -> None:  # type: ignore[override]
        await asyncio.sleep(0.002)
        super().next_tuple()


class BlockingLogSpout(LogSpout):
    blocking: ClassVar[bool] = True


SPOUTS: tuple[type[LogSpout], ...] = (LogSpout, LogSpout, AsyncLogSpout, BlockingLogSpout)


# -- bolts -------------------------------------------------------------------------------------------------------------


class Pass(BasicBolt):
    outputs = FIELDS

    def __init__(self, outside: Outside, node: Node) -> None:
        self.outside = outside
        self.node = node

    def execute(self, tup: Any, collector: Any) -> None:
        self.outside.check(tup["n"])
        collector.emit(tup.values)


class AsyncPass(Pass):
    async def execute(self, tup: Any, collector: Any) -> None:  # type: ignore[override]
        await asyncio.sleep(0.001)
        super().execute(tup, collector)


class RichPass(Bolt):
    """Holds rows, and settles them by fives."""

    outputs = FIELDS

    def __init__(self, outside: Outside, node: Node) -> None:
        self.outside = outside

    def prepare(self, context: Any, collector: Any) -> None:
        self.collector = collector
        self.held: list[Any] = []

    def execute(self, tup: Any) -> None:
        self.outside.check(tup["n"])
        self.held.append(tup)
        if len(self.held) == 5:
            self.flush()

    def flush(self) -> None:
        for tup in self.held:
            self.collector.emit(tup.values, tup)
            self.collector.ack(tup)
        self.held.clear()


class Total(Pass):
    """Passes rows on, and counts them in one value."""

    state = ValueState(0)

    def prepare(self, context: Any) -> None:
        self.total = context.state

    def execute(self, tup: Any, collector: Any) -> None:
        super().execute(tup, collector)
        self.total.value += 1

    def result(self) -> int:
        return int(self.total.value)


class AsyncTotal(Total):
    async def execute(self, tup: Any, collector: Any) -> None:  # type: ignore[override]
        await asyncio.sleep(0)
        super().execute(tup, collector)


def counted(node: Node, state: Any, values: Any) -> tuple[Any, ...]:
    """A row, with the count of its key. A count that reaches `wrap` is removed."""
    spout, n, key, at = values[:4]
    of = key if len(node.key_fields) == 1 else (key, spout)
    count = state.get(of, 0) + 1
    if count == node.wrap:
        state.pop(of, None)
    else:
        state[of] = count
    return spout, n, key, at, node.name, key if of == key else f"{key}|{spout}", count


class Count(BasicBolt):
    outputs = FIELDS

    def __init__(self, outside: Outside, node: Node) -> None:
        self.outside = outside
        self.node = node
        self.state = KeyedState(key=node.key_fields)  # type: ignore[misc]

    def prepare(self, context: Any) -> None:
        self.counts = context.state

    def execute(self, tup: Any, collector: Any) -> None:
        self.outside.check(tup["n"])
        collector.emit(counted(self.node, self.counts, tup.values))

    def result(self) -> list[Any]:
        return [[key if isinstance(key, str) else "|".join(key), count] for key, count in self.counts.items()]


class BatchCount(Count):
    def execute_batch(self, tuples: Any, collector: Any) -> None:
        for tup in tuples:
            self.execute(tup, collector)


class BlockingCount(Count):
    blocking: ClassVar[bool] = True


class AsyncCount(Count):
    async def execute(self, tup: Any, collector: Any) -> None:  # type: ignore[override]
        await asyncio.sleep(0.0005)
        super().execute(tup, collector)


class RichCount(Bolt):
    """Settles rows by threes: their keys are marked when they change."""

    outputs = FIELDS
    result = Count.result

    def __init__(self, outside: Outside, node: Node) -> None:
        self.outside = outside
        self.node = node
        self.state = KeyedState(key=node.key_fields)  # type: ignore[misc]

    def prepare(self, context: Any, collector: Any) -> None:
        self.collector, self.counts = collector, context.state
        self.held: list[Any] = []

    def execute(self, tup: Any) -> None:
        self.outside.check(tup["n"])
        self.held.append(tup)
        if len(self.held) == 3:
            self.flush()

    def flush(self) -> None:
        for tup in self.held:
            self.counts.mark(tup["key"] if len(self.node.key_fields) == 1 else (tup["key"], tup["spout"]))
            self.collector.emit(counted(self.node, self.counts, tup.values), tup)
            self.collector.ack(tup)
        self.held.clear()


def function_count(outside: Outside, node: Node) -> Any:
    """A function with state."""

    @bolt(outputs=list(FIELDS), state=KeyedState(key=node.key_fields))
    def count(spout: str, n: int, key: str, at: int, by: str, of: str, count: int, *, state: Any) -> Any:
        outside.check(n)
        return counted(node, state, (spout, n, key, at))

    return count


BOLTS: dict[str, dict[str, Callable[[Outside, Node], Any]]] = {
    "pass": {"basic": Pass, "async": AsyncPass, "rich": RichPass},
    "total": {"basic": Total, "async": AsyncTotal},
    "count": {
        "basic": Count,
        "batch": BatchCount,
        "blocking": BlockingCount,
        "async": AsyncCount,
        "rich": RichCount,
        "function": function_count,
    },
}
"""Kind of a node → style → how it is made."""


# -- windows -----------------------------------------------------------------------------------------------------------


class Own(WindowedBolt):
    """States that are changed in place."""

    outputs = RESULTS

    def init_state(self, window: Any) -> list[int]:
        return []

    def execute(self, tup: Any, state: list[int], window: Any) -> None:
        state.append(tup["n"])

    def merge(self, first: list[int], second: list[int]) -> list[int]:
        return first + second

    def purge(self, state: list[int], window: Any, key: str) -> Any:
        return key, sorted(state), window.start, window.end


class Kept(BufferedWindowBolt):
    """The rows themselves."""

    outputs = RESULTS

    def execute(self, window: Any) -> Any:
        return window.key, sorted(tup["n"] for tup in window.get()), window.window.start, window.window.end


# -- sinks -------------------------------------------------------------------------------------------------------------


class Store(Sink):
    """Writes to the database. Its handle is one value."""

    def __init__(self, outside: Outside) -> None:
        self.outside = outside
        self.rows: list[Any] = []

    def prepare(self, context: Any) -> None:
        self.component, self.task = context.component, context.task_id

    def execute(self, tup: Any, collector: Any) -> None:
        if tup.stream == "late" and self.outside.world.current.alive:
            self.outside.world.problem(f"{self.component} gets a late row: {tup.values}")
        self.rows.append(tup.values)

    def pre_commit(self, number: int) -> Any:
        self.outside.prepare()
        rows, self.rows = self.rows, []
        return [(self.task, number), *rows] if rows else None

    def commit(self, handle: Any) -> None:
        (task, number), *rows = handle
        self.outside.database.write(self.component, task, number, rows)

    def abort(self, handle: Any) -> None:
        self.rows = [*handle[1:], *self.rows]

    def restored(self, number: int | None) -> None:
        if self.rows and self.outside.world.current.alive:
            self.outside.world.problem(f"{self.component} has rows before it is restored")


class WholeStore(Store):
    """Its handle is one value."""

    def pre_commit(self, number: int) -> Any:
        handle = super().pre_commit(number)
        return None if handle is None else {"rows": handle}

    def commit(self, handle: Any) -> None:
        super().commit(handle["rows"])

    def abort(self, handle: Any) -> None:
        super().abort(handle["rows"])


class BlockingStore(Store):
    blocking: ClassVar[bool] = True


class AsyncStore(Store):
    async def pre_commit(self, number: int) -> Any:
        await asyncio.sleep(0.001)
        return super().pre_commit(number)

    async def commit(self, handle: Any) -> None:  # type: ignore[override]
        await asyncio.sleep(0.002)
        super().commit(handle)
        await asyncio.sleep(0.002)


STORES: tuple[type[Store], ...] = (Store, WholeStore, BlockingStore, AsyncStore)
