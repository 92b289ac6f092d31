"""Testing kit: clusters, time and tuples for tests."""

from __future__ import annotations

import asyncio

import pytest

from aiostorm import LocalCluster, State, Tuple
from aiostorm.testing import (
    FeederSpout,
    FixedSpout,
    FixedTuple,
    Recorder,
    ScriptError,
    SimClock,
    VirtualTimeLoop,
    complete_topology,
    make_tuple,
)

from .parts import Acks, straight
from .scenario import scenario


@scenario(
    "Time is simulated inside, and not outside",
    "TestingTest#testSimulatedTime",
    "Simulated time belongs to the event loop, not to the process",
)
def test_simulated_time() -> None:
    async def inside() -> float:
        begun_s = asyncio.get_running_loop().time()
        await asyncio.sleep(86_400)
        return asyncio.get_running_loop().time() - begun_s

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        assert runner.run(inside()) == 86_400
    loop = asyncio.new_event_loop()
    assert not isinstance(loop, VirtualTimeLoop)
    loop.close()


@scenario("A local cluster starts and ends", "TestingTest#testWithLocalCluster", "It has no Nimbus and no supervisors")
async def test_local_cluster() -> None:
    async with LocalCluster() as cluster:
        running = await cluster.submit("t", straight(FeederSpout("n"), acks=Acks))
        assert dict(cluster.topologies) == {"t": running}
    assert running.state is State.KILLED
    assert not cluster.topologies
    with pytest.raises(RuntimeError, match="the cluster has ended"):
        await cluster.submit("t", straight(FeederSpout("n"), acks=Acks))


@scenario("A local cluster in simulated time", "TestingTest#testWithSimulatedTimeLocalCluster")
async def test_local_cluster_in_virtual_time(sim_clock: SimClock) -> None:
    assert isinstance(asyncio.get_running_loop(), VirtualTimeLoop)
    feeder = FeederSpout("n")
    async with LocalCluster() as cluster:
        await cluster.submit("t", straight(feeder, acks=Acks))
        await feeder.feed(1)
        await sim_clock.advance(3600)
        assert feeder.acked == [0]


@scenario("Time advances by the given amount", "TimeTest#shouldAdvanceForwardTest", note="In seconds")
async def test_time_advances(sim_clock: SimClock) -> None:
    begun_s = sim_clock.monotonic()
    await sim_clock.advance(0)
    assert sim_clock.monotonic() == begun_s
    await sim_clock.advance(1)
    assert sim_clock.monotonic() - begun_s == pytest.approx(1)
    await sim_clock.advance(0.5)
    assert sim_clock.monotonic() - begun_s == pytest.approx(1.5)


@scenario("Time does not go back", "TimeTest#shouldThrowIfAttemptToAdvanceBackwardsTest")
async def test_time_does_not_go_back(sim_clock: SimClock) -> None:
    with pytest.raises(ValueError, match="time does not go back"):
        await sim_clock.advance(-1.5)


@scenario("A feeder reports what was acked and what failed", "TestingTest#testAdvanceClusterTime (tracker)")
async def test_feeder_tracks(local_cluster: LocalCluster) -> None:
    feeder = FeederSpout("word", streams={"other": "n"})
    topology = straight(feeder, sink=Recorder(fail_on=lambda tup: tup["word"] == "bad"))
    await local_cluster.submit("t", topology)
    assert await feeder.feed("good", "g") == "g"
    assert await feeder.feed(("bad",)) == 0
    assert await feeder.feed(7, stream="other") == 1  # it has no reader: acked at once
    assert await feeder.feed("bad", tracked=False) is None
    assert feeder.pending == 3
    await feeder.idle()
    assert sorted(map(str, feeder.acked)) == ["1", "g"]
    assert list(feeder.failed) == [0]
    with pytest.raises(ScriptError, match="has 2 values; the fields are: word"):
        await feeder.feed(("a", "b"))


@scenario(
    "Fixed tuples on several streams, read by stream",
    "testing4j_test (0.10)#test-complete-topology",
    note="The test also gives rows that do not fit their stream",
)
async def test_fixed_tuples() -> None:
    rows = [("a",), FixedTuple(("x", 1), "errors", "mine"), FixedTuple(("b",))]
    spout = FixedSpout(rows, "word", streams={"errors": ("path", "line")})
    result = await complete_topology(straight(spout, acks=Acks))
    assert result["spout"] == [("a",), ("b",)]
    assert result.stream("spout", "errors") == [("x", 1)]
    assert result.acked == 3
    with pytest.raises(ScriptError, match="no stream 'nowhere'"):
        FixedSpout([FixedTuple((1,), "nowhere")], "word")


# -- tuples ------------------------------------------------------------------------------------------------------------


@scenario("A tuple made for a test", "TestingTest#testTestTuple")
def test_make_tuple() -> None:
    tup = make_tuple(("james", "bond"))
    assert isinstance(tup, Tuple)
    assert tup.values == ("james", "bond")
    assert list(tup.fields) == ["field1", "field2"]
    assert (tup.stream, tup.source_component) == ("default", "component")


@scenario("A tuple made for a test, with stream, component and fields", "TestingTest#testTestTupleWithMkTupleParam")
def test_make_tuple_with_all() -> None:
    tup = make_tuple(("james", "bond"), ("fname", "lname"), stream="test-stream", component="test-component")
    assert tup.values == ("james", "bond")
    assert list(tup.fields) == ["fname", "lname"]
    assert (tup.stream, tup.source_component) == ("test-stream", "test-component")


@scenario(
    "A tuple is looked up by field and by index",
    "tuple_test (0.10)#test-lookup",
    "A tuple cannot be changed; `as_dict()` returns a dict that can be",
)
def test_lookup() -> None:
    tup = make_tuple((12, "hello"), ("foo", "bar"))
    assert (tup["foo"], tup["bar"], tup[0], tup[1]) == (12, "hello", 12, "hello")
    assert tup.get("404", "notfound") == "notfound"
    assert list(tup.as_dict().items()) == [("foo", 12), ("bar", "hello")]
    assert list(tup) == [12, "hello"]
    with pytest.raises(KeyError, match="no field '404'; the fields are: foo, bar"):
        tup["404"]
    with pytest.raises(TypeError):
        tup["foo"] = 42  # type: ignore[index]
