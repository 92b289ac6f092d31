"""aiostorm does W7: batches ─▶ filter (one task) ─▶ count and sum by user (four tasks, keyed by user).

`style` "columns": `execute_arrow` throughout. "rows": the same source, but bolts that take rows. `together`: so many
batches go into one call of group_by.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from aiostorm import (
    BasicBolt,
    BasicCollector,
    Config,
    Failure,
    Fields,
    LocalCluster,
    Spout,
    SpoutCollector,
    TopologyBuilder,
    TopologyContext,
    bolt,
)

from ..cells import Outcome, WrongResultError
from ..clocking import Stopwatch, run_in
from ..w7 import FIELDS, LEAST, aggregated, payments, totals_of

COUNTERS = 4
_LEAST = pa.scalar(LEAST)


class Batches(Spout):
    outputs = Fields(*FIELDS)

    def __init__(self, batches: list[Any], tracked: bool) -> None:
        self.batches = batches
        self.tracked = tracked
        self.number = self.acked = self.failed = 0

    def open(self, context: TopologyContext, collector: SpoutCollector) -> None:
        self.collector = collector

    def next_tuple(self) -> None:
        number = self.number
        if number == len(self.batches):
            self.collector.finish()
            return
        self.number = number + 1
        self.collector.emit_arrow(self.batches[number], number if self.tracked else None)

    def ack(self, message_id: Any) -> None:
        self.acked += 1

    def fail(self, message_id: Any, failure: Failure) -> None:
        self.failed += 1


@bolt("user", "amount", arrow=True)
def large_columns(batch: Any) -> Any:
    kept = batch.select(["user", "amount"])
    return kept.filter(pc.greater_equal(kept["amount"], _LEAST))


@bolt("user", "amount")
def large_rows(user: str, amount: int, at: int, price: float) -> Any:
    return (user, amount) if amount >= LEAST else None


class CountColumns(BasicBolt):
    """Counts and sums. A call of pyarrow's group_by costs 0.2 ms however few its rows: batches are taken together."""

    def __init__(self, totals: dict[str, tuple[int, int]], together: int) -> None:
        self.totals = totals
        self.together = together

    def prepare(self, context: TopologyContext) -> None:
        self.own: dict[str, list[int]] = defaultdict(lambda: [0, 0])
        self.waiting: list[Any] = []

    def execute_arrow(self, batch: Any, collector: BasicCollector) -> None:
        self.waiting.append(batch)
        if len(self.waiting) >= self.together:
            self.add_up()

    def add_up(self) -> None:
        own = self.own
        for user, (count, total) in totals_of(aggregated(pa.Table.from_batches(self.waiting))).items():
            row = own[user]
            row[0] += count
            row[1] += total
        self.waiting.clear()

    def cleanup(self) -> None:
        if self.waiting:
            self.add_up()
        self.totals.update({user: (count, total) for user, (count, total) in self.own.items()})


class CountRows(CountColumns):
    execute_arrow = None  # type: ignore[assignment]

    def execute_batch(self, tuples: Any, collector: BasicCollector) -> None:
        own = self.own
        for user, amount in tuples.rows:
            row = own[user]
            row[0] += 1
            row[1] += amount


def filter_group_count(
    size: int,
    *,
    style: str = "columns",
    together: int = 32,
    guarantee: str = "at least once",
    loop: str = "uvloop",
    config: dict[str, Any] | None = None,
) -> Outcome:
    """One run."""
    given = payments(size)
    source = Batches(given.batches, guarantee == "at least once")
    totals: dict[str, tuple[int, int]] = {}
    watch = run_in(loop, _run(source, style, together, totals, Config(**(config or {}))))
    given.check(totals)
    if source.tracked and (source.acked, source.failed) != (len(given.batches), 0):
        raise WrongResultError(f"{source.acked} acked, {source.failed} failed; {len(given.batches)} were emitted")
    return Outcome(size, watch.wall_s, watch.cpu_s)


async def _run(
    source: Batches, style: str, together: int, totals: dict[str, tuple[int, int]], config: Config
) -> Stopwatch:
    builder = TopologyBuilder()
    builder.set_spout("batches", lambda: source)
    builder.set_bolt("large", large_columns if style == "columns" else large_rows).shuffle_grouping("batches")
    count = CountColumns if style == "columns" else CountRows
    builder.set_bolt("count", lambda: count(totals, together), COUNTERS).fields_grouping("large", "user")
    async with LocalCluster() as cluster:
        with Stopwatch() as watch:
            running = await cluster.submit("w7", builder.create_topology(), config)
            await running.wait_finished()
            await running.kill()  # the rest is added up at the end: that counts
        return watch
