"""What becomes of messages that fail: replays, the retry limit, dead letters, and why each failed.

    python -m examples.failures

Orders are processed at least once. One fails the first time only, one always, one is forgotten and times out. The
framework emits a failed order again (`max_retries`); what fails too often goes to the spout's dead-letter stream, to
which a bolt subscribes like to any other, and the spout's `fail` receives the reason.
"""

from __future__ import annotations

import asyncio

from aiostorm import (
    DEAD_LETTER_STREAM,
    Bolt,
    BoltCollector,
    Config,
    Failure,
    Fields,
    LocalCluster,
    Spout,
    SpoutCollector,
    Topology,
    TopologyBuilder,
    TopologyContext,
    Tuple,
    bolt,
)

ORDERS = ("apples", "bread", "fragile", "gold", "lost letter", "milk")


class Orders(Spout):
    """Emits six orders, and says how each of them ends."""

    outputs = Fields("order")

    def open(self, context: TopologyContext, collector: SpoutCollector) -> None:
        """Begin with the first."""
        self.collector = collector
        self.left = iter(ORDERS)

    def next_tuple(self) -> None:
        """Emit the next order; its message id is the order itself."""
        order = next(self.left, None)
        if order is None:
            self.collector.finish()
        else:
            self.collector.emit((order,), message_id=order)

    def ack(self, message_id: str) -> None:
        """Processed at last."""
        print(f"{message_id}: done")

    def fail(self, message_id: str, failure: Failure) -> None:
        """Failed too often. Without `max_retries` it would be called at each failure, and could emit again itself."""
        print(f"{message_id}: given up after {failure.attempts} attempts, the last {_why(failure)}")


class Process(Bolt):
    """Acks, fails or forgets."""

    def prepare(self, context: TopologyContext, collector: BoltCollector) -> None:
        """Remember what was tried."""
        self.collector = collector
        self.tried: set[str] = set()

    def execute(self, tup: Tuple) -> None:
        """One order."""
        order = tup["order"]
        if order == "gold" or (order == "fragile" and order not in self.tried):
            self.collector.fail(tup, "out of stock" if order == "gold" else "dropped it")
        elif order != "lost letter":  # that one is neither acked nor failed
            self.collector.ack(tup)
        self.tried.add(order)


@bolt
def dead_letters(
    message_id: str, stream: str, values: tuple[str], reason: str, error: str | None, attempts: int
) -> None:
    """Where a real topology would store them."""
    print(f"dead letter: {values[0]} ({reason}{': ' + error if error else ''}, {attempts} attempts)")


def topology() -> Topology:
    """Orders → process, and dead letters on the side."""
    builder = TopologyBuilder()
    builder.set_spout("orders", Orders)
    builder.set_bolt("process", Process).shuffle_grouping("orders")
    builder.set_bolt("dead", dead_letters).shuffle_grouping("orders", stream=DEAD_LETTER_STREAM)
    # A tree for each order, as in Storm. By default orders that are emitted together share one: then the timeout of the
    # forgotten order takes its neighbours with it, and they are processed twice.
    config = Config(max_retries=1, message_timeout_s=0.5, acker_tree_max_messages=1)
    return builder.create_topology("failures", config=config)


def _why(failure: Failure) -> str:
    if failure.reason == "timeout":
        return "by timeout"
    return f"in {failure.component}[{failure.task}]: {failure.error}"


async def main() -> None:
    """Run it to its end and count."""
    async with LocalCluster() as cluster:
        running = await cluster.submit("failures", topology())
        await running.wait_finished()
        orders = running.metrics()["orders"]
    print(
        f"{orders.acked} acked, {orders.failed} failures, {orders.replayed} replayed, "
        f"{orders.dead_lettered} dead-lettered"
    )


if __name__ == "__main__":
    asyncio.run(main())
