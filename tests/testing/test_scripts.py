"""Scripted spouts and the recorder in a running topology."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from aiostorm.cluster import LocalCluster
from aiostorm.state import ValueState
from aiostorm.testing import (
    FeederSpout,
    FixedSpout,
    FixedTuple,
    Recorder,
    ScriptError,
    SimClock,
    WaitTimeoutError,
    assert_multiset_equal,
    make_tuple,
)
from aiostorm.topology import (
    BasicBolt,
    BasicCollector,
    Config,
    Fields,
    Spout,
    Topology,
    TopologyBuilder,
    TopologyContext,
    Tuple,
    direct,
)


def straight(spout: Spout, recorder: Recorder, *, spouts: int = 1, recorders: int = 1) -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("in", spout, parallelism=spouts)
    builder.set_bolt("out", recorder, parallelism=recorders).shuffle_grouping("in")
    return builder.create_topology()


# -- FeederSpout -------------------------------------------------------------------------------------------------------


async def test_fed_rows_are_emitted_and_acked(local_cluster: LocalCluster) -> None:
    feeder, recorder = FeederSpout("word", "count"), Recorder()
    await local_cluster.submit("t", straight(feeder, recorder))
    assert await feeder.feed(("a", 1)) == 0
    assert await feeder.feed(["b", 2], message_id="mine") == "mine"
    assert await feeder.feed_all([("c", 3), ("d", 4)]) == [1, 2]
    await feeder.idle()
    assert recorder.values == [("a", 1), ("b", 2), ("c", 3), ("d", 4)]
    assert feeder.acked == [0, "mine", 1, 2]
    assert feeder.failed == {}
    assert feeder.pending == 0


async def test_rows_fed_untracked_have_no_message_id(local_cluster: LocalCluster) -> None:
    feeder, recorder = FeederSpout("word"), Recorder(fail_on=lambda tup: tup["word"] == "lost")
    running = await local_cluster.submit("t", straight(feeder, recorder))
    assert await feeder.feed("lost", tracked=False) is None
    assert await feeder.feed("kept", tracked=False) is None
    assert feeder.pending == 0
    await running.wait_idle()
    assert recorder.values == [("kept",)]
    assert (feeder.acked, feeder.failed, feeder.pending) == ([], {}, 0)
    with pytest.raises(ScriptError, match="no message id"):
        await feeder.feed("a", "mine", tracked=False)


async def test_rows_fed_before_the_start_are_emitted(local_cluster: LocalCluster) -> None:
    feeder, recorder = FeederSpout("word"), Recorder()
    await feeder.feed_all(["a", "b"])
    running = await local_cluster.submit("t", straight(feeder, recorder))
    await running.wait_idle()
    assert recorder.values == [("a",), ("b",)]


async def test_several_tasks_share_the_script_and_the_record(local_cluster: LocalCluster) -> None:
    feeder, recorder = FeederSpout("n"), Recorder()
    await local_cluster.submit("t", straight(feeder, recorder, spouts=3, recorders=4))
    await feeder.feed_all(range(500))
    await feeder.idle()
    assert sorted(recorder.values) == [(n,) for n in range(500)]
    assert sorted(feeder.acked) == list(range(500))
    assert len({tup.source_task for tup in recorder.tuples}) > 1


async def test_failures_have_their_reason_and_are_not_emitted_again(local_cluster: LocalCluster) -> None:
    feeder, recorder = FeederSpout("word"), Recorder(fail_on=lambda tup: tup["word"] == "bad")
    running = await local_cluster.submit("t", straight(feeder, recorder))
    await feeder.feed_all(["good", "bad"])
    await feeder.idle()
    await running.wait_idle()
    assert recorder.values == [("good",)]
    assert [tup.values for tup in recorder.failed] == [("bad",)]
    assert feeder.acked == [0]
    assert feeder.failed[1].reason == "failed"
    assert feeder.failed[1].component == "out"
    assert await feeder.feed("bad", message_id=1) == 1  # the test may


async def test_max_spout_pending_holds_exactly(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    feeder, holder = FeederSpout("n"), Recorder()
    seen: list[int] = []

    class Slow(BasicBolt):
        async def execute(self, tup: Tuple, collector: BasicCollector) -> None:
            seen.append(tup[0])
            await asyncio.sleep(1)

    builder = TopologyBuilder()
    builder.set_spout("in", feeder)
    builder.set_bolt("slow", Slow).shuffle_grouping("in")
    builder.set_bolt("out", holder).shuffle_grouping("in")
    await local_cluster.submit("t", builder.create_topology(), Config(max_spout_pending=3))
    await feeder.feed_all(range(10))
    await sim_clock.settle()
    assert len(holder.values) == 3
    await feeder.idle()
    assert seen == list(range(10))


async def test_an_idle_feeder_is_woken_at_once_even_after_a_day(
    local_cluster: LocalCluster, sim_clock: SimClock
) -> None:
    feeder, recorder = FeederSpout("word"), Recorder()
    await local_cluster.submit("t", straight(feeder, recorder))
    await sim_clock.advance(86_400)
    before_s = sim_clock.monotonic()
    await feeder.feed("late")
    await recorder.wait(1)
    assert sim_clock.monotonic() == before_s


async def test_finish_ends_the_spout(local_cluster: LocalCluster) -> None:
    feeder, recorder = FeederSpout("word"), Recorder()
    running = await local_cluster.submit("t", straight(feeder, recorder, spouts=2))
    await feeder.feed_all(["a", "b", "c"])
    feeder.finish()
    await running.wait_finished(timeout_s=10)
    assert len(recorder.values) == 3
    with pytest.raises(ScriptError, match=r"after finish\(\)"):
        await feeder.feed("d")


async def test_feed_waits_for_free_capacity_in_the_script(local_cluster: LocalCluster) -> None:
    feeder, recorder = FeederSpout("n", capacity_tuples=5), Recorder()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            await feeder.feed_all(range(6))
    running = await local_cluster.submit("t", straight(feeder, recorder))
    await feeder.feed_all(range(5, 50))
    await running.wait_idle()
    assert recorder.values == [(n,) for n in range(50)]


async def test_wait_idle_is_bounded_and_names_open_messages(sim_clock: SimClock) -> None:
    feeder = FeederSpout("word")
    await feeder.feed_all(["a", "b"])
    with pytest.raises(WaitTimeoutError, match=r"2 of the messages .* \(0, 1; 2 not yet emitted, .*\) after 60 s"):
        await feeder.idle()
    assert sim_clock.monotonic() == 1_060.0


async def test_rows_that_do_not_fit_are_refused_when_they_are_fed() -> None:
    feeder = FeederSpout("word", "count", streams={"errors": Fields("error")})
    with pytest.raises(ScriptError, match="has 1 values; the fields are: word, count"):
        await feeder.feed(("a",))
    with pytest.raises(ScriptError, match="'a' is no row: a tuple of 2 values"):
        await feeder.feed("a")
    with pytest.raises(ScriptError, match="no stream 'eror'; declared: default, errors"):
        await feeder.feed("a", stream="eror")
    await feeder.feed("a", message_id=7, stream="errors")
    with pytest.raises(ScriptError, match="message id 7 is open"):
        await feeder.feed(("a", 1), message_id=7)
    with pytest.raises(ScriptError, match="needs fields"):
        FeederSpout()
    with pytest.raises(ScriptError, match="'d' is direct"):
        FeederSpout("a", streams={"d": direct("x")})


async def test_several_streams(local_cluster: LocalCluster) -> None:
    feeder, words, errors = FeederSpout("word", streams={"errors": "error"}), Recorder(), Recorder()
    builder = TopologyBuilder()
    builder.set_spout("in", feeder)
    builder.set_bolt("words", words).shuffle_grouping("in")
    builder.set_bolt("errors", errors).shuffle_grouping("in", stream="errors")
    await local_cluster.submit("t", builder.create_topology())
    await feeder.feed("a")
    await feeder.feed("boom", stream="errors")
    await feeder.idle()
    assert words.values == [("a",)]
    assert errors.values == [("boom",)]


# -- FixedSpout --------------------------------------------------------------------------------------------------------


async def test_a_fixed_spout_emits_its_rows_and_finishes(local_cluster: LocalCluster) -> None:
    spout, recorder = FixedSpout([("a",), "b", FixedTuple(("c",), message_id="c")], "word"), Recorder()
    running = await local_cluster.submit("t", straight(spout, recorder))
    await running.wait_finished(timeout_s=10)
    assert recorder.values == [("a",), ("b",), ("c",)]
    assert spout.acked == [0, 1, "c"]


async def test_wait_idle_is_not_fooled_by_a_spout_that_is_at_its_limit(local_cluster: LocalCluster) -> None:
    spout, recorder = FixedSpout(range(10), "n"), Recorder()
    running = await local_cluster.submit("t", straight(spout, recorder), Config(max_spout_pending=3))
    await running.wait_idle()
    assert len(recorder.values) == 10


async def test_max_retries_replay_before_a_fixed_spout_is_notified_of_a_failure(local_cluster: LocalCluster) -> None:
    attempts: list[str] = []

    def third_time(tup: Tuple) -> bool:
        attempts.append(tup["word"])
        return len(attempts) < 3

    spout, recorder = FixedSpout(["a"], "word"), Recorder(fail_on=third_time)
    running = await local_cluster.submit("t", straight(spout, recorder), Config(max_retries=5))
    await running.wait_finished(timeout_s=60)
    assert attempts == ["a", "a", "a"]
    assert spout.acked == [0]
    assert spout.failed == {}


# -- Recorder ----------------------------------------------------------------------------------------------------------


async def test_the_record_by_stream_and_by_key(local_cluster: LocalCluster) -> None:
    left, right, recorder = FeederSpout("word", "n"), FeederSpout("word", streams={"x": "n"}), Recorder()
    builder = TopologyBuilder()
    builder.set_spout("left", left)
    builder.set_spout("right", right)
    builder.set_bolt("out", recorder).shuffle_grouping("left").shuffle_grouping("right").shuffle_grouping(
        "right", stream="x"
    )
    await local_cluster.submit("t", builder.create_topology())
    await left.feed_all([("a", 1), ("b", 2), ("a", 3)])
    await left.idle()
    await right.feed("a")
    await right.feed(9, stream="x")
    await right.idle()
    assert recorder.stream("default") == [("a", 1), ("b", 2), ("a", 3), ("a",)]
    assert recorder.stream("default", component="right") == [("a",)]
    assert recorder.stream("x") == [(9,)]
    assert recorder.by_key("word") == {"a": [("a", 1), ("a", 3), ("a",)], "b": [("b", 2)]}
    recorder.clear()
    assert recorder.values == []


async def test_wait_returns_as_soon_as_enough_has_come(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    feeder, recorder = FeederSpout("n"), Recorder()
    await local_cluster.submit("t", straight(feeder, recorder))
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(recorder.wait(3))
        await sim_clock.advance(5)
        await feeder.feed_all([1, 2])
        await sim_clock.advance(5)
        assert not waiting.done()
        await feeder.feed(3)
    assert waiting.result() == [(1,), (2,), (3,)]
    assert sim_clock.monotonic() == 1_010.0


async def test_wait_is_bounded_and_says_how_many_came(local_cluster: LocalCluster) -> None:
    feeder, recorder = FeederSpout("n"), Recorder(fail_on=lambda tup: tup["n"] > 1)
    await local_cluster.submit("t", straight(feeder, recorder))
    await feeder.feed_all([1, 2])
    with pytest.raises(WaitTimeoutError, match=r"1 of 3 tuples had come \(and 1 were failed\) after 5 s"):
        await recorder.wait(3, timeout_s=5)


async def test_a_recorder_ignores_ticks(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    feeder, recorder = FeederSpout("n"), Recorder()
    builder = TopologyBuilder()
    builder.set_spout("in", feeder)
    builder.set_bolt("out", recorder, tick_tuple_freq_s=1).shuffle_grouping("in")
    await local_cluster.submit("t", builder.create_topology())
    await sim_clock.advance(10)
    assert recorder.values == []


# -- fixtures and assertions -------------------------------------------------------------------------------------------


async def test_the_virtual_cluster_runs_in_virtual_time(virtual_cluster: LocalCluster) -> None:
    feeder, recorder = FeederSpout("n"), Recorder()
    await virtual_cluster.submit("t", straight(feeder, recorder))
    await feeder.feed(1)
    assert await recorder.wait(1) == [(1,)]
    assert getattr(asyncio.get_running_loop(), "virtual", False)


@pytest.mark.parametrize("wrap", [lambda n: n, lambda n: [n]], ids=["hashable", "unhashable"])
def test_multisets(wrap: object) -> None:
    assert callable(wrap)
    one, two, three = wrap(1), wrap(2), wrap(3)
    assert_multiset_equal([one, two, two], [two, one, two])
    with pytest.raises(AssertionError) as caught:
        assert_multiset_equal([one, two, two], [one, two, three])
    assert str(caught.value) == f"the elements differ:\n  missing: {three!r}\n  unexpected: {two!r}"


# -- make_tuple --------------------------------------------------------------------------------------------------------


def test_a_tuple_made_by_hand() -> None:
    tup = make_tuple(("the", 1), ("word", "count"), stream="words", component="split", task=7)
    assert (tup["word"], tup["count"], tup[0], len(tup)) == ("the", 1, "the", 2)
    assert (tup.stream, tup.source_component, tup.source_task, tup.is_tick) == ("words", "split", 7, False)
    assert make_tuple([5], "n").as_dict() == {"n": 5}
    assert make_tuple((), ()).values == ()
    with pytest.raises(ScriptError, match="has 1 values; the fields are: a, b"):
        make_tuple((1,), ("a", "b"))


# -- exactly once ------------------------------------------------------------------------------------------------------


class Total(BasicBolt):
    state = ValueState(0)

    def __init__(self, bad: int | None = None) -> None:
        self.bad = Once(bad)

    def prepare(self, context: TopologyContext) -> None:
        self.total = context.state

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        self.bad.check(tup["n"])
        self.total.value += tup["n"]

    def result(self) -> int:
        return int(self.total.value)


class Once:
    """Raises once for this number, in all tasks together."""

    def __init__(self, number: int | None) -> None:
        self.number = number

    def __deepcopy__(self, memo: object) -> Once:
        return self

    def check(self, number: int) -> None:
        if number == self.number:
            self.number = None
            raise ValueError(f"{number} is refused once")


def totals(spout: Spout, bad: int | None = None, *, spouts: int = 1) -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("in", spout, parallelism=spouts)
    builder.set_bolt("total", Total(bad)).shuffle_grouping("in")
    return builder.create_topology()


def exactly_once(folder: Path) -> Config:
    return Config(guarantee="exactly-once", state_dir=str(folder))


@pytest.mark.parametrize("spouts", [1, 3])
async def test_fed_rows_are_acked_when_they_are_in_a_snapshot(
    local_cluster: LocalCluster, tmp_path: Path, spouts: int
) -> None:
    feeder = FeederSpout("n")
    running = await local_cluster.submit("t", totals(feeder, bad=7, spouts=spouts), exactly_once(tmp_path))
    await feeder.feed_all([1, 2, 3])
    assert feeder.pending == 3
    await feeder.idle()
    assert sorted(feeder.acked) == [0, 1, 2]
    await feeder.feed_all([7, 10])  # 7 takes all tasks back to the snapshot
    await feeder.idle()
    assert await running.results() == {"total": [23]}
    assert sorted(feeder.acked) == [0, 1, 2, 3, 4]


async def test_a_script_continues_in_the_next_run(tmp_path: Path) -> None:
    feeder = FeederSpout("n")
    async with LocalCluster() as cluster:
        running = await cluster.submit("t", totals(feeder), exactly_once(tmp_path))
        await feeder.feed_all([1, 2])
        await feeder.idle()
        await feeder.feed(4)
        await running.wait_idle()
        await running.kill(0)  # 4 is in no snapshot
    async with LocalCluster() as cluster:
        running = await cluster.submit("t", totals(feeder), exactly_once(tmp_path))
        await feeder.feed(8)
        feeder.finish()
        await running.wait_finished()
        assert await running.results() == {"total": [15]}
    assert feeder.acked == [0, 1, 2, 3]


async def test_a_new_script_begins_after_the_rows_of_the_first_run(tmp_path: Path) -> None:
    for rows, total in ([1, 2], 3), ([100, 100, 4], 7):  # the first two are skipped
        async with LocalCluster() as cluster:
            running = await cluster.submit("t", totals(FixedSpout(rows, "n")), exactly_once(tmp_path))
            await running.wait_finished()
            assert await running.results() == {"total": [total]}
