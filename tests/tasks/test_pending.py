"""How many messages may be pending, and how long a spout waits before it is asked again."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aiostorm import Config, LocalCluster, Spout, TopologyBuilder, bolt
from aiostorm.testing import FeederSpout, Recorder, SimClock

from .parts import DoesRich, Notes, Numbers, line


class Watched(Numbers):
    """Notes how many messages are open at each call of next_tuple."""

    def __init__(self, count: int, *, each_call: int = 1) -> None:
        super().__init__(count, each_call=each_call)
        self.open_at_call = Notes()
        self.most = Notes([0])

    def next_tuple(self) -> None:
        self.open_at_call.append(self.next - len(self.outcomes))
        super().next_tuple()
        self.most[0] = max(self.most[0], self.next - len(self.outcomes))


class AsyncWatched(Watched):
    async def next_tuple(self) -> None:  # type: ignore[override]
        super().next_tuple()
        await asyncio.sleep(0)


class BlockingWatched(Watched):
    blocking = True


def later(delay_s: float) -> DoesRich:
    """A bolt that acks each tuple after a while, and does not wait for that."""

    def act(tup: Any, collector: Any) -> None:
        asyncio.get_running_loop().call_later(delay_s, collector.ack, tup)

    return DoesRich(act)


@pytest.mark.parametrize("kind", [Watched, AsyncWatched, BlockingWatched])
@pytest.mark.parametrize("limit", [1, 2, 7, 100])
@pytest.mark.parametrize("tree", [1, 3, 64])
async def test_never_more_than_the_limit_is_pending(
    local_cluster: LocalCluster, kind: type[Watched], limit: int, tree: int
) -> None:
    source = kind(50)
    config = Config(max_spout_pending=limit, acker_tree_max_messages=tree)
    running = await local_cluster.submit("t", line(source, bolt=later(0.01)), config)
    await running.wait_finished()
    assert sorted(source.acked) == list(range(50))
    assert source.most[0] == min(limit, 50)
    assert max(source.open_at_call) < limit


@pytest.mark.parametrize("kind", [Watched, AsyncWatched, BlockingWatched])
@pytest.mark.parametrize(("limit", "each_call"), [(1, 5), (4, 3), (10, 4)])
async def test_one_call_that_emits_k_overshoots_by_at_most_k_minus_1(
    local_cluster: LocalCluster, kind: type[Watched], limit: int, each_call: int
) -> None:
    source = kind(60, each_call=each_call)
    running = await local_cluster.submit("t", line(source, bolt=later(0.01)), Config(max_spout_pending=limit))
    await running.wait_finished()
    assert sorted(source.acked) == list(range(60))
    assert max(source.open_at_call) < limit
    assert limit <= source.most[0] <= limit + each_call - 1


async def test_the_limit_is_per_task(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    source, hold = Numbers(50), DoesRich()
    builder = TopologyBuilder()
    builder.set_spout("spout", source, 3)
    builder.set_bolt("hold", hold).shuffle_grouping("spout")
    running = await local_cluster.submit("t", builder.create_topology(), Config(max_spout_pending=4))
    await sim_clock.advance(1)
    assert [task.pending for task in running.metrics()["spout"].tasks] == [4, 4, 4]
    assert running.metrics().pending == 12
    assert len(running.pending()["spout"]) == 12
    await running.kill(0)


@pytest.mark.parametrize("how", ["ack", "fail"])
async def test_next_tuple_is_called_at_once_when_a_message_is_settled(
    local_cluster: LocalCluster, sim_clock: SimClock, how: str
) -> None:
    """At the limit the spout waits for a verdict, and for nothing else: no time passes between."""
    source, hold = Numbers(10), DoesRich()
    running = await local_cluster.submit("t", line(source, hold=hold), Config(max_spout_pending=1))
    for n in range(10):
        await sim_clock.settle()
        assert len(hold.held) == n + 1
        await sim_clock.advance(2)  # long enough for the longest wait
        now_s = sim_clock.monotonic()
        getattr(hold.collectors[0], how)(hold.held[n])
        await sim_clock.settle()
        assert sim_clock.monotonic() == now_s
    await running.wait_finished()
    assert len(source.outcomes) == 10


class Idle(Spout):
    """Emits nothing, notes when it is asked; emits what the test puts into `todo`."""

    outputs = "n"

    def __init__(self) -> None:
        self.asked_s, self.todo, self.collectors = Notes(), Notes(), Notes()

    def open(self, context: Any, collector: Any) -> None:
        self.collectors.append(collector)

    def next_tuple(self) -> None:
        self.asked_s.append(asyncio.get_running_loop().time())
        while self.todo:
            self.collectors[0].emit((self.todo.pop(),), message_id=1)


def waits_ms(asked_s: list[float]) -> list[float]:
    return [round((b - a) * 1000, 3) for a, b in zip(asked_s, asked_s[1:], strict=False)]  # noqa: RUF007


async def test_a_silent_spout_is_asked_less_and_less(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    source = Idle()
    await local_cluster.submit("t", line(source, hold=DoesRich()))
    await sim_clock.advance(1)
    assert waits_ms(source.asked_s)[:10] == [1, 2, 4, 8, 16, 32, 64, 100, 100, 100]


async def test_the_waits_are_configured(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    source = Idle()
    config = Config(spout_wait_ms=5, spout_wait_max_ms=12)
    await local_cluster.submit("t", line(source, hold=DoesRich()), config)
    await sim_clock.advance(1)
    assert waits_ms(source.asked_s)[:5] == [5, 10, 12, 12, 12]


async def test_an_emit_makes_the_waits_short_again(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    source = Idle()
    await local_cluster.submit("t", line(source, sink=Recorder()))
    await sim_clock.advance(1)
    source.todo.append(1)
    await sim_clock.advance(1)
    waits = waits_ms(source.asked_s)
    # Asked again at once after the call that emitted, and again when the ack came, which ended the wait of 1 ms.
    again = waits.index(0) + waits.count(0)
    assert waits[again : again + 7] == [2, 4, 8, 16, 32, 64, 100]


async def test_a_wait_ends_with_an_ack_a_fail_and_a_wake(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    source, hold = Idle(), DoesRich()
    config = Config(spout_wait_max_ms=50_000, enable_message_timeouts=False, acker_tree_max_messages=1)
    await local_cluster.submit("t", line(source, hold=hold), config)
    source.todo += [1, 2]
    await sim_clock.advance(40)
    for end in (
        lambda: hold.collectors[0].ack(hold.held[0]),
        lambda: hold.collectors[0].fail(hold.held[1]),
        lambda: source.collectors[0].wake(),
    ):
        await sim_clock.advance(0.01)
        asked = len(source.asked_s)
        end()
        await sim_clock.settle()
        assert len(source.asked_s) == asked + 1
        assert source.asked_s[-1] == sim_clock.monotonic()


async def test_an_activation_asks_at_once(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    source = Idle()
    running = await local_cluster.submit("t", line(source, hold=DoesRich()), Config(spout_wait_max_ms=50_000))
    await sim_clock.advance(40)
    await running.deactivate()
    await sim_clock.advance(100)
    asked = len(source.asked_s)
    await running.activate()
    await sim_clock.settle()
    assert len(source.asked_s) == asked + 1
    assert source.asked_s[-1] == sim_clock.monotonic()


async def test_a_finished_spout_is_never_asked_again(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    class Once(Idle):
        def next_tuple(self) -> None:
            super().next_tuple()
            self.collectors[0].finish()

    source = Once()
    running = await local_cluster.submit("t", line(source, hold=DoesRich()))
    await running.wait_finished()
    await running.deactivate()
    await running.activate()
    source.collectors[0].wake()
    await sim_clock.advance(100)
    assert len(source.asked_s) == 1


async def test_emits_outside_of_a_spouts_methods_are_sent_at_its_next_call(
    local_cluster: LocalCluster, sim_clock: SimClock
) -> None:
    source, hold = Idle(), DoesRich()
    await local_cluster.submit("t", line(source, hold=hold))
    await sim_clock.advance(1)
    source.collectors[0].emit((1,), message_id=1)
    await sim_clock.advance(0.1)
    assert len(hold.held) == 1
    source.collectors[0].emit((2,), message_id=2)
    source.collectors[0].wake()
    await sim_clock.settle()
    assert len(hold.held) == 2


async def test_feeding_at_the_limit_takes_one_for_one(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    feeder, hold = FeederSpout("n"), DoesRich()
    await local_cluster.submit("t", line(feeder, hold=hold), Config(max_spout_pending=3))
    await feeder.feed_all(range(10))
    await sim_clock.settle()
    assert len(hold.held) == 3
    hold.collectors[0].ack(hold.held[1])
    await sim_clock.settle()
    # The three came in one turn, and each has left their tree: the ack comes alone.
    assert len(hold.held) == 4
    hold.collectors[0].ack(hold.held[0])
    hold.collectors[0].ack(hold.held[2])
    await sim_clock.settle()
    assert len(hold.held) == 6


async def test_a_blocking_spout_keeps_its_limit_while_it_replays(local_cluster: LocalCluster) -> None:
    peak: list[int] = []
    failed: set[int] = set()

    class Blocking(Numbers):
        blocking = True

    @bolt
    def once_bad(n: int) -> None:
        peak.append(local_cluster.topologies["t"].metrics().pending)
        if n not in failed:
            failed.add(n)
            raise ValueError(n)

    builder = TopologyBuilder()
    builder.set_spout("spout", Blocking(count=20))
    builder.set_bolt("sink", once_bad).shuffle_grouping("spout")
    running = await local_cluster.submit("t", builder.create_topology(), Config(max_spout_pending=1, max_retries=3))
    await running.wait_finished()
    assert failed == set(range(20))
    assert max(peak) == 1
