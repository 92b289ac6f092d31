"""track_topology: when is everything acked, and what is not?"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from aiostorm import (
    Failure,
    LocalCluster,
    Spout,
    TopologyBuilder,
    TopologyFailedError,
    TopologyKilledError,
    bolt,
    spout,
)
from aiostorm.testing import (
    FailedMessage,
    FeederSpout,
    FixedSpout,
    NotAckedError,
    Recorder,
    SimClock,
    WaitTimeoutError,
    track_topology,
)

from ..tasks.parts import Does, DoesRich, Notes, Numbers, line


async def test_all_is_acked(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    feeder, recorder = FeederSpout("n"), Recorder()
    tracked = await track_topology(local_cluster, line(feeder, sink=recorder))
    assert tracked.running.name == "tracked"
    await tracked.wait_all_acked()
    await feeder.feed_all([1, 2, 3])
    now_s = sim_clock.monotonic()
    await tracked.wait_all_acked()
    assert sim_clock.monotonic() == now_s
    assert recorder.values == [(1,), (2,), (3,)]
    assert (tracked.emitted, tracked.transferred, tracked.processed, tracked.acked, tracked.failed) == (3, 3, 3, 3, 0)


async def test_the_wait_includes_tuples_that_a_bolt_holds(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    feeder, hold = FeederSpout("n"), DoesRich()
    tracked = await track_topology(local_cluster, line(feeder, hold=hold))
    await feeder.feed(1)
    await tracked.wait_emitted()
    asyncio.get_running_loop().call_later(5, lambda: hold.collectors[0].ack(hold.held[0]))
    now_s = sim_clock.monotonic()
    await tracked.wait_all_acked()
    assert sim_clock.monotonic() - now_s == pytest.approx(5)


async def test_a_failed_message_is_named_and_reported_once(local_cluster: LocalCluster) -> None:
    feeder = FeederSpout("n")

    def act(tup: Any, collector: Any) -> None:
        if tup["n"] % 2:
            raise ValueError(f"{tup['n']} is odd")

    tracked = await track_topology(local_cluster, line(feeder, even=Does(act)))
    await feeder.feed(1, "one")
    await feeder.feed(2, "two")
    with pytest.raises(NotAckedError, match=r"1 message failed:\n  spout: message 'one': failed in even\[\d+\]: Value"):
        await tracked.wait_all_acked()
    await feeder.feed(4)
    await tracked.wait_all_acked()
    assert (tracked.acked, tracked.failed, tracked.failures) == (2, 1, [])
    await feeder.feed_all([3, 5])
    with pytest.raises(AssertionError, match="2 messages failed") as raised:
        await tracked.wait_all_acked()
    assert isinstance(raised.value, NotAckedError)
    assert [(failed.spout, failed.failure.reason) for failed in raised.value.failures] == [("spout", "failed")] * 2


async def test_a_forgotten_tuple_fails_by_timeout(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    feeder = FeederSpout("n")
    tracked = await track_topology(local_cluster, line(feeder, hold=DoesRich()), {"message_timeout_s": 10})
    await feeder.feed(1, "held")
    with pytest.raises(NotAckedError, match=r"message 'held': timeout$"):
        await tracked.wait_all_acked()


async def test_the_timeout_error_names_open_messages(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    feeder, hold = FeederSpout("n"), DoesRich()
    tracked = await track_topology(local_cluster, line(feeder, hold=hold))
    await feeder.feed(1, "held")
    now_s = sim_clock.monotonic()
    with pytest.raises(WaitTimeoutError, match=r"not all was acked after 7 s; open messages: {'spout': \['held'\]}"):
        await tracked.wait_all_acked(7)
    assert sim_clock.monotonic() - now_s == pytest.approx(7)
    hold.collectors[0].ack(hold.held[0])
    await tracked.wait_all_acked()


async def test_a_replayed_and_acked_message_counts_as_acked(local_cluster: LocalCluster) -> None:
    class Again(Numbers):
        """Emits what failed again, and finishes never."""

        def next_tuple(self) -> None:
            if self.next < self.count:
                super().next_tuple()

        def fail(self, message_id: Any, failure: Any) -> None:
            self.collector.emit((message_id,), message_id=message_id)

    seen = Notes()

    def act(tup: Any, collector: Any) -> None:
        seen.append(tup["n"])
        if seen.count(tup["n"]) == 1:
            raise ValueError("once")

    tracked = await track_topology(local_cluster, line(Again(3), bolt=Does(act)))
    await tracked.wait_all_acked()
    assert (tracked.emitted, tracked.acked, tracked.failed) == (6, 3, 3)


@pytest.mark.parametrize("heals", [True, False])
async def test_replays_by_the_framework(local_cluster: LocalCluster, heals: bool) -> None:
    @spout(outputs="n")
    def numbers() -> Any:
        yield from range(3)

    seen = Notes()

    @bolt
    def picky(n: int) -> None:
        seen.append(n)
        if n == 1 and (not heals or seen.count(1) < 3):
            raise ValueError("again")

    topology = line(numbers, picky=picky)
    tracked = await track_topology(local_cluster, topology, {"restart_backoff_s": 0})
    if heals:
        await tracked.wait_all_acked()
        assert (tracked.emitted, tracked.failed) == (5, 2)
    else:  # a generator's messages are replayed three times; then they are dead letters, without a consumer here
        with pytest.raises(NotAckedError, match="message 1: failed in picky"):
            await tracked.wait_all_acked()
        assert (tracked.emitted, tracked.acked, tracked.failed) == (6, 2, 4)


async def test_a_dead_letter_is_no_new_tuple(local_cluster: LocalCluster) -> None:
    feeder, letters = FeederSpout("n"), Recorder()
    builder = TopologyBuilder()
    builder.set_spout("spout", feeder, max_retries=0)
    builder.set_bolt("sink", Recorder(lambda tup: True)).shuffle_grouping("spout")
    builder.set_bolt("letters", letters).shuffle_grouping("spout", stream="__dead_letter")
    tracked = await track_topology(local_cluster, builder.create_topology())
    await feeder.feed(1)
    with pytest.raises(NotAckedError):
        await tracked.wait_all_acked()
    assert (tracked.emitted, len(letters.tuples)) == (1, 1)


async def test_ids_need_not_be_hashable(local_cluster: LocalCluster) -> None:
    class Lists(Spout):
        outputs = "n"

        def open(self, context: Any, collector: Any) -> None:
            self.collector, self.left = collector, [[1], [2]]

        def next_tuple(self) -> None:
            if self.left:
                row = self.left.pop()
                self.collector.emit(row, message_id=row)

    tracked = await track_topology(local_cluster, line(Lists, sink=Recorder(lambda tup: tup["n"] == 2)))
    with pytest.raises(NotAckedError, match=r"message \[2\]: failed"):
        await tracked.wait_all_acked()
    assert tracked.acked == 1


async def test_many_failures_are_reported_in_few_lines(local_cluster: LocalCluster) -> None:
    tracked = await track_topology(
        local_cluster, line(FixedSpout(range(25), "n"), sink=Recorder(fail_on=lambda tup: True))
    )
    with pytest.raises(NotAckedError, match=r"25 messages failed:\n(  spout: .*\n){10}  … and 15 more$"):
        await tracked.wait_all_acked()


# -- wait_emitted ------------------------------------------------------------------------------------------------------


async def test_wait_emitted_counts_messages_that_stay_pending(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    feeder, hold, copy = FeederSpout("n"), DoesRich(), Does(lambda tup, collector: collector.emit(tup.values))
    tracked = await track_topology(local_cluster, line(feeder, copy=copy, hold=hold))
    await feeder.feed_all([1, 2])
    await tracked.wait_emitted(2)
    assert (tracked.emitted, tracked.transferred, tracked.processed, tracked.acked) == (2, 4, 4, 0)
    hold.collectors[0].ack(hold.held[0])
    waiting = asyncio.ensure_future(tracked.wait_emitted(2))
    await sim_clock.advance(5)
    assert tracked.acked == 1
    await feeder.feed(3)
    await sim_clock.advance(5)
    assert not waiting.done()
    await feeder.feed(4)
    await waiting
    assert tracked.emitted == 4


async def test_acks_that_are_under_way_are_waited_for(local_cluster: LocalCluster) -> None:
    class Slow(Numbers):
        """Its ack() takes three seconds."""

        async def ack(self, message_id: Any) -> None:
            await asyncio.sleep(3)
            super().ack(message_id)

    source = Slow(2)
    tracked = await track_topology(local_cluster, line(source, sink=Recorder()))
    await tracked.wait_emitted(2)
    assert source.acked == [0, 1]


async def test_surplus_acks_count_for_the_next_wait(local_cluster: LocalCluster) -> None:
    feeder = FeederSpout("n")
    tracked = await track_topology(local_cluster, line(feeder, sink=Recorder()))
    await feeder.feed_all([1, 2, 3])
    await tracked.wait_emitted(1)
    assert tracked.emitted == 3
    await tracked.wait_emitted(2)
    with pytest.raises(WaitTimeoutError, match="0 of 1 tuples were emitted after 60 s; open messages: none; 3 emitted"):
        await tracked.wait_emitted()
    await feeder.feed(4)
    await tracked.wait_all_acked()  # this too is a wait: it begins to count anew
    with pytest.raises(WaitTimeoutError, match="1 of 2 tuples"):
        await asyncio.gather(tracked.wait_emitted(2, timeout_s=1), feeder.feed(5))


async def test_the_timeout_error_names_what_keeps_the_wait_from_ending(local_cluster: LocalCluster) -> None:
    class Endless(Spout):
        outputs = "n"

        def open(self, context: Any, collector: Any) -> None:
            self.collector = collector

        async def next_tuple(self) -> None:
            self.collector.emit((0,))
            await asyncio.sleep(0.5)

    tracked = await track_topology(local_cluster, line(Endless, sink=Recorder()))
    with pytest.raises(WaitTimeoutError, match="something still moved after 3 s"):
        await tracked.wait_emitted(2, timeout_s=3)
    await tracked.running.deactivate()
    await tracked.wait_all_acked()


async def test_a_spout_at_its_limit_does_not_move(local_cluster: LocalCluster) -> None:
    hold = DoesRich()
    tracked = await track_topology(local_cluster, line(Numbers(5), hold=hold), {"max_spout_pending": 2})
    await tracked.wait_emitted(2)
    assert len(hold.held) == 2
    hold.collectors[0].ack(hold.held[0])
    await tracked.wait_emitted()
    assert [tup["n"] for tup in hold.held] == [0, 1, 2]


async def test_a_replay_without_free_capacity_does_not_move(local_cluster: LocalCluster) -> None:
    hold = DoesRich()
    config = {"max_spout_pending": 1, "max_retries": 9}
    tracked = await track_topology(local_cluster, line(Numbers(5, each_call=2), hold=hold), config)
    await tracked.wait_emitted(2)  # one call may overshoot the limit
    hold.collectors[0].fail(hold.held[0])
    await tracked.running.wait_still()
    assert tracked.failed == 1
    assert len(hold.held) == 2
    hold.collectors[0].ack(hold.held[1])
    await tracked.wait_emitted()
    assert [tup["n"] for tup in hold.held] == [0, 1, 0]


# -- what becomes of the topology --------------------------------------------------------------------------------------


@pytest.mark.parametrize("wait", ["wait_all_acked", "wait_emitted"])
async def test_a_topology_that_fails_meanwhile(local_cluster: LocalCluster, wait: str) -> None:
    class Bad(Spout):
        outputs = "n"

        async def next_tuple(self) -> None:
            await asyncio.sleep(1)
            raise OSError("no source")

    tracked = await track_topology(local_cluster, line(Bad, sink=Recorder()))
    with pytest.raises(TopologyFailedError, match="no source"):
        await getattr(tracked, wait)()


@pytest.mark.parametrize("wait", ["wait_all_acked", "wait_emitted"])
async def test_a_topology_that_is_killed_meanwhile(local_cluster: LocalCluster, wait: str) -> None:
    feeder = FeederSpout("n")
    tracked = await track_topology(local_cluster, line(feeder, hold=DoesRich()))
    await feeder.feed(1)
    await tracked.wait_emitted()
    waiting = asyncio.ensure_future(getattr(tracked, wait)())
    await asyncio.sleep(1)
    await tracked.running.kill(0)
    with pytest.raises(TopologyKilledError):
        await waiting


async def test_a_generator_keeps_its_context(local_cluster: LocalCluster) -> None:
    @spout(outputs="task")
    def tasks(context: Any) -> Any:
        yield context.task_index

    recorder = Recorder()
    builder = TopologyBuilder()
    builder.set_spout("tasks", tasks, 3)
    builder.set_bolt("sink", recorder).shuffle_grouping("tasks")
    tracked = await track_topology(local_cluster, builder.create_topology(), name="generators")
    await tracked.wait_all_acked()
    assert sorted(recorder.values) == [(0,), (1,), (2,)]
    assert (tracked.running.name, tracked.acked) == ("generators", 3)


def test_a_failed_message_has_a_readable_text() -> None:
    assert str(FailedMessage("s", 7, Failure("timeout"))) == "s: message 7: timeout"
    assert str(FailedMessage("s", "a", Failure("failed", "b", 3, "E: x"))) == "s: message 'a': failed in b[3]: E: x"


async def test_a_frozen_spout(local_cluster: LocalCluster) -> None:
    @dataclass(frozen=True)
    class Frozen(Spout):
        outputs: ClassVar[Any] = "n"
        collectors: Notes

        def open(self, context: Any, collector: Any) -> None:
            self.collectors.append(collector)
            collector.emit((1,), message_id=1)

        def next_tuple(self) -> None:
            pass

    tracked = await track_topology(local_cluster, line(Frozen(Notes()), sink=Recorder()))
    await tracked.wait_all_acked()
    assert tracked.acked == 1
