"""A topology that runs exactly once on workers, whose results another system has: a class attribute, or files.

Numbers of two spouts are counted by their last digit; each count goes to a sink, which commits it.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from pathlib import Path
from typing import Any, ClassVar

from aiostorm import BasicBolt, BasicCollector, Config, Spout, Topology, TopologyBuilder, Tuple
from aiostorm.state import KeyedState, Sink

HERE = "tests.cluster.snapshots.exact"
KEYS = 10


class Numbers(Spout):
    outputs = ("key", "n")

    def __init__(self, count: int) -> None:
        self.count = count

    def open(self, context: Any, collector: Any) -> None:
        self.collector, self.at = collector, 0

    def next_tuple(self) -> None:
        if self.at == self.count:
            self.collector.finish()
            return
        self.collector.emit((self.at % KEYS, self.at))
        self.at += 1

    def snapshot(self) -> int:
        return self.at

    def restore(self, at: int) -> None:
        self.at = at


class Count(BasicBolt):
    outputs = ("key", "count")
    state = KeyedState(key="key")

    def prepare(self, context: Any) -> None:
        self.counts = context.state

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        key = tup["key"]
        self.counts[key] = self.counts.get(key, 0) + 1
        collector.emit((key, self.counts[key]))

    def result(self) -> dict[int, int]:
        return dict(self.counts)


class Committed(Sink):
    """Commits the counts in files of `folder`, or, without one, in `rows`: each handle under its own name."""

    rows: ClassVar[dict[str, list[tuple[int, int]]]] = {}

    def __init__(self, folder: str = "") -> None:
        self.folder = folder

    def prepare(self, context: Any) -> None:
        self.task, self.kept = context.task_id, []

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        self.kept.append((tup["key"], tup["count"]))

    def pre_commit(self, number: int) -> Any:
        kept, self.kept = self.kept, []
        return (f"{self.task}-{number}", kept) if kept else None

    def commit(self, handle: Any) -> None:
        name, rows = handle
        if self.folder:
            file = Path(self.folder) / name
            file.with_suffix(".new").write_text(json.dumps(rows))
            os.replace(file.with_suffix(".new"), file)
        else:
            self.rows[name] = [tuple(row) for row in rows]

    def abort(self, handle: Any) -> None:
        self.kept = [*handle[1], *self.kept]

    def restored(self, number: int | None) -> None:
        pass


class Paced(Numbers):
    """A number each 5 ms."""

    async def next_tuple(self) -> None:  # type: ignore[override]
        await asyncio.sleep(0.005)
        super().next_tuple()


def paced(folder: str = "", count: str = "400") -> Topology:
    return counted(folder, count, Paced)


def counted(folder: str = "", count: str = "400", spout: type[Numbers] = Numbers) -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("numbers", spout(int(count)), 2)
    builder.set_bolt("count", Count, 3).fields_grouping("numbers", "key")
    builder.set_bolt("committed", Committed(folder), 2).shuffle_grouping("count")
    return builder.create_topology(config=Config(guarantee="exactly-once", snapshot_interval_ms=100))


def expected(count: int) -> Counter[tuple[int, int]]:
    """(key, count) → how often it was written: once."""
    each = 2 * count // KEYS
    return Counter((key, n + 1) for key in range(KEYS) for n in range(each))
