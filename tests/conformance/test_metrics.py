"""Metrics: what is counted of tuples and messages."""

from __future__ import annotations

from aiostorm import LocalCluster, RunningTopology
from aiostorm.testing import FeederSpout, SimClock, complete_topology

from .parts import Acks, AcksEveryOther, Words, straight
from .scenario import scenario

TOTALS = "Totals, read from the running topology; in Storm a metrics consumer receives counts for time buckets"


def counts(running: RunningTopology) -> dict[str, tuple[int, ...]]:
    """spout: emitted, transferred, acked, failed; bolt: executed, acked, failed."""
    spout, bolt = running.metrics()["spout"], running.metrics()["bolt"]
    return {
        "spout": (spout.emitted, spout.transferred, spout.acked, spout.failed),
        "bolt": (bolt.executed, bolt.acked, bolt.failed),
    }


@scenario("Emitted, transferred, executed, acked", "metrics_test (0.10)#test-builtin-metrics-1", TOTALS)
async def test_counts(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    feeder = FeederSpout("field1")
    running = await local_cluster.submit("metrics-tester", straight(feeder, bolt=Acks))
    await feeder.feed("a")
    await sim_clock.advance(61)
    assert counts(running) == {"spout": (1, 1, 1, 0), "bolt": (1, 1, 0)}
    await sim_clock.advance(120)
    assert counts(running) == {"spout": (1, 1, 1, 0), "bolt": (1, 1, 0)}
    await feeder.feed_all(["b", "c"])
    await sim_clock.advance(60)
    assert counts(running) == {"spout": (3, 3, 3, 0), "bolt": (3, 3, 0)}


@scenario("A tuple that is not acked counts only as executed", "metrics_test (0.10)#test-builtin-metrics-2", TOTALS)
async def test_counts_of_a_forgotten_tuple(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    feeder = FeederSpout("field1")
    config = {"message_timeout_s": 100}
    running = await local_cluster.submit("metrics-tester", straight(feeder, bolt=AcksEveryOther), config)
    await feeder.feed("a", 1)
    await sim_clock.advance(6)
    assert counts(running) == {"spout": (1, 1, 1, 0), "bolt": (1, 1, 0)}
    await feeder.feed("b", 2)
    await sim_clock.advance(20)
    assert counts(running) == {"spout": (2, 2, 1, 0), "bolt": (2, 1, 0)}
    await feeder.feed("c", 3)
    await sim_clock.advance(15)
    assert counts(running) == {"spout": (3, 3, 2, 0), "bolt": (3, 2, 0)}
    assert running.metrics().pending == 1


@scenario("A timeout counts as a failure of the spout", "metrics_test (0.10)#test-builtin-metrics-3", TOTALS)
async def test_counts_of_a_timeout(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    feeder = FeederSpout("field1")
    config = {"message_timeout_s": 10}
    running = await local_cluster.submit("timeout-tester", straight(feeder, bolt=AcksEveryOther), config)
    for message_id, word in enumerate("abc", 1):
        await feeder.feed(word, message_id)
    await sim_clock.advance(9)
    assert feeder.acked == [1, 3]
    assert counts(running) == {"spout": (3, 3, 2, 0), "bolt": (3, 2, 0)}
    await sim_clock.advance(30)
    assert list(feeder.failed) == [2]
    assert counts(running) == {"spout": (3, 3, 2, 1), "bolt": (3, 2, 0)}


@scenario(
    "The component of the framework",
    "metrics_test (0.10)#test-system-bolt",
    "The acker is such a component, with its mailbox. There is no __system component, and no uptime yet",
)
async def test_the_system_component() -> None:
    result = await complete_topology(straight(Words, bolt=Acks), {"spout": ["a"]})
    assert {"spout", "bolt", "__acker"} <= set(result.metrics)
    assert result.metrics["__acker"].kind == "acker"
    assert "__system" not in result.metrics
