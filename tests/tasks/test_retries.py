"""Messages that fail: what emits them again, how often, and where they end."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest

from aiostorm import (
    DEAD_LETTER_STREAM,
    Config,
    FailValueSpout,
    LocalCluster,
    Topology,
    TopologyBuilder,
    direct,
    spout,
)
from aiostorm.backpressure import Pace, PaceChange
from aiostorm.testing import FeederSpout, FixedSpout, Recorder, SimClock

from .parts import Does, DoesRich, Notes, Numbers, line, rows


def with_dead_letters(source: Any, bolt: Any, dead: Any) -> Topology:
    """spout ─► bolt; the spout's dead letters ─► dead."""
    builder = TopologyBuilder()
    builder.set_spout("spout", source)
    builder.set_bolt("bolt", bolt).shuffle_grouping("spout")
    builder.set_bolt("dead", dead).shuffle_grouping("spout", stream=DEAD_LETTER_STREAM)
    return builder.create_topology()


def fails_on(value: Any, seen: list[Any]) -> Does:
    def act(tup: Any, collector: Any) -> None:
        seen.append(tup["n"])
        if tup["n"] == value:
            raise ValueError(f"{value} is bad")

    return Does(act)


@pytest.mark.parametrize("retries", [0, 1, 4])
@pytest.mark.parametrize("tree", [1, 64])
async def test_n_retries_then_the_dead_letter_stream_and_fail(
    local_cluster: LocalCluster, retries: int, tree: int
) -> None:
    source, dead, seen = Numbers(10, each_call=10), Recorder(), Notes()
    config = Config(max_retries=retries, acker_tree_max_messages=tree)
    running = await local_cluster.submit("t", with_dead_letters(source, fails_on(5, seen), dead), config)
    await running.wait_finished()
    assert seen.count(5) == 1 + retries
    assert sorted(source.acked) == [n for n in range(10) if n != 5]
    [(message_id, failure)] = source.failed.items()
    assert (message_id, failure.reason, failure.attempts) == (5, "failed", retries + 1)
    assert (failure.component, failure.error) == ("bolt", "ValueError: 5 is bad")
    [letter] = dead.tuples
    assert letter.as_dict() == {
        "message_id": 5,
        "stream": "default",
        "values": (5,),
        "reason": "failed",
        "error": "ValueError: 5 is bad",
        "attempts": retries + 1,
    }
    assert (letter.source_component, letter.stream) == ("spout", DEAD_LETTER_STREAM)
    metrics = running.metrics()["spout"]
    assert (metrics.replayed, metrics.dead_lettered, metrics.failed) == (retries, 1, retries + 1)
    assert (metrics.acked, metrics.pending) == (9, 0)


async def test_a_message_that_comes_through_at_last_is_acked_once(local_cluster: LocalCluster) -> None:
    source, dead, seen = Numbers(3), Recorder(), Notes()

    def act(tup: Any, collector: Any) -> None:
        seen.append(tup["n"])
        if tup["n"] == 1 and seen.count(1) < 3:
            raise ValueError("not yet")

    running = await local_cluster.submit("t", with_dead_letters(source, Does(act), dead), Config(max_retries=5))
    await running.wait_finished()
    assert (sorted(source.acked), source.failed, dead.values) == ([0, 1, 2], {}, [])
    assert running.metrics()["spout"].replayed == 2


async def test_dead_letters_without_a_consumer_are_counted(local_cluster: LocalCluster) -> None:
    source, seen = Numbers(3), Notes()
    running = await local_cluster.submit("t", line(source, bolt=fails_on(1, seen)), Config(max_retries=1))
    await running.wait_finished()
    assert running.metrics()["spout"].dead_lettered == 1
    assert list(source.failed) == [1]


async def test_a_timeout_is_retried_too(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    source, hold, dead = Numbers(1), DoesRich(), Recorder()
    begun_s = sim_clock.monotonic()
    running = await local_cluster.submit(
        "t", with_dead_letters(source, hold, dead), Config(max_retries=2, message_timeout_s=10)
    )
    await running.wait_finished()
    assert len(hold.held) == 3
    [letter] = dead.tuples
    assert (letter["reason"], letter["error"], letter["attempts"]) == ("timeout", None, 3)
    assert 30 <= sim_clock.monotonic() - begun_s <= 33


async def test_retries_keep_their_stream_and_their_direct_target(local_cluster: LocalCluster) -> None:
    got = Notes()

    class Straight(Numbers):
        outputs = {"straight": direct("n"), "side": "n"}  # noqa: RUF012

        def next_tuple(self) -> None:
            self.collector.emit_direct(3, (1,), message_id="direct", stream="straight")
            self.collector.emit((2,), message_id="side", stream="side")
            self.collector.finish()

    def act(tup: Any, collector: Any) -> None:
        got.append((tup.stream, tup["n"]))
        if len(got) < 5:
            raise ValueError("again")

    source = Straight(2)
    builder = TopologyBuilder()
    builder.set_spout("spout", source)
    bolt = builder.set_bolt("bolt", Does(act), 2)
    bolt.direct_grouping("spout", stream="straight").global_grouping("spout", stream="side")
    running = await local_cluster.submit("t", builder.create_topology(), Config(max_retries=9))
    await running.wait_finished()
    assert sorted(source.acked) == ["direct", "side"]
    assert set(got) == {("straight", 1), ("side", 2)}
    tasks = running.metrics()["bolt"].tasks
    assert [task.executed for task in tasks] == [got.count(("side", 2)), got.count(("straight", 1))]


async def test_replays_go_first_and_count_against_the_limit(local_cluster: LocalCluster) -> None:
    source, seen = Numbers(6), Notes()

    def act(tup: Any, collector: Any) -> None:
        seen.append(tup["n"])
        if seen.count(tup["n"]) == 1:
            raise ValueError("again")

    running = await local_cluster.submit("t", line(source, bolt=Does(act)), Config(max_retries=1, max_spout_pending=1))
    await running.wait_finished()
    assert seen == [n for n in range(6) for _ in range(2)]


async def test_replays_keep_the_pace_of_their_spout(local_cluster: LocalCluster) -> None:
    source, again_at_s = Numbers(20, each_call=20), Notes()
    loop, seen = asyncio.get_running_loop(), Notes()

    def act(tup: Any, collector: Any) -> None:
        seen.append(tup["n"])
        if seen.count(tup["n"]) == 1:
            raise ValueError("again")
        again_at_s.append(loop.time())

    config = Config(max_retries=1, backpressure_check_interval_ms=60_000)  # the master says nothing
    running = await local_cluster.submit("t", line(source, bolt=Does(act)), config)
    [spout_task] = running._task_set.tasks.spouts
    spout_task.pace.order(Pace(1, 1, PaceChange.SLOW, lease_s=60.0, time_us=100_000), loop.time())
    await running.wait_finished()
    assert len(again_at_s) == 20
    assert min(later - sooner for sooner, later in pairwise(again_at_s)) > 0.09


async def test_fail_value_spout_receives_a_dead_letter_with_its_values(local_cluster: LocalCluster) -> None:
    class Values(FailValueSpout, Numbers):  # type: ignore[misc]
        def fail(self, message_id: Any, values: Any, failure: Any) -> None:  # type: ignore[override]
            self.outcomes.append((message_id, values, failure.attempts))

    source, seen = Values(2), Notes()
    running = await local_cluster.submit("t", line(source, bolt=fails_on(1, seen)), Config(max_retries=1))
    await running.wait_finished()
    assert source.outcomes == [("ack", 0), (1, (1,), 2)]


@pytest.mark.parametrize(("configured", "replays"), [(None, 3), (0, 0), (1, 1)])
async def test_generator_spouts_replay_by_themselves(
    local_cluster: LocalCluster, configured: int | None, replays: int
) -> None:
    @spout(outputs="n")
    def numbers() -> Any:
        yield from range(5)

    seen, dead = Notes(), Recorder()
    config = Config() if configured is None else Config(max_retries=configured)
    running = await local_cluster.submit("t", with_dead_letters(numbers, fails_on(2, seen), dead), config)
    await running.wait_finished()
    assert seen.count(2) == 1 + replays
    assert [(t["message_id"], t["values"], t["attempts"]) for t in dead.tuples] == [(2, (2,), 1 + replays)]


async def test_an_untracked_generator_spout_replays_nothing(local_cluster: LocalCluster) -> None:
    @spout(outputs="n", tracked=False)
    def numbers() -> Any:
        yield from range(5)

    seen = Notes()
    running = await local_cluster.submit("t", line(numbers, bolt=fails_on(2, seen)))
    await running.wait_finished()
    assert seen == [0, 1, 2, 3, 4]
    assert running.metrics()["spout"].failed == 0


async def test_replays_wait_while_inactive(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    source, hold = FeederSpout("n"), DoesRich()
    running = await local_cluster.submit("t", line(source, hold=hold), Config(max_retries=9))
    await source.feed(1)
    await sim_clock.advance(1)
    await running.deactivate()
    hold.collectors[0].fail(hold.held[0])
    await sim_clock.advance(1)
    assert len(hold.held) == 1
    assert running.pending() == {"spout": [0]}
    await running.wait_idle()
    await running.activate()
    await sim_clock.settle()
    assert len(hold.held) == 2
    hold.collectors[0].ack(hold.held[1])
    await source.idle()
    assert source.acked == [0]


async def test_a_replay_in_fail_counts_as_attempts_from_each_emitter(local_cluster: LocalCluster) -> None:
    class Again(Numbers):
        def fail(self, message_id: Any, failure: Any) -> None:
            super().fail(message_id, failure)
            self.attempts.append(failure.attempts)
            if failure.attempts < 4:
                self.collector.emit((message_id,), message_id=message_id)

    source, seen = Again(3, each_call=3), Notes()
    source.attempts = Notes()
    running = await local_cluster.submit("t", line(source, bolt=fails_on(1, seen)))
    await running.wait_finished()
    assert source.attempts == [1, 2, 3, 4]
    assert running.metrics()["spout"].replayed == 3
    assert sorted(source.acked) == [0, 2]


async def test_a_poisonous_message_delays_no_other(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    """It times out again and again; its first neighbours are replayed once, and all others are acked at once."""
    source, seen = FixedSpout(rows(range(64)), "n"), Notes()

    def act(tup: Any, collector: Any) -> None:
        seen.append(tup["n"])
        if tup["n"] != 13:
            collector.ack(tup)

    running = await local_cluster.submit("t", line(source, bolt=DoesRich(act)), Config(max_retries=3))
    await running.wait_finished()
    assert seen.count(13) == 4
    assert {seen.count(n) for n in range(64) if n != 13} <= {1, 2}
    assert len(source.acked) == 63
    await asyncio.sleep(0)
