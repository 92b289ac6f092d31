"""Columns: Arrow batches through a topology, filtered and counted without a Python loop over rows.

    batches (64 × 8,192 payments) ─▶ large (a function of batches) ─▶ count, 4 tasks, by user
                                                                 └─▶ peak, 1 task, row by row

Run it: `python -m examples.columns` (needs `pip install "aiostorm[arrow]"`).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from aiostorm import BasicBolt, BasicCollector, LocalCluster, Topology, TopologyBuilder, TopologyContext, bolt, spout

BATCHES, ROWS = 64, 8_192


@spout("user", "amount")
def payments() -> Iterator[Any]:
    """Each batch is one message: acked as a whole, replayed as a whole."""
    for number in range(BATCHES):
        rows = range(number * ROWS, (number + 1) * ROWS)
        yield pa.record_batch({"user": [f"user-{n % 97}" for n in rows], "amount": [n * 7919 % 1000 for n in rows]})


@bolt("user", "amount", arrow=True)
def large(batch: Any) -> Any:
    """A batch in, a batch out."""
    return batch.filter(pc.greater_equal(batch["amount"], 990))  # pyright: ignore[reportAttributeAccessIssue]


class Count(BasicBolt):
    """Gets the rows of its users as columns: a batch is split by a hash of the whole column."""

    def prepare(self, context: TopologyContext) -> None:
        """Nothing is counted yet."""
        self.counts: Counter[str] = Counter()

    def execute_arrow(self, batch: Any, collector: BasicCollector) -> None:
        """A whole batch."""
        for found in batch["user"].value_counts().to_pylist():
            self.counts[found["values"]] += found["counts"]

    def result(self) -> Counter[str]:
        """User → payments."""
        return self.counts


class Peak(BasicBolt):
    """Takes rows, and needs to know nothing of columns."""

    def prepare(self, context: TopologyContext) -> None:
        """No rows yet."""
        self.peak = 0

    def execute(self, tup: Any, collector: BasicCollector) -> None:
        """One row."""
        self.peak = max(self.peak, tup["amount"])

    def result(self) -> int:
        """The largest amount."""
        return self.peak


def build() -> Topology:
    """The topology."""
    builder = TopologyBuilder()
    builder.set_spout("payments", payments)
    builder.set_bolt("large", large).shuffle_grouping("payments")
    builder.set_bolt("count", Count, parallelism=4).fields_grouping("large", "user")
    builder.set_bolt("peak", Peak).global_grouping("large")
    return builder.create_topology()


async def main() -> None:
    """Run it here, to its end."""
    async with LocalCluster() as cluster:
        running = await cluster.submit("columns", build())
        await running.wait_finished()
        results = await running.results()
        metrics = running.metrics()
    counts: Counter[str] = sum(results["count"], Counter())
    print(f"{metrics['payments'].emitted} payments in {metrics['payments'].acked} batches, all acked")
    print(f"{counts.total()} large ones by {len(counts)} users; tasks that counted: {sum(map(bool, results['count']))}")
    print(f"the largest: {results['peak'][0]}")


if __name__ == "__main__":
    asyncio.run(main())
