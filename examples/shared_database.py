"""One connection to a database for all tasks of a worker: a resource, opened before them and closed after them.

    aiostorm run examples.shared_database:topology                            # in memory
    aiostorm run examples.shared_database:topology orders.db
    aiostorm run --workers 2 examples.shared_database:topology orders.db      # two processes, a connection each

Four tasks of `save` write orders to SQLite. Each could connect by itself in `prepare`; with a resource the worker has
one connection, as it would have one pool of them. What a message writes is written again when it is replayed, so the
number of an order is the key: twice is once.

SQLite blocks, so its connection lives in a thread of its own, and the tasks await that.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from aiostorm import BasicBolt, BasicCollector, Topology, TopologyBuilder, TopologyContext, TupleBatch, spout

ORDERS = 2_000

TABLE = "CREATE TABLE IF NOT EXISTS orders (number INTEGER PRIMARY KEY, customer TEXT, cents INTEGER)"


class Database:
    """What the tasks share. `run(function, *arguments)` calls a function in the connection's thread."""

    def __init__(self, connection: sqlite3.Connection, run: Callable[..., Awaitable[Any]]) -> None:
        self._connection = connection
        self._run = run

    async def save(self, orders: list[tuple[int, str, int]]) -> None:
        """All of them, or none."""
        await self._run(self._save, orders)

    def _save(self, orders: list[tuple[int, str, int]]) -> None:
        with self._connection:
            self._connection.executemany("INSERT OR REPLACE INTO orders VALUES (?, ?, ?)", orders)


async def open_database(path: str) -> AsyncIterator[Database]:
    """Before the yield it is opened, behind it closed: also if the topology ends with an error."""
    with ThreadPoolExecutor(1, thread_name_prefix="sqlite") as thread:
        run = partial(asyncio.get_running_loop().run_in_executor, thread)
        connection = await run(partial(sqlite3.connect, path, timeout=30))
        try:
            await run(connection.execute, TABLE)
            yield Database(connection, run)
        finally:
            await run(connection.close)


@spout(outputs=("number", "customer", "cents"))
def orders() -> Iterator[tuple[int, str, int]]:
    """The orders of a day."""
    for number in range(ORDERS):
        yield number, f"customer {number % 37}", 100 + number * 7 % 9_900


class Save(BasicBolt):
    """Writes what comes together in one transaction."""

    def prepare(self, context: TopologyContext) -> None:
        """The connection is open by now."""
        self.database: Database = context.resource("database")
        self.saved = 0

    async def execute_batch(self, tuples: TupleBatch, collector: BasicCollector) -> None:
        """Acked when it is written."""
        await self.database.save([(tup["number"], tup["customer"], tup["cents"]) for tup in tuples])
        self.saved += len(tuples)

    def result(self) -> tuple[int, str]:
        """How many this task has saved, over which connection."""
        return self.saved, f"{os.getpid()} {id(self.database)}"


def summary(results: dict[str, list[Any]]) -> dict[str, Any]:
    """What `aiostorm run` prints at the end."""
    saved = results["save"]
    return {
        "orders saved": sum(count for count, _ in saved),
        "tasks": len(saved),
        "connections": len({connection for _, connection in saved}),
    }


def topology(path: str = ":memory:") -> Topology:
    """orders ─► save, with a database."""
    builder = TopologyBuilder()
    builder.resource("database", partial(open_database, path))
    builder.set_spout("orders", orders)
    builder.set_bolt("save", Save, parallelism=4).shuffle_grouping("orders")
    return builder.create_topology("shared_database", summary=summary)
