"""Demo: a shop that makes its own orders, for `aiostorm demo`.

    orders ──shuffle──► payments ──by product──► revenue ──► report
    as fast as allowed  slow: 4 ms an order      windows     the last rows

1. Orders come as fast as they are accepted, and payments are slow: the spout is paced by the slowest bolt.
2. Some payments fail at first: such an order is emitted again, and is counted once in the end.
3. Windows use the shop's own time, two seconds an order: ten minutes of it pass in about a second.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from ..topology import (
    BasicBolt,
    BasicCollector,
    Bolt,
    BoltCollector,
    Config,
    Fields,
    Topology,
    TopologyBuilder,
    TopologyContext,
    Tuple,
    spout,
)
from ..windows import Combined, Count, Sum, Tumbling, WindowedBolt

PER_SECOND: Final = 400
"""About the orders that are paid in a second: a little less than two tasks with 4 ms an order can do."""

PAYMENT_S: Final = 0.004
DECLINED_EACH: Final = 500
OPENS_MS: Final = 1_767_258_000_000
"""2026-01-01 09:00 UTC."""

PRODUCTS: Final = (("apples", 3), ("bread", 4), ("cheese", 12), ("coffee", 9), ("tea", 6))


def topology(seconds: str = "20") -> Topology:
    """The shop, with about this many seconds of work."""
    count = round(float(seconds) * PER_SECOND)

    @spout("number", "product", "amount", "at")
    def orders() -> Iterator[tuple[int, str, int, int]]:
        for number in range(count):
            product, price = PRODUCTS[number * 7 % 11 % len(PRODUCTS)]
            yield number, product, price * (1 + number % 3), OPENS_MS + 2_000 * number

    sums = Combined(orders=Count(), revenue=Sum("amount"))
    builder = TopologyBuilder()
    builder.set_spout("orders", orders)
    builder.set_bolt("payments", Payments, 2).shuffle_grouping("orders")
    windows = WindowedBolt(Tumbling(600_000), sums, key="product", timestamp="at", lag_ms=1_200_000)
    builder.set_bolt("revenue", windows).fields_grouping("payments", "product")
    builder.set_bolt("report", SalesReport).global_grouping("revenue")
    return builder.create_topology("demo-shop", summary, Config(mailbox_capacity_tuples=256))


class Payments(Bolt):
    """Slow, like a bolt that calls another service; each task declines one order in 500 at first."""

    outputs = Fields("product", "amount", "at")

    def prepare(self, context: TopologyContext, collector: BoltCollector) -> None:
        """Reset the declined orders."""
        self._collector = collector
        self._declined: set[int] = set()

    async def execute(self, tup: Tuple) -> None:
        """Pay for an order, or decline it at first."""
        await asyncio.sleep(PAYMENT_S)
        number = tup["number"]
        if number % DECLINED_EACH == DECLINED_EACH - 1 and number not in self._declined:
            self._declined.add(number)
            self._collector.fail(tup)
            return
        self._collector.emit((tup["product"], tup["amount"], tup["at"]), anchors=tup)
        self._collector.ack(tup)


class SalesReport(BasicBolt):
    """The totals of all windows."""

    def prepare(self, context: TopologyContext) -> None:
        """Reset the totals."""
        self._orders: Counter[str] = Counter()
        self._revenue: Counter[str] = Counter()
        self._windows: set[int] = set()

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        """Add the revenue of one product in one window."""
        self._orders[tup["product"]] += tup["orders"]
        self._revenue[tup["product"]] += tup["revenue"]
        self._windows.add(tup["start"])

    def result(self) -> dict[str, Any]:
        """The totals, for the summary."""
        return {"orders": self._orders, "revenue": self._revenue, "windows": len(self._windows)}


def summary(results: dict[str, list[Any]]) -> dict[str, Any]:
    """The summary that is printed at the end."""
    [found] = results["report"]
    orders, revenue = found["orders"], found["revenue"]
    return {
        "orders paid": sum(orders.values()),
        "windows of ten minutes": found["windows"],
        "per product": [
            {"product": product, "orders": orders[product], "revenue": revenue[product]} for product, _ in PRODUCTS
        ],
    }
